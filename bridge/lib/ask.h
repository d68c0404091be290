/* ask.h: questions to the host. */
#ifndef ARS_LIB_ASK_H
#define ARS_LIB_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ars.h"
#include "shm.h"

void ars__raise_attention(uint32_t channel);
void ars__ask(enum ars__question kind, const void *request, size_t size, void *reply, size_t *reply_size);
/* Whether the prior proposes at this site, so that nobody need be asked. */
bool ars__prior_proposes(uint32_t site_id);
/* The controller's proposal for a latent. It may point into memory that lasts until the next question. */
void ars__propose(uint32_t site_id, uint32_t instance, const ars_dist *prior, ars_dist *proposal);

/* Asks for the proposals of the next n draws of a site at once, if that is worth it. The proposals wait in the mailbox, for
 * the calls of ars__propose that follow: as many as came. Make no other call in between; when the vector is over, forget
 * those that are left. */
void ars__propose_together(uint32_t site_id, uint32_t instance, const ars_dist *priors, size_t n);
void ars__forget_waiting(void);

/* Asks the question in the mailbox; the answer comes there too. Returns its size. */
size_t ars__ask_in_place(enum ars__question kind, size_t size);

#endif /* ARS_LIB_ASK_H */

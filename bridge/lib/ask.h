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

/* Asks the question in the mailbox; the answer comes there too. Returns its size. */
size_t ars__ask_in_place(enum ars__question kind, size_t size);

#endif /* ARS_LIB_ASK_H */

/* relay.h: questions of the family, and the controller's answers. */
#ifndef ARS_HOST_RELAY_H
#define ARS_HOST_RELAY_H

#include "host.h"

void host_relay_question(struct host *host, uint32_t channel);
void host_relay_clean(struct host *host); /* takes requests that nobody waits for any more out of steps_out */
/* A reply item that ars__check_reply has accepted. False: the controller broke the protocol (host->error). */
bool host_relay_reply(struct host *host, const unsigned char *item);
void host_relay_reset(struct host *host, uint32_t worker); /* forgets the questions of a dead family */
/* Looks at the mailboxes that the worker's family may have a question in, for one that the doorbell has not told of. */
void host_relay_missed(struct host *host, uint32_t worker);
/* The trace is over. Whoever still waits in its name is dead or never waited: its answer must not stop the clock of the
 * next trace, nor be taken for the answer to a question of whoever has the mailbox then. */
void host_relay_drop(struct host *host, uint32_t worker);
void host_relay_forget(struct host *host, uint32_t worker, uint32_t slot); /* the question of a snapshot that failed */

#endif /* ARS_HOST_RELAY_H */

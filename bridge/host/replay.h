/* replay.h: traces that died and are begun again; and how many workers the system bears. */
#ifndef ARS_HOST_REPLAY_H
#define ARS_HOST_REPLAY_H

#include "host.h"

/* Whether the trace that ended like this is to be run again. */
bool host_replay(struct host *host, const struct ars_wire_failure *failure);
/* A trace is begun again because a continuation of its loops could not be undone. Returns how often it was; 0: no more. */
uint32_t host_replay_undone(struct host *host, uint64_t trace);
void host_replay_forget(struct host *host, uint64_t trace); /* it is accounted for */
bool host_replay_wants_fresh(struct host *host, uint64_t trace);
void host_fork_refused(struct host *host, const char *text, bool halve);
void host_raise_concurrency(struct host *host);

#endif /* ARS_HOST_REPLAY_H */

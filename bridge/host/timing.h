/* timing.h: the clock of each trace, and all that has a deadline. */
#ifndef ARS_HOST_TIMING_H
#define ARS_HOST_TIMING_H

#include "host.h"

/* The clock of a trace: call before `waiting` changes, and on every tick. */
void host_clock(struct host *host, struct worker *worker);
void host_clock_reset(struct host *host, struct worker *worker);
void host_tick(struct host *host);

#endif /* ARS_HOST_TIMING_H */

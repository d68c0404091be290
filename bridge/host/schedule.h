/* schedule.h: a run: who makes which traces. */
#ifndef ARS_HOST_SCHEDULE_H
#define ARS_HOST_SCHEDULE_H

#include "host.h"

void host_run_start(struct host *host, const unsigned char *frame);
void host_run_cancel(struct host *host);
void host_requeue(struct host *host, uint64_t first, uint64_t count);
void host_worker_look(struct host *host, uint32_t worker); /* its records and its order; gives the next one */
void host_schedule(struct host *host);                     /* spawns, hands out, fails what is hopeless */
void host_run_finish(struct host *host);                   /* DONE, if it is */

#endif /* ARS_HOST_SCHEDULE_H */

/* wanted.h: what the run wants of each loop. */
#ifndef ARS_HOST_WANTED_H
#define ARS_HOST_WANTED_H

#include "host.h"

/* A run begins with these budgets, as they came in RUN. */
void host_wanted_start(struct host *host, const unsigned char *budgets, size_t size);
/* The loop has got its id; before a process learns it. */
void host_wanted_meet(struct host *host, uint32_t loop_id);
struct ars_wire_wanted host_wanted_of(const struct host *host, uint32_t loop_id);
/* Whether the estimates of a loop's entry are those that were wanted; and, if they are not, a sentence about it. */
bool host_wanted_is_met(const struct host *host, const struct ars_wire_loop *loop);
void host_wanted_say_missed(const struct host *host, const struct ars_wire_loop *loop, char *text, size_t size);

#endif /* ARS_HOST_WANTED_H */

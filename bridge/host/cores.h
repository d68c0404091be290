/* cores.h: the time that a process had for itself. */
#ifndef ARS_HOST_CORES_H
#define ARS_HOST_CORES_H

#include "host.h"

/* A trace, or a try, that takes so many times its limit ends, whatever it was waiting for. */
enum { HOST_MOST_WAITING = 100 };
bool host_cores_counted(void); /* by this kernel */
bool host_cpu_read(pid_t pid, struct cpu_reading *now);
/* The nanoseconds of `elapsed`, the time since the last reading, that the process had for itself. `now` is NULL if it could
 * not be read: then its share of the last time counts. */
uint64_t host_own_time(struct cpu_clock *clock, const struct cpu_reading *now, uint64_t elapsed);

#endif /* ARS_HOST_CORES_H */

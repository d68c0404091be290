/* fork.h: the one place that forks. */
#ifndef ARS_LIB_FORK_H
#define ARS_LIB_FORK_H

#include <stdbool.h>
#include <sys/types.h>

#include "role.h"

bool ars__has_threads(void);          /* more than one */
void ars__watch_forks(void);          /* from now on a process that the simulator forks is ARS__FOREIGN */
pid_t ars__fork(enum ars__role role); /* -1: errno, or ARS__HAS_THREADS in errno */
#define ARS__HAS_THREADS (-1)
/* The same for a snapshot or a continuation; tries again for a while if the system, or the limit of processes, refuses. Ends
 * the trace with a failure if it stays so. */
pid_t ars__fork_patiently(enum ars__role role, const char *what);
void ars__reap(pid_t pid, int *status); /* waits for one child of ours; *status is -1 if someone else reaped it */

#endif /* ARS_LIB_FORK_H */

/* resource_limits.h: what the environment allows: numbers of processes, and memory. */
#ifndef ARS_LIB_RESOURCE_LIMITS_H
#define ARS_LIB_RESOURCE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* A number from the environment, at least 1. */
uint64_t ars__setting(const char *name, uint64_t standard, uint64_t most);
void ars__limit_memory(void);     /* that this process and its children may allocate */
bool ars__crowded(void);          /* there are as many processes as there may be */
uint32_t ars__notice_every(void); /* at how many snapshots more or less a worker tells the host */

#endif /* ARS_LIB_RESOURCE_LIMITS_H */

/* resource_limits.c: what the environment allows: numbers of processes, and memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "family.h"
#include "process.h"
#include "resource_limits.h"

uint64_t ars__setting(const char *name, uint64_t standard, uint64_t most) {
    const char *text = getenv(name);
    if (!text || !*text) return standard;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || *text == '-' || value < 1 || value > most) {
        char why[200];
        snprintf(why, sizeof why, "%s is \"%.40s\", must be a whole number from 1 to %llu", name, text,
                 (unsigned long long)most);
        ars__cannot_start(why, 0);
    }
    return value;
}

/* Private memory that can be written, as RLIMIT_DATA counts it (and the stack), in bytes. */
static uint64_t data_size(void) {
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (!statm) return 0;
    if (fscanf(statm, "%*u %*u %*u %*u %*u %lu", &pages) != 1) pages = 0;
    fclose(statm);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* RLIMIT_DATA and not RLIMIT_AS: the shared segment, libraries and address space that is only reserved do not count. On top
 * of what the zygote has, so that a simulator with large tables needs no larger limit than a small one. */
void ars__limit_memory(void) {
    uint64_t most = ars__setting("ARS_MAX_MEMORY", 0, UINT64_MAX >> 2);
    struct rlimit limit;
    if (!most || getrlimit(RLIMIT_DATA, &limit) != 0) return;
    uint64_t wanted = data_size() + most;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= wanted) return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_DATA, &limit);
}

enum { MOST_UNTOLD = 16 };

/* All workers together may have an eighth of the limit that the host has not been told of. */
uint32_t ars__notice_every(void) {
    uint32_t every = ars__me.max_processes / (16 * ars__me.n_workers);
    return every < 1 ? 1 : every < MOST_UNTOLD ? every : MOST_UNTOLD;
}

/* A snapshot counts twice: it has one continuation at a time. What other workers have is what the host has last seen; the
 * limit is there to keep the machine usable, and may be passed by a few. */
bool ars__crowded(void) {
    uint64_t snapshots = atomic_load_explicit(&ars__me.mine->snapshots_alive, memory_order_relaxed);
    for (uint32_t w = 0; w < ars__me.n_workers; w++)
        if (w != ars__me.worker)
            snapshots += atomic_load_explicit(&ars__me.shm->snapshots_alive[w], memory_order_relaxed);
    return ars__me.n_workers + 2 * snapshots + 2 > ars__me.max_processes;
}

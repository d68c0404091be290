/* where.h: where this process is, for whoever has to describe its end. */
#ifndef ARS_LIB_WHERE_H
#define ARS_LIB_WHERE_H

#include <stdbool.h>
#include <sys/types.h>

#include "process.h"

static inline void ars__at_loop(uint32_t loop_id) {
    atomic_store_explicit(&ars__me.where->loop_id, loop_id, memory_order_relaxed);
}
static inline void ars__at_site(uint32_t site_id) {
    atomic_store_explicit(&ars__me.where->site_id, site_id, memory_order_relaxed);
}
/* The trace goes on in this process now: in the child that this one waits for, or in this one again. */
static inline void ars__at_work(pid_t pid) {
    atomic_store_explicit(&ars__me.where->pid, (uint32_t)pid, memory_order_relaxed);
}
/* A try begins, or (inside: false) the last one is over. */
static inline void ars__beat(bool inside) {
    uint32_t beat = atomic_load_explicit(&ars__me.where->beat, memory_order_relaxed);
    atomic_store_explicit(&ars__me.where->beat, (beat | 1) + 1 + inside, memory_order_relaxed);
}

#endif /* ARS_LIB_WHERE_H */

/* method.h: whether the entry of a loop is estimated, and how: by continuations that are undone, by forked ones, or by both to
 * compare them. */
#ifndef ARS_LIB_METHOD_H
#define ARS_LIB_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct ars__loop;

/* What this process has seen of a loop. Times are in ticks of the processor's clock. */
struct ars__habit {
    uint32_t entries;  /* that were rewound */
    uint32_t survived; /* those that were part of a finished trace */
    uint32_t checks;   /* entries estimated both ways */
    uint32_t checked;  /* those that were part of a finished trace */
    uint16_t reason;   /* enum ars_fork_reason: not 0, if it is forked from now on */
    int32_t detail;
    uint32_t continuations;              /* of an entry */
    uint64_t least_cost, least_overhead; /* of an estimate; of saving and putting back, among recent entries */
};

struct ars__habits {
    uint64_t least_fork;                      /* ticks */
    struct ars__habit of[ARS_WIRE_MAX_SITES]; /* by loop; pages without a loop take no memory */
};

/* Whether the entry of the innermost loop, just made, is to be estimated, and what is wanted of it then. */
bool ars__entry_is_estimated(struct ars_wire_wanted *wanted);
/* Estimates it. Returns in the main run, and in every continuation. */
void ars__estimate_at_entry(struct ars__loop *loop, const struct ars_wire_wanted *wanted);
void ars__habits_learn(void);            /* the trace is complete */
void ars__habits_forked(uint64_t ticks); /* what a fork took */

#endif /* ARS_LIB_METHOD_H */

/* continuation.h: the simulator going on from the entry of a loop, to see whether and when it is accepted. Forked by a
 * snapshot (snapshot.c), or made where the loop stands (loop_in_place.c). */
#ifndef ARS_LIB_CONTINUATION_H
#define ARS_LIB_CONTINUATION_H

#include <stdbool.h>

#include "process.h"

static inline bool ars__continuing(void) {
    return ars__me.role == ARS__TRY_Q || ars__me.role == ARS__RUN_P;
}

/* The random stream of a continuation of the loop that was entered last. */
ars__rng ars__stream(enum ars__role role, uint32_t number);

/* How many tries under q are still wanted; or, where tries are made until so many were accepted, how many of those. No more
 * continuations than this are to come. */
static inline uint64_t ars__left_q(const struct ars_wire_wanted *wanted, const struct ars__estimate *estimate) {
    const uint64_t all = wanted->tries_q ? wanted->tries_q : wanted->accepted_q;
    const uint64_t made = wanted->tries_q ? estimate->tries_q : estimate->accepted_q;
    return made < all ? all - made : 0;
}

/* A loop that can be abandoned is also run as a whole under q, again and again, until one of these runs is accepted: whether
 * another one is to come. */
bool ars__wants_whole(const struct ars_wire_wanted *wanted, const struct ars__estimate *estimate,
                      const struct ars__loop *loop);
/* Makes this continuation a whole run with this number. */
void ars__begin_whole(uint32_t number);

/* Counts a try of the loop that this continuation is there for. True: the continuation is over. */
bool ars__continuation_count(struct ars__estimate *estimate, const struct ars_wire_wanted *wanted,
                             const struct ars__loop *loop, enum ars__outcome outcome);

#endif /* ARS_LIB_CONTINUATION_H */

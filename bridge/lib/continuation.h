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

/* Counts a try of the loop that this continuation is there for. True: the continuation is over. */
bool ars__continuation_count(struct ars__estimate *estimate, uint64_t want_tries_q, const struct ars__loop *loop,
                             bool accepted);

#endif /* ARS_LIB_CONTINUATION_H */

/* continuation.c: what a continuation draws from and what it counts, wherever it is made: a loop's estimates are the same bits
 * either way. */
#include <math.h>

#include "continuation.h"

/* Streams: 0 is the main run; then one per continuation, named by the loop entry, the side and a number. */
ars__rng ars__stream(enum ars__role role, uint32_t number) {
    uint64_t stream = (uint64_t)ars__me.trace.entries << 32 | (uint64_t)(role == ARS__RUN_P) << 31 | number;
    ars__rng rng;
    ars__rng_init(&rng, ars__me.seed, ars__me.trace_number, stream);
    return rng;
}

/* Under q a continuation ends when it is accepted, or has made the last try that is wanted; the rejected tries add their
 * (p/q)^2 to S_pq. Under p it ends when it is accepted. */
bool ars__continuation_count(struct ars__estimate *estimate, uint64_t want_tries_q, const struct ars__loop *loop,
                             bool accepted) {
    if (ars__me.role == ARS__RUN_P) {
        estimate->tries_p++;
        estimate->runs_p += accepted;
        return accepted;
    }
    estimate->tries_q++;
    estimate->accepted_q += accepted;
    if (!accepted) estimate->s_pq_sum += loop->try_ratio == 0 ? 1 : exp(2 * loop->try_ratio);
    return accepted || estimate->tries_q == want_tries_q;
}

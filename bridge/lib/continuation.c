/* continuation.c: what a continuation draws from and what it counts, wherever it is made: a loop's estimates are the same bits
 * either way. */
#include "continuation.h"

/* In the stream's name, above the continuation's number. */
#define UNDER_P (UINT64_C(1) << 31)
#define PILOT (UINT64_C(1) << 30)

/* Streams: 0 is the main run; then one per continuation, named by the loop entry, the side, whether it is a pilot's, and a
 * number. */
ars__rng ars__stream(enum ars__role role, uint32_t number) {
    uint64_t stream = (uint64_t)ars__me.trace.entries << 32 | number;
    if (role == ARS__RUN_P) stream |= UNDER_P;
    if (ars__me.flags & ARS_RUN_PILOT) stream |= PILOT;
    ars__rng rng;
    ars__rng_init(&rng, ars__me.seed, ars__me.trace_number, stream);
    return rng;
}

/* Under q a continuation ends when it is accepted, or has made the last of the tries that are wanted, if these are counted; the
 * rejected tries add their (p/q)^2 to S_pq. Under p it ends when it is accepted. */
bool ars__continuation_count(struct ars__estimate *estimate, const struct ars_wire_wanted *wanted,
                             const struct ars__loop *loop, bool accepted) {
    if (ars__me.role == ARS__RUN_P) {
        estimate->tries_p++;
        estimate->runs_p += accepted;
        return accepted;
    }
    estimate->tries_q++;
    estimate->accepted_q += accepted;
    if (!accepted) estimate->s_pq_sum += ars__try_square(loop);
    return accepted || !ars__left_q(wanted, estimate);
}

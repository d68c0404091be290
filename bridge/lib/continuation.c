/* continuation.c: what a continuation draws from and what it counts, wherever it is made: a loop's estimates are the same bits
 * either way. */
#include "continuation.h"

#include "dist.h"
#include "fail.h"
#include "loops.h"
#include "sites.h"

/* In the stream's name, above the continuation's number. */
#define UNDER_P (UINT64_C(1) << 31)
#define PILOT (UINT64_C(1) << 30)
#define WHOLE (UINT32_C(1) << 29)

/* Streams: 0 is the main run; then one per continuation, named by the loop entry, the side, whether it is a pilot's, whether it
 * is a whole run of a loop that can be abandoned, and a number. */
ars__rng ars__stream(enum ars__role role, uint32_t number) {
    uint64_t stream = (uint64_t)ars__me.trace.entries << 32 | number;
    if (role == ARS__RUN_P) stream |= UNDER_P;
    if (ars__me.flags & ARS_RUN_PILOT) stream |= PILOT;
    ars__rng rng;
    ars__rng_init(&rng, ars__me.seed, ars__me.trace_number, stream);
    return rng;
}

/* ---- loops that can be abandoned ------------------------------------------------------------------------------------ */

bool ars__wants_whole(const struct ars_wire_wanted *wanted, const struct ars__estimate *estimate,
                      const struct ars__loop *loop) {
    return ars__can_be_abandoned(loop) && (wanted->tries_q || wanted->accepted_q) && !estimate->whole_accepted;
}

void ars__begin_whole(uint32_t number) {
    ars__me.rng = ars__stream(ARS__TRY_Q, number | WHOLE);
    ars__me.is_whole = true;
}

/* Tries accepted after so many rejected ones are as likely as max_tries allows the main run to have. */
static void check_whole_tries(const struct ars__estimate *estimate, const struct ars__loop *loop) {
    if (estimate->whole_tries <= ars__me.max_tries) return;
    char name[200];
    ars__loop_name(loop->mark, name, sizeof name);
    ars__fail(ARS_FAIL_TOO_MANY_TRIES, 0,
              "the loop %s was abandoned again and again under q, %llu times, and not accepted in %llu tries. Raise "
              "max_tries",
              name, (unsigned long long)estimate->abandoned_q, (unsigned long long)ars__me.max_tries);
}

/* Of the numbers of tries up to each abandoned run, one is kept, chosen evenly: the j-th takes the place of the one before with
 * probability 1/j. */
static bool count_whole(struct ars__estimate *estimate, const struct ars__loop *loop, enum ars__outcome outcome) {
    estimate->whole_tries++;
    check_whole_tries(estimate, loop);
    estimate->whole_accepted += outcome == ARS__ACCEPTED;
    if (outcome != ARS__ABANDONED) return outcome == ARS__ACCEPTED;
    const ars_dist chance = ars_uniform(0, 1);
    estimate->abandoned_q++;
    if (ars__dist_sample(&chance, &ars__me.rng) * (double)estimate->abandoned_q < 1)
        estimate->abandoned_tries = estimate->whole_tries;
    return true;
}

/* ---- counting --------------------------------------------------------------------------------------------------------- */

/* Under q a continuation ends when its loop has ended, or it has made the last of the tries that are wanted, if these are counted;
 * the rejected tries add their (p/q)^2 to S_pq. Under p it ends when its loop has ended. */
bool ars__continuation_count(struct ars__estimate *estimate, const struct ars_wire_wanted *wanted,
                             const struct ars__loop *loop, enum ars__outcome outcome) {
    const bool accepted = outcome == ARS__ACCEPTED, ended = outcome != ARS__REJECTED;
    if (ars__me.role == ARS__RUN_P) {
        estimate->tries_p++;
        estimate->runs_p += ended;
        estimate->abandoned_p += ended && !accepted;
        return ended;
    }
    if (ars__me.is_whole) return count_whole(estimate, loop, outcome);
    estimate->tries_q++;
    estimate->accepted_q += accepted;
    if (!accepted) estimate->s_pq_sum += ars__try_square(loop);
    return ended || !ars__left_q(wanted, estimate);
}

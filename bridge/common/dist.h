/* dist.h: random streams, and the densities and samplers of every distribution. Pure functions: no state of libars. */
#ifndef ARS_LIB_DIST_H
#define ARS_LIB_DIST_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ars.h"
#include "wire.h"

/* A counter-based stream (Philox4x32-10): key from (seed, stream), counter from (trace, block). Equal arguments give
 * equal draws on every machine; different streams are independent. */
enum { ARS__RNG_BLOCKS = 8, ARS__RNG_WORDS = 4 * ARS__RNG_BLOCKS };
typedef struct ars__rng {
    uint32_t key[2];
    uint64_t trace;
    uint64_t block; /* the next one to be made */
    uint32_t out[ARS__RNG_WORDS];
    unsigned used; /* words of `out` given away */
} ars__rng;

void ars__rng_init(ars__rng *rng, uint64_t seed, uint64_t trace, uint64_t stream);
void ars__rng_refill(ars__rng *rng); /* when all words are used up */
double ars__rng_normal(ars__rng *rng);

/* Where a stream is, and a stream that goes on from there. */
static inline struct ars_wire_stream ars__rng_place(const ars__rng *rng) {
    return (struct ars_wire_stream){{rng->key[0], rng->key[1]}, rng->trace, rng->block, rng->used, 0};
}
void ars__rng_resume(ars__rng *rng, const struct ars_wire_stream *place);

/* The next two words of the stream, the first of them in the upper half. Nobody takes a single one. */
static inline uint64_t ars__rng_u64(ars__rng *rng) {
    if (__builtin_expect(rng->used == ARS__RNG_WORDS, 0)) ars__rng_refill(rng);
    uint64_t high = rng->out[rng->used], low = rng->out[rng->used + 1];
    rng->used += 2;
    return high << 32 | low;
}

/* In (0, 1), both ends excluded, 53 bits: the upper 27 and 26 of two words. */
static inline double ars__rng_uniform(ars__rng *rng) {
    for (;;) {
        uint64_t words = ars__rng_u64(rng), bits = words >> 37 << 26 | (uint32_t)words >> 6;
        if (bits) return (double)(int64_t)bits * 0x1p-53;
    }
}

/* The block function itself, for known-answer tests. */
void ars__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* 0 if the parameters are right; else -1 and a sentence about the wrong one in `text`. */
int ars__dist_check(const ars_dist *d, char *text, size_t size);

static inline double ars__uniform_between(double low, double high, ars__rng *rng) {
    double x = low + (high - low) * ars__rng_uniform(rng);
    return x < low ? low : x > high ? high : x;
}

/* A draw without ars__dist_check, for the common kinds with parameters that are seen to be right at a glance. NAN: check,
 * and draw with ars__dist_sample; the stream has not moved. The draw is the one that ars__dist_sample makes. */
double ars__dist_quick_other(const ars_dist *d,
                             ars__rng *rng); /* but for Uniform, which is so short that a call shows */
static inline double ars__dist_quick(const ars_dist *d, ars__rng *rng) {
    if (d->kind != ARS_DIST_UNIFORM) return ars__dist_quick_other(d, rng);
    /* Comparisons with NaN are false, and the difference of bounds that are not finite is not. */
    double low = d->a[0], high = d->a[1];
    return high - low > 0 && high - low <= DBL_MAX ? ars__uniform_between(low, high, rng) : NAN;
}

/* For distributions that pass ars__dist_check. The density is -inf outside the support, and NaN only for a NaN x.
 * Discrete values are returned as whole doubles; a fraction has density -inf. */
double ars__dist_sample(const ars_dist *d, ars__rng *rng);
double ars__dist_log_density(const ars_dist *d, double x);

/* What values of this kind are, if x cannot be one whatever the parameters ("whole numbers from 0"); else NULL. */
const char *ars__dist_support(unsigned kind, double x);

int ars__dist_parameters(unsigned kind);    /* their number; -1: as many as it says; 0 for a code we do not know */
bool ars__dist_is_prior(unsigned kind);     /* whether a simulator can draw from it */
bool ars__dist_is_component(unsigned kind); /* whether it can be a component of a Mixture */
bool ars__dist_is_discrete(unsigned kind);  /* of a Mixture: false, ask its components */
const char *ars__dist_name(unsigned kind);  /* "Normal"; "unknown" for a code we do not know */

/* To and from the wire. ars__dist_encode returns the bytes written (a multiple of 8), or 0 if they do not fit.
 * ars__dist_decode returns the bytes read, or 0 with a sentence in `text` if they are not a valid distribution; *d then
 * points into `bytes`, which must be 8-byte aligned. A Mixture keeps n = 6 * components and p at its first weight.
 * ARS_DIST_PRIOR decodes to kind ARS_DIST_PRIOR; the caller replaces it by the prior. */
size_t ars__dist_encode(const ars_dist *d, void *bytes, size_t capacity);
size_t ars__dist_decode(ars_dist *d, const void *bytes, size_t size, char *text, size_t text_size);

#endif /* ARS_LIB_DIST_H */

/* philox.c: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and the streams made of
 * it. */
#include <math.h>

#include "dist.h"

enum { ROUNDS = 10 };

void ars__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c0;
        uint64_t second = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The finaliser of SplitMix64: a bijection of 64 bits. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x;
}

void ars__rng_init(ars__rng *rng, uint64_t seed, uint64_t trace, uint64_t stream) {
    /* For a fixed seed this is a bijection of the stream, so two streams of a run never share a key; for a fixed stream
     * it is one of the seed. Mixing the seed first keeps (seed + 1, stream) away from (seed, stream + 1). */
    uint64_t key = mix(mix(seed + 0x9E3779B97F4A7C15u) + stream);
    rng->key[0] = (uint32_t)key;
    rng->key[1] = (uint32_t)(key >> 32);
    rng->trace = trace;
    rng->block = 0;
    rng->used = 4;
}

uint32_t ars__rng_u32(ars__rng *rng) {
    if (rng->used >= 4) {
        uint32_t counter[4] = {(uint32_t)rng->block, (uint32_t)(rng->block >> 32), (uint32_t)rng->trace,
                               (uint32_t)(rng->trace >> 32)};
        ars__philox(counter, rng->key, rng->out);
        rng->block++;
        rng->used = 0;
    }
    return rng->out[rng->used++];
}

double ars__rng_uniform(ars__rng *rng) {
    for (;;) {
        uint64_t high = ars__rng_u32(rng) >> 5, low = ars__rng_u32(rng) >> 6;
        uint64_t bits = high << 26 | low;
        if (bits) return (double)bits * 0x1p-53;
    }
}

/* Box and Muller's method, its second value thrown away: a stream is then a pure function of how many draws were made. */
double ars__rng_normal(ars__rng *rng) {
    double radius = sqrt(-2 * log(ars__rng_uniform(rng)));
    return radius * cos(2 * M_PI * ars__rng_uniform(rng));
}

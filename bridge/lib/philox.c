/* philox.c: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and the streams made of
 * it. */
#include <math.h>
#include <string.h>

#include "dist.h"

enum { ROUNDS = 10 };

static void rounds(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
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
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/* The same for two counters at a time: one alone waits for its own multiplications most of the time. */
static void rounds_of_two(uint32_t c[4], uint32_t d[4], uint32_t k0, uint32_t k1) {
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c0, first_d = (uint64_t)0xD2511F53u * d0;
        uint64_t second = (uint64_t)0xCD9E8D57u * c2, second_d = (uint64_t)0xCD9E8D57u * d2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        d0 = (uint32_t)(second_d >> 32) ^ d1 ^ k0;
        c1 = (uint32_t)second;
        d1 = (uint32_t)second_d;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        d2 = (uint32_t)(first_d >> 32) ^ d3 ^ k1;
        c3 = (uint32_t)first;
        d3 = (uint32_t)first_d;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(c, (uint32_t[4]){c0, c1, c2, c3}, 16);
    memcpy(d, (uint32_t[4]){d0, d1, d2, d3}, 16);
}

void ars__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    memcpy(out, counter, 4 * sizeof *out);
    rounds(out, key[0], key[1]);
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
    rng->used = rng->made = 0;
}

static void set_counter(const ars__rng *rng, uint64_t block, uint32_t out[4]) {
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)rng->trace;
    out[3] = (uint32_t)(rng->trace >> 32);
}

/* One block at first, for the many streams of which little is used; several at a time for those that go on. */
void ars__rng_refill(ars__rng *rng) {
    unsigned blocks = rng->block ? ARS__RNG_BLOCKS : 1;
    for (unsigned i = 0; i < blocks; i++) set_counter(rng, rng->block + i, rng->out + 4 * i);
    if (blocks == 1)
        rounds(rng->out, rng->key[0], rng->key[1]);
    else
        for (unsigned i = 0; i < blocks; i += 2)
            rounds_of_two(rng->out + 4 * i, rng->out + 4 * i + 4, rng->key[0], rng->key[1]);
    rng->block += blocks;
    rng->made = 4 * blocks;
    rng->used = 0;
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

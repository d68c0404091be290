/* philox.c: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and the streams made of
 * it. */
#include <math.h>
#include <string.h>
#if defined(__x86_64__) && !defined(ARS__NO_AVX2)
#define USE_AVX2
#include <immintrin.h>
#endif

#include "dist.h"

enum { ROUNDS = 10 };
static const uint32_t M0 = 0xD2511F53u, M1 = 0xCD9E8D57u, W0 = 0x9E3779B9u, W1 = 0xBB67AE85u;

static void rounds(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)M0 * c0;
        uint64_t second = (uint64_t)M1 * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)first;
        k0 += W0;
        k1 += W1;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
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
    rng->used = ARS__RNG_WORDS;
}

static void one_by_one(const ars__rng *rng, uint32_t out[ARS__RNG_WORDS]) {
    for (unsigned i = 0; i < ARS__RNG_BLOCKS; i++) {
        uint64_t block = rng->block + i;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)rng->trace,
                                     (uint32_t)(rng->trace >> 32)};
        ars__philox(counter, rng->key, out + 4 * i);
    }
}

#ifdef USE_AVX2

/* Four blocks side by side. Each 64-bit lane holds one word of a block in its lower half; what is in the upper half does
 * not matter. */
struct four {
    __m256i c0, c1, c2, c3;
};
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline struct four four_counters(uint64_t block, uint64_t trace) {
    __m256i low = _mm256_add_epi64(_mm256_set1_epi64x((long long)block), _mm256_set_epi64x(3, 2, 1, 0));
    __m256i high = _mm256_set1_epi64x((long long)trace);
    return (struct four){low, _mm256_srli_epi64(low, 32), high, _mm256_srli_epi64(high, 32)};
}

AVX2 static inline struct four round_of_four(struct four c, __m256i k0, __m256i k1) {
    __m256i first = _mm256_mul_epu32(c.c0, _mm256_set1_epi64x(M0));
    __m256i second = _mm256_mul_epu32(c.c2, _mm256_set1_epi64x(M1));
    return (struct four){_mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(second, 32), c.c1), k0), second,
                         _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(first, 32), c.c3), k1), first};
}

AVX2 static inline void store_four(struct four c, uint32_t out[16]) {
    __m256i even = _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(c.c0, c.c1), _mm256_unpacklo_epi32(c.c2, c.c3));
    __m256i odd = _mm256_unpacklo_epi64(_mm256_unpackhi_epi32(c.c0, c.c1), _mm256_unpackhi_epi32(c.c2, c.c3));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Two times four: one alone waits for its own multiplications half of the time. */
AVX2 static void four_by_four(const ars__rng *rng, uint32_t out[ARS__RNG_WORDS]) {
    _Static_assert(ARS__RNG_BLOCKS == 8, "two times four");
    struct four c = four_counters(rng->block, rng->trace), d = four_counters(rng->block + 4, rng->trace);
    __m256i k0 = _mm256_set1_epi32((int)rng->key[0]), k1 = _mm256_set1_epi32((int)rng->key[1]);
    for (int round = 0; round < ROUNDS; round++) {
        c = round_of_four(c, k0, k1);
        d = round_of_four(d, k0, k1);
        k0 = _mm256_add_epi32(k0, _mm256_set1_epi32((int)W0));
        k1 = _mm256_add_epi32(k1, _mm256_set1_epi32((int)W1));
    }
    store_four(c, out);
    store_four(d, out + 16);
}

static void make_blocks(const ars__rng *rng, uint32_t out[ARS__RNG_WORDS]) {
    (__builtin_cpu_supports("avx2") ? four_by_four : one_by_one)(rng, out);
}

#else

static void make_blocks(const ars__rng *rng, uint32_t out[ARS__RNG_WORDS]) {
    one_by_one(rng, out);
}

#endif

void ars__rng_refill(ars__rng *rng) {
    make_blocks(rng, rng->out);
    rng->block += ARS__RNG_BLOCKS;
    rng->used = 0;
}

void ars__rng_resume(ars__rng *rng, const struct ars_wire_stream *place) {
    *rng = (ars__rng){{place->key[0], place->key[1]}, place->trace, place->block, {0}, place->used};
    if (place->used >= ARS__RNG_WORDS) return;
    rng->block -= ARS__RNG_BLOCKS;
    ars__rng_refill(rng);
    rng->used = place->used;
}

/* Box and Muller's method, its second value thrown away: a stream is then a pure function of how many draws were made. */
double ars__rng_normal(ars__rng *rng) {
    double radius = sqrt(-2 * log(ars__rng_uniform(rng)));
    return radius * cos(2 * M_PI * ars__rng_uniform(rng));
}

/* test_philox.c: the generator against its published known answers, and what the streams promise. */
#include "check.h"
#include "dist.h"

/* The known-answer vectors of Random123 for philox4x32, 10 rounds. */
static void known_answers(void) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        ars__philox(known[i].counter, known[i].key, out);
        CHECK(memcmp(out, known[i].out, sizeof out) == 0);
    }
}

/* A stream is the blocks 0, 1, 2, ... of its trace, under its key. */
static void counter_layout(void) {
    ars__rng rng;
    uint64_t trace = 0x0123456789abcdefu;
    ars__rng_init(&rng, 7, trace, 3);
    for (uint32_t block = 0; block < 21; block++) {
        uint32_t counter[4] = {block, 0, 0x89abcdefu, 0x01234567u}, out[4];
        ars__philox(counter, rng.key, out);
        for (int i = 0; i < 4; i += 2) CHECK(ars__rng_u64(&rng) == ((uint64_t)out[i] << 32 | out[i + 1]));
    }
    rng.block = 0xffffffffu;
    rng.used = ARS__RNG_WORDS;
    for (uint32_t block = 0; block < 9; block++) { /* the last one below 2^32, and those after it */
        uint32_t counter[4] = {block - 1, block > 0, 0x89abcdefu, 0x01234567u}, out[4];
        ars__philox(counter, rng.key, out);
        for (int i = 0; i < 4; i += 2) CHECK(ars__rng_u64(&rng) == ((uint64_t)out[i] << 32 | out[i + 1]));
    }
}

static uint64_t key_of(uint64_t seed, uint64_t trace, uint64_t stream) {
    ars__rng rng;
    ars__rng_init(&rng, seed, trace, stream);
    return (uint64_t)rng.key[1] << 32 | rng.key[0];
}

static uint64_t unmix(uint64_t x) {
    x ^= x >> 31 ^ x >> 62;
    x *= 0x319642b2d24d8ec3u;
    x ^= x >> 27 ^ x >> 54;
    x *= 0x96de1b173f119089u;
    return x ^ x >> 30 ^ x >> 60;
}

/* The key can be turned back into the stream: so different streams of a seed never share one. */
static void streams_have_their_own_keys(void) {
    static const uint64_t streams[] = {0, 1, 2, 77, 0x8000000000000000u, 0xffffffffffffffffu};
    for (uint64_t seed = 0; seed < 100; seed++) {
        uint64_t offset = unmix(key_of(seed, 0, 0));
        for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
            CHECK(unmix(key_of(seed, 5, streams[i])) - offset == streams[i]);
        }
    }
    CHECK(key_of(1, 0, 0) != key_of(0, 0, 1));
    CHECK(key_of(1, 0, 0) == key_of(1, 9, 0));
}

static void equal_arguments_equal_draws(void) {
    ars__rng a, b, other;
    ars__rng_init(&a, 1, 2, 3);
    ars__rng_init(&b, 1, 2, 3);
    ars__rng_init(&other, 1, 2, 4);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = ars__rng_u64(&a);
        CHECK(x == ars__rng_u64(&b));
        same += x == ars__rng_u64(&other);
    }
    CHECK(same == 0);
}

/* Means and variances within 5 standard errors; every value strictly inside (0, 1) and of at most 53 bits. */
static void uniforms_and_normals(void) {
    enum { N = 200000 };
    ars__rng rng;
    ars__rng_init(&rng, 11, 0, 0);
    double sum = 0, square = 0, normal = 0, normal_square = 0;
    for (int i = 0; i < N; i++) {
        double u = ars__rng_uniform(&rng), z = ars__rng_normal(&rng);
        CHECK(u > 0 && u < 1 && u * 0x1p53 == floor(u * 0x1p53));
        sum += u;
        square += (u - 0.5) * (u - 0.5);
        normal += z;
        normal_square += z * z;
    }
    CHECK_NEAR(sum / N, 0.5, 5 * sqrt(1 / 12. / N));
    CHECK_NEAR(square / N, 1 / 12., 5 * sqrt(1 / 180. / N));
    CHECK_NEAR(normal / N, 0, 5 * sqrt(1. / N));
    CHECK_NEAR(normal_square / N, 1, 5 * sqrt(2. / N));
}

int main(void) {
    known_answers();
    counter_layout();
    streams_have_their_own_keys();
    equal_arguments_equal_draws();
    uniforms_and_normals();
    return check_failures != 0;
}

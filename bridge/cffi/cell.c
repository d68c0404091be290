/* cell.c: a step of an LSTM's cells in one pass: see serve.h.
 *
 * The gates of a batch are a megabyte. Done one operation after the other they go through memory ten times; here a piece
 * of eight cells stays in registers from the sums to the new state. Written with the compiler's vectors, which any
 * processor can do, and compiled once more for those that have AVX2. */
#include <string.h>

#include "serve.h"

/* A product and a sum may be rounded once: all of a row's numbers are computed in the same way, and no exact ones are
 * wanted. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

/* The first m of a piece; the others are 0, and nobody looks at them. */
INLINE floats load(const float *from, size_t m) {
    floats x = {0};
    memcpy(&x, from, m * sizeof *from);
    return x;
}

INLINE void store(float *to, floats x, size_t m) {
    memcpy(to, &x, m * sizeof *to);
}

INLINE floats choose(ints where, floats a, floats b) {
    return (floats)((where & (ints)a) | (~where & (ints)b));
}

/* exp(x) = 2^k exp(r), |r| <= log(2) / 2, with a polynomial of degree 6 for exp(r): to 3e-9, and then to rounding. A NaN
 * stays one; beyond +-87 it is that of +-87. */
INLINE floats exponential(floats x) {
    const floats zero = {0}, most = zero + 87.0f;
    const float to_integer = 0x1.8p23f; /* added to a small number, its last bits are the nearest integer */
    x = choose(x < -most, -most, x);
    x = choose(x > most, most, x);
    floats shifted = x * 1.44269504f + to_integer;
    ints k = (ints)shifted;
    floats whole = shifted - to_integer;
    floats r = x - whole * 0x1.62e4p-1f; /* log 2, the first bits, so that the product is exact */
    r -= whole * 1.42860677e-6f;         /* and the rest of it */
    floats p = 1.38146e-3f * r + 8.36872e-3f;
    p = p * r + 4.166839e-2f;
    p = p * r + 1.6666521e-1f;
    p = p * r + 4.9999993e-1f;
    p = p * r * r + r + 1.0f;
    return p * (floats)((k + 127) << 23);
}

INLINE floats sigmoid(floats x) {
    return 1.0f / (1.0f + exponential(-x));
}

struct row {
    const float *product, *recurrent, *added, *cell;
    float *h, *kept_h, *kept_c;
};

INLINE floats gate(const struct row *r, size_t at, size_t m) {
    return sigmoid(load(r->product + at, m) + load(r->recurrent + at, m) + load(r->added + at, m));
}

/* Cells j to j + m. tanh(x) is 2 sigmoid(2 x) - 1; the cell gate's weights are doubled already. */
INLINE void piece(const struct row *r, size_t width, size_t j, size_t m) {
    floats in = gate(r, j, m), forget = gate(r, width + j, m), out = gate(r, 3 * width + j, m);
    floats cell = 2.0f * gate(r, 2 * width + j, m) - 1.0f;
    floats c = forget * load(r->cell + j, m) + in * cell;
    floats h = out * (2.0f * sigmoid(2.0f * c) - 1.0f);
    store(r->h + j, h, m);
    if (r->kept_h) {
        store(r->kept_h + j, h, m);
        store(r->kept_c + j, c, m);
    }
}

INLINE void all_rows(const struct ars__cells *s) {
    size_t width = s->width, whole = width - width % LANES;
    for (size_t i = 0; i < s->n; i++) {
        size_t kept = i < s->n_kept ? (size_t)s->kept_row[i] * width : 0;
        const struct row r = {
            .product = s->product + i * 4 * width,
            .recurrent = s->recurrent + (size_t)s->recurrent_row[i] * 4 * width,
            .added = s->added + (s->added_row ? (size_t)s->added_row[i] * 4 * width : 0),
            .cell = s->c + (size_t)s->state_row[i] * width,
            .h = s->out + i * s->out_stride,
            .kept_h = i < s->n_kept ? s->h + kept : NULL,
            .kept_c = i < s->n_kept ? s->c + kept : NULL,
        };
        for (size_t j = 0; j < whole; j += LANES) piece(&r, width, j, LANES);
        if (whole < width) piece(&r, width, whole, width - whole);
    }
}

static void anywhere(const struct ars__cells *s) {
    all_rows(s);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void with_avx2(const struct ars__cells *s) {
    all_rows(s);
}

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define with_avx2 anywhere
static int has_avx2(void) {
    return 0;
}
#endif

static int are_rows(const int64_t *row, size_t n, size_t rows) {
    for (size_t i = 0; i < n; i++) {
        if (row[i] < 0 || (uint64_t)row[i] >= rows) return 0;
    }
    return 1;
}

int ars__lstm_cells(const struct ars__cells *s) {
    if (s->n_kept > s->n || s->out_stride < s->width || !are_rows(s->recurrent_row, s->n, s->recurrent_rows) ||
        (s->added_row ? !are_rows(s->added_row, s->n, s->added_rows) : !s->added_rows) ||
        !are_rows(s->state_row, s->n, s->states) || !are_rows(s->kept_row, s->n_kept, s->states)) {
        return -1;
    }
    (has_avx2() ? with_avx2 : anywhere)(s);
    return 0;
}

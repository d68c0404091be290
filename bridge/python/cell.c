/* cell.c: a step of an LSTM's cells in one pass, for serving, and for training forwards and backwards: see serve.h.
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
typedef uint32_t words __attribute__((vector_size(4 * LANES)));

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

/* exp(x) = 2^k exp(r), |r| <= log(2) / 2, with a polynomial of degree 6 for exp(r): to 4e-9, and then to rounding. A NaN
 * stays one; beyond +-87 it is that of +-87. */
INLINE floats exponential(floats x) {
    const floats zero = {0}, most = zero + 87.0f;
    const float to_integer = 0x1.8p23f; /* added to a small number, its last bits are the nearest integer */
    x = choose(x < -most, -most, x);
    x = choose(x > most, most, x);
    floats shifted = x * 1.44269504f + to_integer;
    words k = (words)shifted;
    floats whole = shifted - to_integer;
    floats r = x - whole * 0x1.62e4p-1f; /* log 2, the first bits, so that the product is exact */
    r -= whole * 1.42860677e-6f;         /* and the rest of it */
    floats p = 1.38146e-3f * r + 8.36872e-3f;
    p = p * r + 4.166839e-2f;
    p = p * r + 1.6666521e-1f;
    p = p * r + 4.9999993e-1f;
    p = p * r * r + r + 1.0f;
    return p * (floats)((k + 127u) << 23);
}

INLINE floats sigmoid(floats x) {
    return 1.0f / (1.0f + exponential(-x));
}

/* tanh(x) = 2 sigmoid(2 x) - 1 */
INLINE floats to_tanh(floats sigmoid_of_twice) {
    return 2.0f * sigmoid_of_twice - 1.0f;
}

/* ---- serving ------------------------------------------------------------------------------------------------------ */

struct row {
    const float *product, *recurrent, *added, *cell;
    float *h, *kept_h, *kept_c;
};

INLINE floats gate(const struct row *r, size_t at, size_t m) {
    return sigmoid(load(r->product + at, m) + load(r->recurrent + at, m) + load(r->added + at, m));
}

/* Cells j to j + m. The cell gate's sums are doubled already. */
INLINE void serve(const struct row *r, size_t width, size_t j, size_t m) {
    floats in = gate(r, j, m), forget = gate(r, width + j, m), out = gate(r, 3 * width + j, m);
    floats cell = to_tanh(gate(r, 2 * width + j, m));
    floats c = forget * load(r->cell + j, m) + in * cell;
    floats h = out * to_tanh(sigmoid(2.0f * c));
    store(r->h + j, h, m);
    if (r->kept_h) {
        store(r->kept_h + j, h, m);
        store(r->kept_c + j, c, m);
    }
}

INLINE void serve_rows(const struct ars__cells *s) {
    size_t width = s->width, whole = width - width % LANES;
    for (size_t i = 0; i < s->n; i++) {
        struct row r = {
            .product = s->product + i * 4 * width,
            .recurrent = s->recurrent + (size_t)s->recurrent_row[i] * 4 * width,
            .added = s->added + (s->added_row ? (size_t)s->added_row[i] * 4 * width : 0),
            .cell = s->c + (size_t)s->state_row[i] * width,
            .h = s->out + i * s->out_stride,
        };
        if (i < s->n_kept) {
            r.kept_h = s->h + (size_t)s->kept_row[i] * width;
            r.kept_c = s->c + (size_t)s->kept_row[i] * width;
        }
        for (size_t j = 0; j < whole; j += LANES) serve(&r, width, j, LANES);
        if (whole < width) serve(&r, width, whole, width - whole);
    }
}

/* ---- training ----------------------------------------------------------------------------------------------------- */

/* Where a row's own numbers begin, and the row of the cells before. */
struct place {
    size_t own, gates, before;
};

INLINE struct place place_of(const struct ars__training_step *s, size_t i) {
    size_t before = s->before_row ? (size_t)s->before_row[i] : i;
    return (struct place){i * s->width, i * 4 * s->width, before * s->width};
}

INLINE void forwards(const struct ars__training_step *s, struct place at, size_t j, size_t m) {
    float *gates = s->gates + at.gates + j;
    size_t width = s->width;
    floats in = sigmoid(load(gates, m)), forget = sigmoid(load(gates + width, m));
    floats cell = to_tanh(sigmoid(2.0f * load(gates + 2 * width, m))), out = sigmoid(load(gates + 3 * width, m));
    floats c = in * cell;
    if (s->before) c += forget * load(s->before + at.before + j, m);
    floats tanh_c = to_tanh(sigmoid(2.0f * c));
    store(gates, in, m);
    store(gates + width, forget, m);
    store(gates + 2 * width, cell, m);
    store(gates + 3 * width, out, m);
    store(s->c + at.own + j, c, m);
    store(s->tanh_c + at.own + j, tanh_c, m);
    store(s->h + at.own + j, out * tanh_c, m);
}

/* The derivative of sigmoid is s (1 - s), that of tanh 1 - t^2. */
INLINE void backwards(const struct ars__training_step *s, struct place at, size_t j, size_t m) {
    const float *gates = s->gates + at.gates + j;
    float *d_gates = s->d_gates + at.gates + j;
    size_t width = s->width, own = at.own + j, before = at.before + j;
    floats in = load(gates, m), forget = load(gates + width, m);
    floats cell = load(gates + 2 * width, m), out = load(gates + 3 * width, m);
    floats tanh_c = load(s->tanh_c + own, m), d_h = load(s->d_h + own, m);
    floats d_c = load(s->d_c + own, m) + d_h * out * (1.0f - tanh_c * tanh_c), d_forget = {0};
    if (s->before) {
        d_forget = d_c * load(s->before + before, m) * forget * (1.0f - forget);
        store(s->d_before + before, load(s->d_before + before, m) + d_c * forget, m);
    }
    store(d_gates, d_c * cell * in * (1.0f - in), m);
    store(d_gates + width, d_forget, m);
    store(d_gates + 2 * width, d_c * in * (1.0f - cell * cell), m);
    store(d_gates + 3 * width, d_h * tanh_c * out * (1.0f - out), m);
}

INLINE void train_rows(const struct ars__training_step *s,
                       void (*piece)(const struct ars__training_step *, struct place, size_t, size_t)) {
    size_t whole = s->width - s->width % LANES;
    for (size_t i = 0; i < s->n; i++) {
        struct place at = place_of(s, i);
        for (size_t j = 0; j < whole; j += LANES) piece(s, at, j, LANES);
        if (whole < s->width) piece(s, at, whole, s->width - whole);
    }
}

/* ---- for this processor ------------------------------------------------------------------------------------------ */

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2,fma"))) static

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define AVX2 static

static int has_avx2(void) {
    return 0;
}
#endif

static void serve_anywhere(const struct ars__cells *s) {
    serve_rows(s);
}
AVX2 void serve_by_avx2(const struct ars__cells *s) {
    serve_rows(s);
}
static void forwards_anywhere(const struct ars__training_step *s) {
    train_rows(s, forwards);
}
AVX2 void forwards_by_avx2(const struct ars__training_step *s) {
    train_rows(s, forwards);
}
static void backwards_anywhere(const struct ars__training_step *s) {
    train_rows(s, backwards);
}
AVX2 void backwards_by_avx2(const struct ars__training_step *s) {
    train_rows(s, backwards);
}

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
    (has_avx2() ? serve_by_avx2 : serve_anywhere)(s);
    return 0;
}

static int has_rows_before(const struct ars__training_step *s) {
    if (!s->before) return 1;
    return s->before_row ? are_rows(s->before_row, s->n, s->before_rows) : s->n <= s->before_rows;
}

int ars__cells_forward(const struct ars__training_step *s) {
    if (!has_rows_before(s)) return -1;
    (has_avx2() ? forwards_by_avx2 : forwards_anywhere)(s);
    return 0;
}

int ars__cells_backward(const struct ars__training_step *s) {
    if (!has_rows_before(s)) return -1;
    (has_avx2() ? backwards_by_avx2 : backwards_anywhere)(s);
    return 0;
}

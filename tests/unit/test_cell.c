/* test_cell.c: a step of an LSTM's cells as compiled for any processor and for AVX2, against the formulas in double
 * precision. tests/unit compares what Python gets, on this processor; this file is for the code of others. */
#include "../../bridge/python/cell.c"

#include <stdlib.h>

#include "check.h"

enum { ROWS = 5, KEPT = 3, STATES = 9, WIDEST = 44 };

static float table[8][STATES * 4 * WIDEST];

static void fill(float *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (float)(rand() % 20001 - 10000) / 2000;
}

static double squash(double x) {
    return 1 / (1 + exp(-x));
}

static void check_serving(void (*serve_all)(const struct ars__cells *), size_t width) {
    static const int64_t recurrent[ROWS] = {0, 2, 1, 0, 2}, added[ROWS] = {1, 0, 1, 0, 1},
                         state[ROWS] = {0, 1, 1, 2, 0};
    static const int64_t kept[KEPT] = {3, 8, 5};
    for (int t = 0; t < 5; t++) fill(table[t], STATES * 4 * width);
    struct ars__cells s = {.n = ROWS,
                           .width = width,
                           .product = table[0],
                           .recurrent = table[1],
                           .recurrent_row = recurrent,
                           .recurrent_rows = 3,
                           .added = table[2],
                           .added_row = added,
                           .added_rows = 2,
                           .h = table[3],
                           .c = table[4],
                           .state_row = state,
                           .states = STATES,
                           .kept_row = kept,
                           .n_kept = KEPT,
                           .out = table[5],
                           .out_stride = width + 1};
    serve_all(&s);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < width; j++) {
            double sum[4];
            for (size_t k = 0; k < 4; k++) {
                size_t at = k * width + j;
                sum[k] = (double)s.product[i * 4 * width + at] + s.recurrent[(size_t)recurrent[i] * 4 * width + at] +
                         s.added[(size_t)added[i] * 4 * width + at];
            }
            double before = s.c[(size_t)state[i] * width + j];
            double c = squash(sum[1]) * before + squash(sum[0]) * tanh(sum[2] / 2), h = squash(sum[3]) * tanh(c);
            CHECK_NEAR(s.out[i * s.out_stride + j], h, 1e-6);
            if (i >= KEPT) continue;
            CHECK_NEAR(s.h[(size_t)kept[i] * width + j], h, 1e-6);
            CHECK_NEAR(s.c[(size_t)kept[i] * width + j], c, 3e-6);
        }
    }
}

typedef void train_all(const struct ars__training_step *);

/* The derivatives here are the formulas again; tests/unit compares them with torch's. */
static void check_training(train_all *forward, train_all *backward, size_t width) {
    static const int64_t row[ROWS] = {0, 8, 8, 3, 0}; /* some share one */
    static float own[7][ROWS * 4 * WIDEST];
    double wanted[STATES * WIDEST];
    for (int t = 0; t < 7; t++) fill(own[t], ROWS * 4 * width);
    fill(table[6], STATES * width); /* before */
    fill(table[7], STATES * width); /* d_before */
    for (size_t i = 0; i < STATES * width; i++) wanted[i] = table[7][i];
    float sums[ROWS * 4 * WIDEST];
    memcpy(sums, own[0], sizeof sums);
    struct ars__training_step s = {.n = ROWS,
                                   .width = width,
                                   .before = table[6],
                                   .before_row = row,
                                   .before_rows = STATES,
                                   .gates = own[0],
                                   .c = own[1],
                                   .tanh_c = own[2],
                                   .h = own[3],
                                   .d_h = own[4],
                                   .d_c = own[5],
                                   .d_gates = own[6],
                                   .d_before = table[7]};
    forward(&s);
    backward(&s);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < width; j++) {
            const float *sum = sums + i * 4 * width + j, *got = s.d_gates + i * 4 * width + j;
            double in = squash(sum[0]), forget = squash(sum[width]), cell = tanh(sum[2 * width]);
            double out = squash(sum[3 * width]), before = s.before[(size_t)row[i] * width + j];
            double c = forget * before + in * cell, t = tanh(c), d_h = s.d_h[i * width + j];
            double d_c = s.d_c[i * width + j] + d_h * out * (1 - t * t);
            CHECK_NEAR(s.c[i * width + j], c, 3e-6);
            CHECK_NEAR(s.h[i * width + j], out * t, 1e-6);
            CHECK_NEAR(got[0], d_c * cell * in * (1 - in), 1e-5);
            CHECK_NEAR(got[width], d_c * before * forget * (1 - forget), 1e-5);
            CHECK_NEAR(got[2 * width], d_c * in * (1 - cell * cell), 1e-5);
            CHECK_NEAR(got[3 * width], d_h * t * out * (1 - out), 1e-5);
            wanted[(size_t)row[i] * width + j] += d_c * forget;
        }
    }
    for (size_t i = 0; i < STATES * width; i++) CHECK_NEAR(s.d_before[i], wanted[i], 3e-5);
}

int main(void) {
    for (size_t width = 1; width <= WIDEST; width++) {
        check_serving(serve_anywhere, width);
        check_training(forwards_anywhere, backwards_anywhere, width);
        if (!has_avx2()) continue;
        check_serving(serve_by_avx2, width);
        check_training(forwards_by_avx2, backwards_by_avx2, width);
    }
    return check_failures != 0;
}

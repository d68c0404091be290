/* serve.h: what a proposal network needs besides matrix products, row by row, so that a row's numbers never depend on what
 * else is in its batch. The formulas of proposals are those of pyside/ars/network/model/heads.py, which training
 * differentiates; the tests compare them. Not part of libars. */
#ifndef ARS_CFFI_SERVE_H
#define ARS_CFFI_SERVE_H

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
enum { ARS__VALUE_FEATURES = 22, ARS__PAIR_FEATURES = 8 };

/* Values drawn from priors. */
struct ars__drawn {
    const int64_t *kind; /* of the prior; 0: no value */
    const double *prior; /* its parameters, four each */
    const double *value;
};

/* features.c: what the network sees of n values; no value has features 0. With `wrap`, an angle (ars__is_angle) has features
 * that go around with it. out: n rows of ARS__VALUE_FEATURES. */
void ars__value_features(size_t n, int wrap, const struct ars__drawn *drawn, float *out);

/* features.c: what the network sees of n pairs of values drawn one after the other, as components of a vector: its azimuth
 * and its length. 0 where they are no pair: one of the kinds has no location and width, or the widths differ by more than a
 * factor of 4, or, with `wrap`, one of them is an angle. out: n rows of ARS__PAIR_FEATURES. */
void ars__pair_features(size_t n, int wrap, const struct ars__drawn *first, const struct ars__drawn *second,
                        float *out);

/* cell.c: a step of one layer of an LSTM, for n rows. A row's gates (input, forget, cell, output: `width` numbers each; those
 * of the cell doubled) are the sum of a row of each of three tables: its own in `product`, recurrent_row[i] of `recurrent`,
 * added_row[i] of `added` (row 0 for all if added_row is NULL). The state is in row state_row[i] of c. The new h goes to
 * out + i * out_stride, and for the first n_kept rows h and c to kept_row[i] of h and c, none of which is a state_row. */
struct ars__cells {
    size_t n, width;
    const float *product; /* [n][4 width] */
    const float *recurrent;
    const int64_t *recurrent_row;
    size_t recurrent_rows;
    const float *added;
    const int64_t *added_row;
    size_t added_rows;
    float *h, *c; /* [states][width] */
    const int64_t *state_row;
    size_t states;
    const int64_t *kept_row;
    size_t n_kept;
    float *out;
    size_t out_stride;
};

/* Returns 0, or -1 if a row is not in its table. */
int ars__lstm_cells(const struct ars__cells *step);

/* cell.c: a step of one layer in training, for n rows. The cells before are row before_row[i] of `before`, or row i if that is
 * NULL; in the first step `before` is NULL, and they are 0. */
struct ars__training_step {
    size_t n, width;
    const float *before;
    const int64_t *before_row;
    size_t before_rows;
    float *gates;           /* [n][4 width], in the order above, nothing doubled: sums, and then their functions */
    float *c, *tanh_c, *h;  /* [n][width], made by ars__cells_forward; ars__cells_backward needs tanh_c only */
    const float *d_h, *d_c; /* [n][width]: derivatives by h and c, as far as later steps and the output need them */
    float *d_gates;         /* [n][4 width]: by the sums */
    float *d_before;        /* [before_rows][width]: what is added to the derivatives by the cells before */
};

/* Both return 0, or -1 if a row is not in its table. */
int ars__cells_forward(const struct ars__training_step *step);
int ars__cells_backward(const struct ars__training_step *step);

/* How a family of priors is proposed for: heads.py's HeadSettings. */
struct ars__head {
    unsigned kind;       /* of the prior */
    uint32_t components; /* of a mixture, the prior's not counted */
    double defensive;    /* the prior's share */
    int wrap;            /* whether components go around where the prior is an angle's */
};

/* The doubles of the longest proposal that this head makes; for a Categorical prior `categories`. 0: there is no such
 * head. */
size_t ars__proposal_width(const struct ars__head *head, size_t categories);

/* heads.c: n proposals, encoded. raw: n rows of raw_width numbers from the network; prior: n rows of 4 parameters;
 * probabilities: n rows of `categories`, of which row i has n_categories[i] (Categorical only). out: n rows of `stride`
 * words, at least one more than ars__proposal_width; sizes: the bytes of each proposal. Returns 0; -1 if a number is NaN;
 * -2 if the sizes do not fit the head. */
int ars__propose_encoded(const struct ars__head *head, size_t n, const float *raw, size_t raw_width,
                         const double *prior, const double *probabilities, size_t categories,
                         const int64_t *n_categories, uint64_t *out, size_t stride, int64_t *sizes);
/* cffi: end */

/* features.c: quantiles u[0 .. n - 1] of a TruncatedNormal with parameters p, good enough to place components. */
void ars__truncated_quantiles(const double *p, size_t n, const double *u, double *out);
/* features.c: whether a prior is that of an angle, a Uniform over a whole turn. */
int ars__is_angle(unsigned kind, const double *p);
/* features.c: the quantile function of the standard Normal, 0 < u < 1. */
double ars__normal_quantile(double u);

#endif /* ARS_CFFI_SERVE_H */

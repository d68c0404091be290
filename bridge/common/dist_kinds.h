/* dist_kinds.h: what a distribution is made of, and the mathematics that its density and its sampler share. Private to
 * dist*.c. */
#ifndef ARS_LIB_DIST_KINDS_H
#define ARS_LIB_DIST_KINDS_H

#include "dist.h"

/* What a parameter must be. Checked in dist.c. */
enum ars__rule {
    ARS__REAL,        /* finite */
    ARS__POSITIVE,    /* finite, > 0 */
    ARS__SHAPE,       /* 1e-100 .. 1e100: beyond, neither density nor sampler means anything in doubles */
    ARS__RATE,        /* 0 .. 1e15: counts must be whole doubles */
    ARS__COUNT,       /* a whole number, 0 .. 2^32 - 1 */
    ARS__PROBABILITY, /* 0 .. 1 */
    ARS__BOUND        /* not NaN; may be infinite */
};

/* What can be drawn, whatever the parameters. */
enum ars__values {
    ARS__REALS,      /* finite */
    ARS__BITS,       /* 0 and 1 */
    ARS__COUNTS,     /* whole numbers from 0 up */
    ARS__UNIT,       /* 0 .. 1 */
    ARS__FROM_ZERO,  /* finite, >= 0 */
    ARS__ABOVE_ZERO, /* finite, > 0 */
};

enum ars__use { ARS__USE_PROPOSAL, ARS__USE_PRIOR, ARS__USE_COORDINATE };

/* A row of dist_list.h. Categorical, Mixture, Prior and Given have no functions here. */
struct ars__kind {
    const char *name;
    unsigned n;
    enum ars__use use;
    enum ars__values values;
    int ordered; /* the parameter that must be below the next one; -1: none */
    struct {
        const char *name;
        enum ars__rule rule;
    } param[4];
    double (*log_density)(const double *a, double x); /* x is finite */
    double (*sample)(const double *a, ars__rng *rng);
};

extern const struct ars__kind ars__kinds[ARS__DIST_LAST + 1]; /* by code; 0 is no distribution */

enum { ARS__COMPONENT = 6 }; /* doubles of a Mixture's component: weight, kind, four parameters */

/* The component at `p` as a distribution of its own. */
ars_dist ars__component(const double *p);

#define ARS__DECLARE(CODE, name, ...)                                                                                  \
    double ars__log_##name(const double *a, double x);                                                                 \
    double ars__draw_##name(const double *a, ars__rng *rng);
ARS__DIST_LIST(ARS__DECLARE)
#undef ARS__DECLARE

/* ---- constructors ------------------------------------------------------------------------------------------------- */

/* Written sixteen bytes at a time, as they are read next: whoever passes a distribution by value copies it so, and a
 * processor waits for the writes to finish if it reads across two of them. That was a third of a draw. */
typedef unsigned ars__head __attribute__((vector_size(16), aligned(8), may_alias));
typedef double ars__pair __attribute__((vector_size(16), aligned(8), may_alias));
_Static_assert(offsetof(ars_dist, a) == sizeof(ars__head) &&
                   sizeof(ars_dist) == sizeof(ars__head) + 2 * sizeof(ars__pair),
               "a distribution is a head and two pairs of parameters");

static inline ars_dist ars__made(unsigned kind, unsigned n, double first, double second, double third, double fourth) {
    ars_dist d;
    *(ars__head *)&d = (ars__head){kind, n}; /* and no list */
    *(ars__pair *)d.a = (ars__pair){first, second};
    *(ars__pair *)(d.a + 2) = (ars__pair){third, fourth};
    return d;
}

/* ---- dist_math.c -------------------------------------------------------------------------------------------------- */

/* log x for x >= 0, without the division-by-zero exception at 0: a simulator may have traps on. */
double ars__ln(double x);

/* log of the Poisson and binomial probabilities for real x (and y = n - x), by Loader's saddle-point expansion: no
 * cancellation for large arguments. q = 1 - p is given apart to keep its digits. */
double ars__log_poisson_raw(double x, double rate);
double ars__log_binomial_raw(double x, double y, double p, double q);

/* The log density of a standard Student t at z, whose log |z| is given apart: z may be infinite. */
double ars__log_student_raw(double df, double z, double log_z);

/* A truncated Normal seen from the point of [low, high] that is nearest to its mean. With t the distance from there
 * in units of std, the density is proportional to exp(-t (2 a + t) / 2) for 0 <= t <= h if the mean is outside
 * (a >= 0 is the distance of the mean), and to exp(-z^2 / 2) for alpha <= z <= beta if it is inside. Far in a tail
 * nothing cancels in this form. */
struct ars__truncation {
    bool inside;  /* the mean is in [low, high] */
    bool flipped; /* the near end is high */
    bool narrow;  /* the density varies by a factor of at most e^(1/2) if inside, e if not: nearly uniform */
    double alpha, beta;
    double a, h;
};
struct ars__truncation ars__truncate(const double *a);

/* (x - mean) / std, also where the difference is too large for a double and the quotient is not. */
double ars__standard(double x, double mean, double std);

/* dist_sample.c: the log of a Gamma with rate 1: a small shape gives values far below the smallest double. */
double ars__log_gamma_draw(double shape, ars__rng *rng);

/* Normal tail over density, Q(a) / phi(a), for a >= 0. */
double ars__mills(double a);

#endif /* ARS_LIB_DIST_KINDS_H */

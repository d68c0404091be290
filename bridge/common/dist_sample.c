/* dist_sample.c: samplers, exact up to the 53 bits of a uniform for all parameters. */
#include <float.h>
#include <math.h>

#include "dist_kinds.h"

static double exponential(ars__rng *rng) {
    return -log(ars__rng_uniform(rng));
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Strictly between low and high: where a density may have a pole at its end, rounding must not reach it. */
static double clamp_inside(double x, double low, double high) {
    return clamp(x, nextafter(low, high), nextafter(high, low));
}

double ars__draw_uniform(const double *a, ars__rng *rng) {
    return ars__uniform_between(a[0], a[1], rng);
}

double ars__draw_normal(const double *a, ars__rng *rng) {
    return a[0] + a[1] * ars__rng_normal(rng);
}

double ars__draw_bernoulli(const double *a, ars__rng *rng) {
    return ars__rng_uniform(rng) < a[0];
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

/* Transformed rejection (Hormann 1993): the constants of its hat. */
struct hat {
    double a, b, centre, quick, log_alpha;
};

/* One draw from the hat. False: try again. Else k is accepted if *accepted, or if *bound is at most the log of its
 * probability (for the binomial, over that of the mode). */
static bool hat_try(const struct hat *hat, ars__rng *rng, double *k, bool *accepted, double *bound) {
    double u = ars__rng_uniform(rng) - 0.5, v = ars__rng_uniform(rng);
    double us = 0.5 - fabs(u);
    *k = floor((2 * hat->a / us + hat->b) * u + hat->centre);
    *accepted = us >= 0.07 && v <= hat->quick;
    if (*accepted) return true;
    if (*k < 0) return false;
    *bound = log(v) + hat->log_alpha - log(hat->a / (us * us) + hat->b);
    return true;
}

static double poisson_large(double rate, ars__rng *rng) {
    double b = 0.931 + 2.53 * sqrt(rate);
    struct hat hat = {.a = -0.059 + 0.02483 * b,
                      .b = b,
                      .centre = rate + 0.43,
                      .quick = 0.9277 - 3.6224 / (b - 2),
                      .log_alpha = log(1.1239 + 1.1328 / (b - 3.4))};
    for (;;) {
        double k, bound;
        bool accepted;
        if (!hat_try(&hat, rng, &k, &accepted, &bound)) continue;
        if (accepted || bound <= ars__log_poisson_raw(k, rate)) return k;
    }
}

/* Inversion by adding up probabilities, for means below 10. If rounding keeps the sum below u for ever, which happens
 * for the last few of the 2^53 values of u, u is drawn again. */
static double poisson_small(double rate, ars__rng *rng) {
    for (;;) {
        double u = ars__rng_uniform(rng), p = exp(-rate), sum = p;
        for (int k = 0; k < 200; k++) {
            if (u <= sum) return k;
            p *= rate / (k + 1);
            sum += p;
        }
    }
}

double ars__draw_poisson(const double *a, ars__rng *rng) {
    return a[0] < 10 ? poisson_small(a[0], rng) : poisson_large(a[0], rng);
}

static double binomial_large(double n, double p, ars__rng *rng) {
    double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread;
    struct hat hat = {.a = -0.0873 + 0.0248 * b + 0.01 * p,
                      .b = b,
                      .centre = n * p + 0.5,
                      .quick = 0.92 - 4.2 / b,
                      .log_alpha = log((2.83 + 5.1 / b) * spread)};
    double mode = floor((n + 1) * p);
    double log_mode = ars__log_binomial_raw(mode, n - mode, p, 1 - p);
    for (;;) {
        double k, bound;
        bool accepted;
        if (!hat_try(&hat, rng, &k, &accepted, &bound) || k > n) continue;
        if (accepted || bound <= ars__log_binomial_raw(k, n - k, p, 1 - p) - log_mode) return k;
    }
}

static double binomial_small(double n, double p, ars__rng *rng) {
    double first = exp(n * log1p(-p)), odds = p / (1 - p);
    for (;;) {
        double u = ars__rng_uniform(rng), probability = first, sum = first;
        for (int k = 0; k < 200 && k <= n; k++) {
            if (u <= sum) return k;
            probability *= odds * (n - k) / (k + 1);
            sum += probability;
        }
    }
}

double ars__draw_binomial(const double *a, ars__rng *rng) {
    double n = a[0], p = a[1];
    if (n == 0 || p == 0) return 0;
    if (p == 1) return n;
    double rarer = p <= 0.5 ? p : 1 - p;
    double k = n * rarer < 10 ? binomial_small(n, rarer, rng) : binomial_large(n, rarer, rng);
    return p <= 0.5 ? k : n - k;
}

/* The index of the bin that u falls into; the bins' widths are `stride` doubles apart. Never a bin of width 0. */
static unsigned choose(const double *width, unsigned n, unsigned stride, double u) {
    double total = 0, sum = 0;
    for (unsigned i = 0; i < n; i++) total += width[i * stride];
    unsigned last = 0;
    for (unsigned i = 0; i < n; i++) {
        if (width[i * stride] <= 0) continue;
        last = i;
        sum += width[i * stride];
        if (u * total < sum) return i;
    }
    return last;
}

/* ---- Gamma and its kin -------------------------------------------------------------------------------------------- */

/* Gamma with rate 1 and shape >= 1 (Marsaglia and Tsang 2000). */
static double gamma_large(double shape, ars__rng *rng) {
    double d = shape - 1 / 3., c = 1 / sqrt(9 * d);
    for (;;) {
        double x = ars__rng_normal(rng), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        double u = ars__rng_uniform(rng);
        if (u < 1 - 0.0331 * (x * x) * (x * x)) return d * v;
        if (log(u) < 0.5 * x * x + d * (1 - v + log(v))) return d * v;
    }
}

double ars__log_gamma_draw(double shape, ars__rng *rng) {
    if (shape >= 1) return log(gamma_large(shape, rng));
    double boosted = log(gamma_large(shape + 1, rng));
    return boosted - exponential(rng) / shape;
}

/* exp(log_x), but never 0 or infinite. */
static double positive(double log_x) {
    return clamp(exp(log_x), DBL_TRUE_MIN, DBL_MAX);
}

double ars__draw_gamma(const double *a, ars__rng *rng) {
    if (a[0] < 1) return positive(ars__log_gamma_draw(a[0], rng) - log(a[1]));
    return clamp(gamma_large(a[0], rng) / a[1], DBL_TRUE_MIN, DBL_MAX);
}

double ars__draw_beta(const double *a, ars__rng *rng) {
    double y;
    if (a[0] >= 1 && a[1] >= 1) {
        double first = gamma_large(a[0], rng), second = gamma_large(a[1], rng);
        y = first / (first + second);
    } else {
        double first = ars__log_gamma_draw(a[0], rng), second = ars__log_gamma_draw(a[1], rng);
        y = first < second ? exp(first - second) / (1 + exp(first - second)) : 1 / (1 + exp(second - first));
    }
    return clamp_inside(y, 0, 1);
}

double ars__draw_scaled_beta(const double *a, ars__rng *rng) {
    return clamp_inside(a[2] + (a[3] - a[2]) * ars__draw_beta(a, rng), a[2], a[3]);
}

double ars__draw_exponential(const double *a, ars__rng *rng) {
    return clamp(exponential(rng) / a[0], DBL_TRUE_MIN, DBL_MAX);
}

double ars__draw_weibull(const double *a, ars__rng *rng) {
    return positive(log(a[0]) + log(exponential(rng)) / a[1]);
}

/* ---- Normal and its kin ------------------------------------------------------------------------------------------- */

double ars__draw_lognormal(const double *a, ars__rng *rng) {
    return positive(ars__draw_normal(a, rng));
}

/* Rejection from the uniform, where the density is nearly flat. */
static double narrow_draw(const struct ars__truncation *t, double low, double high, ars__rng *rng) {
    for (;;) {
        double u = ars__rng_uniform(rng), d = t->h * u;
        double cost = t->inside ? 0.5 * (t->alpha + d) * (t->alpha + d) : 0.5 * d * (2 * t->a + d);
        if (exponential(rng) > cost) return t->flipped ? high - (high - low) * u : low + (high - low) * u;
    }
}

/* The distance from the near end in units of std, if the mean is outside: Robert's (1995) rejection from an
 * exponential, written so that nothing cancels far in the tail. */
static double tail_distance(const struct ars__truncation *t, ars__rng *rng) {
    double root = sqrt(t->a * t->a + 4);
    double rate = 0.5 * (t->a + root), shift = 2 / (t->a + root);
    for (;;) {
        double d = exponential(rng) / rate;
        if (d <= t->h && exponential(rng) > 0.5 * (d - shift) * (d - shift)) return d;
    }
}

double ars__draw_truncated_normal(const double *a, ars__rng *rng) {
    double mean = a[0], std = a[1], low = a[2], high = a[3];
    struct ars__truncation t = ars__truncate(a);
    double x;
    if (t.narrow) {
        x = narrow_draw(&t, low, high, rng);
    } else if (t.inside) {
        /* At least a third of the Normal is in [low, high]. */
        do {
            x = ars__rng_normal(rng);
        } while (x < t.alpha || x > t.beta);
        x = mean + std * x;
    } else {
        double d = std * tail_distance(&t, rng);
        x = t.flipped ? high - d : low + d;
    }
    return clamp(x, low, high);
}

double ars__dist_quick_other(const ars_dist *d, ars__rng *rng) {
    switch (d->kind) {
    case ARS_DIST_NORMAL:
        if (!(fabs(d->a[0]) <= DBL_MAX && d->a[1] > 0 && d->a[1] <= DBL_MAX)) return NAN;
        return clamp(ars__draw_normal(d->a, rng), -DBL_MAX, DBL_MAX);
    case ARS_DIST_BERNOULLI:
        return d->a[0] >= 0 && d->a[0] <= 1 ? ars__draw_bernoulli(d->a, rng) : NAN;
    case ARS_DIST_EXPONENTIAL:
        return d->a[0] > 0 && d->a[0] <= DBL_MAX ? ars__draw_exponential(d->a, rng) : NAN;
    default:
        return NAN;
    }
}

double ars__dist_sample(const ars_dist *d, ars__rng *rng) {
    if (d->kind == ARS_DIST_CATEGORICAL) return choose(d->p, d->n, 1, ars__rng_uniform(rng));
    if (d->kind == ARS_DIST_MIXTURE) {
        unsigned i = choose(d->p, d->n / ARS__COMPONENT, ARS__COMPONENT, ars__rng_uniform(rng));
        ars_dist component = ars__component(d->p + i * ARS__COMPONENT);
        return ars__dist_sample(&component, rng);
    }
    if (d->kind > ARS__DIST_LAST || !ars__kinds[d->kind].sample) return NAN;
    return clamp(ars__kinds[d->kind].sample(d->a, rng), -DBL_MAX, DBL_MAX);
}

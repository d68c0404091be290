/* dist_negative_binomial.c: the number of failures before r successes, each of probability p. r need not be whole: it is a
 * Poisson whose rate is a Gamma(r, p / (1 - p)). */
#include <math.h>

#include "dist_kinds.h"

ars_dist ars_negative_binomial(double r, double p) {
    return ars__made(ARS_DIST_NEGATIVE_BINOMIAL, 2, r, p, 0, 0);
}

/* A binomial probability of r successes and x failures, of which the last one is a success: the share r / (r + x) of them. */
double ars__log_negative_binomial(const double *a, double x) {
    double r = a[0], p = a[1];
    if (x < 0 || x != floor(x)) return -INFINITY;
    return ars__log_binomial_raw(r, x, p, 1 - p) - log1p(x / r);
}

double ars__draw_negative_binomial(const double *a, ars__rng *rng) {
    double r = a[0], p = a[1];
    if (p == 1) return 0;
    double rate = ars__draw_gamma((double[]){r, p / (1 - p)}, rng);
    return ars__draw_poisson(&rate, rng);
}

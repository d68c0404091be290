/* dist_density.c: log densities, accurate in the tails.
 *
 * Where a density has a pole at an end of its support (Beta with a < 1 at 0 or b < 1 at 1, Gamma and Weibull with
 * shape < 1 at 0) the value at that very point is -inf, not +inf: one infinite weight would ruin a whole run, the point
 * has probability 0, and our samplers never return it. Otherwise the value at an end is the limit from inside. */
#include <float.h>
#include <math.h>

#include "dist_kinds.h"

#define LN_SQRT_2PI 0.918938533204672741780329736406

static bool whole(double x) {
    return x == floor(x);
}

double ars__log_uniform(const double *a, double x) {
    return x >= a[0] && x <= a[1] ? -log(a[1] - a[0]) : -INFINITY;
}

double ars__log_normal(const double *a, double x) {
    double z = (x - a[0]) / a[1];
    return -0.5 * z * z - log(a[1]) - LN_SQRT_2PI;
}

double ars__log_bernoulli(const double *a, double x) {
    if (x == 1) return ars__ln(a[0]);
    if (x == 0) return a[0] < 1 ? log1p(-a[0]) : -INFINITY;
    return -INFINITY;
}

double ars__log_poisson(const double *a, double x) {
    return x >= 0 && whole(x) ? ars__log_poisson_raw(x, a[0]) : -INFINITY;
}

double ars__log_binomial(const double *a, double x) {
    double n = a[0], p = a[1];
    return x >= 0 && x <= n && whole(x) ? ars__log_binomial_raw(x, n - x, p, 1 - p) : -INFINITY;
}

/* At an end of the support, where the density is y^(power - 1) times something that tends to `other`. */
static double at_end(double power, double other) {
    return power == 1 ? log(other) : -INFINITY;
}

/* Beta at y, with q = 1 - y given apart to keep its digits. A density with shapes a, b is a binomial probability with
 * a - 1 successes; below 1, one of a success more, divided by its share. */
static double log_beta(double a, double b, double y, double q) {
    if (y < 0 || q < 0) return -INFINITY;
    if (y == 0) return at_end(a, b);
    if (q == 0) return at_end(b, a);
    if (a < 1 && b < 1) return log(a) + log(b) - log(a + b) - log(y) - log(q) + ars__log_binomial_raw(a, b, y, q);
    if (a < 1) return log(a) - log(y) + ars__log_binomial_raw(a, b - 1, y, q);
    if (b < 1) return log(b) - log(q) + ars__log_binomial_raw(a - 1, b, y, q);
    return log(a - 1 + b) + ars__log_binomial_raw(a - 1, b - 1, y, q);
}

double ars__log_beta(const double *a, double x) {
    return log_beta(a[0], a[1], x, 1 - x);
}

double ars__log_scaled_beta(const double *a, double x) {
    double low = a[2], high = a[3], width = high - low;
    return log_beta(a[0], a[1], (x - low) / width, (high - x) / width) - log(width);
}

double ars__log_gamma(const double *a, double x) {
    double shape = a[0], rate = a[1];
    if (x < 0) return -INFINITY;
    if (x == 0) return at_end(shape, rate);
    double mean = rate * x;
    if (mean < DBL_MIN) {
        int sign;
        return shape * log(rate) + (shape - 1) * log(x) - mean - lgamma_r(shape, &sign);
    }
    if (shape < 1) return log(shape) - log(x) + ars__log_poisson_raw(shape, mean);
    return log(rate) + ars__log_poisson_raw(shape - 1, mean);
}

double ars__log_exponential(const double *a, double x) {
    return x >= 0 ? log(a[0]) - a[0] * x : -INFINITY;
}

double ars__log_weibull(const double *a, double x) {
    double scale = a[0], shape = a[1];
    if (x < 0) return -INFINITY;
    if (x == 0) return at_end(shape, 1 / scale);
    double z = x / scale;
    double log_z = isnormal(z) ? log(z) : log(x) - log(scale);
    double power = isnormal(z) ? pow(z, shape) : exp(shape * log_z);
    return isinf(power) ? -INFINITY : log(shape) - log(scale) + (shape - 1) * log_z - power;
}

double ars__log_lognormal(const double *a, double x) {
    if (x <= 0) return -INFINITY;
    double log_x = log(x);
    return ars__log_normal(a, log_x) - log_x;
}

/* The mean over an interval, nearly flat, of the unnormalised density: 10-point Gauss-Legendre, exact to the last
 * digits here. */
static double narrow_mean(const struct ars__truncation *t) {
    static const double node[5] = {0.1488743389816312108848, 0.4333953941292471907993, 0.6794095682990244062343,
                                   0.8650633666889845107321, 0.9739065285171717200780};
    static const double weight[5] = {0.2955242247147528701739, 0.2692667193099963550912, 0.2190863625159820439955,
                                     0.1494513491505805931458, 0.0666713443086881375936};
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        double u = 0.5 * (1 + (i < 5 ? node[i] : -node[i - 5])) * t->h;
        double exponent = t->inside ? (t->alpha + u) * (t->alpha + u) : u * (2 * t->a + u);
        sum += 0.5 * weight[i % 5] * exp(-0.5 * exponent);
    }
    return sum;
}

double ars__log_truncated_normal(const double *a, double x) {
    double mean = a[0], std = a[1], low = a[2], high = a[3];
    if (x < low || x > high) return -INFINITY;
    struct ars__truncation t = ars__truncate(a);
    double z = ars__standard(x, mean, std);
    double near = t.flipped ? (high - x) / std : (x - low) / std;
    double shape = t.inside ? -0.5 * z * z : -0.5 * near * (2 * t.a + near);
    if (t.narrow) return shape - log(high - low) - log(narrow_mean(&t));
    if (t.inside) {
        double mass = 0.5 * (erf(t.beta * M_SQRT1_2) - erf(t.alpha * M_SQRT1_2));
        return shape - log(std) - LN_SQRT_2PI - log(mass);
    }
    double tail = ars__mills(t.a) - exp(-0.5 * t.h * (2 * t.a + t.h)) * ars__mills(t.a + t.h);
    return shape - log(std) - log(tail);
}

static double log_mixture(const ars_dist *d, double x) {
    double largest = -INFINITY, term[ARS_WIRE_MAX_COMPONENTS];
    unsigned components = d->n / ARS__COMPONENT;
    for (unsigned i = 0; i < components; i++) {
        const double *p = d->p + i * ARS__COMPONENT;
        ars_dist component = ars__component(p);
        term[i] = p[0] > 0 ? log(p[0]) + ars__dist_log_density(&component, x) : -INFINITY;
        largest = fmax(largest, term[i]);
    }
    if (isinf(largest)) return largest;
    double sum = 0;
    for (unsigned i = 0; i < components; i++) sum += exp(term[i] - largest);
    return largest + log(sum);
}

/* Bounds that are parameters (of a Uniform, the n of a Binomial, the k of a Categorical) do not count here. */
const char *ars__dist_support(unsigned kind, double x) {
    switch (ars__kinds[kind <= ARS__DIST_LAST ? kind : 0].values) {
    case ARS__BITS:
        return x == 0 || x == 1 ? NULL : "0 and 1";
    case ARS__COUNTS:
        return isfinite(x) && x >= 0 && whole(x) ? NULL : "whole numbers from 0 up";
    case ARS__UNIT:
        return x >= 0 && x <= 1 ? NULL : "numbers from 0 to 1";
    case ARS__FROM_ZERO:
        return isfinite(x) && x >= 0 ? NULL : "finite numbers from 0 up";
    case ARS__ABOVE_ZERO:
        return isfinite(x) && x > 0 ? NULL : "finite numbers above 0";
    case ARS__REALS:
        break;
    }
    return isfinite(x) ? NULL : "finite numbers";
}

double ars__dist_log_density(const ars_dist *d, double x) {
    if (isnan(x)) return x;
    if (isinf(x)) return -INFINITY;
    if (d->kind == ARS_DIST_CATEGORICAL) return x >= 0 && x < d->n && whole(x) ? ars__ln(d->p[(unsigned)x]) : -INFINITY;
    if (d->kind == ARS_DIST_MIXTURE) return log_mixture(d, x);
    if (d->kind > ARS__DIST_LAST || !ars__kinds[d->kind].log_density) return -INFINITY;
    return ars__kinds[d->kind].log_density(d->a, x);
}

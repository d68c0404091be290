/* dist_math.c: special functions that libm lacks. */
#include <float.h>
#include <math.h>

#include "dist_kinds.h"

#define LN_SQRT_2PI 0.918938533204672741780329736406
#define LN_2PI 1.837877066409345483560659472811

double ars__ln(double x) {
    return x > 0 ? log(x) : -INFINITY;
}

/* The error of Stirling's formula: log Gamma(n + 1) - log(sqrt(2 pi n) (n/e)^n), n > 0. */
static double stirling_error(double n) {
    if (n <= 15) {
        int sign;
        return lgamma_r(n + 1, &sign) - (n + 0.5) * log(n) + n - LN_SQRT_2PI;
    }
    double nn = n * n;
    return (1 / 12. - (1 / 360. - (1 / 1260. - (1 / 1680. - 1 / 1188. / nn) / nn) / nn) / nn) / n;
}

static double log_ratio(double x, double y) {
    double ratio = x / y;
    return isnormal(ratio) ? log(ratio) : log(x) - log(y);
}

/* x log(x / m) + m - x for x >= 0, m > 0: the deviance, without cancellation where x is near m. */
static double deviance(double x, double m) {
    if (x == 0) return m;
    if (fabs(x - m) >= 0.1 * (x + m)) return x * log_ratio(x, m) + m - x;
    double v = (x - m) / (x + m);
    double sum = (x - m) * v;
    double term = 2 * x * v;
    v *= v;
    for (int j = 1; j < 100; j++) {
        term *= v;
        double next = sum + term / (2 * j + 1);
        if (next == sum) break;
        sum = next;
    }
    return sum;
}

/* The deviance of x from n p, also where that product is too small for a double. */
static double deviance_of_product(double x, double n, double p) {
    double m = n * p;
    return m >= DBL_MIN ? deviance(x, m) : x * (log_ratio(x, n) - log(p)) + m - x;
}

double ars__log_poisson_raw(double x, double rate) {
    if (rate == 0) return x == 0 ? 0 : -INFINITY;
    if (isinf(rate)) return -INFINITY;
    if (x <= rate * DBL_MIN) return -rate;
    if (rate < x * DBL_MIN) {
        int sign;
        return x * log(rate) - rate - lgamma_r(x + 1, &sign);
    }
    return -0.5 * (LN_2PI + log(x)) - stirling_error(x) - deviance(x, rate);
}

/* k log(p), where 1 - p is known too. */
static double k_log(double k, double p, double q) {
    if (k == 0) return 0;
    if (p == 0) return -INFINITY;
    return k * (q < 0.5 ? log1p(-q) : log(p));
}

double ars__log_binomial_raw(double x, double y, double p, double q) {
    if (x == 0 || y == 0) return k_log(x, p, q) + k_log(y, q, p);
    if (p == 0 || q == 0) return -INFINITY;
    double n = x + y;
    double stirling = stirling_error(n) - stirling_error(x) - stirling_error(y);
    double distance = deviance_of_product(x, n, p) + deviance_of_product(y, n, q);
    return stirling - distance - 0.5 * (LN_2PI + log(x) + log_ratio(y, n));
}

/* Loader's form: with the deviances nothing cancels, neither for large df nor near 0. */
double ars__log_student_raw(double df, double z, double log_z) {
    double half = 0.5 * df, ratio = z * z / df;
    double constant = stirling_error(half + 0.5) - stirling_error(half) - deviance(half, half + 0.5);
    double log_root, exponent; /* log sqrt(1 + ratio), and df times it */
    if (ratio > 1 / DBL_EPSILON) {
        log_root = log_z - 0.5 * log(df);
        exponent = df * log_root;
    } else {
        log_root = 0.5 * log1p(ratio);
        exponent = ratio > 0.2 ? df * log_root : 0.5 * z * z - deviance(half, half + 0.5 * z * z);
    }
    return constant - exponent - LN_SQRT_2PI - log_root;
}

double ars__mills(double a) {
    if (a < 10) return sqrt(M_PI / 2) * erfc(a * M_SQRT1_2) * exp(0.5 * a * a);
    /* The asymptotic series; for a >= 10 its terms pass below the last bit long before they grow again. */
    double r = 1 / (a * a), term = 1, sum = 1;
    for (int k = 1; k < 40; k++) {
        term *= -(2 * k - 1) * r;
        double next = sum + term;
        if (next == sum) break;
        sum = next;
    }
    return sum / a;
}

double ars__standard(double x, double mean, double std) {
    double distance = x - mean;
    return isinf(distance) && isfinite(x) ? x / std - mean / std : distance / std;
}

struct ars__truncation ars__truncate(const double *a) {
    double mean = a[0], std = a[1], low = a[2], high = a[3];
    struct ars__truncation t = {.alpha = ars__standard(low, mean, std), .beta = ars__standard(high, mean, std)};
    t.inside = low <= mean && mean <= high;
    t.flipped = high < mean;
    t.a = t.inside ? 0 : t.flipped ? -t.beta : t.alpha;
    t.h = (high - low) / std;
    t.narrow = t.h <= 2 && t.h * fmax(fabs(t.alpha), fabs(t.beta)) <= 1;
    return t;
}

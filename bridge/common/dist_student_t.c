/* dist_student_t.c: loc + scale times a Normal over the root of a Gamma(df / 2, df / 2). */
#include <float.h>
#include <math.h>

#include "dist_kinds.h"

ars_dist ars_student_t(double df, double loc, double scale) {
    return ars__made(ARS_DIST_STUDENT_T, 3, df, loc, scale, 0);
}

/* log |z| where z itself is too large for a double. */
static double log_distance(double x, double loc, double scale) {
    return log(fabs(0.5 * x - 0.5 * loc)) + M_LN2 - log(scale);
}

double ars__log_student_t(const double *a, double x) {
    double df = a[0], loc = a[1], scale = a[2], z = ars__standard(x, loc, scale);
    double log_z = isinf(z) ? log_distance(x, loc, scale) : ars__ln(fabs(z));
    return ars__log_student_raw(df, z, log_z) - log(scale);
}

/* By logarithms, for a small df gives values beyond the largest double; the caller puts those at it. */
double ars__draw_student_t(const double *a, ars__rng *rng) {
    double df = a[0], loc = a[1], scale = a[2], normal = ars__rng_normal(rng);
    double log_gamma = ars__log_gamma_draw(0.5 * df, rng) - log(0.5 * df);
    if (normal == 0) return loc;
    double log_distance = log(fabs(normal)) - 0.5 * log_gamma + log(scale);
    return loc + copysign(exp(fmin(log_distance, log(DBL_MAX))), normal);
}

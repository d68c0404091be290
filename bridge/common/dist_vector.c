/* dist_vector.c: see dist_vector.h. */
#include "dist_vector.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dist_kinds.h"

/* Stands for a NULL that a constructor was given: a vector is known by its pointer. */
static const double nothing;

static unsigned counted(size_t n) {
    return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

ars_dist ars_multivariate_normal(const double *mean, const double *cholesky, size_t n) {
    ars_dist d = {ARS_DIST_MULTIVARIATE_NORMAL, counted(n), mean ? mean : &nothing, {0}};
    memcpy(&d.a[0], &cholesky, sizeof cholesky);
    return d;
}

ars_dist ars_dirichlet(const double *concentration, size_t n) {
    return (ars_dist){ARS_DIST_DIRICHLET, counted(n), concentration ? concentration : &nothing, {0}};
}

static const double *cholesky_of(const ars_dist *d) {
    const double *cholesky;
    memcpy(&cholesky, &d->a[0], sizeof cholesky);
    return cholesky;
}

size_t ars_dimension(ars_dist d) {
    return ars__dist_width(&d);
}

/* ---- checks ------------------------------------------------------------------------------------------------------- */

static int __attribute__((format(printf, 3, 4))) wrong(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (size) vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return -1;
}

static int check_normal(const ars_dist *d, char *text, size_t size) {
    const double *row = cholesky_of(d);
    if (!row)
        return wrong(text, size, "MultivariateNormal: cholesky is NULL, must point to %u x %u numbers", d->n, d->n);
    for (unsigned i = 0; i < d->n; i++, row += d->n) {
        if (!isfinite(d->p[i]))
            return wrong(text, size, "MultivariateNormal: mean[%u] is %.12g, must be a finite number", i, d->p[i]);
        for (unsigned j = 0; j < i; j++)
            if (!isfinite(row[j]))
                return wrong(text, size, "MultivariateNormal: cholesky[%u][%u] is %.12g, must be a finite number", i, j,
                             row[j]);
        if (!(isfinite(row[i]) && row[i] > 0))
            return wrong(
                text, size,
                "MultivariateNormal: cholesky[%u][%u] is %.12g, must be a positive finite number: the factor's "
                "diagonal",
                i, i, row[i]);
        for (unsigned j = i + 1; j < d->n; j++)
            if (row[j] != 0)
                return wrong(
                    text, size,
                    "MultivariateNormal: cholesky[%u][%u] is %.12g, must be 0: give the lower factor, row by row", i, j,
                    row[j]);
    }
    return 0;
}

static int check_dirichlet(const ars_dist *d, char *text, size_t size) {
    double sum = 0;
    for (unsigned i = 0; i < d->n; i++) {
        if (!(d->p[i] >= 1e-100 && d->p[i] <= 1e100))
            return wrong(text, size,
                         "Dirichlet: concentration[%u] is %.12g, must be a positive number from 1e-100 to 1e100", i,
                         d->p[i]);
        sum += d->p[i];
    }
    if (sum > 1e100) return wrong(text, size, "Dirichlet: the concentrations sum to %.12g, must be at most 1e100", sum);
    return 0;
}

int ars__vector_check(const ars_dist *d, char *text, size_t size) {
    if (!ars__is_vector(d)) return ars__dist_check(d, text, size);
    const bool normal = d->kind == ARS_DIST_MULTIVARIATE_NORMAL;
    const char *name = ars__kinds[d->kind].name;
    if (d->n < (normal ? 1 : 2) || d->n > ARS__MAX_DIMENSION)
        return wrong(text, size, "%s: n is %u, must be from %d to %d", name, d->n, normal ? 1 : 2, ARS__MAX_DIMENSION);
    if (d->p == &nothing)
        return wrong(text, size, "%s: %s is NULL, must point to %u numbers", name, normal ? "mean" : "concentration",
                     d->n);
    return normal ? check_normal(d, text, size) : check_dirichlet(d, text, size);
}

/* ---- one coordinate ------------------------------------------------------------------------------------------------- */

double ars__log_multivariate_normal(const double *a, double x) {
    return ars__log_normal(a, x);
}

double ars__draw_multivariate_normal(const double *a, ars__rng *rng) {
    return ars__draw_normal(a, rng);
}

double ars__log_dirichlet(const double *a, double x) {
    return ars__log_scaled_beta(a, x);
}

double ars__draw_dirichlet(const double *a, ars__rng *rng) {
    return ars__draw_scaled_beta(a, rng);
}

/* ---- one after the other -------------------------------------------------------------------------------------------- */

/* No coordinate takes all that is left, but with small concentrations it may leave next to nothing, many times over. This much
 * is always left: it changes no sum, and interval and quotients stay doubles. It is also for proposals that overshoot, whose
 * trace has weight 0. */
static const double least_left = 1e-290;

static double concentration_after(const ars_dist *d, unsigned at) {
    double sum = 0;
    for (unsigned i = d->n; i-- > at + 1;) sum += d->p[i];
    return sum;
}

void ars__drawing_begin(ars__drawing *drawing, const ars_dist *d) {
    drawing->d = d;
    drawing->at = 0;
    drawing->left = 1;
}

bool ars__drawing_next(const ars__drawing *drawing, ars_dist *coordinate, double *value) {
    const ars_dist *d = drawing->d;
    const unsigned i = drawing->at;
    if (!ars__is_vector(d)) {
        *coordinate = *d;
        return true;
    }
    if (d->kind == ARS_DIST_MULTIVARIATE_NORMAL) {
        const double *row = cholesky_of(d) + (size_t)i * d->n;
        double mean = d->p[i];
        for (unsigned j = 0; j < i; j++) mean += row[j] * drawing->z[j];
        *coordinate = ars__made(d->kind, 2, fmin(fmax(mean, -DBL_MAX), DBL_MAX), row[i], 0, 0);
        return true;
    }
    *value = fmin(drawing->left, 1 - 0x1p-53);
    if (i + 1 == d->n) return false;
    *coordinate = ars__made(d->kind, 4, d->p[i], concentration_after(d, i), 0, drawing->left);
    return true;
}

void ars__drawing_take(ars__drawing *drawing, const ars_dist *coordinate, double value) {
    if (drawing->d->kind == ARS_DIST_MULTIVARIATE_NORMAL)
        drawing->z[drawing->at] = ars__standard(value, coordinate->a[0], coordinate->a[1]);
    else if (drawing->d->kind == ARS_DIST_DIRICHLET)
        drawing->left = fmax(drawing->left - value, least_left);
    drawing->at++;
}

void ars__dist_draw(const ars_dist *d, ars__rng *rng, double *values) {
    if (!ars__is_vector(d)) {
        *values = ars__dist_sample(d, rng);
        return;
    }
    ars__drawing drawing;
    ars__drawing_begin(&drawing, d);
    for (unsigned i = 0; i < d->n; i++) {
        ars_dist coordinate;
        if (!ars__drawing_next(&drawing, &coordinate, &values[i])) break;
        values[i] = ars__dist_sample(&coordinate, rng);
        ars__drawing_take(&drawing, &coordinate, values[i]);
    }
}

/* ---- joint densities ------------------------------------------------------------------------------------------------ */

static double log_normal_vector(const ars_dist *d, const double *x) {
    ars__drawing drawing;
    double sum = 0;
    ars__drawing_begin(&drawing, d);
    for (unsigned i = 0; i < d->n; i++) {
        ars_dist coordinate;
        ars__drawing_next(&drawing, &coordinate, &sum);
        sum += ars__dist_log_density(&coordinate, x[i]);
        ars__drawing_take(&drawing, &coordinate, x[i]);
    }
    return sum;
}

/* Values that were written down are rounded: they need not sum to 1 to the last bit. */
static const double slack = 1e-6;

/* The log of what a number and its concentration contribute, with `total` the sum of the concentrations: the Poisson probability
 * of a at rate total x, times a / x. It does not cancel where the concentrations are large. */
static double log_share(double a, double x, double total) {
    const double rate = total * x;
    if (x == 0) return a > 1 ? -INFINITY : a < 1 ? INFINITY : log(total);
    int sign;
    const double log_poisson =
        rate < DBL_MIN ? a * (log(total) + log(x)) - lgamma_r(a + 1, &sign) : ars__log_poisson_raw(a, rate);
    return log_poisson + log(a) - log(x);
}

/* From all numbers alike, not by coordinates: 1 minus the others would cancel in values that were rounded. */
static double log_dirichlet_vector(const ars_dist *d, const double *x) {
    double total = 0, log_p = 0;
    long double beyond = -1; /* the sum of x, less 1 */
    for (unsigned i = 0; i < d->n; i++) {
        if (!(x[i] >= 0)) return isnan(x[i]) ? x[i] : -INFINITY;
        total += d->p[i];
        beyond += x[i];
    }
    if (fabsl(beyond) > slack) return -INFINITY;
    for (unsigned i = 0; i < d->n; i++) {
        const double share = log_share(d->p[i], x[i], total);
        if (isinf(share)) return share;
        log_p += share;
    }
    return log_p - ars__log_poisson_raw(total, total) - log(total) + total * (double)beyond;
}

double ars__dist_log_density_at(const ars_dist *d, const double *x) {
    if (!ars__is_vector(d)) return ars__dist_log_density(d, *x);
    return d->kind == ARS_DIST_DIRICHLET ? log_dirichlet_vector(d, x) : log_normal_vector(d, x);
}

int ars__vector_support(const ars_dist *d, const double *x, const char **must) {
    const unsigned n = ars__is_vector(d) ? d->n : 1;
    double sum = 0;
    for (unsigned i = 0; i < n; i++) {
        sum += x[i];
        if ((*must = ars__dist_support(d->kind, x[i]))) return (int)i;
    }
    if (n == 1 || d->kind != ARS_DIST_DIRICHLET || fabs(sum - 1) <= slack) return -1;
    *must = "numbers that sum to 1";
    return (int)n - 1;
}

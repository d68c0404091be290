/* Samplers and densities at the ends of the range of doubles: every draw comes at once, lies in the support and has a
 * density; a distribution that cannot be drawn from is refused. Hangs end by the alarm. */
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "check.h"
#include "dist.h"

enum { SECONDS = 60, DRAWS = 4 };

static const double extremes[] = {-INFINITY, -DBL_MAX, -1.7e308, -1e300, -1e154,  -1e10,   -3,       -1,     -0.5,
                                  -1e-10,    -1e-300,  -0.0,     0,      5e-324,  DBL_MIN, 1e-300,   1e-154, 1e-100,
                                  1e-10,     0.1,      0.5,      1,      1.5,     3,       10,       1e3,    1e10,
                                  1e15,      1e100,    1e154,    1e300,  1.7e308, DBL_MAX, INFINITY, NAN};
enum { N = sizeof extremes / sizeof *extremes };

static ars_dist shown; /* when the alarm comes */
static unsigned long accepted, refused;

static void try_dist(ars_dist d) {
    char why[256] = "";
    shown = d;
    if (ars__dist_check(&d, why, sizeof why)) {
        CHECK(why[0]);
        refused++;
        return;
    }
    ars__rng rng;
    ars__rng_init(&rng, 7, 1, accepted++);
    for (int i = 0; i < DRAWS; i++) {
        double x = ars__dist_sample(&d, &rng), log_p = ars__dist_log_density(&d, x);
        if (!isfinite(x) || isnan(log_p) || ars__dist_support(d.kind, x)) {
            printf("%s(%.17g, %.17g, %.17g, %.17g) gave %.17g with log density %g\n", ars__dist_name(d.kind), d.a[0],
                   d.a[1], d.a[2], d.a[3], x, log_p);
            CHECK(false);
        }
    }
}

static void two_parameters(double a, double b) {
    try_dist(ars_uniform(a, b));
    try_dist(ars_normal(a, b));
    try_dist(ars_beta(a, b));
    try_dist(ars_gamma(a, b));
    try_dist(ars_weibull(a, b));
    try_dist(ars_lognormal(a, b));
    try_dist(ars_negative_binomial(a, b));
    try_dist(ars_binomial(a >= 0 && a < 4e9 ? (unsigned)a : 4000000000u, b));
}

static void every_family(void) {
    for (int i = 0; i < N; i++) {
        try_dist(ars_bernoulli(extremes[i]));
        try_dist(ars_poisson(extremes[i]));
        try_dist(ars_exponential(extremes[i]));
        double p[2] = {extremes[i], 1 - extremes[i]};
        try_dist(ars_categorical(p, 2));
        for (int j = 0; j < N; j++) two_parameters(extremes[i], extremes[j]);
    }
}

static void every_student_t(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) try_dist(ars_student_t(extremes[i], extremes[j], extremes[k]));
}

static void every_truncation(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                for (int l = k + 1; l < N; l++)
                    try_dist(ars_truncated_normal(extremes[i], extremes[j], extremes[k], extremes[l]));
}

/* Far from the mean by the range of doubles, and near it by the standard deviation: once an endless search. */
static void the_whole_range_apart(void) {
    ars_dist d = ars_truncated_normal(-DBL_MAX, DBL_MAX, 0, 1e300);
    try_dist(d);
    /* Between 1 and 1 + 1e-8 standard deviations from the mean the density is flat. */
    CHECK(fabs(ars__dist_log_density(&d, 5e299) + log(1e300)) < 1e-6);
    CHECK(fabs(ars__dist_log_density(&d, 1e300) + log(1e300)) < 1e-6);
    try_dist(ars_truncated_normal(DBL_MAX, DBL_MAX, -1e300, 0));
    try_dist(ars_truncated_normal(DBL_MAX, 1e300, -INFINITY, -1e300));
}

static void too_late(int signal) {
    (void)signal;
    fprintf(stderr, "no draw in %d s from %s(%.17g, %.17g, %.17g, %.17g)\n", SECONDS, ars__dist_name(shown.kind),
            shown.a[0], shown.a[1], shown.a[2], shown.a[3]);
    _exit(1);
}

int main(void) {
    signal(SIGALRM, too_late);
    alarm(SECONDS);
    the_whole_range_apart();
    every_family();
    every_student_t();
    every_truncation();
    printf("%lu sets of parameters drawn from, %lu refused\n", accepted, refused);
    CHECK(accepted > 1000 && refused > 1000);
    return check_failures != 0;
}

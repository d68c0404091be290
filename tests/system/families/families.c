/* families.c: NegativeBinomial and StudentT as latents and as data, and ars_log_density.
 *
 *   families        x ~ StudentT, k ~ NegativeBinomial; y and z observed; the same likelihood twice: by ars_observe, and its log
 *                   density as a result
 *   families wrong  ars_log_density of wrong parameters, in a trace */
#include <ars.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool wrong;

static void model(void *nothing) {
    (void)nothing;
    const double x = ars_sample("x", ars_student_t(3, 0.5, 1));
    const double k = ars_sample("k", ars_negative_binomial(2.5, 0.4));
    const ars_dist y = ars_student_t(5, x + 0.3 * k, 0.5), z = ars_negative_binomial(1.5 + k, 0.5);
    const double seen = ars_observe("y", y), count = ars_observe("z", z);
    ars_result("log likelihood", ars_log_density(y, seen) + ars_log_density(z, count));
    if (wrong) ars_log_density(ars_student_t(-1, 0, 1), 0);
}

static int check_outside(void) {
    const double p[2] = {0.25, 0.75};
    return ars_log_density(ars_categorical(p, 2), 1) == log(0.75) &&
           ars_log_density(ars_uniform(0, 1), 2) == -INFINITY && isnan(ars_log_density(ars_normal(0, 1), NAN)) &&
           isnan(ars_log_density(ars_normal(0, -1), 0));
}

int main(int argc, char **argv) {
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    if (!check_outside()) return 3;
    return ars_main(argc, argv, model, NULL);
}

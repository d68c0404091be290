/* marsaglia: a Gaussian with unknown mean, whose prior is drawn by Marsaglia's polar method.
 *
 * A point is drawn in the square until it lies in the unit disc; the accepted point makes one Normal draw.
 * Two data, y1 and y2. p(A) = pi/4. */
#include <ars.h>

#include "args.h"

struct parameters {
    double mu0, sigma0, sigma;
};

static double marsaglia(double mean, double std) {
    double x1, s;
    for (;;) {
        rs_start();
        x1 = ars_sample("x1", ars_uniform(-1, 1));
        double x2 = ars_sample("x2", ars_uniform(-1, 1));
        s = x1 * x1 + x2 * x2;
        if (s > 0 && s < 1) {
            rs_end();
            break;
        }
    }
    return mean + std * x1 * sqrt(-2 * log(s) / s);
}

static void model(void *user) {
    const struct parameters *with = user;
    double mu = marsaglia(with->mu0, with->sigma0);
    double y1 = ars_observe("y1", ars_normal(mu, with->sigma));
    double y2 = ars_observe("y2", ars_normal(mu, with->sigma));
    ars_result("mu", mu);
    if (ars_standalone()) printf("mu %.17g y1 %.17g y2 %.17g\n", mu, y1, y2);
}

int main(int argc, char **argv) {
    const char *usage = "marsaglia [MU0 SIGMA0 SIGMA]   (default 0 1 0.1)";
    struct parameters with = {0, 1, 0.1};
    if (argc != 1) {
        args_count(usage, argc, 3, 3);
        with.mu0 = args_number(usage, argv[1], -1e6, 1e6, "MU0 must be a number");
        with.sigma0 = args_number(usage, argv[2], 1e-9, 1e6, "SIGMA0 must be a positive number");
        with.sigma = args_number(usage, argv[3], 1e-9, 1e6, "SIGMA must be a positive number");
    }
    return ars_main(argc, argv, model, &with);
}

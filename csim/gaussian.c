/* gaussian: a Gaussian with unknown mean and n data. No loop: plain importance sampling. */
#include <ars.h>

#include "args.h"

static void model(void *user) {
    const int n = *(const int *)user;
    double mu = ars_sample("mu", ars_normal(0, 1));
    double sum = 0;
    for (int i = 0; i < n; i++) sum += ars_observe("y", ars_normal(mu, 0.5));
    ars_result("mu", mu);
    if (ars_standalone()) printf("mu %.17g mean of y %.17g\n", mu, sum / n);
}

int main(int argc, char **argv) {
    const char *usage = "gaussian [N]   (default 1)";
    args_count(usage, argc, 0, 1);
    int n = argc > 1 ? args_integer(usage, argv[1], 1, 100000, "N must be a whole number from 1 to 100000") : 1;
    return ars_main(argc, argv, model, &n);
}

/* beta_bernoulli: n tosses of a coin whose bias is Beta(alpha, alpha), drawn by rejection from the Uniform.
 *
 * p(A) = 4^(alpha-1) B(alpha, alpha). */
#include <ars.h>

#include "args.h"

struct parameters {
    double alpha;
    int n;
};

static void model(void *user) {
    const struct parameters *with = user;
    double x;
    for (;;) {
        rs_start();
        x = ars_sample("x", ars_uniform(0, 1));
        double u = ars_sample("u", ars_uniform(0, 1));
        if (u <= pow(4 * x * (1 - x), with->alpha - 1)) {
            rs_end();
            break;
        }
    }
    int heads = 0;
    for (int i = 0; i < with->n; i++) heads += ars_observe("y", ars_bernoulli(x)) != 0;
    ars_result("x_final", x);
    if (ars_standalone()) printf("x %.17g heads %d of %d\n", x, heads, with->n);
}

int main(int argc, char **argv) {
    const char *usage = "beta_bernoulli ALPHA N";
    args_count(usage, argc, 2, 2);
    struct parameters with = {
        .alpha = args_number(usage, argv[1], 1, 1000, "ALPHA must be a number from 1 to 1000"),
        .n = args_integer(usage, argv[2], 1, 100000, "N must be a whole number from 1 to 100000"),
    };
    return ars_main(argc, argv, model, &with);
}

/* support.c: observes "y" from one family: support FAMILY. Its parameters depend on a latent, its bounds too where it has
 * any. "fixed" is a Uniform whose bounds do not. */
#include <ars.h>
#include <string.h>

static const char *family;

static ars_dist dist(double x) {
    static const double p[3] = {0.2, 0.3, 0.5};
    if (!strcmp(family, "poisson")) return ars_poisson(1 + x);
    if (!strcmp(family, "bernoulli")) return ars_bernoulli(x);
    if (!strcmp(family, "categorical")) return ars_categorical(p, 3);
    if (!strcmp(family, "binomial")) return ars_binomial((unsigned)(10 * x), 0.5);
    if (!strcmp(family, "beta")) return ars_beta(1 + x, 2);
    if (!strcmp(family, "gamma")) return ars_gamma(2, 1 + x);
    if (!strcmp(family, "exponential")) return ars_exponential(1 + x);
    if (!strcmp(family, "weibull")) return ars_weibull(1 + x, 2);
    if (!strcmp(family, "lognormal")) return ars_lognormal(x, 1);
    if (!strcmp(family, "truncated_normal")) return ars_truncated_normal(0, 1, 0, x);
    if (!strcmp(family, "uniform")) return ars_uniform(0, x);
    if (!strcmp(family, "fixed")) return ars_uniform(0, 1);
    return ars_normal(x, 1);
}

static void model(void *nothing) {
    (void)nothing;
    double x = ars_sample("x", ars_uniform(0, 1));
    ars_observe("y", dist(x));
    ars_observe("z", ars_poisson(1 + x));
    ars_observe("z", ars_poisson(2));
}

int main(int argc, char **argv) {
    family = argc > 1 ? argv[1] : "normal";
    return ars_main(argc, argv, model, NULL);
}

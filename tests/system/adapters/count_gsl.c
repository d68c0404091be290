/* How often the functions of GSL draw: name, fewest and most draws in 5,000 calls. The test compares them with docs/adapters.md. */
#include <gsl/gsl_randist.h>
#include <stdio.h>

#include <ars/gsl.h>

static unsigned long drawn;

static unsigned long counted_get(void *state) {
    drawn++;
    return ars_gsl_rng->get(state);
}
static double counted_double(void *state) {
    drawn++;
    return ars_gsl_rng->get_double(state);
}

static void say(const char *name, unsigned long least, unsigned long most) {
    printf("%s %lu %lu\n", name, least, most);
}

#define COUNT(name, call)                                                                                              \
    do {                                                                                                               \
        unsigned long least = -1UL, most = 0;                                                                          \
        for (int i = 0; i < 5000; i++) {                                                                               \
            drawn = 0;                                                                                                 \
            (void)(call);                                                                                              \
            if (drawn < least) least = drawn;                                                                          \
            if (drawn > most) most = drawn;                                                                            \
        }                                                                                                              \
        say(name, least, most);                                                                                        \
    } while (0)

static void count_continuous(const gsl_rng *r) {
    COUNT("gsl_rng_uniform", gsl_rng_uniform(r));
    COUNT("gsl_rng_uniform_pos", gsl_rng_uniform_pos(r));
    COUNT("gsl_ran_flat", gsl_ran_flat(r, 1, 2));
    COUNT("gsl_ran_gaussian", gsl_ran_gaussian(r, 1));
    COUNT("gsl_ran_gaussian_ratio_method", gsl_ran_gaussian_ratio_method(r, 1));
    COUNT("gsl_ran_gaussian_ziggurat", gsl_ran_gaussian_ziggurat(r, 1));
    COUNT("gsl_ran_gaussian_tail", gsl_ran_gaussian_tail(r, 0.5, 1));
    COUNT("gsl_ran_exponential", gsl_ran_exponential(r, 1));
    COUNT("gsl_ran_laplace", gsl_ran_laplace(r, 1));
    COUNT("gsl_ran_cauchy", gsl_ran_cauchy(r, 1));
    COUNT("gsl_ran_rayleigh", gsl_ran_rayleigh(r, 1));
    COUNT("gsl_ran_landau", gsl_ran_landau(r));
    COUNT("gsl_ran_levy", gsl_ran_levy(r, 1, 1.5));
    COUNT("gsl_ran_gamma", gsl_ran_gamma(r, 2.5, 1));
    COUNT("gsl_ran_lognormal", gsl_ran_lognormal(r, 0, 1));
    COUNT("gsl_ran_chisq", gsl_ran_chisq(r, 3));
    COUNT("gsl_ran_fdist", gsl_ran_fdist(r, 3, 4));
    COUNT("gsl_ran_tdist", gsl_ran_tdist(r, 3));
    COUNT("gsl_ran_beta", gsl_ran_beta(r, 2, 3));
    COUNT("gsl_ran_logistic", gsl_ran_logistic(r, 1));
    COUNT("gsl_ran_pareto", gsl_ran_pareto(r, 2, 1));
    COUNT("gsl_ran_weibull", gsl_ran_weibull(r, 1, 2));
    COUNT("gsl_ran_gumbel1", gsl_ran_gumbel1(r, 1, 2));
    COUNT("gsl_ran_gumbel2", gsl_ran_gumbel2(r, 1, 2));
    COUNT("gsl_ran_exppow", gsl_ran_exppow(r, 1, 1.5));
}

static void count_discrete(const gsl_rng *r) {
    COUNT("gsl_ran_bernoulli", gsl_ran_bernoulli(r, 0.3));
    COUNT("gsl_ran_poisson", gsl_ran_poisson(r, 4));
    COUNT("gsl_ran_binomial", gsl_ran_binomial(r, 0.3, 100));
    COUNT("gsl_ran_geometric", gsl_ran_geometric(r, 0.3));
    COUNT("gsl_ran_negative_binomial", gsl_ran_negative_binomial(r, 0.3, 5));
    COUNT("gsl_ran_pascal", gsl_ran_pascal(r, 0.3, 5));
    COUNT("gsl_ran_hypergeometric", gsl_ran_hypergeometric(r, 5, 20, 3));
    COUNT("gsl_ran_logarithmic", gsl_ran_logarithmic(r, 0.7));
    double p[3] = {0.2, 0.3, 0.5}, x, y, z;
    gsl_ran_discrete_t *table = gsl_ran_discrete_preproc(3, p);
    COUNT("gsl_ran_discrete", gsl_ran_discrete(r, table));
    gsl_ran_discrete_free(table);
    COUNT("gsl_ran_dir_2d", (gsl_ran_dir_2d(r, &x, &y), 0));
    COUNT("gsl_ran_dir_2d_trig_method", (gsl_ran_dir_2d_trig_method(r, &x, &y), 0));
    COUNT("gsl_ran_dir_3d", (gsl_ran_dir_3d(r, &x, &y, &z), 0));
}

int main(void) {
    gsl_rng_type counting = *ars_gsl_rng;
    counting.get = counted_get;
    counting.get_double = counted_double;
    gsl_rng *r = gsl_rng_alloc(&counting);
    count_continuous(r);
    count_discrete(r);
    gsl_rng_free(r);
    return 0;
}

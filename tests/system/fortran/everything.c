/* Every call of ars.h, as the Fortran program beside it makes them. */
#include <ars.h>
#include <stdio.h>

struct point {
    double x, y;
};

static double limit;

static bool in_disc(void *context) {
    struct point *at = context;
    at->x = ars_sample("px", ars_uniform(-1, 1));
    at->y = ars_sample("py", ars_uniform(-1, 1));
    return at->x * at->x + at->y * at->y < limit;
}

static double gamma_above(double least) {
    ars_loop loop = ARS_LOOP("gamma above"), inner = ARS_LOOP("beta below");
    double g, b;
    do {
        ars_loop_try(&loop);
        g = ars_sample("g", ars_gamma(2, 1.5));
        do {
            ars_loop_try(&inner);
            b = ars_sample("b", ars_beta(2, 3));
        } while (b > 0.6);
        ars_loop_accept(&inner);
    } while (g + b < least);
    ars_loop_accept(&loop);
    return g + b;
}

static void model(void *user) {
    (void)user;
    const double shares[3] = {0.2, 0.5, 0.3};
    double sum = ars_sample("n", ars_normal(0, 1));
    limit = 0.7 + 0.2 * ars_sample("u", ars_uniform(0, 1));
    sum += ars_sample("bernoulli", ars_bernoulli(0.3));
    sum += ars_sample("poisson", ars_poisson(2.5));
    sum += ars_sample("binomial", ars_binomial(7, 0.4));
    sum += ars_sample("exponential", ars_exponential(3));
    sum += ars_sample("weibull", ars_weibull(1.5, 2));
    sum += ars_sample("lognormal", ars_lognormal(0, 0.3));
    sum += ars_sample("truncated", ars_truncated_normal(0, 1, -0.5, 2));
    sum += ars_sample("count", ars_negative_binomial(2.5, 0.4));
    sum += ars_sample("student", ars_student_t(3, 0.5, 1));
    sum += ars_sample("categorical", ars_categorical(shares, 3));
    sum += ars_draw(ars_normal(0, 0.1));
    ars_scope_push("flat");
    sum += ars_flat();
    sum += ars_sample(NULL, ars_normal(0, 0.2));
    ars_scope_pop();
    const double means[2][2] = {{0, 0.5}, {1, 2}}, factor[4] = {1, 0, 0.3, 0.8}, concentration[3] = {1, 2, 0.5};
    double three[3], whole[4], parts[3];
    ars_sample_vector("three", (ars_dist[]){ars_normal(0, 1), ars_normal(1, 0.5), ars_normal(2, 0.1)}, 3, three);
    ars_sample_vector(
        "whole",
        (ars_dist[]){ars_multivariate_normal(means[0], factor, 2), ars_multivariate_normal(means[1], factor, 2)}, 2,
        whole);
    ars_draw_vector((ars_dist[]){ars_dirichlet(concentration, 3)}, 1, parts);
    sum += three[1] * whole[3] + parts[2];
    struct point at, other;
    ars_reject_named("disc", in_disc, &at);
    ars_reject_named("other disc", in_disc, &other);
    sum += gamma_above(0.8) + at.x * at.y + other.x;
    double y = ars_observe("y", ars_normal(sum, 2)), seen[2];
    ars_observe_normals("pair", (double[]){at.x, at.y}, (double[]){0.5, 0.7}, 2, seen);
    y += ars_observe_value("held", ars_student_t(4, sum, 1), 5.5);
    const ars_dist two[2] = {ars_poisson(1 + at.x * at.x), ars_normal(at.y, 1)};
    ars_observe_vector("two", two, 2, seen);
    ars_observe_values("both", two, 2, (double[]){1, 0.25}, seen);
    ars_result("log density", ars_log_density(two[1], at.x));
    ars_results_shaped("matrix", (double[]){at.x, at.y, sum, 1, 2, 3}, (size_t[]){2, 3}, 2);
    ars_factor("soft", -0.1 * at.x * at.x);
    ars_result("sum", sum);
    size_t n_given;
    const double *given = ars_given("pair", &n_given);
    ars_result("given", n_given ? given[n_given - 1] : ars_in_loop());
    ars_results("point", (double[]){at.x, at.y, seen[1]}, 3);
    if (ars_standalone() && !ars_in_continuation()) printf("%.15e %.15e\n", sum, y);
}

int main(int argc, char **argv) {
    ars_flat_policy("*", ARS_NUISANCE);
    return ars_main(argc, argv, model, NULL);
}

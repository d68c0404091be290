/* vectors.c MODEL ...: draws of vectors, for test_vectors.py.
 *
 *   scalars N | vector N    N Normals at one site, by N calls of ars_sample or one of ars_sample_vector; then one more latent, and data
 *   looped N | looped-scalars N     the same in a loop that rejects, after another latent
 *   normal | normal-loop    a MultivariateNormal of 3 coordinates, observed through noise; in a loop that rejects half of them
 *   dirichlet               a Dirichlet of 3, and a count from each of two Binomials that make up a multinomial
 *   observed                a MultivariateNormal and a Dirichlet as data
 *   nuisance                ars_draw_vector
 *   bad N                   mistakes */
#include <ars.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 600 };

static const char *model_name;
static size_t n = 3;

static const double mean[3] = {0.5, -0.2, 0.1};
static const double cholesky[9] = {1.0, 0, 0, 0.6, 0.8, 0, -0.3, 0.5, 0.7};
static const double concentration[3] = {1.5, 0.7, 2.0};

static void many(const char *name, bool together, double shift, double *x) {
    ars_dist d[MOST];
    for (size_t i = 0; i < n; i++) d[i] = ars_normal(shift + 0.1 * (double)i, 1 + 0.01 * (double)i);
    if (together) {
        ars_sample_vector(name, d, n, x);
        return;
    }
    for (size_t i = 0; i < n; i++) x[i] = ars_sample(name, d[i]);
}

static double sum_of(const double *x, size_t k) {
    double sum = 0;
    for (size_t i = 0; i < k; i++) sum += x[i];
    return sum;
}

static void plain(bool together) {
    double x[MOST];
    double before = ars_sample("before", ars_uniform(-1, 1));
    many("x", together, before, x);
    double after = ars_sample("after", ars_normal(sum_of(x, n) / (double)n, 0.5));
    many("x", together, after, x);
    ars_results("x", x, n);
    ars_observe("y", ars_normal(after + x[0], 0.5));
}

static void looped(bool together, bool first) {
    double x[MOST];
    for (;;) {
        rs_start("box");
        double before = first ? 0 : ars_sample("before", ars_uniform(-1, 1));
        many("x", together, before, x);
        double cut = ars_draw(ars_uniform(-1, 0));
        if (x[0] + x[n - 1] > cut) {
            rs_end();
            break;
        }
    }
    ars_results("x", x, n);
    ars_observe("y", ars_normal(x[0] + x[1], 0.5));
}

static void normal(bool loop) {
    double x[3];
    ars_dist d = ars_multivariate_normal(mean, cholesky, 3);
    for (;;) {
        if (loop) rs_start("half");
        ars_sample_vector("x", &d, 1, x);
        if (loop && x[0] + x[1] + x[2] < 0.4) continue; /* the sum's mean: half of them */
        if (loop) rs_end();
        break;
    }
    ars_results("seen", x, 3);
    ars_dist noise[3] = {ars_normal(x[0], 0.5), ars_normal(x[1], 0.5), ars_normal(x[2], 0.5)};
    ars_observe_vector("y", noise, 3, NULL);
}

static void dirichlet(void) {
    double x[3];
    ars_dist d = ars_dirichlet(concentration, 3);
    ars_sample_vector("p", &d, 1, x);
    ars_results("all", x, 3);
    double first = ars_observe("first", ars_binomial(10, x[0]));
    ars_observe("second", ars_binomial((unsigned)(10 - first), fmin(x[1] / (x[1] + x[2]), 1)));
}

static void observed(void) {
    double scale = ars_sample("scale", ars_lognormal(0, 0.5)), scaled[9], shape[3], v[3], w[3];
    for (int i = 0; i < 9; i++) scaled[i] = scale * cholesky[i];
    for (int i = 0; i < 3; i++) shape[i] = scale * concentration[i];
    ars_dist d = ars_multivariate_normal(mean, scaled, 3), e = ars_dirichlet(shape, 3);
    ars_observe_vector("v", &d, 1, v);
    ars_observe_vector("w", &e, 1, w);
    ars_results("v", v, 3);
    ars_results("w", w, 3);
}

static void nuisance(void) {
    double x[6];
    ars_dist d[2] = {ars_multivariate_normal(mean, cholesky, 3), ars_dirichlet(concentration, 3)};
    ars_draw_vector(d, 2, x);
    ars_results("x", x, 6);
    ars_observe("y", ars_normal(x[0], 1));
}

static void bad(void) {
    double x[4] = {0};
    double with_nan[2] = {1, NAN}, not_lower[4] = {1, 2, 0, 1}, negative[4] = {1, 0, 0, -1};
    ars_dist d[3] = {ars_normal(0, 1), ars_normal(0, -1), ars_normal(0, 1)};
    ars_dist mixed[2] = {ars_normal(0, 1), ars_uniform(0, 1)};
    ars_dist vector = ars_multivariate_normal(mean, cholesky, 3), simplex = ars_dirichlet(concentration, 3);
    switch (n) {
    case 1:
        ars_sample_vector("x", d, 3, x);
        break;
    case 2:
        ars_sample_vector("x", mixed, 2, x);
        break;
    case 3:
        ars_sample("x", vector);
        break;
    case 4:
        ars_draw(simplex);
        break;
    case 5:
        ars_observe("x", vector);
        break;
    case 6:
        vector = ars_dirichlet(with_nan, 2);
        ars_sample_vector("x", &vector, 1, x);
        break;
    case 7:
        vector = ars_multivariate_normal(mean, not_lower, 2);
        ars_sample_vector("x", &vector, 1, x);
        break;
    case 8:
        vector = ars_multivariate_normal(mean, negative, 2);
        ars_draw_vector(&vector, 1, x);
        break;
    case 9:
        vector = ars_multivariate_normal(NULL, negative, 2);
        ars_sample_vector("x", &vector, 1, x);
        break;
    case 10:
        ars_sample_vector("x", NULL, 2, x);
        break;
    case 11:
        vector = ars_multivariate_normal(mean, negative, 513);
        ars_sample_vector("x", &vector, 1, x);
        break;
    default:
        ars_sample_vector("x", NULL, 0, NULL);
    }
}

static void model(void *user) {
    (void)user;
    if (!strcmp(model_name, "scalars")) plain(false);
    if (!strcmp(model_name, "vector")) plain(true);
    if (!strcmp(model_name, "looped")) looped(true, false);
    if (!strcmp(model_name, "looped-scalars")) looped(false, false);
    if (!strcmp(model_name, "first")) looped(true, true);
    if (!strcmp(model_name, "first-scalars")) looped(false, true);
    if (!strcmp(model_name, "normal")) normal(false);
    if (!strcmp(model_name, "normal-loop")) normal(true);
    if (!strcmp(model_name, "dirichlet")) dirichlet();
    if (!strcmp(model_name, "observed")) observed();
    if (!strcmp(model_name, "nuisance")) nuisance();
    if (!strcmp(model_name, "bad")) bad();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    model_name = argv[1];
    if (argc > 2) n = (size_t)atoi(argv[2]);
    return n <= MOST ? ars_main(argc, argv, model, NULL) : 2;
}

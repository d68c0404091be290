/* models.c: models for chains: models NAME. All have exact posteriors. */
#include <ars.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *name;

/* Draws that are no latents decide how likely the loop is to accept, whether a try is over before its latent, and the data. */
static void nuisance(void) {
    double x = ars_sample("x", ars_uniform(0, 1)), limit = 0.2 + 0.6 * x * ars_draw(ars_uniform(0, 1)), z;
    for (;;) {
        rs_start("loop");
        if (ars_draw(ars_uniform(0, 1)) > 0.3 + 0.7 * x) continue; /* before anything is sampled */
        z = ars_sample("z", ars_uniform(0, 1));
        if (z < limit) {
            rs_end();
            break;
        }
    }
    ars_observe("y", ars_normal(x, 0.3 + ars_draw(ars_uniform(0, 0.2))));
    ars_result("x_final", x);
}

/* Counts, a switch and a choice; the number of latents depends on them, and a kept choice may no longer be there. */
static void counts(void) {
    static const double p[5] = {0.1, 0.3, 0.2, 0.3, 0.1}, two[2] = {0.5, 0.5};
    int n = (int)ars_sample("n", ars_poisson(2)), on = (int)ars_sample("on", ars_bernoulli(0.3));
    int tails = (int)ars_sample("tails", ars_binomial(5, 0.4));
    int choice = (int)ars_sample("choice", on ? ars_categorical(two, 2) : ars_categorical(p, 5));
    double sum = tails + choice + (on ? 1 : 0);
    for (int i = 0; i < n; i++) {
        double e;
        for (;;) {
            rs_start("each");
            e = ars_sample("e", ars_exponential(1));
            if (e < 2 + on) {
                rs_end();
                break;
            }
        }
        sum += e;
    }
    ars_observe("y", ars_normal(sum, 1.5));
    ars_result("sum", sum);
    ars_result("how_many", n);
    ars_result("was_on", on);
}

/* One trace in five fails, whatever else it draws; a given value does not change which. */
static void fails(void) {
    double x = ars_sample("x", ars_normal(0, 1)), u = ars_sample("u", ars_uniform(0, 1));
    ars_observe("y", ars_normal(x, 1));
    ars_result("x_final", u < 0.2 ? NAN : x);
}

/* The loop rejects all but one in a million for some x. */
static void never(void) {
    double x = ars_sample("x", ars_uniform(0, 1));
    for (;;) {
        rs_start("loop");
        if (ars_sample("z", ars_uniform(0, 1)) < (x > 0.5 ? 1e-9 : 1)) {
            rs_end();
            break;
        }
    }
    ars_observe("y", ars_normal(x, 1));
}

/* One trace in a hundred fails: not the first ones. */
static void seldom(void) {
    double x = ars_sample("x", ars_normal(0, 1)), u = ars_sample("u", ars_uniform(0, 1));
    ars_observe("y", ars_normal(x, 1));
    ars_result("x_final", u < 0.01 ? NAN : x);
}

/* One trace in ten takes its process with it. */
static void dies(void) {
    double x = ars_sample("x", ars_normal(0, 1));
    if (ars_draw(ars_uniform(0, 1)) < 0.1) abort();
    ars_observe("y", ars_normal(x, 1));
}

static void model(void *nothing) {
    (void)nothing;
    if (!strcmp(name, "nuisance")) nuisance();
    if (!strcmp(name, "counts")) counts();
    if (!strcmp(name, "fails")) fails();
    if (!strcmp(name, "never")) never();
    if (!strcmp(name, "seldom")) seldom();
    if (!strcmp(name, "dies")) dies();
}

int main(int argc, char **argv) {
    name = argc > 1 ? argv[1] : "";
    return ars_main(argc, argv, model, NULL);
}

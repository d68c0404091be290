/* held.c: the same model with data from the controller and with data of its own.
 *
 *   held given      ars_observe, ars_observe_vector, ars_observe_normals: the controller has the data
 *   held held       ars_observe_value, ars_observe_values: the program has them
 *   held missing    the same, and some of them are NaN
 *   held impossible VALUE  a Poisson of that value; held impossible_many VALUE, as an element of a vector
 *   held changing   a vector whose kinds change from trace to trace
 *   held null       ars_observe_values without values
 *   held inside     ars_observe_value inside a loop */
#include <ars.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variant = "given";
static double impossible;

static bool is(const char *name) {
    return !strcmp(variant, name);
}

/* Kinds of every sort in one vector. */
enum { MANY = 5 };
static void make_many(double x, double rate, ars_dist *d) {
    static const double p[3] = {0.2, 0.3, 0.5};
    d[0] = ars_normal(x, 1);
    d[1] = ars_poisson(rate);
    d[2] = ars_categorical(p, 3);
    d[3] = ars_gamma(2, rate);
    d[4] = ars_truncated_normal(x, 2, -3, 3);
}

static void observe_given(double x, double rate) {
    ars_dist many[MANY], pair[2] = {ars_poisson(rate), ars_poisson(2 * rate)};
    double seen[MANY], first = ars_observe("y", ars_normal(x, 0.5));
    make_many(x, rate, many);
    ars_observe_vector("many", many, MANY, seen);
    ars_observe_vector("pair", pair, 2, NULL);
    for (int i = 0; i < 3; i++) ars_observe("series", ars_normal(x + i, 2));
    ars_observe_vector("nothing", NULL, 0, NULL);
    ars_result("first", first);
    ars_results("seen", seen, MANY);
}

static void observe_held(double x, double rate, bool whole) {
    ars_dist many[MANY], pair[2] = {ars_poisson(rate), ars_poisson(2 * rate)};
    double numbers[MANY] = {0.4, whole ? 3 : NAN, 2, 0.7, whole ? -1.5 : NAN}, seen[MANY];
    double first = ars_observe_value("y", ars_normal(x, 0.5), whole ? 0.6 : NAN);
    make_many(x, rate, many);
    ars_observe_values("many", many, MANY, numbers, seen);
    ars_observe_values("pair", pair, 2, (double[]){1, 4}, NULL);
    for (int i = 0; i < 3; i++) ars_observe_value("series", ars_normal(x + i, 2), i - 0.5);
    ars_observe_values("nothing", NULL, 0, NULL, NULL);
    ars_result("first", first);
    ars_results("seen", seen, MANY);
}

static void model(void *nothing) {
    (void)nothing;
    const double x = ars_sample("x", ars_normal(0, 1)), rate = ars_sample("rate", ars_gamma(2, 1));
    const ars_dist two[2] = {ars_poisson(rate), ars_poisson(rate)};
    if (is("given")) observe_given(x, rate);
    if (is("held")) observe_held(x, rate, true);
    if (is("missing")) observe_held(x, rate, false);
    if (is("impossible")) ars_observe_value("y", ars_poisson(rate), impossible);
    if (is("impossible_many")) ars_observe_values("y", two, 2, (double[]){1, impossible}, NULL);
    if (is("changing")) {
        const ars_dist mixed[2] = {ars_poisson(rate), x < 0 ? ars_poisson(rate) : ars_exponential(rate)};
        ars_observe_vector("y", mixed, 2, NULL);
    }
    if (is("null")) ars_observe_values("y", two, 2, NULL, NULL);
    if (is("inside")) {
        rs_start("loop");
        ars_observe_value("y", ars_normal(x, 1), 1);
        rs_end();
    }
}

int main(int argc, char **argv) {
    if (argc > 1) variant = argv[1];
    if (argc > 2) impossible = atof(argv[2]);
    return ars_main(argc, argv, model, NULL);
}

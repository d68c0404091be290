/* A small simulator whose prior mean is set when it is compiled, by a library, by a file or by a variable. */
#include <ars.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WITH_LIBRARY
double shift(void);
#else
static double shift(void) {
    return 0;
}
#endif

#ifndef MEAN
#define MEAN 0
#endif

static double mean = MEAN;

static void model(void *user) {
    (void)user;
    double x = ars_sample("x", ars_normal(mean, 1));
    /* Which of these sites comes first depends on the traces that a family runs. */
    if (x < mean)
        ars_result("below", ars_sample("b", ars_uniform(0, 1)));
    else
        ars_result("above", ars_sample("a", ars_normal(0, 1)));
    double u;
    do {
        rs_start();
        u = ars_sample("u", ars_uniform(0, 1));
    } while (u > 0.7);
    rs_end();
    ars_observe("y", ars_normal(x, 0.5));
    ars_result("r", x);
    ars_result("u2", u * u);
    if (getenv("RESUMED_EXIT") && x > mean + 1) exit(3);
}

int main(int argc, char **argv) {
    mean += shift();
    if (argc > 1) {
        FILE *file = fopen(argv[1], "r");
        double more = 0;
        if (!file || fscanf(file, "%lf", &more) != 1) return 2;
        fclose(file);
        mean += more;
    }
    const char *text = getenv("RESUMED_MEAN");
    if (text) mean += atof(text);
    return ars_main(argc, argv, model, NULL);
}

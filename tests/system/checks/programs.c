/* programs.c: one simulator per kept or broken promise; the first argument says which. */
#include <ars.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind;
static int is(const char *name) {
    return strcmp(kind, name) == 0;
}

/* Marsaglia's polar method, without marks. */
static double polar(void) {
    double u, v, s;
    do {
        u = ars_sample("u", ars_uniform(-1, 1));
        v = ars_sample("v", ars_uniform(-1, 1));
        s = u * u + v * v;
    } while (s >= 1);
    return u * sqrt(-2 * log(s) / s);
}

static double marked(void) {
    for (;;) {
        rs_start("marked");
        double x = ars_sample("x", ars_normal(0, 1));
        if (x > 0.3) {
            rs_end();
            return x;
        }
    }
}

/* The end is marked before the test. */
static double hasty(void) {
    double x;
    do {
        rs_start("hasty");
        x = ars_sample("x", ars_normal(0, 1));
        rs_end();
    } while (x < 0.3);
    return x;
}

/* Every round is used, and is a loop of its own, which happens never to reject. */
static double particles(void) {
    double sum = 0;
    const int n = (int)ars_sample("n", ars_poisson(3));
    for (int i = 0; i < n; i++) {
        rs_start("particle");
        sum += ars_sample("energy", ars_exponential(1));
        rs_end();
    }
    return sum;
}

/* Acceptance grows with the number of tries: they are not independent. */
static double impatient(void) {
    double limit = 2;
    for (;;) {
        rs_start("impatient");
        double x = ars_sample("x", ars_normal(0, 1));
        if (x > limit) {
            rs_end();
            return x;
        }
        limit -= 0.7;
    }
}

/* Acceptance falls with the number of tries. */
static double tired(void) {
    double limit = 0;
    for (;;) {
        rs_start("tired");
        double x = ars_sample("x", ars_normal(0, 1));
        if (x > limit) {
            rs_end();
            return x;
        }
        if (limit < 1.5) limit += 0.5;
    }
}

/* The width of the prior grows from try to try. */
static double widening(void) {
    double width = 0.2;
    for (;;) {
        rs_start("widening");
        double x = ars_sample("x", ars_normal(0, width));
        if (x > 0.3) {
            rs_end();
            return x;
        }
        width *= 1.5;
    }
}

/* A generator of the simulator's own, seeded by a draw: traces replay, but continuations repeat its numbers. */
static double own_generator(void) {
    unsigned state = (unsigned)(1e9 * ars_sample("seed", ars_uniform(0, 1)));
    for (;;) {
        rs_start("own");
        double x = ars_sample("x", ars_normal(0, 1));
        state = state * 1664525u + 1013904223u;
        if (state >> 30 == 0) {
            rs_end();
            return x;
        }
    }
}

static double talkative(void) {
    for (;;) {
        rs_start("talkative");
        double x = ars_sample("x", ars_normal(0, 1));
        if (write(2, "", 0)) abort();
        if (x > 0.3) {
            rs_end();
            return x;
        }
    }
}

/* A sum of as many terms as a Poisson process has events: the number varies, and nothing is rejected. */
static double arrivals(void) {
    double sum = 0, t = 0;
    while ((t += ars_sample("gap", ars_exponential(1))) < 4) sum += ars_sample("size", ars_normal(0, 1));
    return sum;
}

static void model(void *user) {
    (void)user;
    static double left_behind;
    double x;
    if (is("unmarked"))
        x = polar();
    else if (is("twice"))
        x = polar() + polar();
    else if (is("hasty"))
        x = hasty();
    else if (is("particles"))
        x = particles();
    else if (is("impatient"))
        x = impatient();
    else if (is("tired"))
        x = tired();
    else if (is("widening"))
        x = widening();
    else if (is("own"))
        x = own_generator();
    else if (is("talkative"))
        x = talkative();
    else if (is("arrivals"))
        x = arrivals();
    else
        x = marked();
    if (is("forgetful")) {
        x += 0.1 * left_behind; /* of the trace before */
        left_behind = x;
    }
    if (is("failing") && x > 2) abort();
    ars_observe("y", ars_normal(x, 0.5));
    ars_result("r", x);
}

int main(int argc, char **argv) {
    kind = argc > 1 ? argv[1] : "marked";
    return ars_main(argc, argv, model, NULL);
}

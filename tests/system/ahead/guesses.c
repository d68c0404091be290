/* guesses: guesses MODEL forked|place. One loop, whose continuations ask what can be guessed, in part, or not at all. */
#include <ars.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name;

static bool is(const char *model) {
    return strcmp(name, model) == 0;
}

/* Two draws, the second about a site and prior that never change. */
static bool plain(double *out) {
    double x = ars_sample("x", ars_normal(0, 1)), y = ars_sample("y", ars_normal(0, 1));
    return (*out = x * x + y * y) < 1;
}

/* Five draws: as many rounds of questions. */
static bool longer(double *out) {
    static const char *names[] = {"x", "y", "v", "w", "z"};
    double sum = 0;
    for (int i = 0; i < 5; i++) sum += ars_sample(names[i], ars_normal(0, 1));
    return (*out = sum) < 1;
}

/* The second prior depends on the first draw: no guess is right. */
static bool dependent(double *out) {
    double x = ars_sample("x", ars_normal(0, 1));
    return (*out = ars_sample("y", ars_normal(x, 1))) < 0.5;
}

/* Sometimes another site is next. */
static bool branching(double *out) {
    double x = ars_sample("x", ars_normal(0, 1));
    return (*out = x + ars_sample(x < 0.8 ? "y" : "v", ars_normal(0, 1))) < 0.5;
}

/* The stream also serves a draw that nobody proposes, so the third value is another than guessed. */
static bool nuisance(double *out) {
    double x = ars_sample("x", ars_normal(0, 1)), y = ars_sample("y", ars_normal(0, 1));
    double noise = ars_draw(ars_normal(0, 0.1)), v = ars_sample("v", ars_normal(0, 1));
    return (*out = x + y + v + noise + ars_sample("w", ars_normal(0, 1))) < 0.5;
}

/* The nuisance comes first: not even the first value is as guessed. */
static bool nuisance_first(double *out) {
    double noise = ars_draw(ars_normal(0, 0.1)), x = ars_sample("x", ars_normal(0, 1));
    return (*out = noise + x + ars_sample("y", ars_normal(0, 1))) < 0.5;
}

/* A loop within: only what comes before it can be guessed. */
static bool nested(double *out) {
    double x = ars_sample("x", ars_normal(0, 1)), y = ars_sample("y", ars_normal(0, 1)), v;
    for (;;) {
        rs_start("inner");
        v = ars_sample("v", ars_normal(0, 1));
        if (v + ars_sample("w", ars_normal(0, 1)) < 0.7) {
            rs_end();
            break;
        }
    }
    return (*out = x + y + v) < 0.5;
}

/* Proposals so large that a mailbox holds nine. */
static bool wide(double *out) {
    enum { CATEGORIES = 100 };
    double p[CATEGORIES], x = ars_sample("x", ars_normal(0, 1));
    for (int i = 0; i < CATEGORIES; i++) p[i] = 1.0 / CATEGORIES;
    return (*out = x + ars_sample("c", ars_categorical(p, CATEGORIES)) / CATEGORIES) < 0.9;
}

/* A site that is left to the prior is not asked about: what it draws is told with the next question. */
static bool unasked(double *out) {
    double x = ars_sample("x", ars_normal(0, 1)), u = ars_sample("unasked", ars_normal(0, 1));
    return (*out = x + u + ars_sample("y", ars_normal(0, 1))) < 0.5;
}

/* Tries begin in two ways: what one of the other kind asks is no guess for those that begin like the first. */
static bool swapped(double *out) {
    if (ars_draw(ars_uniform(0, 1)) < 0.5) {
        double x = ars_sample("x", ars_normal(0, 1));
        return (*out = x + ars_sample("v", ars_normal(0, 1))) < 0.5;
    }
    double y = ars_sample("y", ars_normal(0, 1)), x = ars_sample("x", ars_normal(0, 1));
    return (*out = x + y + ars_sample("v", ars_normal(0, 1))) < 0.5;
}

static bool body(void *context) {
    static const struct {
        const char *name;
        bool (*call)(double *);
    } models[] = {{"plain", plain},
                  {"longer", longer},
                  {"at_once", longer},
                  {"dependent", dependent},
                  {"branching", branching},
                  {"nuisance", nuisance},
                  {"nuisance_first", nuisance_first},
                  {"nested", nested},
                  {"wide", wide},
                  {"unasked", unasked},
                  {"swapped", swapped}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (is(models[i].name)) return models[i].call(context);
    fprintf(stderr, "guesses: no model %s\n", name);
    exit(2);
}

static void model(void *place) {
    double out;
    if (!is("at_once")) ars_sample("before", ars_normal(0, 1)); /* else the loop has the first draw of the trace */
    if (place) {
        ars_reject_named("loop", body, &out);
    } else {
        for (;;) {
            rs_start("loop");
            if (body(&out)) {
                rs_end();
                break;
            }
        }
    }
    ars_observe("data", ars_normal(out, 1));
    ars_result("out", out);
}

int main(int argc, char **argv) {
    name = argc > 1 ? argv[1] : "plain";
    bool place = argc > 2 && strcmp(argv[2], "place") == 0;
    return ars_main(argc, argv, model, place ? argv : NULL);
}

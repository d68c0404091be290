/* Loops that give up: capped MODEL CAP. Each has an exact answer in test_abandoned.py. */
#include <ars.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int cap;

/* Gives up after `cap` tries; with a floor, also after a try that came out below it. Returns the last value. */
static double capped(const char *name, double mean, double floor, bool *accepted) {
    ars_loop loop = ARS_LOOP(name);
    double z = 0;
    for (int i = 0; i < cap; i++) {
        ars_loop_try(&loop);
        z = ars_sample("z", ars_normal(mean, 1));
        if (z > 0.5) {
            ars_loop_accept(&loop);
            *accepted = true;
            return z;
        }
        if (z < floor) break;
    }
    ars_loop_abandon(&loop);
    *accepted = false;
    return z;
}

/* A capped loop in one with marks that has no cap: what was given up inside may be accepted outside. */
static double within_marks(double x) {
    bool accepted;
    double z;
    for (;;) {
        rs_start("outer");
        double shift = ars_sample("shift", ars_normal(x, 1));
        z = capped("inner", shift, -INFINITY, &accepted);
        if (!accepted) z = ars_sample("other", ars_exponential(2));
        if (shift + z > 0) {
            rs_end();
            return z;
        }
    }
}

/* A capped loop with one inside that has no cap. */
static double around_marks(double x, bool *accepted) {
    ars_loop loop = ARS_LOOP("outer");
    for (int i = 0; i < cap; i++) {
        ars_loop_try(&loop);
        double z;
        for (;;) {
            rs_start("inner");
            z = ars_sample("z", ars_normal(x, 1));
            if (z > -1) {
                rs_end();
                break;
            }
        }
        if (z > 0.5) {
            ars_loop_accept(&loop);
            *accepted = true;
            return z;
        }
    }
    ars_loop_abandon(&loop);
    *accepted = false;
    return 0;
}

static void model(void *user) {
    const char *name = user;
    bool accepted = true;
    double x = ars_sample("x", ars_normal(0, 1)), z;
    if (strcmp(name, "floor") == 0) {
        z = capped("loop", x, -1, &accepted);
        if (!accepted) z = ars_sample("other", ars_exponential(2));
    } else if (strcmp(name, "last") == 0) {
        z = capped("loop", x, -INFINITY, &accepted);
    } else if (strcmp(name, "impossible") == 0) { /* no try is accepted if x < 0 */
        z = capped("loop", x < 0 ? -1000 : x, -INFINITY, &accepted);
        if (!accepted) z = 0;
    } else if (strcmp(name, "within_marks") == 0) {
        z = within_marks(x);
    } else {
        z = around_marks(x, &accepted);
        if (!accepted) z = ars_sample("other", ars_exponential(2));
    }
    ars_result("accepted", accepted);
    ars_observe("y", ars_normal(z, 0.5));
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    cap = atoi(argv[2]);
    return ars_main(argc, argv, model, argv[1]);
}

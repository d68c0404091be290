/* bench_draws: what a draw through libars costs in a simulator that runs alone, next to the C library's own generator.
 *
 * Prints, for uniform draws, draws without names, Normal draws and whole events of Marsaglia's polar method, the nanoseconds of CPU time per
 * draw (per event) through libars and with drand48, in turns: "uniform 12.5 7.8", one line per turn. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include <ars.h>

#include "args.h"

struct parameters {
    int draws, turns;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double plain_uniform(double low, double high) {
    return low + (high - low) * drand48();
}

static double plain_normal(double mean, double std) {
    double u = 1 - drand48();
    return mean + std * sqrt(-2 * log(u)) * cos(2 * M_PI * drand48());
}

static double uniform_ars(void) {
    return ars_sample("x", ars_uniform(-1, 1));
}
static double uniform_plain(void) {
    return plain_uniform(-1, 1);
}
/* Without a name; under a controller the path is looked up in the table of known ones. */
static double flat_ars(void) {
    return ars_flat();
}
static double flat_plain(void) {
    return drand48();
}
static double normal_ars(void) {
    return ars_sample("z", ars_normal(0, 1));
}
static double normal_plain(void) {
    return plain_normal(0, 1);
}

static double event_ars(void) {
    double x1, s;
    for (;;) {
        rs_start();
        x1 = ars_sample("x1", ars_uniform(-1, 1));
        double x2 = ars_sample("x2", ars_uniform(-1, 1));
        s = x1 * x1 + x2 * x2;
        if (s > 0 && s < 1) {
            rs_end();
            break;
        }
    }
    double mu = x1 * sqrt(-2 * log(s) / s);
    return ars_observe("y1", ars_normal(mu, 0.1)) + ars_observe("y2", ars_normal(mu, 0.1));
}

static double event_plain(void) {
    double x1, s;
    do {
        x1 = plain_uniform(-1, 1);
        double x2 = plain_uniform(-1, 1);
        s = x1 * x1 + x2 * x2;
    } while (!(s > 0 && s < 1));
    double mu = x1 * sqrt(-2 * log(s) / s);
    return plain_normal(mu, 0.1) + plain_normal(mu, 0.1);
}

static volatile double kept; /* so that nothing is optimised away */

static double per_call(double (*function)(void), int n) {
    double sum = 0, before = now();
    for (int i = 0; i < n; i++) sum += function();
    double spent = now() - before;
    kept = sum;
    return spent / n;
}

static void model(void *user) {
    const struct parameters *with = user;
    static const struct {
        const char *name;
        double (*ars)(void), (*plain)(void);
    } pair[] = {
        {"uniform", uniform_ars, uniform_plain},
        {"flat", flat_ars, flat_plain},
        {"normal", normal_ars, normal_plain},
        {"event", event_ars, event_plain},
    };
    for (int turn = 0; turn < with->turns; turn++)
        for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
            double ars = per_call(pair[i].ars, with->draws), plain = per_call(pair[i].plain, with->draws);
            printf("%s %.3f %.3f\n", pair[i].name, ars, plain);
            if (turn + 1 == with->turns) ars_result(pair[i].name, ars); /* for whoever runs it under a controller */
        }
}

int main(int argc, char **argv) {
    const char *usage = "bench_draws DRAWS TURNS";
    args_count(usage, argc, 2, 2);
    struct parameters with = {args_integer(usage, argv[1], 1, 1000000000, "DRAWS must be a number of at least 1"),
                              args_integer(usage, argv[2], 1, 1000000, "TURNS must be a number of at least 1")};
    return ars_main(argc, argv, model, &with);
}

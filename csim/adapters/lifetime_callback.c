/* lifetime_callback: the same as lifetime_gsl, with a library that asks for a double (*)(void). */
#include <math.h>
#include <stdio.h>

#include <ars/flat.h>

/* ---- the library: all that it knows about random numbers is a function ---------------------------------------------------- */

static double (*random_number)(void);

static void library_set_random(double (*function)(void)) {
    random_number = function;
}

static double library_uniform(double low, double high) {
    return low + (high - low) * random_number();
}

static double library_exponential(double mean) {
    return -mean * log(random_number());
}

static double library_gauss(double sigma) {
    double radius = sqrt(-2 * log(random_number()));
    return sigma * radius * cos(6.283185307179586 * random_number());
}

/* ---- the simulation ----------------------------------------------------------------------------------------------------------- */

enum { DECAYS = 3 };
static const double GATE = 3, JITTER = 0.1, RESOLUTION = 0.2;

static double decay(double lifetime) {
    for (;;) {
        rs_start("trigger");
        double time = library_exponential(lifetime);
        if (time + library_gauss(JITTER) < GATE) {
            rs_end();
            return time;
        }
    }
}

static void model(void *user) {
    (void)user;
    double lifetime = library_uniform(1, 5);
    for (int i = 0; i < DECAYS; i++) {
        double time = decay(lifetime);
        double seen = ars_observe("time", ars_normal(time, RESOLUTION));
        if (ars_standalone()) printf("lifetime %.17g time %.17g seen %.17g\n", lifetime, time, seen);
    }
    ars_result("lifetime", lifetime);
}

int main(int argc, char **argv) {
    library_set_random(ars_flat_function);
    ars_flat_policy("library_gauss", ARS_NUISANCE);
    return ars_main(argc, argv, model, NULL);
}

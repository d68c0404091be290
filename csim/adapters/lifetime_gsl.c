/* lifetime_gsl: how long does a nucleus live? A simulation that draws through the GNU Scientific Library, and knows nothing of
 * libars but its generator, the marks of its loop, and the data.
 *
 * A decay is seen if it comes before the end of the gate, by the clock of the trigger, which jitters. The longer the lifetime,
 * the fewer decays are seen: the loop's acceptance depends on what is to be inferred. */
#include <gsl/gsl_randist.h>
#include <stdio.h>

#include <ars/gsl.h>

enum { DECAYS = 3 };
static const double GATE = 3, JITTER = 0.1, RESOLUTION = 0.2;

static gsl_rng *rng;

static double decay(double lifetime) {
    for (;;) {
        rs_start("trigger");
        double time = gsl_ran_exponential(rng, lifetime); /* one draw */
        if (time + gsl_ran_gaussian(rng, JITTER) < GATE) {
            rs_end();
            return time;
        }
    }
}

static void model(void *user) {
    (void)user;
    double lifetime = gsl_ran_flat(rng, 1, 5); /* one draw */
    for (int i = 0; i < DECAYS; i++) {
        double time = decay(lifetime);
        double seen = ars_observe("time", ars_normal(time, RESOLUTION));
        if (ars_standalone()) printf("lifetime %.17g time %.17g seen %.17g\n", lifetime, time, seen);
    }
    ars_result("lifetime", lifetime);
}

int main(int argc, char **argv) {
    rng = gsl_rng_alloc(ars_gsl_rng);
    /* gsl_ran_gaussian has a loop inside and draws how often it likes. Nobody asks for these numbers. */
    ars_flat_policy("gsl_ran_gaussian", ARS_NUISANCE);
    return ars_main(argc, argv, model, NULL);
}

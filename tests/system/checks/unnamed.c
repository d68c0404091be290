/* unnamed.c: draws without names, two of which the data do not depend on. */
#include <ars.h>

static double noise(void) {
    return ars_flat() + ars_flat();
}

static double decay(void) {
    return ars_sample(NULL, ars_normal(0, 1)) + ars_flat();
}

static void model(void *user) {
    (void)user;
    double energy = ars_sample("energy", ars_gamma(4, 2));
    ars_result("noise", noise());
    ars_observe("y", ars_normal(energy + decay(), 0.3));
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, NULL);
}

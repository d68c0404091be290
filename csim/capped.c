/* capped: a loop that gives up. A particle is scattered until it hits the detector, at most CAP times; how likely a hit is depends
 * on the beam. A particle that never hits is lost, and another process is seen instead. So giving up is an outcome like any
 * other, with draws of its own, and the weights of such traces are right too. */
#include <ars.h>

#include "args.h"

static bool scatter(double beam, int cap, double *z) {
    ars_loop loop = ARS_LOOP("scatter");
    for (int i = 0; i < cap; i++) {
        ars_loop_try(&loop);
        *z = ars_sample("z", ars_normal(beam, 1));
        if (*z > 0.5) {
            ars_loop_accept(&loop);
            return true;
        }
    }
    ars_loop_abandon(&loop);
    return false;
}

static void model(void *user) {
    const int cap = *(const int *)user;
    double beam = ars_sample("beam", ars_normal(0, 1));
    double z;
    bool hit = scatter(beam, cap, &z);
    if (!hit) z = ars_sample("other", ars_exponential(2));
    double y = ars_observe("y", ars_normal(z, 0.5));
    ars_result("beam_final", beam);
    ars_result("hit", hit);
    if (ars_standalone()) printf("beam %.17g hit %d z %.17g y %.17g\n", beam, hit, z, y);
}

int main(int argc, char **argv) {
    const char *usage = "capped [CAP]   (default 4)";
    args_count(usage, argc, 0, 1);
    int cap = argc > 1 ? args_integer(usage, argv[1], 1, 1000, "CAP must be a whole number from 1 to 1000") : 4;
    return ars_main(argc, argv, model, &cap);
}

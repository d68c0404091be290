/* branching: loops that only some paths reach. Background has no loop, a signal has one, a decay in flight has two, of
 * which the second's acceptance depends on the first's draw. Every path observes. */
#include <ars.h>

#include "args.h"

enum { BACKGROUND, SIGNAL, DECAY, CHANNELS };

static double signal(void) {
    for (;;) {
        rs_start();
        double mass = ars_sample("mass", ars_normal(0, 1));
        if (mass > 0.5) {
            rs_end();
            return mass;
        }
    }
}

static double decay(void) {
    double lifetime, position;
    for (;;) {
        rs_start();
        lifetime = ars_sample("lifetime", ars_gamma(2, 1));
        if (lifetime < 2) {
            rs_end();
            break;
        }
    }
    for (;;) {
        rs_start();
        position = ars_sample("position", ars_normal(lifetime, 1));
        if (position > 1) {
            rs_end();
            break;
        }
    }
    return position;
}

static void model(void *user) {
    (void)user;
    const double share[CHANNELS] = {0.3, 0.45, 0.25};
    int channel = (int)ars_sample("channel", ars_categorical(share, CHANNELS));
    double x = channel == BACKGROUND ? ars_sample("noise", ars_normal(-1, 1)) : channel == SIGNAL ? signal() : decay();
    double y = ars_observe("y", ars_normal(x, 0.5));
    ars_result("x_final", x);
    if (ars_standalone()) printf("channel %d x %.17g y %.17g\n", channel, x, y);
}

int main(int argc, char **argv) {
    args_count("branching", argc, 0, 0);
    return ars_main(argc, argv, model, NULL);
}

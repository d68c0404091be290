/* A model that is a function: a point in the unit disk by rejection, seen through its radius. */
#include <ars.h>
#include <math.h>
#include <stdio.h>

static void model(void *user) {
    (void)user;
    double x, y;
    for (;;) {
        rs_start();
        x = ars_sample("x", ars_uniform(-1, 1));
        y = ars_sample("y", ars_uniform(-1, 1));
        if (x * x + y * y < 1) {
            rs_end();
            break;
        }
    }
    double radius = sqrt(x * x + y * y);
    ars_observe("seen", ars_normal(radius, 0.1));
    ars_result("radius", radius);
    if (ars_standalone()) printf("radius %.17g\n", radius);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, NULL);
}

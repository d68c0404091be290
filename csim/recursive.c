/* recursive: a loop whose body calls the function that holds it. Every level of the recursion is a loop of its own,
 * and its acceptance depends on the draw of the level above. */
#include <ars.h>

#include "args.h"

static double draw(int level, double parent) {
    for (;;) {
        rs_start();
        double z = ars_sample("z", ars_normal(0.3 * tanh(parent), 1));
        double r = level > 0 ? z + 0.5 * draw(level - 1, z) : z;
        if (r > -0.3) {
            rs_end();
            return r;
        }
    }
}

static void model(void *user) {
    const int depth = *(const int *)user;
    double r = draw(depth, 0);
    double y = ars_observe("y", ars_normal(r, 0.5));
    ars_result("r", r);
    if (ars_standalone()) printf("r %.17g y %.17g\n", r, y);
}

int main(int argc, char **argv) {
    const char *usage = "recursive [DEPTH]   (default 3)";
    args_count(usage, argc, 0, 1);
    int depth = argc > 1 ? args_integer(usage, argv[1], 0, 10, "DEPTH must be a whole number from 0 to 10") : 3;
    return ars_main(argc, argv, model, &depth);
}

/* state.c: a program that goes on to use what it observed. The loop's acceptance depends on the first observation, and the
 * last observation on two elements of a vector before it. tests/system/test_missing.py has its evidence by quadrature.
 *
 * state [right|scored|stale]: the last two are mistakes that the library must not make with a datum that was not observed.
 * "scored" multiplies the likelihood by its density once more, "stale" goes on with the value of the trace before. */
#include <ars.h>
#include <math.h>
#include <string.h>

static const char *variant = "right";

static double use(double value, double *before) {
    const double used = strcmp(variant, "stale") ? value : *before;
    *before = value;
    return used;
}

static double log_normal(double x, double mean, double std) {
    const double z = (x - mean) / std;
    return -0.5 * z * z - log(std * 2.5066282746310002);
}

static void model(void *nothing) {
    (void)nothing;
    static double y1_before, v1_before;
    const double x = ars_sample("x", ars_normal(0, 1));
    const double y1 = use(ars_observe("y1", ars_normal(x, 0.5)), &y1_before);
    double z;
    for (;;) {
        rs_start("below");
        z = ars_sample("z", ars_normal(0.5 * x + 0.5 * y1, 1));
        if (z < 0) {
            rs_end();
            break;
        }
    }
    ars_observe("y2", ars_normal(z + 0.5 * y1, 0.4));
    const double mean[3] = {x, z, y1}, std[3] = {0.3, 0.3, 0.3};
    double v[3];
    ars_observe_normals("v", mean, std, 3, v);
    ars_observe_normals("w", mean, std, 2, NULL);
    ars_observe("last", ars_normal(v[0] - use(v[1], &v1_before), 0.5));
    if (!strcmp(variant, "scored")) ars_factor("again", log_normal(y1, x, 0.5) + log_normal(v[1], z, 0.3));
    ars_result("x", x);
    ars_result("z", z);
    ars_result("y1", y1);
    ars_results("v", v, 3);
}

int main(int argc, char **argv) {
    if (argc > 1) variant = argv[1];
    return ars_main(argc, argv, model, NULL);
}

/* trust MODE: models whose weights are hard to trust.
 *
 *   loop   a Uniform until it is below 0.5: proposals near 1 leave few traces that count
 *   zero   no trace explains the data
 *   far    every trace explains them, each with a likelihood that no double can hold
 *   nan    every trace fails */
#include <ars.h>
#include <math.h>
#include <string.h>

static void model(void *user) {
    const char *mode = user;
    double x;
    if (strcmp(mode, "loop") == 0) {
        for (;;) {
            rs_start();
            x = ars_sample("x", ars_uniform(0, 1));
            if (x < 0.5) {
                rs_end();
                break;
            }
        }
    } else {
        x = ars_sample("x", ars_normal(0, 1));
    }
    ars_observe("y", ars_normal(x, 0.5));
    if (strcmp(mode, "zero") == 0) ars_factor("impossible", -INFINITY);
    if (strcmp(mode, "far") == 0) ars_factor("unlikely", -1e5);
    if (strcmp(mode, "nan") == 0) ars_factor("broken", NAN);
    ars_result("r", x);
    ars_results("pair", (double[]){x, 2 * x}, 2);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, argc > 1 ? argv[1] : "loop");
}

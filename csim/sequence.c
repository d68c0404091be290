/* sequence: three loops in a row. The first accepts with a fixed probability, the second depends on the first's draw,
 * the third on both. */
#include <ars.h>

#include "args.h"

static void model(void *user) {
    (void)user;
    double a, b, c;
    for (;;) {
        rs_start();
        a = ars_sample("a", ars_exponential(1));
        if (a < 2) {
            rs_end();
            break;
        }
    }
    for (;;) {
        rs_start();
        b = ars_sample("b", ars_normal(a, 1));
        if (b > 1) {
            rs_end();
            break;
        }
    }
    for (;;) {
        rs_start();
        c = ars_sample("c", ars_normal(0, 1));
        if (c < b - a + 0.5) {
            rs_end();
            break;
        }
    }
    double y = ars_observe("y", ars_normal(a + b + c, 0.5));
    ars_result("total", a + b + c);
    if (ars_standalone()) printf("a %.17g b %.17g c %.17g y %.17g\n", a, b, c, y);
}

int main(int argc, char **argv) {
    args_count("sequence", argc, 0, 0);
    return ars_main(argc, argv, model, NULL);
}

/* sequence: three loops in a row. The first accepts with a fixed probability, the second depends on the first's draw,
 * the third on both. The sum is observed.
 *
 * With REPEATS, such rows of three follow each other, and after each the sum of all draws so far is observed: a
 * proposal has to remember it until the end. */
#include <ars.h>

#include "args.h"

static void model(void *user) {
    const int repeats = *(const int *)user;
    double a, b, c, total = 0;
    for (int i = 0; i < repeats; i++) {
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
        total += a + b + c;
        double y = ars_observe("y", ars_normal(total, 0.5));
        if (ars_standalone()) printf("a %.17g b %.17g c %.17g y %.17g\n", a, b, c, y);
    }
    ars_result("total", total);
}

int main(int argc, char **argv) {
    const char *usage = "sequence [REPEATS]   (default 1)";
    args_count(usage, argc, 0, 1);
    int repeats = argc > 1 ? args_integer(usage, argv[1], 1, 100, "REPEATS must be a whole number from 1 to 100") : 1;
    return ars_main(argc, argv, model, &repeats);
}

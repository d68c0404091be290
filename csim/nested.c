/* nested: a loop within a loop. The inner loop's acceptance depends on what the outer one has drawn:
 * p(A | a) = P(Normal(0, 1) > tanh(a)), between 0.16 and 0.84. */
#include <ars.h>

#include "args.h"

static void model(void *user) {
    (void)user;
    double a, b;
    for (;;) {
        rs_start();
        a = ars_sample("a", ars_normal(0, 1));
        for (;;) {
            rs_start();
            b = ars_sample("b", ars_normal(a, 1));
            if (b > a + tanh(a)) {
                rs_end();
                break;
            }
        }
        if (a + b > 0) {
            rs_end();
            break;
        }
    }
    double y = ars_observe("y", ars_normal(a + b, 0.5));
    ars_result("sum", a + b);
    if (ars_standalone()) printf("a %.17g b %.17g y %.17g\n", a, b, y);
}

int main(int argc, char **argv) {
    args_count("nested", argc, 0, 0);
    return ars_main(argc, argv, model, NULL);
}

/* truncated_normal: the example of the paper's appendix B. A Normal is redrawn until it is negative.
 *
 * Variant a: z ~ Normal(0, 1), so p(A) = 1/2. Variant b: z ~ Normal(x, 1), so p(A) depends on x. */
#include <ars.h>
#include <string.h>

#include "args.h"

static void model(void *user) {
    const bool mean_is_x = *(const bool *)user;
    double x = ars_sample("x", ars_uniform(1, 2));
    double z;
    for (;;) {
        rs_start();
        z = ars_sample("z", ars_normal(mean_is_x ? x : 0, 1));
        if (z < 0) {
            rs_end();
            break;
        }
    }
    double y = ars_observe("y", ars_normal(z, x));
    ars_result("x_final", x);
    ars_result("z_final", z);
    if (ars_standalone()) printf("x %.17g z %.17g y %.17g\n", x, z, y);
}

int main(int argc, char **argv) {
    const char *usage = "truncated_normal [a|b]   (default a)";
    args_count(usage, argc, 0, 1);
    const char *variant = argc > 1 ? argv[1] : "a";
    if (strcmp(variant, "a") != 0 && strcmp(variant, "b") != 0) args_fail(usage, "the variant must be a or b", variant);
    bool mean_is_x = *variant == 'b';
    return ars_main(argc, argv, model, &mean_is_x);
}

/* Draws before the first trace, in every signature of ars/flat.h, and one latent as a float in the trace. */
#include <stdio.h>

#include <ars/flat.h>

static double before[8];

static void initialise(void) {
    float two[2];
    before[0] = ars_flat_function();
    before[1] = ars_flat_function_float();
    before[2] = ars_flat_function_bits();
    before[3] = ars_flat_function_state(before);
    before[4] = ars_flat_function_float_state(before);
    ars_flat_array(before + 5, 1);
    ars_flat_array(before, -1);
    ars_flat_array_float(two, 2);
    before[6] = two[0];
    before[7] = two[1];
}

static void model(void *user) {
    (void)user;
    float u = ars_flat_function_float();
    ars_results("before", before, 8);
    ars_result("below_one", u < 1.0f);
    ars_result("in_trace", ars_in_trace());
    if (ars_standalone())
        for (int i = 0; i < 8; i++) printf("%.17g%c", before[i], i < 7 ? ' ' : '\n');
}

int main(int argc, char **argv) {
    if (ars_in_trace()) return 3;
    initialise();
    int code = ars_main(argc, argv, model, NULL);
    return ars_in_trace() ? 3 : code;
}

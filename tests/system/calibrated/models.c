/* models.c: models that calibration must treat right, chosen by the first argument.
 *
 *   late      a nuisance and a latent are drawn after data; the name of the data contains a slash
 *   selected  traces with a negative x are impossible
 *   factor    traces with a negative x are less likely, so the prior does not draw what the posterior describes */
#include <ars.h>
#include <math.h>
#include <string.h>

static void model(void *user) {
    const char *which = user;
    double x = ars_sample("x", ars_normal(0, 1));
    if (!strcmp(which, "late")) {
        ars_observe("dE/dx", ars_normal(x, 1));
        double noise = ars_draw(ars_normal(0, 1));
        ars_result("noise", noise);
        double slope = ars_sample("slope", ars_normal(0, 1));
        ars_observe("y", ars_normal(x + noise + slope, 0.3));
        return;
    }
    ars_observe("y", ars_normal(x, 0.5));
    ars_factor("positive", x >= 0 ? 0 : strcmp(which, "selected") ? -3 : -INFINITY);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, argv[1]);
}

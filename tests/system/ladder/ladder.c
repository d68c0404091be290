/* ladder MODE: models whose weights are bad for different reasons.
 *
 *   easy     the prior is a good proposal
 *   precise  a precise observation of a curved function of two latents: the prior rarely hits
 *   noise    a draw that is not recorded decides the likelihood: no proposal can help
 *   series   six observations that go together, and one of its own name
 *   fragile  as easy, but every trace of the plain simulator fails */
#include <ars.h>
#include <math.h>
#include <string.h>

static void model(void *user) {
    const char *mode = user;
    double a = ars_sample("a", ars_normal(0, 1));
    if (strcmp(mode, "precise") == 0) {
        double b = ars_sample("b", ars_normal(0, 1));
        ars_observe("y", ars_normal(sin(2 * a) + b * b, 0.001));
    } else if (strcmp(mode, "noise") == 0) {
        ars_observe("y", ars_normal(a + 3 * ars_draw(ars_normal(0, 1)), 0.7));
    } else if (strcmp(mode, "series") == 0) {
        for (int i = 0; i < 6; i++) ars_observe("series", ars_normal(a + 0.1 * i, 0.3));
        ars_observe("y", ars_normal(a, 0.1));
    } else {
        double y = ars_observe("y", ars_normal(a, 1));
        if (strcmp(mode, "fragile") == 0 && y != 0.5) ars_factor("broken", NAN);
    }
    ars_result("r", a);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, argc > 1 ? argv[1] : "easy");
}

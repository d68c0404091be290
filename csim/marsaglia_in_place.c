/* marsaglia_in_place: marsaglia, with its loop in the hands of ars_reject.
 *
 * The body writes to its own point only, so libars repeats it where it stands and nothing is forked. The draws, their
 * addresses and the weights are those of marsaglia. */
#include <ars.h>

#include "args.h"

struct point {
    double x1, s;
};

static bool in_disc(void *context) {
    struct point *p = context;
    p->x1 = ars_sample("x1", ars_uniform(-1, 1));
    double x2 = ars_sample("x2", ars_uniform(-1, 1));
    p->s = p->x1 * p->x1 + x2 * x2;
    return p->s > 0 && p->s < 1;
}

static void model(void *user) {
    (void)user;
    struct point p;
    ars_reject_named("marsaglia.c:marsaglia#0", in_disc, &p);
    double mu = p.x1 * sqrt(-2 * log(p.s) / p.s);
    double y1 = ars_observe("y1", ars_normal(mu, 0.1));
    double y2 = ars_observe("y2", ars_normal(mu, 0.1));
    ars_result("mu", mu);
    if (ars_standalone()) printf("mu %.17g y1 %.17g y2 %.17g\n", mu, y1, y2);
}

int main(int argc, char **argv) {
    args_count("marsaglia_in_place", argc, 0, 0);
    return ars_main(argc, argv, model, NULL);
}

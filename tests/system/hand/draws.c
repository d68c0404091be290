/* draws N: theta, then N draws of x around it, each proposed with all that went before in sight. */
#include <ars.h>
#include <stdlib.h>

static void model(void *user) {
    const int n = *(const int *)user;
    double theta = ars_sample("theta", ars_normal(0, 1)), sum = 0;
    for (int i = 0; i < n; i++) sum += ars_sample("x", ars_normal(theta, 1));
    ars_observe("y", ars_normal(sum / n, 0.5));
    ars_result("mean", sum / n);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10;
    return ars_main(argc, argv, model, &n);
}

/* The generator. Its draws: an energy; an angle, by rejection; and a shower, by recursion, with noise in it. */
#include "generator.h"

#include <alloca.h>

double Generator::energy() {
    return 1 - flat();
}

/* Uniform in a quarter of a disc: the angle has density 4 / pi * sqrt(1 - a * a). */
double Generator::decay() {
    for (;;) {
        hooks_.try_begins();
        double a = flat(), b = flat();
        if (a * a + b * b < 1) {
            hooks_.accepted();
            return a;
        }
    }
}

double Generator::radiate(int depth) {
    if (depth == 60 || flat() < 0.4) return noise(1 + depth % 7);
    double here = radiate(depth + 1);
    return flat() < 0.1 ? radiate(depth + 1) + here : here;
}

/* The size of its frame varies. */
double Generator::noise(int n) {
    double *parts = static_cast<double *>(alloca(n * sizeof(double)));
    double sum = 0;
    for (int i = 0; i < n; i++) parts[i] = flat();
    for (int i = 0; i < n; i++) sum += parts[i];
    return sum / n;
}

Event Generator::next() {
    Event event;
    event.energy = energy();
    event.angle = decay();
    event.shower = radiate(0);
    return event;
}

Generator *make_generator(Engine *engine, Hooks hooks) {
    return new Generator(engine, hooks);
}

/* lifetime_random: the same as lifetime_gsl, with the distributions of the C++ standard library. */
#include <cstdio>
#include <random>

#include <ars.hpp>
#include <ars/random.hpp>

enum { DECAYS = 3 };
static const double GATE = 3, JITTER = 0.1, RESOLUTION = 0.2;

static ars::bit_generator bits;

/* std::normal_distribution has a loop inside and keeps a second value for its next call. So these draws are nuisances, and the
 * distribution lives for one call: nothing passes from one try of the loop to the next. */
static __attribute__((noinline)) double jitter() {
    return std::normal_distribution<double>(0, JITTER)(bits);
}

static double decay(double lifetime) {
    double time;
    ars::reject("trigger", [&] {
        time = std::exponential_distribution<double>(1 / lifetime)(bits); /* one draw */
        return time + jitter() < GATE;
    });
    return time;
}

static void model() {
    double lifetime = std::uniform_real_distribution<double>(1, 5)(bits); /* one draw */
    for (int i = 0; i < DECAYS; i++) {
        double time = decay(lifetime);
        double seen = ars::observe("time", ars::normal(time, RESOLUTION));
        if (ars::standalone()) std::printf("lifetime %.17g time %.17g seen %.17g\n", lifetime, time, seen);
    }
    ars::result("lifetime", lifetime);
}

int main(int argc, char **argv) {
    ars_flat_policy("jitter", ARS_NUISANCE);
    return ars::main(argc, argv, model);
}

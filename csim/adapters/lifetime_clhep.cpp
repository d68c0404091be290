/* lifetime_clhep: the same as lifetime_gsl, with the distributions of CLHEP, which Geant4 uses. */
#include <CLHEP/Random/RandExponential.h>
#include <CLHEP/Random/RandFlat.h>
#include <CLHEP/Random/RandGaussQ.h>
#include <cstdio>

#include <ars.hpp>
#include <ars/clhep.hpp>

enum { DECAYS = 3 };
static const double GATE = 3, JITTER = 0.1, RESOLUTION = 0.2;

/* RandGaussQ draws once. RandGauss would keep a second value for its next call, from one try of the loop to the next. */
static __attribute__((noinline)) double jitter() {
    return CLHEP::RandGaussQ::shoot(0, JITTER);
}

static double decay(double lifetime) {
    double time;
    ars::reject("trigger", [&] {
        time = CLHEP::RandExponential::shoot(lifetime);
        return time + jitter() < GATE;
    });
    return time;
}

static void model() {
    double lifetime = CLHEP::RandFlat::shoot(1.0, 5.0);
    for (int i = 0; i < DECAYS; i++) {
        double time = decay(lifetime);
        double seen = ars::observe("time", ars::normal(time, RESOLUTION));
        if (ars::standalone()) std::printf("lifetime %.17g time %.17g seen %.17g\n", lifetime, time, seen);
    }
    ars::result("lifetime", lifetime);
}

int main(int argc, char **argv) {
    ars::clhep_engine engine;
    CLHEP::HepRandom::setTheEngine(&engine);
    ars_flat_policy("jitter", ARS_NUISANCE);
    return ars::main(argc, argv, model);
}

/* How often the distributions of CLHEP draw: name, fewest and most draws in 5,000 calls. The test compares them with
 * docs/adapters.md. */
#include <CLHEP/Random/RandBinomial.h>
#include <CLHEP/Random/RandBit.h>
#include <CLHEP/Random/RandBreitWigner.h>
#include <CLHEP/Random/RandChiSquare.h>
#include <CLHEP/Random/RandExponential.h>
#include <CLHEP/Random/RandFlat.h>
#include <CLHEP/Random/RandGamma.h>
#include <CLHEP/Random/RandGauss.h>
#include <CLHEP/Random/RandGaussQ.h>
#include <CLHEP/Random/RandGaussT.h>
#include <CLHEP/Random/RandGaussZiggurat.h>
#include <CLHEP/Random/RandLandau.h>
#include <CLHEP/Random/RandPoisson.h>
#include <CLHEP/Random/RandPoissonQ.h>
#include <CLHEP/Random/RandStudentT.h>
#include <cstdio>
#include <functional>

#include <ars/clhep.hpp>

namespace {

struct counting : ars::clhep_engine {
    unsigned drawn = 0;
    double flat() override { return ++drawn, ars::clhep_engine::flat(); }
    operator double() override { return ++drawn, ars::clhep_engine::operator double(); }
    operator float() override { return ++drawn, ars::clhep_engine::operator float(); }
    operator unsigned int() override { return ++drawn, ars::clhep_engine::operator unsigned int(); }
};

counting engine;

void count(const char *name, const std::function<void()> &call) {
    unsigned least = ~0u, most = 0;
    for (int i = 0; i < 5000; i++) {
        engine.drawn = 0;
        call();
        if (engine.drawn < least) least = engine.drawn;
        if (engine.drawn > most) most = engine.drawn;
    }
    std::printf("%s %u %u\n", name, least, most);
}

} // namespace

int main() {
    using namespace CLHEP;
    HepRandom::setTheEngine(&engine);
    count("RandFlat::shoot", [] { RandFlat::shoot(1.0, 2.0); });
    count("RandFlat::shootInt", [] { RandFlat::shootInt(10L); });
    count("RandExponential::shoot", [] { RandExponential::shoot(2.0); });
    count("RandBreitWigner::shoot", [] { RandBreitWigner::shoot(1.0, 0.2); });
    count("RandLandau::shoot", [] { RandLandau::shoot(); });
    count("RandGauss::shoot", [] { RandGauss::shoot(); });
    count("RandGaussQ::shoot", [] { RandGaussQ::shoot(); });
    count("RandGaussT::shoot", [] { RandGaussT::shoot(); });
    count("RandGaussZiggurat::shoot", [] { RandGaussZiggurat::shoot(&engine); });
    count("RandGamma::shoot", [] { RandGamma::shoot(2.5, 1.0); });
    count("RandChiSquare::shoot", [] { RandChiSquare::shoot(3.0); });
    count("RandStudentT::shoot", [] { RandStudentT::shoot(3.0); });
    count("RandPoisson::shoot", [] { RandPoisson::shoot(4.0); });
    count("RandPoissonQ::shoot", [] { RandPoissonQ::shoot(4.0); });
    count("RandBinomial::shoot", [] { RandBinomial::shoot(100L, 0.3); });
    return 0;
}

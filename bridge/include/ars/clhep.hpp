/* ars/clhep.hpp: libars as a random engine of CLHEP, and therefore of Geant4.
 *
 *     ars::clhep_engine engine;
 *     CLHEP::HepRandom::setTheEngine(&engine);
 *     double x = CLHEP::RandFlat::shoot(0, 10);                  // one latent, named by its call path
 *
 * The engine has no state. Seeds are stored for getSeed and do not change any draw. Restoring a saved status only checks that
 * the file belongs to this engine, because in a trace the controller determines the draws.
 *
 * Some distributions of CLHEP contain rejection loops, and RandGauss also keeps the second of two results for its next call. A
 * kept value passes from one try of a loop to the next, and from one trace to the next, which makes weights wrong. Use
 * RandGaussQ instead, which draws once. docs/adapters.md lists how many draws each distribution makes. */
#ifndef ARS_CLHEP_HPP
#define ARS_CLHEP_HPP

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <CLHEP/Random/RandomEngine.h>
#include <CLHEP/Random/engineIDulong.h>

#include <ars/flat.h>

namespace ars {

class clhep_engine : public CLHEP::HepRandomEngine {
  public:
    clhep_engine() { keep_seed(0); }
    explicit clhep_engine(long seed) { keep_seed(seed); }
    clhep_engine(const clhep_engine &other) : CLHEP::HepRandomEngine(other) { keep_seed(other.theSeed); }
    clhep_engine &operator=(const clhep_engine &other) {
        keep_seed(other.theSeed);
        return *this;
    }

    double flat() override { return ars_flat_function(); }
    void flatArray(const int size, double *values) override { ars_flat_array(values, size); }
    operator double() override { return ars_flat_function(); }
    operator float() override { return ars_flat_function_float(); }
    operator unsigned int() override { return ars_flat_function_bits(); }

    void setSeed(long seed, int = 0) override { keep_seed(seed); }
    void setSeeds(const long *seeds, int = 0) override { keep_seed(seeds ? seeds[0] : 0); }

    void saveStatus(const char filename[] = "ars.conf") const override {
        std::ofstream file(filename);
        if (!(file << *this)) std::cerr << "ars::clhep_engine: cannot write " << filename << std::endl;
    }
    void restoreStatus(const char filename[] = "ars.conf") override {
        std::ifstream file(filename);
        if (!(file >> *this)) std::cerr << "ars::clhep_engine: " << filename << " has no status of it" << std::endl;
    }
    void showStatus() const override {
        std::cout << "ars::clhep_engine, which has no state: "
                  << (ars_in_trace() ? "draws belong to the trace" : "outside a trace") << std::endl;
    }

    static std::string engineName() { return "ars"; }
    static std::string beginTag() { return engineName() + "-begin"; }
    std::string name() const override { return engineName(); }

    std::ostream &put(std::ostream &out) const override {
        return out << beginTag() << ' ' << theSeed << ' ' << engineName() << "-end\n";
    }
    std::istream &get(std::istream &in) override {
        std::string tag;
        in >> tag;
        return checked(in, tag == beginTag()) ? getState(in) : in;
    }
    std::istream &getState(std::istream &in) override { /* after the first word */
        std::string tag;
        long seed = 0;
        in >> seed >> tag;
        if (checked(in, tag == engineName() + "-end")) keep_seed(seed);
        return in;
    }

    std::vector<unsigned long> put() const override {
        return {CLHEP::engineIDulong<clhep_engine>(), static_cast<unsigned long>(theSeed)};
    }
    bool get(const std::vector<unsigned long> &state) override {
        return !state.empty() && state[0] == CLHEP::engineIDulong<clhep_engine>() && getState(state);
    }
    bool getState(const std::vector<unsigned long> &state) override {
        if (state.size() != 2) return false;
        keep_seed(static_cast<long>(state[1]));
        return true;
    }

  private:
    long seeds_[2]; /* ends with 0, as CLHEP wants it */

    void keep_seed(long seed) {
        theSeed = seeds_[0] = seed;
        seeds_[1] = 0;
        theSeeds = seeds_;
    }
    static bool checked(std::istream &in, bool right) {
        if (!right) in.setstate(std::ios::badbit);
        return static_cast<bool>(in);
    }
};

} // namespace ars

#endif /* ARS_CLHEP_HPP */

/* All that CLHEP may ask of an engine, of ars::clhep_engine. Prints "ok". Argument: a folder for files. */
#include <CLHEP/Random/RandFlat.h>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <ars/clhep.hpp>

namespace {

int failed = 0;

void check(bool right, const char *what) {
    if (right) return;
    std::printf("%s\n", what);
    failed = 1;
}

bool inside(double x) {
    return x > 0 && x < 1;
}

void check_draws(ars::clhep_engine &engine) {
    double many[1000], sum = 0;
    engine.flatArray(1000, many);
    for (double x : many) {
        check(inside(x), "flatArray");
        sum += x;
    }
    check(std::fabs(sum / 1000 - 0.5) < 0.04, "the mean of flatArray"); /* 4.4 sigma */
    check(inside(engine.flat()), "flat");
    check(inside(static_cast<double>(engine)), "operator double");
    check(inside(static_cast<float>(engine)), "operator float");
    check(static_cast<unsigned>(engine) != static_cast<unsigned>(engine), "operator unsigned");
    CLHEP::HepRandomEngine *before = CLHEP::HepRandom::getTheEngine();
    CLHEP::HepRandom::setTheEngine(&engine);
    check(CLHEP::RandFlat::shootInt(10L) < 10, "shootInt");
    CLHEP::HepRandom::setTheEngine(before);
}

void check_seeds(ars::clhep_engine &engine) {
    const long seeds[] = {11, 12, 0};
    engine.setSeed(7, 0);
    check(engine.getSeed() == 7 && engine.getSeeds()[0] == 7 && engine.getSeeds()[1] == 0, "setSeed");
    engine.setSeeds(seeds, 0);
    check(engine.getSeed() == 11, "setSeeds");
    ars::clhep_engine copy(engine);
    check(copy.getSeed() == 11 && copy.getSeeds() != engine.getSeeds(), "a copy has seeds of its own");
}

void check_status(ars::clhep_engine &engine, const std::string &folder) {
    const std::string file = folder + "/status", other = folder + "/other";
    engine.setSeed(42, 0);
    engine.saveStatus(file.c_str());
    ars::clhep_engine fresh;
    fresh.restoreStatus(file.c_str());
    check(fresh.getSeed() == 42, "restoreStatus");
    std::ofstream(other) << "MTwistEngine-begin 1 2 3\n";
    fresh.restoreStatus(other.c_str()); /* says so on stderr */
    check(fresh.getSeed() == 42, "the status of another engine");
    std::stringstream text;
    text << engine;
    ars::clhep_engine read;
    text >> read;
    check(text && read.getSeed() == 42, "streams");
    std::stringstream cut("ars-begin 42");
    cut >> read;
    check(!cut, "half a status");
    const std::vector<unsigned long> state = engine.put();
    ars::clhep_engine restored;
    check(restored.get(state) && restored.getSeed() == 42, "vectors");
    check(!restored.get(std::vector<unsigned long>{1, 2}) && !restored.get(std::vector<unsigned long>()),
          "wrong vectors");
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    ars::clhep_engine engine;
    check(engine.name() == "ars" && ars::clhep_engine::engineName() == "ars", "name");
    engine.showStatus();
    check_draws(engine);
    check_seeds(engine);
    check_status(engine, argv[1]);
    if (!failed) std::puts("ok");
    return failed;
}

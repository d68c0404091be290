/* tau: a tau lepton of unknown energy and direction decays in Pythia 8, and a small calorimeter measures what is visible.
 *
 * Pythia is the stock binary. Its random numbers come from libars, through ars/pythia8.hpp: each draw is named by its call
 * path. The policy below makes latents of those that the data depend on. mark_tau_decays.cpp marks the rejection loop.
 *
 * The tau has the energy (20 to 80 GeV) and the slopes x and y (standard deviation 0.05) of its direction; it flies along z,
 * left-handed. Neutrinos leave unseen. The calorimeter has two layers, electromagnetic and hadronic, of 6 x 6 cells each. */
#include <Pythia8/Pythia.h>
#include <ars.hpp>
#include <ars/pythia8.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#ifndef TAU_XMLDOC
#error "compile with -DTAU_XMLDOC=\"...\", the folder share/Pythia8/xmldoc of the wheel"
#endif

namespace {

/* ---- the calorimeter -------------------------------------------------------------------------------------------------- */

constexpr int CELLS = 6;           /* per side */
constexpr double PITCH = 0.05;     /* of a cell, in units of slope */
constexpr double SHOWER = 0.03;    /* standard deviation of a shower's profile, in the same units */
constexpr double NOISE = 1.0;      /* GeV per cell */
constexpr double STOCHASTIC = 1.0; /* standard deviation per sqrt(GeV) */
constexpr double MIP = 1.5;        /* GeV that a muon leaves in each layer */
constexpr double EARLY = 0.3;      /* share of a hadron's energy that stays in the electromagnetic layer */

struct Calorimeter {
    enum Layer { em, hadronic };
    std::array<double, 2 * CELLS * CELLS> energy{}; /* layer, row (y), column (x) */

    /* The share of a shower at slope `at` in each row or column. */
    static std::array<double, CELLS> profile(double at) {
        std::array<double, CELLS> share;
        const auto below = [at](int edge) {
            return 0.5 * std::erfc((at - (edge - CELLS / 2) * PITCH) / SHOWER / std::sqrt(2.));
        };
        for (int i = 0; i < CELLS; ++i) share[i] = below(i + 1) - below(i);
        return share;
    }

    void absorb(Layer layer, double e, double x, double y) {
        const auto column = profile(x), row = profile(y);
        for (int i = 0; i < CELLS; ++i)
            for (int j = 0; j < CELLS; ++j) energy[(layer * CELLS + i) * CELLS + j] += e * row[i] * column[j];
    }

    void absorb(const Pythia8::Particle &particle) {
        const double x = particle.px() / particle.pz(), y = particle.py() / particle.pz(), e = particle.e();
        const int id = particle.idAbs();
        const bool electromagnetic = id == 11 || id == 22 || id == 111, muon = id == 13;
        if (particle.pz() <= 0) return;
        absorb(em, electromagnetic ? e : muon ? std::min(e, MIP) : EARLY * e, x, y);
        if (!electromagnetic) absorb(hadronic, muon ? std::min(e, MIP) : (1 - EARLY) * e, x, y);
    }

    void measure() const {
        std::array<double, 2 * CELLS * CELLS> error;
        for (size_t i = 0; i < energy.size(); ++i)
            error[i] = std::sqrt(NOISE * NOISE + STOCHASTIC * STOCHASTIC * energy[i]);
        ars::observe_normals("calorimeter", energy.data(), error.data(), energy.size(), nullptr);
    }
};

/* ---- the decay channel ------------------------------------------------------------------------------------------------ */

/* Pythia picks the channel with numbers of its own: ten of them, of which the last counts. One latent says the same, so we
 * draw it from Pythia's table of branching ratios, among the channels that are switched on, and leave Pythia no other choice. */
class Channels {
  public:
    explicit Channels(Pythia8::ParticleDataEntry &tau) : tau(tau) {
        double sum = 0;
        for (int i = 0; i < tau.sizeChannels(); ++i) {
            if (tau.channel(i).onMode() != 1) continue;
            table.push_back(i);
            ratio.push_back(tau.channel(i).bRatio());
            sum += ratio.back();
        }
        for (double &each : ratio) each /= sum;
    }

    void choose() {
        const int chosen = table[static_cast<size_t>(ars::sample("channel", ars::categorical(ratio)))];
        for (int i = 0; i < tau.sizeChannels(); ++i) tau.channel(i).onMode(i == chosen);
    }

  private:
    Pythia8::ParticleDataEntry &tau;
    std::vector<int> table;
    std::vector<double> ratio;
};

/* What the calorimeter could tell apart. 0: electron, 1: muon, 2: one charged hadron, 3: one and a pi0, 4: one and more
 * neutral ones, 5: three or more charged hadrons. */
int kind(int electrons, int muons, int charged, int neutral, int pi0) {
    if (electrons || muons) return electrons ? 0 : 1;
    if (charged > 1) return 5;
    return neutral == 0 ? 2 : neutral == 1 && pi0 == 1 ? 3 : 4;
}

/* ---- the event -------------------------------------------------------------------------------------------------------- */

void event(Pythia8::Pythia &pythia, Channels &channels) {
    const double energy = ars::sample("energy", ars::uniform(20, 80));
    const double x = ars::sample("x", ars::normal(0, 0.05)), y = ars::sample("y", ars::normal(0, 0.05));
    channels.choose();
    const double m = pythia.particleData.m0(15), p = std::sqrt(energy * energy - m * m);
    const double pz = p / std::sqrt(1 + x * x + y * y);
    pythia.event.reset();
    pythia.event.append(15, 1, 0, 0, 0, 0, 0, 0, Pythia8::Vec4(pz * x, pz * y, pz, energy), m);
    if (!pythia.next()) ars::factor("pythia failed", -HUGE_VAL);

    Calorimeter calorimeter;
    double visible = 0;
    int electrons = 0, muons = 0, charged = 0, neutral = 0, pi0 = 0;
    for (int i = 1; i < pythia.event.size(); ++i) {
        const Pythia8::Particle &particle = pythia.event[i];
        if (!particle.isFinal() || !particle.isVisible()) continue;
        calorimeter.absorb(particle);
        visible += particle.e();
        electrons += particle.idAbs() == 11;
        muons += particle.idAbs() == 13;
        (particle.isCharged() ? charged : neutral) += 1;
        pi0 += particle.id() == 111;
    }
    calorimeter.measure();
    ars::result("visible", visible);
    ars::result("kind", kind(electrons, muons, charged, neutral, pi0));
    if (ars::standalone()) {
        std::printf("tau of %.1f GeV at (%.3f, %.3f):", energy, x, y);
        for (int i = 2; i < pythia.event.size(); ++i)
            if (pythia.event[i].isFinal()) std::printf(" %s %.1f", pythia.event[i].name().c_str(), pythia.event[i].e());
        std::printf("\n");
    }
}

} // namespace

/* The settings of Pythia. Channels: to a pion or kaon, an electron, or a muon, and neutrinos. Their acceptance is 0.3 to 0.5.
 * Those with resonances accept one try in 27 to 400: they run as well, 10 to 100 times slower ("15:onMode = on"). */
const char *const SETTINGS[] = {
    "Print:quiet = on",        "ProcessLevel:all = off", "TauDecays:mode = 3",    "TauDecays:tauPolarization = -1",
    "15:onMode = off",         "15:onIfMatch = 16 211",  "15:onIfMatch = 16 321", "15:onIfMatch = 16 11 12",
    "15:onIfMatch = 16 13 14",
};

int main(int argc, char **argv) {
    ars_flat_policy("*", ARS_NUISANCE);
    ars_flat_policy("phaseSpace2", ARS_LATENT); /* the angles of the decay, drawn inside the loop */
    setenv("PYTHIA8DATA", TAU_XMLDOC, 0);       /* the wheel looks for its data beside Python otherwise */
    Pythia8::Pythia pythia("", false);
    for (const char *setting : SETTINGS) pythia.readString(setting);
    for (int stable :
         {13, 111, 130, 211, 221, 223, 310, 311, 321}) /* decay behind the calorimeter, or are seen whole */
        pythia.particleData.mayDecay(stable, false);
    for (int i = 1; i < argc; ++i) /* further settings */
        if (!pythia.readString(argv[i])) return 2;
    pythia.setRndmEnginePtr(std::make_shared<ars::pythia8_engine>());
    if (!pythia.init()) return 1;
    Channels channels(*pythia.particleData.particleDataEntryPtr(15));
    return ars::main(argc, argv, [&] { event(pythia, channels); });
}

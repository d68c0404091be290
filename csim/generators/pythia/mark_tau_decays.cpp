/* Marks the accept/reject loop of Pythia's tau decays without touching Pythia.
 *
 * TauDecays::decay repeats isotropicDecay until the matrix element accepts the try, and passes it to writeDecay:
 *
 *     while (!accepted) {
 *         isotropicDecay(children);                                       // a try: phase space, without dynamics
 *         accepted = flat() < decayWeight(children) / decayWeightMax;     // the matrix element
 *     }
 *     writeDecay(event, children);
 *
 * The three functions below have the names of Pythia's own. The dynamic linker takes them first, since they are in the
 * executable, and each calls the function that it stands before. decay holds the handle of the loop, isotropicDecay
 * begins a try, writeDecay accepts it.
 *
 * Why the loop may be marked: a try overwrites the momenta of all children and reads nothing of the try before it, so tries
 * are independent and identically distributed. Pythia gives up after 10,000 tries and then writes the last one; with an
 * acceptance of 0.003 that happens once in 10^13 decays. */
#include <Pythia8/Pythia.h>
#include <ars.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

ars_loop *current; /* of the decay that is being made */

/* The next function of that name after the executable's: Pythia's. */
template <class Function> Function *pythias(const char *symbol) {
    void *found = dlsym(RTLD_NEXT, symbol);
    if (!found) {
        std::fprintf(stderr, "mark_tau_decays: this Pythia has no function %s: another version?\n", symbol);
        std::abort();
    }
    return reinterpret_cast<Function *>(found);
}

} // namespace

namespace Pythia8 {

using Children = vector<HelicityParticle>;

bool TauDecays::decay(int tau, Event &event) {
    static auto *const original = pythias<bool(TauDecays *, int, Event &)>("_ZN7Pythia89TauDecays5decayEiRNS_5EventE");
    ars_loop loop = ARS_LOOP("tau decay");
    ars_loop *const outer = current;
    current = &loop;
    const bool decayed = original(this, tau, event);
    current = outer;
    return decayed;
}

void TauDecays::isotropicDecay(Children &children) {
    static auto *const original = pythias<void(TauDecays *, Children &)>(
        "_ZN7Pythia89TauDecays14isotropicDecayERSt6vectorINS_16HelicityParticleESaIS2_EE");
    ars_loop_try(current);
    original(this, children);
}

void TauDecays::writeDecay(Event &event, Children &children) {
    static auto *const original = pythias<void(TauDecays *, Event &, Children &)>(
        "_ZN7Pythia89TauDecays10writeDecayERNS_5EventERSt6vectorINS_16HelicityParticleESaIS4_EE");
    ars_loop_accept(current);
    original(this, event, children);
}

} // namespace Pythia8

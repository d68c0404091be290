/* ars/pythia8.hpp: libars as the random number generator of Pythia 8.
 *
 *     Pythia8::Pythia pythia;
 *     pythia.setRndmEnginePtr(std::make_shared<ars::pythia8_engine>());     // before init()
 *     pythia.init();                                                        // draws outside any trace: the same in every process
 *     return ars::main(argc, argv, [&] { ... pythia.next(); ... });         // draws are latents, named by their call paths
 *
 * An event uses hundreds of random numbers. Turn those that do not affect the data into nuisances:
 *
 *     ars_flat_policy("isotropicDecay", ARS_NUISANCE);
 *
 * docs/adapters.md explains which loops of Pythia you may mark. */
#ifndef ARS_PYTHIA8_HPP
#define ARS_PYTHIA8_HPP

#include <Pythia8/Basics.h>

#include <ars/flat.h>

namespace ars {

class pythia8_engine : public Pythia8::RndmEngine {
  public:
    /* Strictly inside (0, 1), as Pythia needs it. */
    double flat() override { return ars_flat_function(); }
};

} // namespace ars

#endif /* ARS_PYTHIA8_HPP */

/* ars/random.hpp: libars as the source of random bits of the C++ standard library.
 *
 *     ars::bit_generator bits;                                              // has no state: copy it, or make one anywhere
 *     std::uniform_real_distribution<double> length(0, 10);
 *     double x = length(bits);                                              // one latent, named by its call path
 *     std::shuffle(cards.begin(), cards.end(), bits);
 *
 * A value has 53 random bits, so that the standard library makes a double of one draw.
 *
 * Distributions of the standard library may hold rejection loops and values kept for the next call. libstdc++'s
 * std::normal_distribution does both: it draws a point until it lies in the disc, and keeps the second of two results. A kept
 * value passes from one try of a loop to the next, and from one trace to the next, which makes weights wrong. Construct such a
 * distribution where it is used, or call its reset() first. For a latent take ars::sample("x", ars::normal(0, 1)) instead: one
 * draw, of a known distribution, without a loop. docs/adapters.md lists which distributions draw how often. */
#ifndef ARS_RANDOM_HPP
#define ARS_RANDOM_HPP

#include <cstdint>

#include <ars/flat.h>

namespace ars {

/* A UniformRandomBitGenerator. */
class bit_generator {
  public:
    typedef std::uint64_t result_type;

    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return (result_type(1) << 53) - 1; }

    result_type operator()() { return static_cast<result_type>(ars_flat_function() * 9007199254740992.0); }
};

} // namespace ars

#endif /* ARS_RANDOM_HPP */

/* ars/random.hpp: libars as the source of random bits of the C++ standard library.
 *
 *     ars::bit_generator bits;                                              // has no state: copy it, or make one anywhere
 *     std::uniform_real_distribution<double> length(0, 10);
 *     double x = length(bits);                                              // one latent, named by its call path
 *     std::shuffle(cards.begin(), cards.end(), bits);
 *
 * Each value is one draw of ars_flat and has 64 bits, so the standard library needs only one draw for a double. The upper 53
 * bits are the draw; the lower 11, which a double does not have, are a hash of them.
 *
 * Distributions of the standard library may contain rejection loops and keep values for the next call. libstdc++'s
 * std::normal_distribution does both: it draws points until one lies in the disc, and keeps the second of two results. A kept
 * value passes from one try of a loop to the next, and from one trace to the next, which makes weights wrong. Construct such a
 * distribution where you use it, or call its reset() first. For a latent, use ars::sample("x", ars::normal(0, 1)) instead: one
 * draw from a known distribution, without a loop. docs/adapters.md lists how many draws each distribution makes. */
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
    static constexpr result_type max() { return ~result_type(0); }

    result_type operator()() {
        const result_type upper = static_cast<result_type>(ars_flat_function() * 9007199254740992.0); /* 2^53 */
        return upper << 11 | mixed(upper) >> 53;
    }

  private:
    /* The finaliser of SplitMix64: every bit of the result depends on every bit of x. */
    static result_type mixed(result_type x) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
        return x ^ x >> 31;
    }
};

} // namespace ars

#endif /* ARS_RANDOM_HPP */

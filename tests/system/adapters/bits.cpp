/* The bit generator: how often each of its 64 bits is 1 in 20,000 values, and each order of three cards in 6,000 shuffles. */
#include <algorithm>
#include <cstdio>
#include <random>
#include <type_traits>

#include <ars.hpp>
#include <ars/random.hpp>

static_assert(std::is_unsigned<ars::bit_generator::result_type>::value, "unsigned, as the standard asks");
static_assert(ars::bit_generator::min() < ars::bit_generator::max(), "constants, as the standard asks");

static void model() {
    ars::bit_generator bits;
    unsigned ones[64] = {0}, orders[27] = {0};
    for (int i = 0; i < 20000; i++) {
        const ars::bit_generator::result_type value = bits();
        for (int b = 0; b < 64; b++) ones[b] += value >> b & 1;
    }
    for (int i = 0; i < 6000; i++) {
        int cards[] = {0, 1, 2};
        std::shuffle(cards, cards + 3, bits);
        orders[9 * cards[0] + 3 * cards[1] + cards[2]]++;
    }
    for (unsigned n : ones) std::printf("%u ", n);
    std::puts("");
    for (unsigned n : orders)
        if (n) std::printf("%u ", n);
    std::puts("");
}

int main(int argc, char **argv) {
    return ars::main(argc, argv, model);
}

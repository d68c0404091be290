/* How often the distributions of the C++ standard library draw: name, fewest and most draws in 5,000 calls of one object. The
 * test compares them with docs/adapters.md. */
#include <algorithm>
#include <cstdio>
#include <random>

#include <ars/random.hpp>

namespace {

struct counting {
    typedef ars::bit_generator::result_type result_type;
    static constexpr result_type min() { return ars::bit_generator::min(); }
    static constexpr result_type max() { return ars::bit_generator::max(); }
    result_type operator()() { return ++drawn, bits(); }
    ars::bit_generator bits;
    unsigned drawn;
};

template <class Distribution> void count(const char *name, Distribution distribution) {
    unsigned least = ~0u, most = 0;
    for (int i = 0; i < 5000; i++) {
        counting source = {{}, 0};
        distribution(source);
        least = std::min(least, source.drawn);
        most = std::max(most, source.drawn);
    }
    std::printf("%s %u %u\n", name, least, most);
}

} // namespace

int main() {
    count("std::uniform_real_distribution", std::uniform_real_distribution<double>(1, 2));
    count("std::uniform_int_distribution", std::uniform_int_distribution<int>(1, 6));
    count("std::bernoulli_distribution", std::bernoulli_distribution(0.3));
    count("std::exponential_distribution", std::exponential_distribution<double>(2));
    count("std::weibull_distribution", std::weibull_distribution<double>(2, 1));
    count("std::extreme_value_distribution", std::extreme_value_distribution<double>(0, 1));
    count("std::cauchy_distribution", std::cauchy_distribution<double>(0, 1));
    count("std::geometric_distribution", std::geometric_distribution<int>(0.3));
    count("std::discrete_distribution", std::discrete_distribution<int>({1, 2, 3}));
    count("std::piecewise_constant_distribution",
          std::piecewise_constant_distribution<double>({0, 1, 2}, [](double x) { return x; }));
    count("std::normal_distribution", std::normal_distribution<double>(0, 1));
    count("std::lognormal_distribution", std::lognormal_distribution<double>(0, 1));
    count("std::gamma_distribution", std::gamma_distribution<double>(2.5, 1));
    count("std::chi_squared_distribution", std::chi_squared_distribution<double>(3));
    count("std::student_t_distribution", std::student_t_distribution<double>(3));
    count("std::fisher_f_distribution", std::fisher_f_distribution<double>(3, 4));
    count("std::poisson_distribution", std::poisson_distribution<int>(4));
    count("std::binomial_distribution", std::binomial_distribution<int>(100, 0.3));
    count("std::negative_binomial_distribution", std::negative_binomial_distribution<int>(5, 0.3));
    return 0;
}

// The second source file of models.cpp: every distribution, and distributions of the program's own.
#include "models.h"

#include <xtensor/xadapt.hpp>

using namespace pyprob_cpp;
using namespace pyprob_cpp::distributions;

// Two parameters that mean different things, in an order that can be seen in the draws.
static std::vector<std::shared_ptr<Distribution>> all_of_them() {
    return {
        std::make_shared<Uniform>(2, 5),
        std::make_shared<Normal>(-3, 0.5),
        std::make_shared<Categorical>(xt::xarray<double>{1, 2, 5}),
        std::make_shared<Poisson>(4.5),
        std::make_shared<Bernoulli>(0.3),
        std::make_shared<Beta>(4, 2),
        std::make_shared<Exponential>(2.5),
        std::make_shared<Gamma>(3, 4),
        std::make_shared<LogNormal>(0.5, 0.25),
        std::make_shared<Binomial>(9, 0.2),
        std::make_shared<Weibull>(2, 3),
    };
}
static const char *const names[] = {"uniform",     "normal", "categorical", "poisson",  "bernoulli", "beta",
                                    "exponential", "gamma",  "log_normal",  "binomial", "weibull"};

xt::xarray<double> every() {
    std::vector<double> drawn;
    auto all = all_of_them();
    for (std::size_t i = 0; i < all.size(); i++) drawn.push_back(sample(*all[i], names[i])(0));
    return xt::adapt(drawn, std::vector<std::size_t>{drawn.size()});
}

// No latent has a part in the likelihood, so the evidence is a number that can be computed.
xt::xarray<double> scores() {
    const double seen[] = {3, -2.5, 1, 6, 1, 0.7, 0.4, 0.9, 1.5, 3, 1.7};
    auto all = all_of_them();
    for (std::size_t i = 0; i < all.size(); i++) observe(*all[i], seen[i], names[i]);
    for (std::size_t i = 0; i < all.size(); i++) observe(*all[i], seen[i]);
    Gamma rows(column(2, 3), xt::xarray<double>{1, 2, 4});
    observe(rows, xt::xarray<double>{{1, 2, 3}, {4, 5, 6}}, "rows");
    observe(rows, xt::xarray<double>{0.5, 1, 2}, "broadcast");
    Categorical states(xt::xarray<double>{{1, 1, 2}, {5, 3, 2}});
    observe(states, xt::xarray<double>{2, 0}, "states");
    return 0;
}

std::vector<double> local_draws() {
    std::vector<double> drawn;
    for (auto &each : all_of_them()) {
        double sum = 0;
        for (int i = 0; i < 2000; i++) sum += sample(*each)(0);
        drawn.push_back(sum / 2000);
    }
    return drawn;
}

// As pyprob_cpp had it first: with `replace`.
class Shifted : public Distribution {
    Exponential base{1};

  public:
    xt::xarray<double> sample(const bool control, const bool replace, const std::string &address,
                              const std::string &name) override {
        return 10 + base.sample(control, replace, address, name);
    }
    void observe(xt::xarray<double> value, const std::string &address, const std::string &name) override {
        base.observe(value - 10, address, name);
    }
};

// As it was before draws had names, over a distribution that is there, and over one of its own.
class Ancient : public Normal {
  public:
    Ancient() : Normal(0, 1) {}
    xt::xarray<double> sample(const bool control, const bool replace, const std::string &address) override {
        return 100 + Normal::sample(control, replace, address);
    }
    void observe(xt::xarray<double> value, const std::string &address) override {
        Normal::observe(value - 100, address);
    }
};
class OfItsOwn : public Distribution {
    Ancient base;

  public:
    xt::xarray<double> sample(const bool control, const bool replace, const std::string &address) override {
        return 1 + base.sample(control, replace, address);
    }
};

// As it has it now; this one draws for itself.
class Dice : public Distribution {
  public:
    xt::xarray<double> sample(const bool, const std::string &, const std::string &) override {
        return std::uniform_int_distribution<int>(1, 6)(generator);
    }
};

// Of a distribution that is there.
class Wide : public Normal {
  public:
    Wide() : Normal(0, 100) {}
    xt::xarray<double> sample(const bool control, const std::string &address, const std::string &name) override {
        return 1000 + Normal::sample(control, address, name);
    }
};

xt::xarray<double> custom() {
    Shifted shifted;
    Dice dice;
    Wide wide;
    Distribution plain;
    tag(sample(shifted, "s"), "shifted");
    tag(sample(dice), "dice");
    tag(sample(wide, "w"), "wide");
    tag(sample(plain), "plain");
    tag(wide.sample(true, "there", ""), "by hand");
    observe(shifted, 10.5, "s0");
    observe(dice, 3);
    Ancient ancient;
    OfItsOwn own;
    tag(sample(ancient, "n"), "ancient");
    tag(sample(own, "o"), "own");
    tag(sample(ancient, true, true, "r"), "replaced");
    observe(ancient, 100.5, "n0");
    return 0;
}

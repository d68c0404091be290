/* ars/pyprob_cpp.hpp: sources written for pyprob_cpp, compiled against libars.
 *
 * A program that includes <pyprob_cpp.h> needs no change: the folder ars/compat/pyprob_cpp holds a header of that name, which
 * includes this one. Put it on the include path instead of pyprob_cpp's (ars config --pyprob-cpp, the CMake target
 * ars::pyprob_cpp, or pkg-config ars-pyprob-cpp), link libars, and leave out ZeroMQ, flatbuffers and pyprob_cpp. Needs C++14 and
 * xtensor (Debian: libxtensor-dev). docs/pyprob-cpp.md has the whole story; in short:
 *
 *     pyprob_cpp                              libars
 *     sample(d), sample(d, "x")               ars_sample, or ars_sample_vector for a tensor; named "x", else by call path
 *     sample(d, false, ...)                   ars_draw: a nuisance; with a name it is recorded as a result
 *     sample(d, true, true)                   the same, unless a marked loop is open; see docs/pyprob-cpp.md
 *     observe(d, "y")                         ars_observe, ars_observe_vector
 *     observe(d, value[, "y"])                ars_observe_value, ars_observe_values
 *     tag(value, "z"), the returned tensor    ars_results_shaped("z"), ars_results_shaped("result")
 *     Model(forward, "name").startServer()    ars_main
 *     forward(observation)                    data given as "observation", else the default observation
 *
 * Shapes are those that pyprob gives: parameters broadcast, and a number counts as a tensor of shape (1). Before startServer
 * and after it, draws come from pyprob_cpp::generator, and observations and tags do nothing. */
#ifndef ARS_PYPROB_CPP_HPP
#define ARS_PYPROB_CPP_HPP

#if __cplusplus < 201402L
#error "pyprob_cpp over libars needs C++14: xtensor does"
#endif

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <xtensor/xarray.hpp>
#include <xtensor/xio.hpp>

#include "../ars.h"

#ifndef VERSION
#define VERSION "1.0.0"
#endif
#ifndef GIT_BRANCH
#define GIT_BRANCH "libars"
#endif
#ifndef GIT_COMMIT_HASH
#define GIT_COMMIT_HASH "0000000"
#endif

/* As the value of an observation: the program has none. */
#define NONE_VALUE 17081023.17081023f

namespace pyprob_cpp {

/* ---- private: one process, one trace ---------------------------------------------------------------------------------- */

namespace detail {

using tensor = xt::xarray<double>;
using shape_type = std::vector<std::size_t>;

struct process {
    std::default_random_engine engine;
    bool control = true, replace = false; /* the defaults */
    bool in_trace = false;
    bool replacing = false;                 /* sample() was called with replace */
    unsigned unnamed_tags = 0;              /* of this trace */
    std::map<std::string, tensor> replaced; /* draws of this trace of which the last one is recorded */
};

inline process &here() {
    static process it;
    return it;
}

/* ---- shapes ---- */

/* pyprob has no tensors without dimensions: on the wire they become vectors of one element. */
inline shape_type shape_of(const tensor &t) {
    return t.dimension() ? shape_type(t.shape().begin(), t.shape().end()) : shape_type{1};
}

inline std::size_t size_of(const shape_type &shape) {
    std::size_t n = 1;
    for (std::size_t extent : shape) n *= extent;
    return n;
}

inline std::string text_of(const shape_type &shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + ")";
}

/* The shape of a and b together, by NumPy's rules. `what` begins the message if there is none. */
inline shape_type broadcast(const shape_type &a, const shape_type &b, const char *what) {
    shape_type out(std::max(a.size(), b.size()), 1);
    const auto put = [&](const shape_type &in) {
        for (std::size_t i = 0; i < in.size(); i++) {
            std::size_t &extent = out[out.size() - in.size() + i];
            if (in[i] != 1 && extent != 1 && in[i] != extent)
                throw std::invalid_argument(std::string("pyprob_cpp: ") + what + ": shapes " + text_of(a) + " and " +
                                            text_of(b) + " do not broadcast");
            if (in[i] != 1) extent = in[i];
        }
    };
    put(a);
    put(b);
    return out;
}

/* The elements of a tensor in the order of a larger shape that it broadcasts to. */
class spread {
  public:
    spread(const tensor &t, const shape_type &to) : data(t.data()), one(t.size() == 1) {
        if (one || t.size() == size_of(to)) return; /* the order is the same: dimensions of extent 1 aside, so is the shape */
        const shape_type from = shape_of(t);
        made.resize(size_of(to));
        for (std::size_t i = 0; i < made.size(); i++) {
            std::size_t rest = i, at = 0, stride = 1;
            for (std::size_t k = 0; k < from.size(); k++) { /* from the last dimension on */
                const std::size_t extent = to[to.size() - 1 - k], own = from[from.size() - 1 - k];
                at += own == 1 ? 0 : rest % extent * stride;
                stride *= own;
                rest /= extent;
            }
            made[i] = t.data()[at];
        }
        data = made.data();
    }
    spread(const spread &) = delete;
    spread &operator=(const spread &) = delete;
    double operator[](std::size_t i) const { return data[one ? 0 : i]; }

  private:
    const double *data;
    bool one;
    std::vector<double> made;
};

/* ---- calls of libars ---- */

/* NULL: named by its call path. */
inline const char *label(const std::string &address, const std::string &name) {
    return !name.empty() ? name.c_str() : !address.empty() ? address.c_str() : nullptr;
}

/* pyprob's tensors of one element are its numbers: they have no dimension here. */
inline void record(const char *name, const tensor &value) {
    if (value.size() == 1) {
        ars_result(name, value.data()[0]);
        return;
    }
    const shape_type shape = shape_of(value);
    ars_results_shaped(name, value.data(), shape.data(), shape.size());
}

/* A draw from the prior that the controller does not see. */
inline void draw_nuisance(const char *name, const ars_dist *d, tensor &out) {
    for (std::size_t i = 0; i < out.size(); i++) out.data()[i] = ars_draw(d[i]);
    if (!name) return;
    if (here().replacing)
        here().replaced[name] = out;
    else
        record(name, out);
}

inline tensor draw(const char *name, bool control, const ars_dist *d, const shape_type &shape) {
    tensor out = tensor::from_shape(shape);
    const bool latent = control && (!here().replacing || ars_in_loop());
    if (!out.size())
        ;
    else if (!latent)
        draw_nuisance(name, d, out);
    else if (out.size() == 1)
        out.data()[0] = ars_sample(name, d[0]);
    else
        ars_sample_vector(name, d, out.size(), out.data());
    return out;
}

inline bool has_value(const tensor &value) {
    return value.size() && value.data()[0] != static_cast<double>(NONE_VALUE);
}

/* `values`: the program's own; NULL if it has none. */
inline void score(const char *name, const ars_dist *d, std::size_t n, const double *values) {
    if (!n) return;
    if (n == 1 && values)
        ars_observe_value(name, d[0], values[0]);
    else if (n == 1)
        ars_observe(name, d[0]);
    else if (values)
        ars_observe_values(name, d, n, values, nullptr);
    else
        ars_observe_vector(name, d, n, nullptr);
}

/* Room for a few distributions without malloc. */
class dists {
  public:
    explicit dists(std::size_t n) : many(n > 1 ? n : 0) {}
    ars_dist &operator[](std::size_t i) { return many.empty() ? single : many[i]; }
    const ars_dist *data() const { return many.empty() ? &single : many.data(); }

  private:
    ars_dist single = {};
    std::vector<ars_dist> many;
};

} // namespace detail

/* ---- distributions ---------------------------------------------------------------------------------------------------- */

namespace distributions {

/* A subclass overrides sample() in the form of the pyprob_cpp that it was written for, and observe(). */
class Distribution {
  public:
    Distribution() = default;
    Distribution(const Distribution &) = default;
    Distribution(Distribution &&) = default;
    Distribution &operator=(const Distribution &) = default;
    Distribution &operator=(Distribution &&) = default;
    virtual ~Distribution() = default;

    virtual xt::xarray<double> sample(const bool control, const std::string &address, const std::string &name) {
        (void)control, (void)address, (void)name;
        return xt::xarray<double>{0};
    }
    virtual xt::xarray<double> sample(const bool control, const bool replace, const std::string &address,
                                      const std::string &name) {
        const bool before = detail::here().replacing;
        detail::here().replacing = replace;
        xt::xarray<double> out = sample(control, address, name);
        detail::here().replacing = before;
        return out;
    }
    virtual void observe(xt::xarray<double> value, const std::string &address, const std::string &name) {
        (void)value, (void)address, (void)name;
    }
};

} // namespace distributions

namespace detail {

/* Distributions whose elements are independent and have one or two parameters. Family has `title`; prior(a, b), which is what
 * libars draws from; and local(a, b, engine), a draw outside a trace. */
template <class Family> class elementwise : public distributions::Distribution {
  public:
    using distributions::Distribution::sample;
    xt::xarray<double> sample(const bool control, const std::string &address, const std::string &name) override {
        const spread a(first, shape), b(second, shape);
        const std::size_t n = size_of(shape);
        if (!here().in_trace) {
            tensor out = tensor::from_shape(shape);
            for (std::size_t i = 0; i < n; i++) out.data()[i] = Family::local(a[i], b[i], here().engine);
            return out;
        }
        dists d(n);
        for (std::size_t i = 0; i < n; i++) d[i] = Family::prior(a[i], b[i]);
        return draw(label(address, name), control, d.data(), shape);
    }
    void observe(xt::xarray<double> value, const std::string &address, const std::string &name) override {
        if (!here().in_trace) return;
        const bool held = has_value(value);
        const shape_type all = held ? broadcast(shape, shape_of(value), Family::title()) : shape;
        const std::size_t n = size_of(all);
        const spread a(first, all), b(second, all), x(value, held ? all : shape_of(value));
        dists d(n);
        std::vector<double> values(held ? n : 0);
        for (std::size_t i = 0; i < n; i++) d[i] = Family::prior(a[i], b[i]);
        for (std::size_t i = 0; i < values.size(); i++) values[i] = x[i];
        score(label(address, name), d.data(), n, held ? values.data() : nullptr);
    }

  protected:
    explicit elementwise(xt::xarray<double> a, xt::xarray<double> b = 0.0)
        : first(std::move(a)), second(std::move(b)), shape(broadcast(shape_of(first), shape_of(second), Family::title())) {}

  private:
    tensor first, second;
    shape_type shape;
};

} // namespace detail

namespace distributions {

class Uniform : public detail::elementwise<Uniform> {
  public:
    Uniform(xt::xarray<double> low = xt::xarray<double>{0}, xt::xarray<double> high = xt::xarray<double>{1})
        : elementwise(low, high) {}
    static const char *title() { return "Uniform(low, high)"; }
    static ars_dist prior(double low, double high) { return ars_uniform(low, high); }
    static double local(double low, double high, std::default_random_engine &engine) {
        return std::uniform_real_distribution<double>(low, high)(engine);
    }
};

class Normal : public detail::elementwise<Normal> {
  public:
    Normal(xt::xarray<double> mean = xt::xarray<double>{0}, xt::xarray<double> stddev = xt::xarray<double>{1})
        : elementwise(mean, stddev) {}
    static const char *title() { return "Normal(mean, stddev)"; }
    static ars_dist prior(double mean, double stddev) { return ars_normal(mean, stddev); }
    static double local(double mean, double stddev, std::default_random_engine &engine) {
        return std::normal_distribution<double>(mean, stddev)(engine);
    }
};

class Poisson : public detail::elementwise<Poisson> {
  public:
    Poisson(xt::xarray<double> rate = xt::xarray<double>{0}) : elementwise(rate) {}
    static const char *title() { return "Poisson(rate)"; }
    static ars_dist prior(double rate, double) { return ars_poisson(rate); }
    static double local(double rate, double, std::default_random_engine &engine) {
        return rate > 0 ? static_cast<double>(std::poisson_distribution<long>(rate)(engine)) : 0;
    }
};

class Bernoulli : public detail::elementwise<Bernoulli> {
  public:
    Bernoulli(xt::xarray<double> probs = xt::xarray<double>{1}) : elementwise(probs) {}
    static const char *title() { return "Bernoulli(probs)"; }
    static ars_dist prior(double p, double) { return ars_bernoulli(p); }
    static double local(double p, double, std::default_random_engine &engine) {
        return std::bernoulli_distribution(p)(engine);
    }
};

class Exponential : public detail::elementwise<Exponential> {
  public:
    Exponential(xt::xarray<double> rate = xt::xarray<double>{0}) : elementwise(rate) {}
    static const char *title() { return "Exponential(rate)"; }
    static ars_dist prior(double rate, double) { return ars_exponential(rate); }
    static double local(double rate, double, std::default_random_engine &engine) {
        return std::exponential_distribution<double>(rate)(engine);
    }
};

class Gamma : public detail::elementwise<Gamma> {
  public:
    Gamma(xt::xarray<double> concentration = xt::xarray<double>{0}, xt::xarray<double> rate = xt::xarray<double>{1})
        : elementwise(concentration, rate) {}
    static const char *title() { return "Gamma(concentration, rate)"; }
    static ars_dist prior(double concentration, double rate) { return ars_gamma(concentration, rate); }
    static double local(double concentration, double rate, std::default_random_engine &engine) {
        return std::gamma_distribution<double>(concentration, 1 / rate)(engine);
    }
};

class Beta : public detail::elementwise<Beta> {
  public:
    Beta(xt::xarray<double> concentration1 = xt::xarray<double>{0},
         xt::xarray<double> concentration0 = xt::xarray<double>{1})
        : elementwise(concentration1, concentration0) {}
    static const char *title() { return "Beta(concentration1, concentration0)"; }
    static ars_dist prior(double concentration1, double concentration0) {
        return ars_beta(concentration1, concentration0);
    }
    static double local(double concentration1, double concentration0, std::default_random_engine &engine) {
        const double x = std::gamma_distribution<double>(concentration1)(engine);
        return x / (x + std::gamma_distribution<double>(concentration0)(engine));
    }
};

class LogNormal : public detail::elementwise<LogNormal> {
  public:
    LogNormal(xt::xarray<double> loc = xt::xarray<double>{0}, xt::xarray<double> scale = xt::xarray<double>{1})
        : elementwise(loc, scale) {}
    static const char *title() { return "LogNormal(loc, scale)"; }
    static ars_dist prior(double loc, double scale) { return ars_lognormal(loc, scale); }
    static double local(double loc, double scale, std::default_random_engine &engine) {
        return std::lognormal_distribution<double>(loc, scale)(engine);
    }
};

class Binomial : public detail::elementwise<Binomial> {
  public:
    Binomial(xt::xarray<double> total_count = xt::xarray<double>{0}, xt::xarray<double> probs = xt::xarray<double>{1})
        : elementwise(total_count, probs) {}
    static const char *title() { return "Binomial(total_count, probs)"; }
    static ars_dist prior(double total_count, double probs) { return ars_binomial(whole(total_count), probs); }
    static double local(double total_count, double probs, std::default_random_engine &engine) {
        return std::binomial_distribution<unsigned>(whole(total_count), probs)(engine);
    }

  private:
    static unsigned whole(double n) {
        if (!(n >= 0 && n <= 4294967295.0 && std::floor(n) == n))
            throw std::invalid_argument("pyprob_cpp: Binomial: total_count is " + std::to_string(n) +
                                        ", must be a whole number of at least 0");
        return static_cast<unsigned>(n);
    }
};

class Weibull : public detail::elementwise<Weibull> {
  public:
    Weibull(xt::xarray<double> scale = xt::xarray<double>{0}, xt::xarray<double> concentration = xt::xarray<double>{1})
        : elementwise(scale, concentration) {}
    static const char *title() { return "Weibull(scale, concentration)"; }
    static ars_dist prior(double scale, double concentration) { return ars_weibull(scale, concentration); }
    static double local(double scale, double concentration, std::default_random_engine &engine) {
        return std::weibull_distribution<double>(concentration, scale)(engine);
    }
};

/* The last dimension of `probs` holds the probabilities of 0, 1, ..., which need not sum to 1; the others are those of the
 * draw. So a vector of probabilities gives a number. */
class Categorical : public Distribution {
  public:
    Categorical(xt::xarray<double> probs = xt::xarray<double>{1}) : shape(detail::shape_of(probs)) {
        k = shape.back();
        shape.pop_back();
        p.assign(probs.data(), probs.data() + probs.size());
        for (std::size_t row = 0; k && row < p.size(); row += k) {
            double sum = 0;
            for (std::size_t i = 0; i < k; i++) sum += p[row + i];
            for (std::size_t i = 0; i < k && sum > 0 && std::isfinite(sum); i++) p[row + i] /= sum;
        }
    }
    using Distribution::sample;
    xt::xarray<double> sample(const bool control, const std::string &address, const std::string &name) override {
        const std::size_t n = detail::size_of(shape);
        if (!detail::here().in_trace) {
            xt::xarray<double> out = xt::xarray<double>::from_shape(shape);
            for (std::size_t i = 0; i < n; i++) {
                std::discrete_distribution<unsigned> local(p.begin() + static_cast<std::ptrdiff_t>(i * k),
                                                           p.begin() + static_cast<std::ptrdiff_t>((i + 1) * k));
                out.data()[i] = local(detail::here().engine);
            }
            return out;
        }
        detail::dists d(n);
        for (std::size_t i = 0; i < n; i++) d[i] = ars_categorical(p.data() + i * k, k);
        return detail::draw(detail::label(address, name), control, d.data(), shape);
    }
    void observe(xt::xarray<double> value, const std::string &address, const std::string &name) override {
        if (!detail::here().in_trace) return;
        const bool held = detail::has_value(value);
        const detail::shape_type own = shape.empty() ? detail::shape_type{1} : shape;
        const detail::shape_type all =
            held ? detail::broadcast(own, detail::shape_of(value), "Categorical(probs)") : own;
        const std::size_t n = detail::size_of(all);
        xt::xarray<double> rows = xt::xarray<double>::from_shape(own);
        for (std::size_t i = 0; i < rows.size(); i++) rows.data()[i] = static_cast<double>(i * k);
        const detail::spread row(rows, all), x(value, held ? all : detail::shape_of(value));
        detail::dists d(n);
        std::vector<double> values(held ? n : 0);
        for (std::size_t i = 0; i < n; i++) d[i] = ars_categorical(p.data() + static_cast<std::size_t>(row[i]), k);
        for (std::size_t i = 0; i < values.size(); i++) values[i] = x[i];
        detail::score(detail::label(address, name), d.data(), n, held ? values.data() : nullptr);
    }

  private:
    std::vector<double> p;
    std::size_t k;
    detail::shape_type shape;
};

} // namespace distributions

/* ---- draws, observations, results -------------------------------------------------------------------------------------- */

/* Of draws outside a trace. Every trace seeds it anew, so that a subclass that draws from it repeats its draws. */
static std::default_random_engine &generator __attribute__((unused)) = detail::here().engine;

/* Whether the controller proposes for draws that do not say so, and whether they are draws of a rejection loop. What a trace
 * sets is over when it ends. */
inline void setDefaultControl(bool control = true) {
    detail::here().control = control;
}
inline void setDefaultReplace(bool replace = false) {
    detail::here().replace = replace;
}

inline xt::xarray<double> sample(distributions::Distribution &distribution, const bool control, const bool replace,
                                 const std::string &name) {
    return distribution.sample(control, replace, "", name);
}
inline xt::xarray<double> sample(distributions::Distribution &distribution, const bool control, const bool replace) {
    return sample(distribution, control, replace, "");
}
inline xt::xarray<double> sample(distributions::Distribution &distribution) {
    return sample(distribution, detail::here().control, detail::here().replace, "");
}
inline xt::xarray<double> sample(distributions::Distribution &distribution, const std::string &name) {
    return sample(distribution, detail::here().control, detail::here().replace, name);
}
inline xt::xarray<double> sample(distributions::Distribution &distribution, const bool control,
                                 const std::string &name) {
    return sample(distribution, control, detail::here().replace, name);
}
/* A name that is no std::string would rather become a bool: this one is a better match, and no match for 0. */
template <class Text, class = std::enable_if_t<std::is_same<Text, const char *>::value || std::is_same<Text, char *>::value>>
inline xt::xarray<double> sample(distributions::Distribution &distribution, const bool control, Text name) {
    return sample(distribution, control, detail::here().replace, name);
}

inline void observe(distributions::Distribution &distribution, xt::xarray<double> value, const std::string &name) {
    distribution.observe(std::move(value), "", name);
}
inline void observe(distributions::Distribution &distribution, xt::xarray<double> value) {
    observe(distribution, std::move(value), "");
}
/* A template, so that observe(d, 0) is the value 0 and not a null pointer. */
template <class Text, class = std::enable_if_t<std::is_convertible<const Text &, std::string>::value>>
inline void observe(distributions::Distribution &distribution, const Text &name) {
    observe(distribution, NONE_VALUE, std::string(name));
}

inline void tag(xt::xarray<double> value, const std::string &name) {
    if (!detail::here().in_trace || !value.size()) return;
    detail::record(name.empty() ? ("tag" + std::to_string(detail::here().unnamed_tags++)).c_str() : name.c_str(), value);
}
inline void tag(xt::xarray<double> value) {
    tag(std::move(value), "");
}

/* ---- the program ------------------------------------------------------------------------------------------------------ */

class Model {
  public:
    Model(xt::xarray<double> (*modelFunction)(), const std::string &modelName)
        : function(modelFunction), name(modelName) {}
    /* As in pyprob_cpp before 0.1.10: the model gets the data given as "observation", else `defaultObservation`. */
    Model(xt::xarray<double> (*modelFunction)(xt::xarray<double>), xt::xarray<double> defaultObservation,
          const std::string &modelName)
        : older(modelFunction), defaults(std::move(defaultObservation)), name(modelName) {}

    /* Runs the model, once per trace that the controller asks for; once if there is none. Nothing is bound: ARS_ENDPOINT says
     * where the controller is, and `serverAddress` says nothing. Returns when the controller is done. */
    void startServer(const std::string &serverAddress = "tcp://*:5555") {
        (void)serverAddress;
        if (ars_standalone() && isatty(STDERR_FILENO))
            std::fprintf(stderr,
                         "%s: no controller, so the model runs on its own, with draws from its prior. For inference start "
                         "it with `ars infer`, or with ars.Simulator in Python\n",
                         name.c_str());
        const bool control = detail::here().control, replace = detail::here().replace;
        while (ars_next_trace()) {
            setDefaultControl(control);
            setDefaultReplace(replace);
            run();
        }
    }

  private:
    struct trace {
        trace() {
            detail::process &now = detail::here();
            now.in_trace = true;
            now.unnamed_tags = 0;
            now.replaced.clear();
            now.engine.seed(1 + static_cast<std::uint32_t>(ars_draw(ars_uniform(0, 2147483646))));
        }
        ~trace() { detail::here().in_trace = false; }
        trace(const trace &) = delete;
        trace &operator=(const trace &) = delete;
    };

    void run() {
        trace now;
        const xt::xarray<double> result = function ? function() : older(observation());
        for (const auto &last : detail::here().replaced) detail::record(last.first.c_str(), last.second);
        if (result.size()) detail::record("result", result);
    }

    /* In the shape of the default if it has as many elements. */
    xt::xarray<double> observation() const {
        std::size_t n = 0;
        const double *given = ars_given("observation", &n);
        if (!given) return defaults;
        xt::xarray<double> out = defaults;
        if (out.size() != n) out.resize({n});
        std::copy(given, given + n, out.data());
        return out;
    }

    xt::xarray<double> (*function)() = nullptr;
    xt::xarray<double> (*older)(xt::xarray<double>) = nullptr;
    xt::xarray<double> defaults;
    std::string name;
};

} // namespace pyprob_cpp

#endif /* ARS_PYPROB_CPP_HPP */

/* ars/pyprob_cpp.hpp: sources written for pyprob_cpp, compiled against libars.
 *
 * A program that includes <pyprob_cpp.h> needs no change: the folder ars/compat/pyprob_cpp holds a header of that name, which
 * includes this one. Put it on the include path instead of pyprob_cpp's (ars config --pyprob-cpp, the CMake target
 * ars::pyprob_cpp, or pkg-config ars-pyprob-cpp) and link libars. ZeroMQ, flatbuffers and pyprob_cpp are no longer needed. The
 * header needs C++14 and xtensor (Debian: libxtensor-dev). docs/pyprob-cpp.md explains the details; in short:
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
 * Shapes are the same as in pyprob: parameters broadcast, and a number counts as a tensor of shape (1). Before and after
 * startServer, draws come from pyprob_cpp::generator, and observations and tags do nothing. */
#ifndef ARS_PYPROB_CPP_HPP
#define ARS_PYPROB_CPP_HPP

#if __cplusplus < 201402L
#error "pyprob_cpp over libars needs C++14: xtensor does"
#endif

#include <unistd.h>

#include <ars/detail/pyprob_tensors.hpp>

/* Calls that a program makes stay calls: the call path of an unnamed draw then has the program's own functions in it, in the
 * same order whatever the optimiser does. Names in this namespace are left out of the path. */
#define ARS__PYPROB_CALL inline __attribute__((noinline))

#ifndef VERSION
#define VERSION "1.0.0"
#endif
#ifndef GIT_BRANCH
#define GIT_BRANCH "libars"
#endif
#ifndef GIT_COMMIT_HASH
#define GIT_COMMIT_HASH "0000000"
#endif

namespace pyprob_cpp {

/* ---- distributions ---------------------------------------------------------------------------------------------------- */

namespace distributions {

/* A subclass overrides sample() and observe() in the form of the pyprob_cpp that it was written for. The free functions call
 * the oldest form; each one calls the next, unless it is overridden. */
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
    virtual xt::xarray<double> sample(const bool control, const bool replace, const std::string &address) {
        const bool before = libars_detail::here().replacing;
        libars_detail::here().replacing = replace;
        xt::xarray<double> out = sample(control, std::string(), address);
        libars_detail::here().replacing = before;
        return out;
    }
    virtual xt::xarray<double> sample(const bool control, const bool replace, const std::string &address,
                                      const std::string &name) {
        return sample(control, replace, name.empty() ? address : name);
    }
    /* An address that is no std::string would rather become the bool `replace`. */
    template <class Text, class = libars_detail::if_text<Text>>
    xt::xarray<double> sample(const bool control, Text address, const std::string &name) {
        return sample(control, std::string(address), name);
    }

    virtual void observe(xt::xarray<double> value, const std::string &address, const std::string &name) {
        (void)value, (void)address, (void)name;
    }
    virtual void observe(xt::xarray<double> value, const std::string &address) {
        observe(std::move(value), std::string(), address);
    }
};

} // namespace distributions

namespace libars_detail {

/* Distributions whose elements are independent and have one or two parameters. Family has title(), its name;
 * prior(a, b), what libars draws from; and local(a, b, engine), a draw outside a trace. */
template <class Family> class elementwise : public distributions::Distribution {
  public:
    using distributions::Distribution::observe;
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
        const std::string unnamed = std::string("observe:") + Family::title();
        score(label(address, name, unnamed.c_str()), d.data(), n, held ? values.data() : nullptr);
    }

  protected:
    explicit elementwise(xt::xarray<double> a, xt::xarray<double> b = 0.0)
        : first(std::move(a)), second(std::move(b)),
          shape(broadcast(shape_of(first), shape_of(second), Family::title())) {}

  private:
    tensor first, second;
    shape_type shape;
};

} // namespace libars_detail

namespace distributions {

class Uniform : public libars_detail::elementwise<Uniform> {
  public:
    Uniform(xt::xarray<double> low = xt::xarray<double>{0}, xt::xarray<double> high = xt::xarray<double>{1})
        : elementwise(low, high) {}
    static const char *title() { return "Uniform"; }
    static ars_dist prior(double low, double high) { return ars_uniform(low, high); }
    static double local(double low, double high, std::default_random_engine &engine) {
        return std::uniform_real_distribution<double>(low, high)(engine);
    }
};

class Normal : public libars_detail::elementwise<Normal> {
  public:
    Normal(xt::xarray<double> mean = xt::xarray<double>{0}, xt::xarray<double> stddev = xt::xarray<double>{1})
        : elementwise(mean, stddev) {}
    static const char *title() { return "Normal"; }
    static ars_dist prior(double mean, double stddev) { return ars_normal(mean, stddev); }
    static double local(double mean, double stddev, std::default_random_engine &engine) {
        return std::normal_distribution<double>(mean, stddev)(engine);
    }
};

class Poisson : public libars_detail::elementwise<Poisson> {
  public:
    Poisson(xt::xarray<double> rate = xt::xarray<double>{0}) : elementwise(rate) {}
    static const char *title() { return "Poisson"; }
    static ars_dist prior(double rate, double) { return ars_poisson(rate); }
    static double local(double rate, double, std::default_random_engine &engine) {
        return rate > 0 ? static_cast<double>(std::poisson_distribution<long>(rate)(engine)) : 0;
    }
};

class Bernoulli : public libars_detail::elementwise<Bernoulli> {
  public:
    Bernoulli(xt::xarray<double> probs = xt::xarray<double>{1}) : elementwise(probs) {}
    static const char *title() { return "Bernoulli"; }
    static ars_dist prior(double p, double) { return ars_bernoulli(p); }
    static double local(double p, double, std::default_random_engine &engine) {
        return std::bernoulli_distribution(p)(engine);
    }
};

class Exponential : public libars_detail::elementwise<Exponential> {
  public:
    Exponential(xt::xarray<double> rate = xt::xarray<double>{0}) : elementwise(rate) {}
    static const char *title() { return "Exponential"; }
    static ars_dist prior(double rate, double) { return ars_exponential(rate); }
    static double local(double rate, double, std::default_random_engine &engine) {
        return std::exponential_distribution<double>(rate)(engine);
    }
};

class Gamma : public libars_detail::elementwise<Gamma> {
  public:
    Gamma(xt::xarray<double> concentration = xt::xarray<double>{0}, xt::xarray<double> rate = xt::xarray<double>{1})
        : elementwise(concentration, rate) {}
    static const char *title() { return "Gamma"; }
    static ars_dist prior(double concentration, double rate) { return ars_gamma(concentration, rate); }
    static double local(double concentration, double rate, std::default_random_engine &engine) {
        return std::gamma_distribution<double>(concentration, 1 / rate)(engine);
    }
};

class Beta : public libars_detail::elementwise<Beta> {
  public:
    Beta(xt::xarray<double> concentration1 = xt::xarray<double>{0},
         xt::xarray<double> concentration0 = xt::xarray<double>{1})
        : elementwise(concentration1, concentration0) {}
    static const char *title() { return "Beta"; }
    static ars_dist prior(double concentration1, double concentration0) {
        return ars_beta(concentration1, concentration0);
    }
    static double local(double concentration1, double concentration0, std::default_random_engine &engine) {
        const double x = std::gamma_distribution<double>(concentration1)(engine);
        return x / (x + std::gamma_distribution<double>(concentration0)(engine));
    }
};

class LogNormal : public libars_detail::elementwise<LogNormal> {
  public:
    LogNormal(xt::xarray<double> loc = xt::xarray<double>{0}, xt::xarray<double> scale = xt::xarray<double>{1})
        : elementwise(loc, scale) {}
    static const char *title() { return "LogNormal"; }
    static ars_dist prior(double loc, double scale) { return ars_lognormal(loc, scale); }
    static double local(double loc, double scale, std::default_random_engine &engine) {
        return std::lognormal_distribution<double>(loc, scale)(engine);
    }
};

class Binomial : public libars_detail::elementwise<Binomial> {
  public:
    Binomial(xt::xarray<double> total_count = xt::xarray<double>{0}, xt::xarray<double> probs = xt::xarray<double>{1})
        : elementwise(total_count, probs) {}
    static const char *title() { return "Binomial"; }
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

class Weibull : public libars_detail::elementwise<Weibull> {
  public:
    Weibull(xt::xarray<double> scale = xt::xarray<double>{0}, xt::xarray<double> concentration = xt::xarray<double>{1})
        : elementwise(scale, concentration) {}
    static const char *title() { return "Weibull"; }
    static ars_dist prior(double scale, double concentration) { return ars_weibull(scale, concentration); }
    static double local(double scale, double concentration, std::default_random_engine &engine) {
        return std::weibull_distribution<double>(concentration, scale)(engine);
    }
};

/* The last dimension of `probs` holds the probabilities of 0, 1, ..., which need not sum to 1; the others are those of the
 * draw. So a vector of probabilities gives a number. */
class Categorical : public Distribution {
  public:
    Categorical(xt::xarray<double> probs = xt::xarray<double>{1}) : shape(libars_detail::shape_of(probs)) {
        k = shape.back();
        shape.pop_back();
        p.assign(probs.data(), probs.data() + probs.size());
        for (std::size_t row = 0; k && row < p.size(); row += k) {
            double sum = 0;
            for (std::size_t i = 0; i < k; i++) sum += p[row + i];
            for (std::size_t i = 0; i < k && sum > 0 && std::isfinite(sum); i++) p[row + i] /= sum;
        }
    }
    using Distribution::observe;
    using Distribution::sample;
    xt::xarray<double> sample(const bool control, const std::string &address, const std::string &name) override {
        const std::size_t n = libars_detail::size_of(shape);
        if (!libars_detail::here().in_trace) {
            xt::xarray<double> out = xt::xarray<double>::from_shape(shape);
            for (std::size_t i = 0; i < n; i++) {
                std::discrete_distribution<unsigned> local(p.begin() + static_cast<std::ptrdiff_t>(i * k),
                                                           p.begin() + static_cast<std::ptrdiff_t>((i + 1) * k));
                out.data()[i] = local(libars_detail::here().engine);
            }
            return out;
        }
        libars_detail::dists d(n);
        for (std::size_t i = 0; i < n; i++) d[i] = ars_categorical(p.data() + i * k, k);
        return libars_detail::draw(libars_detail::label(address, name), control, d.data(), shape);
    }
    void observe(xt::xarray<double> value, const std::string &address, const std::string &name) override {
        if (!libars_detail::here().in_trace) return;
        const bool held = libars_detail::has_value(value);
        const libars_detail::shape_type own = shape.empty() ? libars_detail::shape_type{1} : shape;
        const libars_detail::shape_type all =
            held ? libars_detail::broadcast(own, libars_detail::shape_of(value), "Categorical") : own;
        const std::size_t n = libars_detail::size_of(all);
        xt::xarray<double> rows = xt::xarray<double>::from_shape(own);
        for (std::size_t i = 0; i < rows.size(); i++) rows.data()[i] = static_cast<double>(i * k);
        const libars_detail::spread row(rows, all), x(value, held ? all : libars_detail::shape_of(value));
        libars_detail::dists d(n);
        std::vector<double> values(held ? n : 0);
        for (std::size_t i = 0; i < n; i++) d[i] = ars_categorical(p.data() + static_cast<std::size_t>(row[i]), k);
        for (std::size_t i = 0; i < values.size(); i++) values[i] = x[i];
        libars_detail::score(libars_detail::label(address, name, "observe:Categorical"), d.data(), n,
                             held ? values.data() : nullptr);
    }

  private:
    std::vector<double> p;
    std::size_t k;
    libars_detail::shape_type shape;
};

} // namespace distributions

/* ---- draws, observations, results -------------------------------------------------------------------------------------- */

/* The generator for draws outside a trace. Every trace seeds it again, so a subclass that draws from it repeats its draws. */
static std::default_random_engine &generator __attribute__((unused)) = libars_detail::here().engine;

/* The defaults of `control` (may the controller propose the draw?) and `replace` (is it in a rejection loop?). Values that a
 * trace sets are reset when it ends. */
inline void setDefaultControl(bool control = true) {
    libars_detail::here().control = control;
}
inline void setDefaultReplace(bool replace = false) {
    libars_detail::here().replace = replace;
}

ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution, const bool control,
                                           const bool replace, const std::string &name) {
    return distribution.sample(control, replace, "", name);
}
ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution, const bool control,
                                           const bool replace) {
    return sample(distribution, control, replace, "");
}
ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution) {
    return sample(distribution, libars_detail::here().control, libars_detail::here().replace, "");
}
ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution, const std::string &name) {
    return sample(distribution, libars_detail::here().control, libars_detail::here().replace, name);
}
ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution, const bool control,
                                           const std::string &name) {
    return sample(distribution, control, libars_detail::here().replace, name);
}
/* A name that is no std::string would rather become a bool: this one is a better match, and no match for 0. */
template <class Text, class = libars_detail::if_text<Text>>
ARS__PYPROB_CALL xt::xarray<double> sample(distributions::Distribution &distribution, const bool control, Text name) {
    return sample(distribution, control, libars_detail::here().replace, name);
}

ARS__PYPROB_CALL void observe(distributions::Distribution &distribution, xt::xarray<double> value,
                              const std::string &name) {
    distribution.observe(std::move(value), name);
}
ARS__PYPROB_CALL void observe(distributions::Distribution &distribution, xt::xarray<double> value) {
    observe(distribution, std::move(value), "");
}
/* A template, so that observe(d, 0) is the value 0 and not a null pointer. */
template <class Text, class = std::enable_if_t<std::is_convertible<const Text &, std::string>::value>>
ARS__PYPROB_CALL void observe(distributions::Distribution &distribution, const Text &name) {
    observe(distribution, NONE_VALUE, std::string(name));
}

inline void tag(xt::xarray<double> value, const std::string &name) {
    if (!libars_detail::here().in_trace || !value.size()) return;
    libars_detail::record(
        name.empty() ? ("tag" + std::to_string(libars_detail::here().unnamed_tags++)).c_str() : name.c_str(), value);
}
inline void tag(xt::xarray<double> value) {
    tag(std::move(value), "");
}

/* ---- the program ------------------------------------------------------------------------------------------------------ */

class Model {
  public:
    Model(xt::xarray<double> (*modelFunction)(), const std::string &modelName)
        : function(modelFunction), name(modelName) {}
    /* As in pyprob_cpp before 0.1.10: the model receives the data given as "observation", otherwise `defaultObservation`. */
    Model(xt::xarray<double> (*modelFunction)(xt::xarray<double>), xt::xarray<double> defaultObservation,
          const std::string &modelName)
        : older(modelFunction), defaults(std::move(defaultObservation)), name(modelName) {}

    /* Runs the model once per trace that the controller requests, or once if there is no controller. No address is bound:
     * ARS_ENDPOINT is the address of the controller, and `serverAddress` is ignored. Returns when the controller has finished. */
    void startServer(const std::string &serverAddress = "tcp://*:5555") {
        (void)serverAddress;
        if (ars_standalone() && isatty(STDERR_FILENO))
            std::fprintf(
                stderr,
                "%s: no controller, so the model runs on its own, with draws from its prior. For inference start "
                "it with `ars infer`, or with ars.Simulator in Python\n",
                name.c_str());
        const bool control = libars_detail::here().control, replace = libars_detail::here().replace;
        while (ars_next_trace()) {
            setDefaultControl(control);
            setDefaultReplace(replace);
            run();
        }
    }

  private:
    struct trace {
        trace() {
            libars_detail::process &now = libars_detail::here();
            now.in_trace = true;
            now.replacing = false;
            now.unnamed_tags = 0;
            now.replaced.clear();
            now.engine.seed(1 + static_cast<std::uint32_t>(ars_draw(ars_uniform(0, 2147483646))));
        }
        ~trace() { libars_detail::here().in_trace = false; }
        trace(const trace &) = delete;
        trace &operator=(const trace &) = delete;
    };

    void run() {
        trace now;
        const xt::xarray<double> result = function ? function() : older(observation());
        for (const auto &last : libars_detail::here().replaced) libars_detail::record(last.first.c_str(), last.second);
        if (result.size()) libars_detail::record("result", result);
    }

    /* Takes the shape of the default if the number of elements agrees. */
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

/* ars.hpp: the C interface of ars.h in C++11, and rejection loops without marks.
 *
 *     double x;
 *     ars::reject([&] {
 *         x = ars::sample("x", ars::uniform(-1, 1));
 *         return x * x < 0.5;                                // accepted?
 *     });
 *     ars::observe("y", ars::normal(x, 0.1));
 *
 * Read the notes at the top of ars.h first; they also apply here. */
#ifndef ARS_HPP
#define ARS_HPP

#include <array>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "ars.h"
#include <ars/reject.hpp>

namespace ars {

/* ---- distributions -------------------------------------------------------------------------------------------- */

using dist = ars_dist;

inline dist uniform(double low, double high) {
    return ars_uniform(low, high);
}
inline dist normal(double mean, double std) {
    return ars_normal(mean, std);
}
inline dist bernoulli(double p) {
    return ars_bernoulli(p);
}
inline dist poisson(double rate) {
    return ars_poisson(rate);
}
inline dist binomial(unsigned n, double p) {
    return ars_binomial(n, p);
}
inline dist beta(double a, double b) {
    return ars_beta(a, b);
}
inline dist gamma(double shape, double rate) {
    return ars_gamma(shape, rate);
}
inline dist exponential(double rate) {
    return ars_exponential(rate);
}
inline dist weibull(double scale, double shape) {
    return ars_weibull(scale, shape);
}
inline dist lognormal(double mu, double sigma) {
    return ars_lognormal(mu, sigma);
}
inline dist truncated_normal(double mean, double std, double low, double high) {
    return ars_truncated_normal(mean, std, low, high);
}

inline dist negative_binomial(double r, double p) {
    return ars_negative_binomial(r, p);
}
inline dist student_t(double df, double loc, double scale) {
    return ars_student_t(df, loc, scale);
}

/* A Categorical keeps a pointer to its probabilities. A list or a temporary vector lives until the end of the
 * expression, so use it there: ars::sample("k", ars::categorical({0.2, 0.8})). */
inline dist categorical(const double *p, std::size_t k) {
    return ars_categorical(p, k);
}
inline dist categorical(const std::vector<double> &p) {
    return ars_categorical(p.data(), p.size());
}
inline dist categorical(std::initializer_list<double> p) {
    return ars_categorical(p.begin(), p.size());
}

/* Vectors, for sample_vector, draw_vector and observe_vector. They keep pointers to their parameters, as categorical does. The
 * factor has mean.size() rows, one after another. */
inline dist multivariate_normal(const double *mean, const double *cholesky, std::size_t n) {
    return ars_multivariate_normal(mean, cholesky, n);
}
inline dist multivariate_normal(const std::vector<double> &mean, const std::vector<double> &cholesky) {
    if (cholesky.size() != mean.size() * mean.size())
        throw std::invalid_argument("ars::multivariate_normal: " + std::to_string(mean.size()) + " means but " +
                                    std::to_string(cholesky.size()) + " numbers in the factor; it has n x n of them");
    return ars_multivariate_normal(mean.data(), cholesky.data(), mean.size());
}
inline dist dirichlet(const double *concentration, std::size_t n) {
    return ars_dirichlet(concentration, n);
}
inline dist dirichlet(const std::vector<double> &concentration) {
    return ars_dirichlet(concentration.data(), concentration.size());
}
inline dist dirichlet(std::initializer_list<double> concentration) {
    return ars_dirichlet(concentration.begin(), concentration.size());
}

inline double log_density(dist d, double x) {
    return ars_log_density(d, x);
}

namespace detail {
inline void check_sizes(const char *call, const char *name, std::size_t n, const char *of_n, std::size_t m,
                        const char *of_m) {
    if (n != m)
        throw std::invalid_argument("ars::" + std::string(call) + "(\"" + name + "\"): " + std::to_string(n) + " " +
                                    of_n + " but " + std::to_string(m) + " " + of_m + "; give one of each per value");
}
} // namespace detail

/* ---- random choices, data, results ---------------------------------------------------------------------------- */

inline double sample(const char *name, dist d) {
    return ars_sample(name, d);
}
/* Draws that are named by their call path: see ars_flat in ars.h. Always inlined, so that the path ends with the caller. */
__attribute__((always_inline)) inline double sample(dist d) {
    double drawn = ars_sample(nullptr, d);
    __asm__ volatile(""); /* no tail call: the path has the caller's frame in it */
    return drawn;
}
__attribute__((always_inline)) inline double flat() {
    return ars_flat();
}
inline double draw(dist d) {
    return ars_draw(d);
}
inline double observe(const char *name, dist d) {
    return ars_observe(name, d);
}

/* Returns the total number of values in one draw from each of these distributions. */
inline std::size_t dimension(const dist *d, std::size_t n) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < n; i++) sum += ars_dimension(d[i]);
    return sum;
}

/* Draws latents of one site in one request. Returns the values of one distribution after another. */
inline void sample_vector(const char *name, const dist *d, std::size_t n, double *values) {
    ars_sample_vector(name, d, n, values);
}
inline std::vector<double> sample_vector(const char *name, const std::vector<dist> &d) {
    std::vector<double> values(dimension(d.data(), d.size()));
    ars_sample_vector(name, d.data(), d.size(), values.data());
    return values;
}
template <std::size_t n> std::vector<double> sample_vector(const char *name, const std::array<dist, n> &d) {
    std::vector<double> values(dimension(d.data(), n));
    ars_sample_vector(name, d.data(), n, values.data());
    return values;
}
inline std::vector<double> sample_vector(const char *name, std::initializer_list<dist> d) {
    std::vector<double> values(dimension(d.begin(), d.size()));
    ars_sample_vector(name, d.begin(), d.size(), values.data());
    return values;
}
/* Draws all dimensions of one distribution. */
inline std::vector<double> sample_vector(const char *name, dist d) {
    std::vector<double> values(ars_dimension(d));
    ars_sample_vector(name, &d, 1, values.data());
    return values;
}

/* The same for nuisances. */
inline void draw_vector(const dist *d, std::size_t n, double *values) {
    ars_draw_vector(d, n, values);
}
inline std::vector<double> draw_vector(const std::vector<dist> &d) {
    std::vector<double> values(dimension(d.data(), d.size()));
    ars_draw_vector(d.data(), d.size(), values.data());
    return values;
}
inline std::vector<double> draw_vector(dist d) {
    std::vector<double> values(ars_dimension(d));
    ars_draw_vector(&d, 1, values.data());
    return values;
}

/* Data that the program holds; see ars_observe_value. */
inline double observe(const char *name, dist d, double value) {
    return ars_observe_value(name, d, value);
}
inline void factor(const char *name, double log_likelihood) {
    ars_factor(name, log_likelihood);
}
inline void result(const char *name, double value) {
    ars_result(name, value);
}
inline void results(const char *name, const double *value, std::size_t n) {
    ars_results(name, value, n);
}
inline void results(const char *name, const std::vector<double> &value) {
    ars_results(name, value.data(), value.size());
}
inline void results(const char *name, std::initializer_list<double> value) {
    ars_results(name, value.begin(), value.size());
}

/* A scope for unnamed draws that ends with its block, even by an exception: ars::scope tau("tau"); A retry of a loop closes
 * all scopes that its last try had opened. If the object of such a scope still exists, it ends without effect. */
class scope {
  public:
    explicit scope(const char *name) : depth(ars__scope_open(name)) {}
    explicit scope(const std::string &name) : depth(ars__scope_open(name.c_str())) {}
    ~scope() { ars__scope_close(depth); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    unsigned depth;
};
inline void flat_policy(const char *pattern, ars_policy policy) {
    ars_flat_policy(pattern, policy);
}

/* Records an array in row-major order, with the lengths of its axes. */
inline void results(const char *name, const double *value, const std::vector<std::size_t> &shape) {
    ars_results_shaped(name, value, shape.data(), shape.size());
}
inline void results(const char *name, const std::vector<double> &value, const std::vector<std::size_t> &shape) {
    std::size_t size = 1;
    for (std::size_t length : shape) size *= length;
    detail::check_sizes("results", name, size, "elements in the shape", value.size(), "values");
    ars_results_shaped(name, value.data(), shape.data(), shape.size());
}
/* Records a matrix, given as rows of equal length. */
inline void results(const char *name, const std::vector<std::vector<double>> &rows) {
    const std::size_t width = rows.empty() ? 0 : rows.front().size();
    std::vector<double> value;
    for (const std::vector<double> &row : rows) {
        detail::check_sizes("results", name, width, "values in the first row", row.size(), "in another");
        value.insert(value.end(), row.begin(), row.end());
    }
    const std::size_t shape[] = {rows.size(), width};
    ars_results_shaped(name, value.data(), shape, 2);
}

inline void observe_normals(const char *name, const double *mean, const double *std, std::size_t n, double *value) {
    ars_observe_normals(name, mean, std, n, value);
}
/* Returns the observed values; a value that was not observed (NaN in the data) is drawn. */
inline std::vector<double> observe_normals(const char *name, const std::vector<double> &mean,
                                           const std::vector<double> &std) {
    detail::check_sizes("observe_normals", name, mean.size(), "means", std.size(), "standard deviations");
    std::vector<double> value(mean.size());
    ars_observe_normals(name, mean.data(), std.data(), mean.size(), value.data());
    return value;
}

inline void observe_vector(const char *name, const dist *d, std::size_t n, double *value = nullptr) {
    ars_observe_vector(name, d, n, value);
}
/* Returns the observed or drawn values. */
inline std::vector<double> observe_vector(const char *name, const std::vector<dist> &d) {
    std::vector<double> value(dimension(d.data(), d.size()));
    ars_observe_vector(name, d.data(), d.size(), value.data());
    return value;
}

/* The same for data that the program holds. */
inline void observe_values(const char *name, const dist *d, std::size_t n, const double *given,
                           double *value = nullptr) {
    ars_observe_values(name, d, n, given, value);
}
inline std::vector<double> observe_values(const char *name, const std::vector<dist> &d,
                                          const std::vector<double> &given) {
    detail::check_sizes("observe_values", name, dimension(d.data(), d.size()), "numbers observed", given.size(),
                        "given");
    std::vector<double> value(given.size());
    ars_observe_values(name, d.data(), d.size(), given.data(), value.data());
    return value;
}

/* Returns all data that the controller gives for a name; empty without data. */
inline std::vector<double> given(const char *name) {
    std::size_t n;
    const double *values = ars_given(name, &n);
    return std::vector<double>(values, values + n);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

inline bool next_trace() {
    return ars_next_trace();
}
inline bool in_trace() {
    return ars_in_trace();
}
inline bool in_continuation() {
    return ars_in_continuation();
}
inline bool in_loop() {
    return ars_in_loop();
}
inline bool standalone() {
    return ars_standalone();
}
inline const char *version() {
    return ars_version();
}

/* Calls model() once per trace and returns the program's exit code. An exception that leaves the model ends the
 * process through std::terminate, because it cannot pass through the C code in between. */
template <class Model> int main(int argc, char **argv, Model &&model) {
    typedef typename std::remove_reference<Model>::type callable;
    struct trampoline {
        static void run(void *user) noexcept { (**static_cast<callable **>(user))(); }
    };
    callable *target = std::addressof(model);
    return ars_main(argc, argv, &trampoline::run, &target);
}

/* ---- rejection loops ------------------------------------------------------------------------------------------ */

/* Repeats body() until it returns true. Every try must be independent of earlier tries. Write the body as a lambda in the
 * call itself; the loop's address then survives recompilation, with GCC and Clang alike. */
template <class F> void reject(F &&body, const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    static_assert(!std::is_lvalue_reference<F>::value,
                  "ars::reject without a name needs a lambda written in the call; else ars::reject(\"name\", body)");
#ifdef __GXX_RTTI
    detail::reject_loop(detail::reject_here(detail::reject_of<F>::call, file, line), body);
#else
    static_assert(sizeof(F) == 0, "without RTTI a loop needs a name: ars::reject(\"name\", body)");
#endif
}

/* The same for a loop with a name, which keeps its address wherever the code moves. Accepts any callable. */
template <class F> void reject(const char *name, F &&body) {
    detail::reject_loop(detail::reject_by_name(name), body);
}

/* Like ars::reject, but calls the body again instead of forking, which is much faster. This is correct if the body keeps the
 * promises of ars_reject in ars.h, where *context stands for the captures of the lambda: it changes nothing else, and it reads
 * nothing from them that an earlier call has written. There is also a form for loops with a name. */
template <class F>
void reject_in_place(F &&body, const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    static_assert(!std::is_lvalue_reference<F>::value,
                  "ars::reject_in_place without a name needs a lambda written in the call; else give it a name");
#ifdef __GXX_RTTI
    detail::reject_again(detail::reject_here(detail::reject_of<F>::call, file, line), body);
#else
    static_assert(sizeof(F) == 0, "without RTTI a loop needs a name: ars::reject_in_place(\"name\", body)");
#endif
}
template <class F> void reject_in_place(const char *name, F &&body) {
    detail::reject_again(detail::reject_by_name(name), body);
}

/* A loop with a handle, like ars_loop in ars.h: attempt() begins every try and accept() ends the loop, wherever you call them. A
 * copy is a closed handle with the same name, so an object that contains one can be copied and moved between its loops. */
class loop {
  public:
    explicit loop(const char *name) : handle(ars_loop_named(name)) {}
    explicit loop(const std::string &name) : handle(ars_loop_named(name.c_str())) {}
    loop(const loop &other) : handle(ars_loop_named(other.handle.name)) {}
    loop &operator=(const loop &other) {
        if (this != &other) handle = ars_loop_named(other.handle.name);
        return *this;
    }

    void attempt() { ars_loop_try(&handle); }
    void accept() { ars_loop_accept(&handle); }
    /* Gives up without acceptance. It is a template so that libars can tell programs that never call it. */
    template <class Self = loop> void abandon() { detail::abandon<Self>(handle); }

  private:
    ars_loop handle;
};

} // namespace ars

#endif /* ARS_HPP */

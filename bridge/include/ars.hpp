/* ars.hpp: the C interface of ars.h in C++11, and rejection loops without marks.
 *
 *     double x;
 *     ars::reject([&] {
 *         x = ars::sample("x", ars::uniform(-1, 1));
 *         return x * x < 0.5;                                // accepted?
 *     });
 *     ars::observe("y", ars::normal(x, 0.1));
 *
 * Read the notes at the top of ars.h: they hold here too. */
#ifndef ARS_HPP
#define ARS_HPP

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "ars.h"

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

/* A scope for unnamed draws that ends with its block, also by exception: ars::scope tau("tau"); */
class scope {
  public:
    explicit scope(const char *name) { ars_scope_push(name); }
    explicit scope(const std::string &name) { ars_scope_push(name.c_str()); }
    ~scope() { ars_scope_pop(); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};
inline void flat_policy(const char *pattern, ars_policy policy) {
    ars_flat_policy(pattern, policy);
}

inline void observe_normals(const char *name, const double *mean, const double *std, std::size_t n, double *value) {
    ars_observe_normals(name, mean, std, n, value);
}
/* Returns what was observed, or drawn where it was not (NaN in the data). */
inline std::vector<double> observe_normals(const char *name, const std::vector<double> &mean,
                                           const std::vector<double> &std) {
    if (mean.size() != std.size())
        throw std::invalid_argument("ars::observe_normals(\"" + std::string(name) +
                                    "\"): " + std::to_string(mean.size()) + " means but " + std::to_string(std.size()) +
                                    " standard deviations; give one of each per value");
    std::vector<double> value(mean.size());
    ars_observe_normals(name, mean.data(), std.data(), mean.size(), value.data());
    return value;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

inline bool next_trace() {
    return ars_next_trace();
}
inline bool in_continuation() {
    return ars_in_continuation();
}
inline bool standalone() {
    return ars_standalone();
}
inline const char *version() {
    return ars_version();
}

/* Calls model() once per trace and returns the program's exit code. An exception that leaves the model ends the
 * process through std::terminate, for it cannot pass through the C code in between. */
template <class Model> int main(int argc, char **argv, Model &&model) {
    typedef typename std::remove_reference<Model>::type callable;
    struct trampoline {
        static void run(void *user) noexcept { (**static_cast<callable **>(user))(); }
    };
    callable *target = std::addressof(model);
    return ars_main(argc, argv, &trampoline::run, &target);
}

/* ---- rejection loops ------------------------------------------------------------------------------------------ */

namespace detail {

/* The address of an unnamed ars::reject is file:function(parameters)#order, where the function is the outermost one
 * around the call and the order is that of the source among all ars::reject in it, inside lambdas or not. The
 * parentheses keep it apart from the loops that rs_start marks in the same function.
 *
 * The order must not depend on which loop a process reaches first, so every call is on a list before main runs. What
 * tells calls apart at that time is the type of the body, since each lambda expression has its own. The type's name
 * holds the enclosing function, the same for both compilers. Where the lambda stands in it comes
 *  - from Clang, as line and column, in __PRETTY_FUNCTION__ (its type names count over the whole file);
 *  - from GCC, as the numbers of the type's name: lambdas are numbered in the order of the source within a function,
 *    and a lambda within a lambda has both numbers.
 * Only the order that these give is used, never the numbers: lines added above and lambdas that are no loop body do
 * not rename a loop.
 *
 * Two limits. GCC 14 and later number lambdas of different parameter lists apart, so loops that sit within several such
 * lambdas of one function may be ordered otherwise than by Clang. A lambda that initialises a global variable carries
 * that variable's name with GCC and none with Clang. A name, ars::reject("name", ...), is free of both. */
struct reject_call {
    const char *type;   /* mangled name of the body's type */
    const char *pretty; /* a __PRETTY_FUNCTION__ that spells the body's type */
    const char *unit;   /* the source file compiled: static functions of two files may share a name */
    reject_call *next;
    ars__loop_mark mark;
    unsigned line; /* of the call; 0 until it is first made */

    reject_call(const char *type_name, const char *pretty_name, const char *unit_name);
};

inline reject_call *&reject_calls() {
    static reject_call *first = nullptr;
    return first;
}

inline reject_call::reject_call(const char *type_name, const char *pretty_name, const char *unit_name)
    : type(type_name), pretty(pretty_name), unit(unit_name), next(reject_calls()), mark(), line(0) {
    reject_calls() = this;
}

struct reject_place {
    std::string scope;           /* the outermost function */
    std::vector<unsigned> order; /* position in it; compares like the source */
};

inline std::string reject_demangle(const char *mangled) {
    int status = 0;
    char *text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    std::string name = status == 0 && text ? text : mangled;
    std::free(text);
    return name;
}

/* All numbers that directly follow `sign` in `text`, in order. */
inline std::vector<unsigned> reject_numbers(const std::string &text, char sign) {
    std::vector<unsigned> numbers;
    for (std::size_t at = text.find(sign); at != std::string::npos; at = text.find(sign, at + 1))
        numbers.push_back(static_cast<unsigned>(std::strtoul(text.c_str() + at + 1, nullptr, 10)));
    return numbers;
}

inline reject_place reject_place_of(const reject_call &call) {
    const std::string name = reject_demangle(call.type);
    std::size_t end = name.size();
    for (const char *sign : {"{lambda(", "'lambda", "$_"}) end = std::min(end, name.find(sign));
    if (end >= 2 && name.compare(end - 2, 2, "::") == 0) end -= 2;
    reject_place place = {name.substr(0, end), {}};
    if (place.scope.find('(') == std::string::npos) place.scope += "()"; /* main has no mangled parameters */
#ifdef __clang__
    const std::string pretty = call.pretty; /* "... [F = (lambda at file:line:column)]" */
    const std::size_t column = pretty.rfind(':'), line = pretty.rfind(':', column - 1);
    place.order = {reject_numbers(pretty.substr(line), ':')};
#else
    place.order = reject_numbers(name, '#'); /* "model(void*)::{lambda()#2}" */
#endif
    return place;
}

/* Whether `a` stands before `b`. Calls that one macro expands to can share a place: their type names then decide. */
inline bool reject_before(const reject_call &a, const reject_place &at_a, const reject_call &b,
                          const reject_place &at_b) {
    if (at_a.order != at_b.order) return at_a.order < at_b.order;
    const std::size_t length_a = std::strlen(a.type), length_b = std::strlen(b.type);
    return length_a != length_b ? length_a < length_b : std::strcmp(a.type, b.type) < 0;
}

inline bool reject_is_lambda(const reject_call &call) {
#ifdef __clang__
    return std::strstr(call.pretty, " = (lambda at ") != nullptr;
#else
    const std::string pretty = call.pretty, ending = "<lambda()>]";
    return pretty.size() > ending.size() && pretty.compare(pretty.size() - ending.size(), ending.size(), ending) == 0;
#endif
}

/* Names a call when it is first made. The name lives as long as the program. */
inline void reject_name(reject_call &call, const char *file, unsigned line) {
    if (!reject_is_lambda(call))
        throw std::logic_error(std::string("ars::reject at ") + file + ":" + std::to_string(line) +
                               ": an unnamed loop needs a lambda written in the call; give the loop a name");
    const reject_place place = reject_place_of(call);
    unsigned order = 0;
    for (const reject_call *other = reject_calls(); other; other = other->next) {
        if (other == &call || std::strcmp(other->unit, call.unit) != 0) continue;
        const reject_place at = reject_place_of(*other);
        if (at.scope == place.scope && reject_before(*other, at, call, place)) ++order;
    }
    const char *slash = std::strrchr(file, '/');
    const std::string *name =
        new std::string(std::string(slash ? slash + 1 : file) + ":" + place.scope + "#" + std::to_string(order));
    call.mark.file = file;
    call.mark.scope = call.mark.func = "reject";
    call.mark.name = name->c_str();
    call.mark.line = call.line = line;
}

inline ars__loop_mark *reject_here(reject_call &call, const char *file, unsigned line) {
    if (call.line == 0) reject_name(call, file, line);
    if (call.line != line)
        throw std::logic_error(std::string("ars::reject: one unnamed body is used at lines ") +
                               std::to_string(call.line) + " and " + std::to_string(line) + " of " + file +
                               "; give each loop a name");
    return &call.mark;
}

/* One per body type, on the list before main even if the call is never reached. */
template <class F> struct reject_of {
    static const char *pretty() { return __PRETTY_FUNCTION__; }
    static reject_call call;
};
#ifdef __GXX_RTTI
template <class F> reject_call reject_of<F>::call(typeid(F).name(), reject_of<F>::pretty(), __BASE_FILE__);
#endif

struct reject_named {
    std::string name;
    ars__loop_mark mark;
    reject_named *next;
};

/* The record of a name: one for the whole program, so two bodies of one name are one loop. */
inline ars__loop_mark *reject_by_name(const char *name) {
    static reject_named *first = nullptr;
    for (reject_named *known = first; known; known = known->next)
        if (known->name == name) return &known->mark;
    first = new reject_named{name, {}, first};
    first->mark.file = __FILE__;
    first->mark.scope = first->mark.func = "reject";
    first->mark.name = first->name.c_str();
    return &first->mark;
}

/* GCC forgets __extension__ when it instantiates a template. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/* The loop itself. It is never inlined, so its frame stands for one activation of the loop (see ARS__RS_CALL). An
 * exception that leaves the body passes through: libars sees the loop left at its next call and says so. */
template <class F> __attribute__((noinline)) void reject_loop(ars__loop_mark *mark, F &body) {
    for (;;) {
        (__extension__({
            __label__ ars__pin;
            ARS__RS_CALL(mark)
        }));
        if (body()) {
            ars_rs_end();
            return;
        }
    }
}

template <class Any> void abandon(ars_loop &handle) {
    ars_loop_abandon(&handle);
}

#pragma GCC diagnostic pop

template <class F> void reject_again(ars__loop_mark *mark, F &body) {
    typedef typename std::remove_reference<F>::type callable;
    struct trampoline {
        static bool run(void *target) { return (**static_cast<callable **>(target))(); }
    };
    callable *target = std::addressof(body);
    ars__reject(mark, &trampoline::run, &target);
}

} // namespace detail

/* Repeats body() until it returns true. Every try must be independent of the tries before. The body is a lambda that
 * is written in the call; the loop's address survives recompiling, with GCC and Clang alike. */
template <class F> void reject(F &&body, const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    static_assert(!std::is_lvalue_reference<F>::value,
                  "ars::reject without a name needs a lambda written in the call; else ars::reject(\"name\", body)");
#ifdef __GXX_RTTI
    detail::reject_loop(detail::reject_here(detail::reject_of<F>::call, file, line), body);
#else
    static_assert(sizeof(F) == 0, "without RTTI a loop needs a name: ars::reject(\"name\", body)");
#endif
}

/* The same for a loop with a name, which keeps its address wherever the code moves. Any callable will do. */
template <class F> void reject(const char *name, F &&body) {
    detail::reject_loop(detail::reject_by_name(name), body);
}

/* As ars::reject, but nothing is forked: the body is called again instead, which is much faster. It is right if the body
 * keeps the promise of ars_reject in ars.h, for which *context is what the lambda captures: it changes nothing else, and
 * reads from that nothing which an earlier call of it has written. Also for a loop with a name. */
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

/* A loop by handle, as ars_loop in ars.h: attempt() begins every try, accept() ends the loop, wherever they are called. A copy
 * is a closed handle of the same name, so an object that has one can be copied and moved between its loops. */
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
    /* Given up, not accepted. A template, so that a program that never calls it is not one that abandons loops. */
    template <class Self = loop> void abandon() { detail::abandon<Self>(handle); }

  private:
    ars_loop handle;
};

} // namespace ars

#endif /* ARS_HPP */

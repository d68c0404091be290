/* ars/reject.hpp: how ars.hpp names and runs the loops of ars::reject. Included by ars.hpp; not for use by itself. */
#ifndef ARS_REJECT_HPP
#define ARS_REJECT_HPP

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <ars.h>

namespace ars {

namespace detail {

/* The address of an unnamed ars::reject is file:function(parameters)#order. The function is the outermost one around the
 * call. The order is that of the source among all ars::reject in the function, inside lambdas or not. The parentheses
 * distinguish it from the loops that rs_start marks in the same function.
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

} // namespace ars

#endif /* ARS_REJECT_HPP */

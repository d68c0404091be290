/* methods.cpp: loops of every shape that C++ adds. */
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ars.hpp>

#include "shared_loop.h"

namespace {

void hidden() {
    int me = shadow_enter("methods.cpp:hidden#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
}

/* ---- templates ------------------------------------------------------------------------------------------------------- */

template <int Depth> struct Nested {
    static int down() {
        int me = shadow_enter("methods.cpp:down#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            int below = Nested<Depth - 1>::down();
            if (ACCEPT(0.6)) {
                rs_end();
                shadow_end(me);
                return below + 1;
            }
        }
    }
};
template <> struct Nested<0> {
    static int down() { return 0; }
};

template <class T> T two_loops(T sum) {
    int first = shadow_enter("methods.cpp:two_loops#0");
    do {
        rs_start();
        shadow_try(first);
        sum += 1;
    } while (!ACCEPT(0.5));
    rs_end();
    shadow_end(first);
    int second = shadow_enter("methods.cpp:two_loops#1");
    for (;;) {
        rs_start();
        shadow_try(second);
        sum += template_loop<T>(0, 0.6);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(second);
    return sum;
}

/* ---- classes ---------------------------------------------------------------------------------------------------------- */

struct Base {
    std::string kept;
    Base() : kept("a string that is too long for the short form") {
        int me = shadow_enter("methods.cpp:Base#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(0.6)) break;
        }
        rs_end();
        shadow_end(me);
    }
    virtual ~Base() {}
    virtual int visit(int depth) = 0;
};

struct Derived : virtual Base {
    std::unique_ptr<Derived> next;
    int visit(int depth) override {
        int me = shadow_enter("methods.cpp:visit#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            std::vector<int> room(10, depth);
            int sum = room[3];
            if (depth > 0) {
                next.reset(new Derived);
                sum += next->visit(depth - 1);
            }
            if (ACCEPT(0.6)) {
                rs_end();
                shadow_end(me);
                return sum;
            }
        }
    }
    inline int operator()(double p) const {
        int me = shadow_enter("methods.cpp:operator()#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(p)) break;
        }
        rs_end();
        shadow_end(me);
        return 1;
    }
};

/* ---- exceptions: caught within the try, which is a rejection like any other -------------------------------------------- */

__attribute__((noinline)) double throws_or_not() {
    if (ACCEPT(0.5)) throw std::runtime_error("rejected");
    return 1;
}

void rejects_by_exception() {
    int me = shadow_enter("methods.cpp:rejects_by_exception#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        try {
            throws_or_not();
            hidden();
            throws_or_not();
        } catch (const std::runtime_error &) {
            continue;
        }
        rs_end();
        shadow_end(me);
        return;
    }
}

/* ---- lambdas, and loops without marks ---------------------------------------------------------------------------------- */

int in_lambda() {
    auto loop = [](double p) {
        int me = shadow_enter("methods.cpp:operator()#1");
        for (;;) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(p)) break;
        }
        rs_end();
        shadow_end(me);
        return 1;
    };
    std::function<int(int)> recursive = [&](int depth) {
        int me = shadow_enter("methods.cpp:operator()#2");
        for (;;) {
            rs_start();
            shadow_try(me);
            int sum = depth > 0 ? recursive(depth - 1) : loop(0.6);
            if (ACCEPT(0.6)) {
                rs_end();
                shadow_end(me);
                return sum + 1;
            }
        }
    };
    int sum = loop(0.5);
    return sum + recursive(2);
}

int rejected(int depth) {
    int me = shadow_enter("methods.cpp:(anonymous namespace)::rejected(int)#0"), sum = 0;
    ars::reject([&] {
        shadow_try(me);
        sum = depth > 0 ? rejected(depth - 1) : 1;
        return ACCEPT(0.6);
    });
    shadow_end(me);
    int with_name = shadow_enter("a body");
    auto body = [&] {
        shadow_try(with_name);
        return ACCEPT(0.6);
    };
    ars::reject("a body", body);
    shadow_end(with_name);
    return sum;
}

void model() {
    shadow_begin();
    hidden();
    Nested<3>::down();
    two_loops(1);
    two_loops(1.0f);
    Derived derived;
    derived.visit(2);
    derived(0.5);
    rejects_by_exception();
    in_lambda();
    rejected(2);
    merged_loop(0.5);
    template_loop(1, 0.5);
    shared_loop(0.5);
    other_file(0.5);
    hidden();
    double y = ars::observe("y", ars::normal(0, 1));
    shadow_report();
    if (ars::standalone()) std::printf("%.17g\n", y);
}

} // namespace

int main(int argc, char **argv) {
    return ars::main(argc, argv, model);
}

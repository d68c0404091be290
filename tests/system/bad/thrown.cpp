/* thrown.cpp: loops that a C++ exception leaves. Usage: thrown MISTAKE */
#include <cstring>
#include <stdexcept>

#include <ars.hpp>

namespace {

__attribute__((noinline)) double thrower() {
    for (;;) {
        rs_start();
        if (ars::sample("x", ars::uniform(0, 1)) < 2) throw std::runtime_error("out of the loop");
    }
}

__attribute__((noinline)) void reject_thrower() {
    ars::reject("thrown out of", []() -> bool { throw std::runtime_error("out of the loop"); });
}

void make(const char *what) {
    if (std::strcmp(what, "nothing") == 0) return;
    const bool reject = std::strncmp(what, "reject", 6) == 0;
    for (int i = 0; i < (std::strstr(what, "again") ? 2 : 1); i++) {
        try {
            if (reject)
                reject_thrower();
            else
                thrower();
        } catch (const std::runtime_error &) {
        }
    }
    if (std::strstr(what, "sample")) ars::sample("after", ars::normal(0, 1));
    if (std::strstr(what, "uncaught")) throw std::runtime_error("nobody catches this");
}

} // namespace

int main(int, char **argv) {
    const char *what = argv[1];
    while (ars::next_trace()) {
        if (ars::sample("mistaken", ars::bernoulli(0.25)) == 1) make(what);
        double x = 1;
        ars::reject([&] {
            x = ars::sample("x", ars::uniform(0, 1));
            return x < 0.5;
        });
        double y = ars::observe("y", ars::normal(x, 1));
        ars::result("sum", x + y);
    }
}

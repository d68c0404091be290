/* lambdas.cpp: ars::reject and ars::reject_in_place, which must make the same traces. Usage: lambdas forked|place|thrown */
#include <cstring>
#include <stdexcept>

#include <ars.hpp>

namespace {

double point(bool in_place) {
    double x = 0, y = 0;
    auto body = [&] {
        x = ars::sample("x", ars::uniform(-1, 1));
        y = ars::sample("y", ars::uniform(-1, 1));
        return x * x + y * y < 1;
    };
    if (in_place)
        ars::reject_in_place("disc", body);
    else
        ars::reject("disc", body);
    return x + y;
}

double unnamed(bool in_place) {
    double z = 0;
    if (in_place) {
        ars::reject_in_place([&] {
            z = ars::sample("z", ars::normal(0, 1));
            return z > 0.2;
        });
    } else {
        z = 1;
    }
    return z;
}

} // namespace

int main(int, char **argv) {
    const bool in_place = std::strcmp(argv[1], "forked") != 0, thrown = std::strcmp(argv[1], "thrown") == 0;
    while (ars::next_trace()) {
        double sum = point(in_place);
        if (thrown) {
            try {
                ars::reject_in_place("thrown out of", []() -> bool { throw std::runtime_error("out of the loop"); });
            } catch (const std::runtime_error &) {
            }
        }
        if (std::strcmp(argv[1], "unnamed") == 0) sum += unnamed(true);
        ars::observe("data", ars::normal(sum, 0.5));
        ars::result("sum", sum);
    }
}

// The same model in a program with its own event loop.
#include <ars.hpp>
#include <cmath>
#include <cstdio>

int main() {
    while (ars_next_trace()) {
        double x = 0, y = 0;
        ars::reject([&] {
            x = ars::sample("x", ars::uniform(-1, 1));
            y = ars::sample("y", ars::uniform(-1, 1));
            return x * x + y * y < 1;
        });
        double radius = std::sqrt(x * x + y * y);
        ars::observe("seen", ars::normal(radius, 0.1));
        ars::result("radius", radius);
        if (ars_standalone()) std::printf("radius %.17g\n", radius);
    }
    return 0;
}

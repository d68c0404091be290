/* scopes.cpp: scopes around the tries of a loop, and draws where C++ allows no statement. The first argument says which. */
#include <string>

#include <ars.hpp>

static std::string kind;

/* The retry is called while an object of the rejected try is still there. */
static double retried_inside() {
    ars::scope outer("outer");
    ars::loop loop("decay");
    loop.attempt();
    double x;
    {
        ars::scope inner("inner");
        for (x = ars::flat(); x < 0.5; x = ars::flat()) loop.attempt();
    }
    loop.accept();
    return x;
}

/* A rejected try leaves its scope open: the retry closes it. */
static double left_open() {
    ars::loop loop("decay");
    for (;;) {
        loop.attempt();
        ars_scope_push("left");
        const double x = ars::flat();
        if (x < 0.99) continue;
        ars_scope_pop();
        loop.accept();
        return x;
    }
}

/* A scope that nobody closed ends with the one around it. */
static double unclosed() {
    ars::scope outer("outer");
    ars_scope_push("unclosed");
    return ars::flat();
}

struct Particle {
    double energy = ars_flat();
};

static double with_default(double x = ars_flat()) {
    return x;
}

static double defaults() {
    Particle particle;
    return particle.energy + with_default();
}

int main(int argc, char **argv) {
    kind = argc > 1 ? argv[1] : "";
    return ars::main(argc, argv, [] {
        const double x = kind == "inside"     ? retried_inside()
                         : kind == "left"     ? left_open()
                         : kind == "unclosed" ? unclosed()
                                              : defaults();
        ars::result("x", x + ars::flat());
    });
}

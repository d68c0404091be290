// jumps.cpp: a generator that knows its engine by an interface alone. Its functions end with a virtual call, which an optimiser
// turns into a jump through a register, like those of a switch; and GCC cuts `even` in two.
#include "jumps.hpp"

double by_case(Engine &engine, int which) {
    switch (which) {
    case 0:
        return engine.flat();
    case 1:
        return engine.flat() + 1;
    case 2:
        return 2 * engine.flat();
    case 3:
        return own(engine) * 3;
    case 4:
        return engine.flat() - 5;
    case 5:
        return -engine.flat();
    default:
        return engine.flat() / 7;
    }
}

static double odd(Engine &engine, int n);

static double even(Engine &engine, int n) {
    if (n == 0) return engine.flat();
    double rest = odd(engine, n - 1);
    return rest + engine.flat();
}

static double odd(Engine &engine, int n) {
    if (n == 0) return engine.flat();
    double rest = even(engine, n - 1);
    return rest * engine.flat();
}

double descend(Engine &engine, int n) {
    return even(engine, n);
}

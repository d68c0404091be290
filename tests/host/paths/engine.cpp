// engine.cpp: the engine of jumps.cpp, and a program that runs it.
#include "jumps.hpp"

extern "C" double ars_flat(void);

class Ars final : public Engine {
  public:
    double flat() override {
        double drawn = ars_flat();
        __asm__ volatile(""); /* no tail call, as in ars.h */
        return drawn;
    }
};

double own(Engine &engine) {
    return engine.flat() + 1;
}

volatile int zero;

int main() {
    Ars engine;
    double sum = descend(engine, 4 + zero) + descend(engine, 3) + descend(engine, zero);
    for (int i = 0; i < 7; i++) sum += by_case(engine, i + zero);
    return sum > 1e300;
}

// jumps.hpp: what jumps.cpp and engine.cpp know of each other.
#pragma once

class Engine {
  public:
    virtual ~Engine() {}
    virtual double flat() = 0;
};

double own(Engine &engine);
double descend(Engine &engine, int n);
double by_case(Engine &engine, int which);

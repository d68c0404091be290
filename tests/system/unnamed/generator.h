/* A small event generator that knows nothing of libars: it asks an engine for uniform numbers, as real ones do. */
#ifndef GENERATOR_H
#define GENERATOR_H

class Engine {
  public:
    virtual ~Engine() {}
    virtual double flat() = 0;
};

/* The marks of the rejection loop, which the author of the main program puts there. */
struct Hooks {
    void (*try_begins)();
    void (*accepted)();
};

struct Event {
    double energy, angle, shower;
};

class Generator {
  public:
    Generator(Engine *engine, Hooks hooks) : engine_(engine), hooks_(hooks) {}
    virtual ~Generator() {}
    virtual Event next();

  protected:
    double flat() { return engine_->flat(); } /* a tail call, when it is optimised */
    virtual double energy();
    double decay();
    double radiate(int depth);
    double noise(int n);

  private:
    Engine *engine_;
    Hooks hooks_;
};

extern "C" Generator *make_generator(Engine *engine, Hooks hooks);

#endif

/* nested_by_handle: nested, as a generator that somebody else wrote would have it. Its two rejection loops are in a class that
 * knows nothing about libars. It calls virtual functions when a try begins and when it writes what it has accepted, and there
 * we mark the loops by handle. The draws, their addresses and the weights are those of nested. */
#include <ars.hpp>
#include <cmath>

#include "args.h"

/* ---- the generator ---------------------------------------------------------------------------------------------------- */

class Generator {
  public:
    virtual ~Generator() = default;

    void decay() {
        do {
            prepare(outer);
            a = gauss("a", 0);
            radiate();
        } while (a + b <= 0);
        write(outer);
    }

  protected:
    enum Stage { outer, inner };
    double a = 0, b = 0;

    virtual double gauss(const char *what, double mean) = 0;
    virtual void prepare(Stage) {}
    virtual void write(Stage) {}

  private:
    void radiate() {
        do {
            prepare(inner);
            b = gauss("b", a);
        } while (b <= a + std::tanh(a));
        write(inner);
    }
};

/* ---- our part --------------------------------------------------------------------------------------------------------- */

class Annotated : public Generator {
  public:
    double sum() const { return a + b; }
    void print(double y) const { std::printf("a %.17g b %.17g y %.17g\n", a, b, y); }

  private:
    ars::loop loops[2] = {ars::loop("nested.c:model#0"), ars::loop("nested.c:model#1")};

    double gauss(const char *what, double mean) override { return ars::sample(what, ars::normal(mean, 1)); }
    void prepare(Stage stage) override { loops[stage].attempt(); }
    void write(Stage stage) override { loops[stage].accept(); }
};

int main(int argc, char **argv) {
    args_count("nested_by_handle", argc, 0, 0);
    return ars::main(argc, argv, [] {
        Annotated event;
        event.decay();
        const double y = ars::observe("y", ars::normal(event.sum(), 0.5));
        ars::result("sum", event.sum());
        if (ars::standalone()) event.print(y);
    });
}

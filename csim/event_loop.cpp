/* event_loop: a simulator in C++ that has its own event loop and event class. Its two rejection loops are ars::reject.
 *
 * A shower of one to three particles shares an energy below the beam's, p(A) depending on how many they are; then the
 * shower's direction is drawn, p(A) depending on the energy. */
#include <ars.hpp>

#include "args.h"

class Event {
  public:
    void generate() {
        const std::size_t n = 1 + static_cast<std::size_t>(ars::sample("multiplicity", ars::categorical(shares)));
        ars::reject([&] {
            energies.clear();
            for (std::size_t i = 0; i < n; i++) energies.push_back(ars::sample("energy", ars::exponential(1)));
            return total() < beam;
        });
        const double tilt = total() / beam; /* a hard shower prefers to go forward */
        ars::reject([&] {
            cos_theta = ars::sample("cos_theta", ars::uniform(-1, 1));
            return ars::sample("u", ars::uniform(0, 1)) <= (1 + tilt * cos_theta) / (1 + tilt);
        });
    }

    void measure() {
        calorimeter = ars::observe("calorimeter", ars::normal(total(), 0.3));
        tracker = ars::observe("tracker", ars::normal(cos_theta, 0.2));
        ars::results("energies", energies);
        ars::result("total", total());
        ars::result("direction", cos_theta);
    }

    void print() const {
        std::printf("particles %zu total %.17g direction %.17g calorimeter %.17g tracker %.17g\n", energies.size(),
                    total(), cos_theta, calorimeter, tracker);
    }

  private:
    static constexpr double beam = 2.5;
    const std::vector<double> shares{0.3, 0.4, 0.3};
    std::vector<double> energies;
    double cos_theta = 0, calorimeter = 0, tracker = 0;

    double total() const {
        double sum = 0;
        for (double e : energies) sum += e;
        return sum;
    }
};

int main(int argc, char **argv) {
    (void)argv;
    args_count("event_loop", argc, 0, 0);
    while (ars::next_trace()) {
        Event event;
        event.generate();
        event.measure();
        if (ars::standalone()) event.print();
    }
    return 0;
}

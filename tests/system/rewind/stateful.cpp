// stateful.cpp: one loop whose tries change nearly everything that a process has, and depend on it; three entries per trace, and
// nothing is reset between traces. Everything lives in one body, where the optimiser can mix it.
// With the argument "fresh" a trace begins with the state of a new process. Only then is memory written before the first trace:
// a continuation that is the first to write to such a page may cost its process, and what that has carried from other traces.
#include <cerrno>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <ars.h>

#include "hash.h"

namespace {

struct world {
    unsigned steps;
    std::map<unsigned, std::string> names;
    std::list<std::vector<double>> tracks;
    std::mt19937_64 engine;
    std::shared_ptr<world> shadow;
    world() : steps(0), engine(11) {}
};

std::unique_ptr<world> now; // made by the first trace
double field[4000];
thread_local double pulse = 1;
unsigned char touched[3 << 20];

double descend(unsigned depth, double x) {
    volatile unsigned char frame[900];
    memset(const_cast<unsigned char *>(frame), static_cast<int>(depth), sizeof frame);
    if (!depth) throw std::out_of_range(std::to_string(x));
    return descend(depth - 1, x * 0.97 + 1e-3) + frame[depth] * 1e-9;
}

double change(double x) {
    uint64_t hash = hash_word(1, ++now->steps);
    const unsigned n = now->steps;
    hash = hash_word(hash, static_cast<uint64_t>(errno));
    hash = hash_word(hash, static_cast<uint64_t>(fegetround()));
    errno = static_cast<int>(n % 40);
    field[n * 131 % 4000] += x;
    touched[n * 40961u % sizeof touched] ^= static_cast<unsigned char>(n);
    pulse = pulse * 0.5 + x;
    now->names[n % 41] = std::string(1 + n * 7 % 200, static_cast<char>('a' + n % 26));
    now->tracks.emplace_back(10 + n * 977 % 9000, x); // up to 72 kB: the heap grows
    if (now->tracks.size() > 30) now->tracks.pop_front();
    if (n % 6 == 0) now->shadow = std::make_shared<world>(*now);
    if (now->shadow) hash = hash_add(hash, static_cast<double>(now->shadow->steps));
    if (n % 9 == 0) now->shadow.reset();
    try {
        hash = hash_add(hash, descend(3 + n % 60, x));
    } catch (const std::out_of_range &thrown) {
        hash = hash_add(hash, std::strtod(thrown.what(), nullptr));
    }
    volatile double tenth = 0.1;
    hash = hash_add(hash, tenth * 3 + x);
    if (n % 5 == 0) fesetround(n % 2 ? FE_UPWARD : FE_TONEAREST);
    hash = hash_word(hash, now->engine());
    hash = hash_add(hash_add(hash, pulse), field[n * 17 % 4000]);
    hash = hash_word(hash, touched[(n - 1) * 40961u % sizeof touched]);
    for (char letter : now->names.begin()->second) hash = hash_word(hash, static_cast<unsigned char>(letter));
    return hash_unit(hash_add(hash, now->tracks.front().back()));
}

bool fresh;

void reset() {
    now.reset(new world);
    memset(field, 0, sizeof field);
    memset(touched, 0, sizeof touched);
    pulse = 1;
    errno = 0;
    fesetround(FE_TONEAREST);
}

void model(void *) {
    if (fresh || !now) reset();
    double sum = 0;
    for (int entry = 0; entry < 3; entry++) {
        double kept[4] = {sum, 1, 2, 3}; // in registers, or on the stack
        for (unsigned tries = 1;; tries++) {
            rs_start();
            const double x = ars_sample("x", ars_uniform(0, 1));
            const double unit = change(x + 0.1 * kept[tries % 4]);
            kept[tries % 4] += unit;
            const double m = ars_sample("m", ars_normal(unit, 1));
            if (x + 0.01 * m < 0.3 + 0.4 * unit + 1e-6 * kept[0]) {
                rs_end();
                sum += m + kept[1] + kept[2];
                break;
            }
        }
    }
    ars_observe("y", ars_normal(sum, 2));
    ars_result("sum", sum + change(sum));
}

} // namespace

int main(int argc, char **argv) {
    fresh = argc > 1 && strcmp(argv[1], "fresh") == 0;
    if (fresh) reset(); // pages that workers share with the process that forks them, until they write to them
    return ars_main(argc, argv, model, nullptr);
}

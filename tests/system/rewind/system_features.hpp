// system_features.hpp: as features.hpp, for state that the C library and the system keep: the heap, the stack, errno, floating-point
// modes, the environment, mappings.
#ifndef REWIND_SYSTEM_FEATURES_HPP
#define REWIND_SYSTEM_FEATURES_HPP

#include <alloca.h>
#include <cfenv>
#include <cmath>
#include <csetjmp>
#include <ctime>
#include <sys/mman.h>
#include <unistd.h>

#include "features.hpp"

namespace rewind_test {

// ---- the heap -----------------------------------------------------------------------------------------------------------

template <int Id, int A, int B> struct heap {
    static const unsigned many = 64;
    static unsigned char *blocks[many];
    static unsigned sizes[many], count;
    static void change(unsigned i, unsigned size) {
        unsigned char *grown = static_cast<unsigned char *>(realloc(blocks[i], size));
        if (!grown) abort();
        for (unsigned k = sizes[i]; k < size; k++) grown[k] = static_cast<unsigned char>(k * 7 + count);
        blocks[i] = grown, sizes[i] = size;
    }
    static double step(double x) {
        count++;
        unsigned i = count * A % many, j = (count * B + 3) % many;
        change(i, 1 + (count * 397 + static_cast<unsigned>(x * 50)) % 5000);
        free(blocks[j]);
        blocks[j] = nullptr, sizes[j] = 0;
        hash found(Id);
        for (unsigned k = 0; k < many; k += 5)
            if (sizes[k]) found.add(blocks[k][sizes[k] / 2]).add(sizes[k]);
        std::unique_ptr<double[]> scratch(new double[1 + count % 600]);
        scratch[count % 600] = x;
        return found.add(scratch[count % 600]).unit();
    }
    static void reset() {
        for (unsigned i = 0; i < many; i++) free(blocks[i]), blocks[i] = nullptr, sizes[i] = 0;
        count = 0;
    }
};
template <int Id, int A, int B> unsigned char *heap<Id, A, B>::blocks[many];
template <int Id, int A, int B> unsigned heap<Id, A, B>::sizes[many];
template <int Id, int A, int B> unsigned heap<Id, A, B>::count;

// What nobody frees: the heap grows, and so does brk.
template <int Id, int A, int B> struct leaks {
    struct node {
        node *before;
        double value;
    };
    static node *last;
    static unsigned count;
    static double step(double x) {
        count++;
        node *made = static_cast<node *>(malloc(sizeof(node) + 1000u * (1 + count * A % 30)));
        if (!made) abort();
        made->before = last, made->value = x;
        last = made;
        hash found(Id);
        unsigned left = 5 + B;
        for (node *at = last; at && left--; at = at->before) found.add(at->value);
        return found.add(count).unit();
    }
    static void reset() { last = nullptr, count = 0; }
};
template <int Id, int A, int B> typename leaks<Id, A, B>::node *leaks<Id, A, B>::last;
template <int Id, int A, int B> unsigned leaks<Id, A, B>::count;

// Blocks so large that malloc maps them, made and freed within a try; the number from which it maps them changes as it goes.
template <int Id, int A, int B> struct large_blocks {
    static unsigned count;
    static double step(double x) {
        count++;
        size_t n = 20000u + 1000u * A + (count * 30011 % 200000);
        double *block = static_cast<double *>(calloc(n, sizeof *block));
        if (!block) abort();
        for (size_t i = count % 512; i < n; i += 512u * (1 + B % 9)) block[i] += x * static_cast<double>(i);
        double found = hash(Id).add(block[count % 512]).add(block[n - 1]).add(count).unit();
        free(block);
        return found;
    }
    static void reset() { count = 0; }
};
template <int Id, int A, int B> unsigned large_blocks<Id, A, B>::count;

// A large block lives until the next try replaces it: what is freed may be older than the continuation that frees it.
template <int Id, int A, int B> struct kept_blocks {
    static std::vector<double> block;
    static unsigned count;
    static double step(double x) {
        std::vector<double> next(30000u + 2000u * (count++ * A % 17), x);
        double before = block.empty() ? 0 : block[block.size() / B];
        block.swap(next);
        return hash(Id).add(before).add(static_cast<double>(block.size())).unit();
    }
    static void reset() {
        std::vector<double>().swap(block);
        count = 0;
    }
};
template <int Id, int A, int B> std::vector<double> kept_blocks<Id, A, B>::block;
template <int Id, int A, int B> unsigned kept_blocks<Id, A, B>::count;

// Mappings of the simulator's own: one that goes again, and some that stay.
template <int Id, int A, int B> struct mappings {
    static unsigned char *kept[16];
    static unsigned count;
    static unsigned char *make(size_t pages) {
        void *made = mmap(nullptr, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) abort();
        return static_cast<unsigned char *>(made);
    }
    static double step(double x) {
        unsigned i = count++ % 16;
        if (!kept[i]) kept[i] = make(1 + A % 4);
        kept[i][count * 37 % 4096] += static_cast<unsigned char>(1 + x * 9);
        unsigned char *passing = make(1 + B % 9);
        passing[count % 4096] = static_cast<unsigned char>(count);
        hash found(Id);
        found.add(passing[count % 4096]).add(kept[i][(count - 16) * 37 % 4096]).add(kept[0][37]);
        munmap(passing, static_cast<size_t>(1 + B % 9) << 12);
        return found.unit();
    }
    static void reset() {
        for (unsigned char *&one : kept)
            if (one) munmap(one, static_cast<size_t>(1 + A % 4) << 12), one = nullptr;
        count = 0;
    }
};
template <int Id, int A, int B> unsigned char *mappings<Id, A, B>::kept[16];
template <int Id, int A, int B> unsigned mappings<Id, A, B>::count;

// ---- the stack ----------------------------------------------------------------------------------------------------------

template <int Id, int A, int B> struct deep_stack {
    static unsigned count;
    static double deep(unsigned left, double x) {
        volatile unsigned char pad[700];
        for (unsigned i = 0; i < sizeof pad; i += 97) pad[i] = static_cast<unsigned char>(left + i);
        return left ? deep(left - 1, x * 0.999) + pad[97] * 1e-6 : x;
    }
    static double step(double x) {
        count++;
        unsigned char *scratch = static_cast<unsigned char *>(alloca(100 + count * 61 % 3000));
        memset(scratch, static_cast<int>(count), 100);
        return hash(Id).add(deep(3 + count * B % (40 + 4 * A), x)).add(scratch[A]).unit();
    }
    static void reset() { count = 0; }
};
template <int Id, int A, int B> unsigned deep_stack<Id, A, B>::count;

template <int Id, int A, int B> struct jumps {
    static jmp_buf back;
    static unsigned count, jumped;
    static void away(unsigned left) {
        volatile char pad[200];
        pad[0] = static_cast<char>(1 + left % 9);
        jumped++;
        if (left)
            away(left - 1);
        else if (count)
            longjmp(back, static_cast<int>(count % 7) + pad[0]);
    }
    static int from(unsigned depth) {
        int came = setjmp(back);
        if (!came) away(depth);
        return came;
    }
    static double step(double x) {
        count++;
        return hash(Id).add(from(count * A % (5 + B))).add(jumped).add(x).unit();
    }
    static void reset() { count = jumped = 0; }
};
template <int Id, int A, int B> jmp_buf jumps<Id, A, B>::back;
template <int Id, int A, int B> unsigned jumps<Id, A, B>::count;
template <int Id, int A, int B> unsigned jumps<Id, A, B>::jumped;

// ---- modes --------------------------------------------------------------------------------------------------------------

template <int Id, int A, int B> struct rounding {
    static unsigned count;
    static double step(double x) {
        volatile double third = x / 3, sum = 0;
        for (int i = 0; i < 5; i++) sum = sum + third; // in the mode that the try before left
        int mode = fegetround();
        static const int modes[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
        if (++count % (2u + A % 3) == 0) fesetround(modes[count * B % 4]);
        return hash(Id).add(sum).add(mode).unit();
    }
    static void reset() {
        fesetround(FE_TONEAREST);
        count = 0;
    }
};
template <int Id, int A, int B> unsigned rounding<Id, A, B>::count;

template <int Id, int A, int B> struct float_flags {
    static unsigned count;
    static double step(double x) {
        const int all[4] = {FE_DIVBYZERO, FE_OVERFLOW, FE_INVALID, FE_UNDERFLOW};
        int were = fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_INVALID | FE_UNDERFLOW);
        count++;
        if (count % 5 == 0) feclearexcept(FE_ALL_EXCEPT);
        if (x < 0.7) feraiseexcept(all[count * A % 4]);
        volatile double zero = 0, one = x;
        if (count % 3 == static_cast<unsigned>(B) % 3) zero = one / zero;
        return hash(Id).add(were).add(zero).unit();
    }
    static void reset() {
        feclearexcept(FE_ALL_EXCEPT);
        count = 0;
    }
};
template <int Id, int A, int B> unsigned float_flags<Id, A, B>::count;

// The control word of the x87 unit, for long double; and numbers too small for others, which a mode makes 0.
template <int Id, int A, int B> struct float_units {
    static unsigned count;
    static void set(unsigned short word, unsigned mxcsr) {
#if defined(__x86_64__)
        __asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(word), "m"(mxcsr));
#else
        (void)word, (void)mxcsr;
#endif
    }
    static double step(double x) {
        volatile long double wide = 1, third = x / 3.0L;
        for (int i = 0; i < 4; i++) wide = wide + third / 7; // to 24, 53 or 64 bits
        volatile double tiny = 1e-300 * x;
        tiny = tiny * 1e-10; // subnormal, or 0
        static const unsigned short words[4] = {0x37f, 0x27f, 0x07f, 0xf7f};
        if (++count % (2u + A % 4) == 0) set(words[count * B % 4], count % 3 ? 0x1f80 : 0x9fc0);
        return hash(Id)
            .add(static_cast<double>((wide - 1) * 1e3L))
            .add(static_cast<double>(wide * 1125899906842624.0L))
            .add(tiny)
            .unit();
    }
    static void reset() {
        set(0x37f, 0x1f80);
        count = 0;
    }
};
template <int Id, int A, int B> unsigned float_units<Id, A, B>::count;

template <int Id, int A, int B> struct error_number {
    static double step(double x) {
        int was = errno; // of the try before; libars keeps it
        errno = (was * A + B + static_cast<int>(x * 10)) % 100;
        return hash(Id).add(was).unit();
    }
    static void reset() { errno = 0; }
};

// State that the C library keeps: the environment, strtok, static buffers. And questions without an influence: the time.
template <int Id, int A, int B> struct c_library {
    static unsigned count;
    static char words[40];
    static double step(double x) {
        count++;
        std::string name = "REWIND_" + std::to_string(count % (2 + A)), value = std::to_string(count * B);
        setenv(name.c_str(), value.c_str(), 1);
        if (count % 9 == 0) unsetenv("REWIND_1");
        char *word = count % 8 == 1 ? strtok(strcpy(words, "a bc def ghij klmno"), " ") : strtok(nullptr, " ");
        const char *found = getenv("REWIND_1");
        time_t day = static_cast<time_t>(86400) * (count + 1000);
        const tm *when = gmtime(&day);
        if (time(nullptr) == 0 || clock() == static_cast<clock_t>(-1)) abort();
        return hash(Id).add(found ? found : "none").add(word ? word : "none").add(when->tm_mday).add(x).unit();
    }
    static void reset() {
        for (int i = 0; i < 2 + A; i++) unsetenv(("REWIND_" + std::to_string(i)).c_str());
        count = 0;
    }
};
template <int Id, int A, int B> unsigned c_library<Id, A, B>::count;
template <int Id, int A, int B> char c_library<Id, A, B>::words[40];

} // namespace rewind_test

#endif

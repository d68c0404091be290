/* paths.c: draws in all kinds of functions of C. Each has a name of its own, the same for every compiler and optimisation. */
#include <math.h>
#include <stdlib.h>

#if defined(__has_attribute) && __has_attribute(nomerge)
#define NO_MERGE __attribute__((nomerge)) /* as in ars.h */
#else
#define NO_MERGE
#endif

NO_MERGE double ars_flat(void);
NO_MERGE double ars_sample(const char *name, double mean);

#define PAIR(x) ((x) + ars_flat() + ars_flat())

static double flat(void) {
    return ars_flat() * 2;
}

static inline double isotropic(double scale) {
    double cosine = 2 * flat() - 1, phi = 6.28 * flat();
    return scale * cosine + phi;
}

static double two(int which) {
    if (which) return ars_flat() + 1;
    return ars_flat() - 1;
}

static double mixed(void) {
    double x = ars_sample(NULL, 1);
    x += ars_flat();
    x += ars_sample(NULL, sqrt(fabs(x)));
    return x;
}

static double many(double x, int depth) {
    if (depth == 0) return x + flat();
    return many(x, depth - 1) + 1;
}

/* Recursion from the line that declares the function. */
// clang-format off
double one_line(int n) { double x = ars_flat(); if (n > 0) x += one_line(n - 1) * 0.5; return x; }
// clang-format on

static double tail(void) {
    return ars_flat();
}

static double tail_of_tail(double x) {
    if (x > 1e6) abort();
    return tail();
}

typedef double (*function)(double);

static double square(double x) {
    return x * flat();
}
static double cube(double x) {
    return x * x * (1 + flat());
}

static double apply(function f, double x) {
    return f(x) + 1;
}

double large(double x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += isotropic(x) + (i % 2 ? flat() : isotropic(-x));
        if (sum > 1e9) abort();
    }
    return sum + two(n > 1) + two(n > 5);
}

int main(int argc, char **argv) {
    (void)argv;
    double sum = 0;
    sum += isotropic(1) + isotropic(2);
    sum += two(0) + two(1);
    sum += mixed();
    sum += many(1, argc + 1);
    sum += PAIR(1);
    sum += tail() + 1;
    sum += tail_of_tail(sum) + 1;
    function table[] = {square, cube};
    for (int i = 0; i < 2; i++) sum += apply(table[(i + argc) % 2], sum);
    sum += large(1, 1 + argc);
    for (int i = 0; i < 4; i++) sum += flat();
    sum += one_line(argc);
    return sum > 1e300;
}

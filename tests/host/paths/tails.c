/* tails.c: functions that end with a call, which an optimiser turns into a jump. */
#include <stdlib.h>

double ars_flat(void);

#define OUT_OF_LINE __attribute__((noinline)) /* Clang inlines them in its own way; keep what this is about */

volatile int zero;

OUT_OF_LINE static double draw(void) {
    return ars_flat();
}

OUT_OF_LINE static double deep(double x) {
    if (x > 1e6) abort();
    return draw();
}

OUT_OF_LINE static double deeper(double x) {
    if (x > 1e5) abort();
    return deep(x + zero);
}

typedef double (*function)(double);
struct object {
    function call;
};

OUT_OF_LINE static double through(struct object *object) {
    return object->call(1);
}

OUT_OF_LINE static double add(double x) {
    return x + ars_flat();
}

int main(void) {
    struct object object = {zero ? deep : add};
    double sum = draw() + zero;
    sum += deep(sum);
    sum += deeper(sum);
    sum += deeper(1);
    sum += through(&object);
    return sum > 1e300;
}

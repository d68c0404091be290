/* long_lived.c: an event loop in main with a rejection loop inside: the stack must not grow with the traces. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shadow.h"

__attribute__((noinline)) static double depth_below(const char *top) {
    char here;
    char *volatile at = &here;
    return (double)(top - at);
}

static void helper(void) {
    int me = shadow_enter("long_lived.c:helper#0");
    do {
        rs_start();
        shadow_try(me);
    } while (!ACCEPT(0.7));
    rs_end();
    shadow_end(me);
}

int main(int argc, char **argv) {
    char top;
    const int size = argc > 1 ? atoi(argv[1]) : 0;
    double deepest = size < 0;
    while (ars_next_trace()) {
#ifdef WITH_ARRAY
        char room[size]; /* its block is left and entered with every trace */
        room[0] = 1;
        __asm__ volatile("" ::"r"(room) : "memory");
#endif
        shadow_begin();
        for (int i = 0; i < 2; i++) {
            int me = shadow_enter("long_lived.c:main#0");
            for (;;) {
                rs_start();
                shadow_try(me);
                if (ACCEPT(0.7)) break;
            }
            rs_end();
            shadow_end(me);
            helper();
        }
        double depth = depth_below(&top);
        if (depth > deepest) deepest = depth;
        ars_result("depth", depth);
        shadow_report();
    }
    if (ars_standalone()) printf("%.0f\n", deepest);
    return 0;
}

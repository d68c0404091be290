#include "shared_loop.h"

int second_file(double p);

/* The same names as in loops.c: the file tells them apart. */
static int plain_while(double p) {
    int me = shadow_enter("second.c:plain_while#0"), again = 1;
    while (again) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(p)) {
            rs_end();
            shadow_end(me);
            again = 0;
        }
    }
    return shared_loop(p);
}

int second_file(double p) {
    int me = shadow_enter("second.c:second_file#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (plain_while(p) < 3) {
            rs_end();
            shadow_end(me);
            return shared_loop(p);
        }
    }
}

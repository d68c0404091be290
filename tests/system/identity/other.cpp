#include "shared_loop.h"

namespace {
/* The same function as in methods.cpp: the file tells them apart. */
void hidden() {
    int me = shadow_enter("other.cpp:hidden#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
}
} // namespace

int other_file(double p) {
    hidden();
    int tries = merged_loop(p);
    tries += template_loop(1, p);
    tries += static_cast<int>(template_loop(1.0, p));
    return tries + shared_loop(p);
}

/* A loop in a header: two source files have a copy of it, and both copies are called the same. */
#ifndef SHARED_LOOP_H
#define SHARED_LOOP_H

#include "shadow.h"

static inline int shared_loop(double p) {
    int me = shadow_enter("shared_loop.h:shared_loop#0"), tries = 0;
    for (;;) {
        rs_start();
        shadow_try(me);
        tries++;
        if (ACCEPT(p)) {
            rs_end();
            shadow_end(me);
            return tries;
        }
    }
}

#ifdef __cplusplus
/* Merged by the linker: one record for both files. */
inline int merged_loop(double p) {
    int me = shadow_enter("shared_loop.h:merged_loop#0"), tries = 0;
    for (;;) {
        rs_start();
        shadow_try(me);
        tries++;
        if (ACCEPT(p)) {
            rs_end();
            shadow_end(me);
            return tries;
        }
    }
}

template <class T> T template_loop(T first, double p) {
    int me = shadow_enter("shared_loop.h:template_loop#0");
    for (T tries = first;; tries += 1) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(p)) {
            rs_end();
            shadow_end(me);
            return tries;
        }
    }
}

int other_file(double p);
#endif

#endif

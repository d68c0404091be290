/* loops.c: loops of every shape that C allows, each counted by the program itself. */
#include <alloca.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared_loop.h"

int second_file(double p);

/* ---- one loop, every spelling -------------------------------------------------------------------------------------- */

static void plain_while(void) {
    int me = shadow_enter("loops.c:plain_while#0"), again = 1;
    while (again) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.4)) {
            rs_end();
            shadow_end(me);
            again = 0;
        }
    }
}

static void plain_do(void) {
    int me = shadow_enter("loops.c:plain_do#0"), accepted;
    do {
        rs_start();
        shadow_try(me);
        accepted = ACCEPT(0.5);
    } while (!accepted);
    rs_end();
    shadow_end(me);
}

static void by_goto(void) {
    int me = shadow_enter("loops.c:by_goto#0");
retry:
    rs_start();
    shadow_try(me);
    if (ACCEPT(0.3)) goto retry;
    if (ACCEPT(0.3)) goto retry;
    rs_end();
    shadow_end(me);
}

static void named(void) {
    int me = shadow_enter("a name");
    for (;;) {
        rs_start("a name");
        shadow_try(me);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
}

static void two_in_a_row(int skip_first) {
    if (!skip_first) {
        int first = shadow_enter("loops.c:two_in_a_row#0");
        for (;;) {
            rs_start();
            shadow_try(first);
            if (!ACCEPT(0.5)) continue;
            rs_end();
            shadow_end(first);
            break;
        }
    }
    int second = shadow_enter("loops.c:two_in_a_row#1");
    for (;;) {
        rs_start();
        shadow_try(second);
        if (ACCEPT(0.5)) {
            rs_end();
            shadow_end(second);
            break;
        }
    }
}

/* Three levels in one frame; the innermost is entered a different number of times by every try. */
static void nested(void) {
    int outer = shadow_enter("loops.c:nested#0");
    for (;;) {
        rs_start();
        shadow_try(outer);
        int middle = shadow_enter("loops.c:nested#1");
        for (;;) {
            rs_start();
            shadow_try(middle);
            for (int n = ACCEPT(0.5) ? 1 : 2; n > 0; n--) {
                int inner = shadow_enter("loops.c:nested#2");
                for (;;) {
                    rs_start();
                    shadow_try(inner);
                    if (ACCEPT(0.5)) break;
                }
                rs_end();
                shadow_end(inner);
            }
            if (ACCEPT(0.5)) break;
        }
        rs_end();
        shadow_end(middle);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(outer);
}

static void entered_often(void) {
    for (int i = 0; i < 5; i++) {
        int me = shadow_enter("loops.c:entered_often#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(0.5)) break;
        }
        rs_end();
        shadow_end(me);
    }
}

/* ---- recursion, small enough to be inlined into itself -------------------------------------------------------------- */

static int self(int depth) {
    int me = shadow_enter("loops.c:self#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        int sum = depth > 0 ? self(depth - 1) : 1;
        if (ACCEPT(0.6)) {
            rs_end();
            shadow_end(me);
            return sum + 1;
        }
    }
}

static int odd(int depth);

static int even(int depth) {
    int me = shadow_enter("loops.c:even#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        int sum = depth > 0 ? odd(depth - 1) : 0;
        if (ACCEPT(0.6)) {
            rs_end();
            shadow_end(me);
            return sum + 1;
        }
    }
}

static int odd(int depth) {
    int me = shadow_enter("loops.c:odd#0");
    do {
        rs_start();
        shadow_try(me);
        if (depth > 0) even(depth - 1);
    } while (!ACCEPT(0.6));
    rs_end();
    shadow_end(me);
    return 1;
}

/* A tail call: the compiler may turn the recursion into a jump. */
static int tail(int depth) {
    int me = shadow_enter("loops.c:tail#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
    return depth > 0 ? tail(depth - 1) : 0;
}

/* The same with an accumulator, which compilers turn into a jump as well. */
static int sum_of(int depth) {
    int me = shadow_enter("loops.c:sum_of#0"), tries = 0;
    for (;;) {
        rs_start();
        shadow_try(me);
        tries++;
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
    return depth > 0 ? tries + sum_of(depth - 1) : tries;
}

/* The call within the open loop is the last thing its function does in the try. */
static int in_the_middle(int depth) {
    int me = shadow_enter("loops.c:in_the_middle#0");
again:
    rs_start();
    shadow_try(me);
    if (depth > 0 && in_the_middle(depth - 1) == 0) goto again;
    if (!ACCEPT(0.7)) goto again;
    rs_end();
    shadow_end(me);
    return ACCEPT(0.7);
}

static int (*volatile by_pointer)(int) = self;

/* Locals that need more alignment than the stack has. */
static int aligned(int depth) {
    _Alignas(64) volatile double room[8] = {depth};
    int me = shadow_enter("loops.c:aligned#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (depth > 0) room[depth] = aligned(depth - 1);
        if (ACCEPT(0.6)) break;
    }
    rs_end();
    shadow_end(me);
    return (int)room[depth];
}

/* ---- inlined, peeled, unrolled --------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) int always_inlined(double p) {
    int me = shadow_enter("loops.c:always_inlined#0"), tries = 0;
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

static int inlined_often(void) {
    int tries = always_inlined(0.5);
    tries += always_inlined(0.6);
    int me = shadow_enter("loops.c:inlined_often#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        tries += always_inlined(0.5);
        if (ACCEPT(0.5)) break;
        tries -= always_inlined(0.6);
        tries -= always_inlined(0.7);
    }
    rs_end();
    shadow_end(me);
    return tries + always_inlined(0.9);
}

static void small_bound(void) {
    int me = shadow_enter("loops.c:small_bound#0");
    for (int i = 0; i < 4; i++) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.4) || i == 3) {
            rs_end();
            shadow_end(me);
            break;
        }
    }
}

static void unrolled(void) {
    for (int k = 0; k < 2; k++) {
        int me = shadow_enter("loops.c:unrolled#0");
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 8
#endif
        for (int i = 0; i < 8; i++) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(0.4) || i == 7) {
                rs_end();
                shadow_end(me);
                break;
            }
        }
    }
}

/* ---- the stack pointer moves ----------------------------------------------------------------------------------------- */

__attribute__((noinline)) static void use(void *room, size_t size) {
    memset(room, 1, size);
    __asm__ volatile("" ::"r"(room) : "memory");
}

static void array_in_body(int n) {
    int me = shadow_enter("loops.c:array_in_body#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        char room[n];
        use(room, sizeof room);
        if (ACCEPT(0.4)) break;
        n = n > 200 ? n - 200 : n;
    }
    rs_end();
    shadow_end(me);
}

static void array_in_block(int n) {
    int me = shadow_enter("loops.c:array_in_block#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        {
            char room[n];
            use(room, sizeof room);
        }
        if (ACCEPT(0.4)) break;
        n = n > 200 ? n - 200 : n;
    }
    rs_end();
    shadow_end(me);
}

static void array_in_function(int n) {
    char room[n];
    int me = shadow_enter("loops.c:array_in_function#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        use(room, sizeof room);
        if (ACCEPT(0.4)) break;
    }
    rs_end();
    shadow_end(me);
}

/* Around the loop, in a block that is entered again and again, larger and smaller. */
static void array_around(int n) {
    for (int i = 0; i < 6; i++) {
        char room[n];
        use(room, sizeof room);
        int me = shadow_enter("loops.c:array_around#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            if (ACCEPT(0.4)) break;
        }
        rs_end();
        shadow_end(me);
        n = i % 2 ? 40 : 400;
    }
}

/* The same, but nothing is written to the array before rs_start. */
static void array_around_used_inside(int n) {
    for (int i = 0; i < 6; i++) {
        char room[n];
        int me = shadow_enter("loops.c:array_around_used_inside#0");
        for (;;) {
            rs_start();
            shadow_try(me);
            use(room, sizeof room);
            if (ACCEPT(0.4)) break;
        }
        rs_end();
        shadow_end(me);
        n += 48;
    }
}

static void alloca_in_body(void) {
    int me = shadow_enter("loops.c:alloca_in_body#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        use(alloca(100), 100);
        if (ACCEPT(0.4)) break;
    }
    rs_end();
    shadow_end(me);
}

static void alloca_in_recursion(int depth) {
    int me = shadow_enter("loops.c:alloca_in_recursion#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        size_t size = 16u << depth;
        use(alloca(size), size);
        if (depth > 0) alloca_in_recursion(depth - 1);
        if (ACCEPT(0.6)) break;
    }
    rs_end();
    shadow_end(me);
}

static jmp_buf back;

__attribute__((noinline)) static void jump_or_not(void) {
    if (ACCEPT(0.5)) longjmp(back, 1);
}

/* A jump within a try does not leave the loop. */
static void jump_within(void) {
    volatile int me = shadow_enter("loops.c:jump_within#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (setjmp(back) == 0) jump_or_not();
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
}

/* ---- frames of others in between ------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    int me = shadow_enter("loops.c:compare#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.7)) break;
    }
    rs_end();
    shadow_end(me);
    return *(const int *)a - *(const int *)b;
}

static void in_callback(void) {
    int me = shadow_enter("loops.c:in_callback#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        const int numbers[] = {3}, wanted = 3;
        if (!bsearch(&wanted, numbers, 1, sizeof *numbers, compare)) abort();
        if (ACCEPT(0.5)) break;
    }
    rs_end();
    shadow_end(me);
}

static int with_many_arguments(int a, int b, int c, int d, int e, int f, int g, double h, int i) {
    int me = shadow_enter("loops.c:with_many_arguments#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (g > 0) a += with_many_arguments(b, c, d, e, f, a, g - 1, h, i);
        if (ACCEPT(h)) break;
    }
    rs_end();
    shadow_end(me);
    return a + i;
}

/* rs_end comes from a function that the loop's function calls. */
__attribute__((noinline)) static void accept_for_me(int me) {
    rs_end();
    shadow_end(me);
}

static void accepted_elsewhere(void) {
    int me = shadow_enter("loops.c:accepted_elsewhere#0");
    for (;;) {
        rs_start();
        shadow_try(me);
        if (ACCEPT(0.5)) {
            accept_for_me(me);
            return;
        }
    }
}

static void model(void *user) {
    (void)user;
    shadow_begin();
    plain_while();
    plain_do();
    by_goto();
    named();
    two_in_a_row(0);
    two_in_a_row(1);
    nested();
    entered_often();
    self(3);
    even(3);
    tail(3);
    sum_of(3);
    in_the_middle(2);
    by_pointer(2);
    aligned(2);
    inlined_often();
    small_bound();
    unrolled();
    shared_loop(0.5);
    second_file(0.5);
    array_in_body(1000);
    array_in_block(1000);
    array_in_function(1000);
    array_around(100);
    array_around_used_inside(16);
    alloca_in_body();
    alloca_in_recursion(2);
    jump_within();
    in_callback();
    with_many_arguments(1, 2, 3, 4, 5, 6, 2, 0.6, 7);
    accepted_elsewhere();
    plain_while();
    double y = ars_observe("y", ars_normal(0, 1));
    shadow_report();
    if (ars_standalone()) printf("%.17g\n", y);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, NULL);
}

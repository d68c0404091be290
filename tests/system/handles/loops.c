/* Loops by handle, and the same loops with rs_start: loops MODEL handle|marks. Also handles that are used wrongly. */
#include <ars.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool by_handle;

/* ---- marks in different functions, some of which have returned by the next mark ------------------------------------------ */

static ars_loop shared = ARS_LOOP("single");

static void __attribute__((noinline)) begin(ars_loop *loop) {
    volatile char pad[2000]; /* a frame that later calls overwrite */
    memset((char *)pad, 1, sizeof pad);
    ars_loop_try(loop);
}

static void __attribute__((noinline)) begin_deep(ars_loop *loop, int levels) {
    volatile char pad[300];
    memset((char *)pad, levels, sizeof pad);
    if (levels)
        begin_deep(loop, levels - 1);
    else
        begin(loop);
    pad[0] = 2;
}

static double attempt(double shift) {
    return ars_sample("x", ars_normal(shift, 1));
}

static void __attribute__((noinline)) finish(ars_loop *loop) {
    ars_loop_accept(loop);
}

static double single(double shift) {
    double x;
    if (by_handle) {
        do {
            begin_deep(&shared, 20);
            x = attempt(shift);
        } while (x < 0.5);
        finish(&shared);
        return x;
    }
    for (;;) {
        rs_start("single");
        x = attempt(shift);
        if (x >= 0.5) {
            rs_end();
            return x;
        }
    }
}

/* A state machine: each call is one step, and no function holds the loop. */
struct machine {
    ars_loop loop;
    double x;
    enum { BEGIN, DRAW, DECIDE, DONE } next;
};

static void step(struct machine *m, double shift) {
    switch (m->next) {
    case BEGIN:
        ars_loop_try(&m->loop);
        m->next = DRAW;
        return;
    case DRAW:
        m->x = attempt(shift);
        m->next = DECIDE;
        return;
    case DECIDE:
        m->next = m->x < 0.5 ? BEGIN : DONE;
        if (m->next == DONE) ars_loop_accept(&m->loop);
        return;
    case DONE:
        return;
    }
}

static double machine(double shift) {
    if (!by_handle) return single(shift);
    struct machine *m = malloc(sizeof *m);
    m->loop = ars_loop_named("single");
    m->next = BEGIN;
    while (m->next != DONE) step(m, shift);
    double x = m->x;
    free(m);
    return x;
}

/* ---- handles and marks in one another --------------------------------------------------------------------------------- */

static ars_loop outer_loop = ARS_LOOP("outer"), inner_loop = ARS_LOOP("inner");

/* Bit 0: the outer loop has a handle; bit 1: the inner one. */
static int kinds;

static double inner(double shift) {
    double y;
    if (kinds & 2) {
        do {
            begin(&inner_loop);
            y = ars_sample("y", ars_normal(shift, 1));
        } while (y < 0);
        finish(&inner_loop);
        return y;
    }
    for (;;) {
        rs_start("inner");
        y = ars_sample("y", ars_normal(shift, 1));
        if (y >= 0) {
            rs_end();
            return y;
        }
    }
}

static bool inner_in_place(void *context) {
    double *y = context;
    *y = ars_sample("y", ars_normal(y[1], 1));
    return *y >= 0;
}

static double nested(double shift) {
    double x, y;
    if (kinds & 1) {
        do {
            begin_deep(&outer_loop, 5);
            x = attempt(shift);
            y = inner(0.5 * x);
        } while (x + y < 0.6);
        finish(&outer_loop);
        return x + y;
    }
    for (;;) {
        rs_start("outer");
        x = attempt(shift);
        y = inner(0.5 * x);
        if (x + y >= 0.6) {
            rs_end();
            return x + y;
        }
    }
}

/* ars_reject inside a loop by handle, or a loop by handle inside ars_reject. */
struct sum {
    double shift, total;
};

static bool in_place_body(void *context) {
    struct sum *s = context;
    double x = attempt(s->shift);
    s->total = x + inner(0.5 * x);
    return s->total >= 0.6;
}

static double in_place(double shift) {
    struct sum s = {shift, 0};
    ars_reject_named("outer", in_place_body, &s);
    return s.total;
}

static double around_in_place(double shift) {
    double x, y[2];
    do {
        begin(&outer_loop);
        x = attempt(shift);
        y[1] = 0.5 * x;
        ars_reject_named("inner", inner_in_place, y);
    } while (x + y[0] < 0.6);
    finish(&outer_loop);
    return x + y[0];
}

/* ---- recursion: one handle per activation ------------------------------------------------------------------------------ */

static double recursive(int level, double shift) {
    double x, r;
    if (by_handle) {
        ars_loop mine = ARS_LOOP("level");
        do {
            begin(&mine);
            x = attempt(shift);
            r = level ? x + 0.5 * recursive(level - 1, 0.3 * tanh(x)) : x;
        } while (r < 0.2);
        finish(&mine);
        return r;
    }
    for (;;) {
        rs_start("level");
        x = attempt(shift);
        r = level ? x + 0.5 * recursive(level - 1, 0.3 * tanh(x)) : x;
        if (r >= 0.2) {
            rs_end();
            return r;
        }
    }
}

/* ---- mistakes: in some traces only ------------------------------------------------------------------------------------ */

static double one_handle(int level) {
    double x;
    do {
        ars_loop_try(&shared);
        x = attempt(0);
        if (level) x += one_handle(level - 1);
    } while (x < 0);
    ars_loop_accept(&shared);
    return x;
}

static void leave_one_open(void) {
    ars_loop loop = ARS_LOOP("left");
    ars_loop_try(&loop);
    attempt(0);
}

static void mistake(const char *name) {
    const bool wrong = ars_draw(ars_uniform(0, 1)) < 0.5;
    ars_loop a = ARS_LOOP("a"), b = ARS_LOOP("b");
    if (!wrong) {
        ars_loop_try(&a);
        attempt(0);
        ars_loop_accept(&a);
    } else if (strcmp(name, "accept_without_try") == 0) {
        ars_loop_accept(&a);
    } else if (strcmp(name, "accept_twice") == 0) {
        ars_loop_try(&a);
        attempt(0);
        ars_loop_accept(&a);
        ars_loop_accept(&a);
    } else if (strcmp(name, "one_handle_for_two") == 0) {
        one_handle(1);
    } else if (strcmp(name, "left_open") == 0 || strcmp(name, "open_at_the_end") == 0) {
        ars_loop_try(&a);
        attempt(0);
    } else if (strcmp(name, "observed_inside") == 0) {
        ars_loop_try(&a);
        ars_observe("inside", ars_normal(0, 1));
    } else if (strcmp(name, "entered_again") == 0) {
        for (int i = 0; i < 2; i++) leave_one_open();
    } else if (strcmp(name, "outer_accepted") == 0) {
        ars_loop_try(&a);
        ars_loop_try(&b);
        attempt(0);
        ars_loop_accept(&a);
    } else if (strcmp(name, "outer_tried") == 0) {
        ars_loop_try(&a);
        ars_loop_try(&b);
        attempt(0);
        ars_loop_try(&a);
    } else if (strcmp(name, "rs_end_inside") == 0) {
        rs_start("marks");
        ars_loop_try(&a);
        attempt(0);
        rs_end();
    } else if (strcmp(name, "accepted_inside_marks") == 0) {
        ars_loop_try(&a);
        rs_start("marks");
        attempt(0);
        ars_loop_accept(&a);
    } else if (strcmp(name, "marks_tried_inside") == 0) {
        for (int i = 0; i < 2; i++) {
            rs_start("marks");
            ars_loop_try(&a);
            attempt(0);
        }
    } else if (strcmp(name, "not_initialised") == 0) {
        memset(&a, 0x5a, sizeof a);
        ars_loop_try(&a);
    } else if (strcmp(name, "zeroed") == 0) {
        memset(&a, 0, sizeof a);
        ars_loop_accept(&a);
    } else if (strcmp(name, "null") == 0) {
        ars_loop_try(NULL);
    } else if (strcmp(name, "no_name") == 0) {
        ars_loop_try(&(ars_loop)ARS_LOOP(""));
    } else if (strcmp(name, "copied") == 0) {
        ars_loop_try(&a);
        b = a;
        attempt(0);
        ars_loop_accept(&b);
        ars_loop_try(&a);
    } else if (strcmp(name, "of_another_process") == 0) {
        a.entry = 12345;
        a.depth = 1;
        ars_loop_try(&b);
        ars_loop_try(&a);
    } else {
        fprintf(stderr, "no mistake is called %s\n", name);
        exit(2);
    }
}

/* The function that holds a loop with marks has ended while a loop by handle is open inside it. */
static ars_loop outlived = ARS_LOOP("outlived");

static void __attribute__((noinline)) holds_marks(void) {
    volatile char pad[1000];
    memset((char *)pad, 0, sizeof pad);
    rs_start("marks");
    ars_loop_try(&outlived);
    attempt(0);
    pad[1] = 1;
}

/* ---- which ---------------------------------------------------------------------------------------------------------------- */

static void model(void *user) {
    const char *name = user;
    double shift = ars_sample("shift", ars_normal(0, 1));
    double value;
    if (strcmp(name, "single") == 0)
        value = single(shift);
    else if (strcmp(name, "machine") == 0)
        value = machine(shift);
    else if (strncmp(name, "nested", 6) == 0)
        value = nested(shift);
    else if (strcmp(name, "in_place") == 0)
        value = in_place(shift);
    else if (strcmp(name, "around_in_place") == 0)
        value = around_in_place(shift);
    else if (strcmp(name, "recursive") == 0)
        value = recursive(2, shift);
    else if (strcmp(name, "marks_outlived") == 0) {
        if (shift < 0) holds_marks();
        ars_loop_accept(&outlived);
        value = 0;
    } else {
        mistake(name);
        value = 0;
    }
    ars_result("value", value);
    if (strcmp(name, "open_at_the_end") != 0) ars_observe("data", ars_normal(value, 1));
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    by_handle = strcmp(argv[2], "handle") == 0;
    kinds = by_handle ? 3 : 0;
    if (strncmp(argv[1], "nested", 6) == 0 && argv[1][6]) kinds = argv[1][6] - '0';
    return ars_main(argc, argv, model, argv[1]);
}

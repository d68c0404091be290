/* loops.c: the same models with loops that are forked and loops that are repeated in place, and mistakes in the latter.
 * Usage: loops MODEL OUTER INNER, where OUTER and INNER are "forked" or "place". */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <ars.h>

static bool outer_in_place, inner_in_place;
static jmp_buf away;

typedef bool body_of_loop(void *);

/* Both kinds have one address, so that their traces can be compared. */
static void outer_loop(body_of_loop *body, void *context) {
    if (outer_in_place) {
        ars_reject_named("outer", body, context);
        return;
    }
    for (;;) {
        rs_start("outer");
        if (body(context)) {
            rs_end();
            return;
        }
    }
}

static void inner_loop(body_of_loop *body, void *context) {
    if (inner_in_place) {
        ars_reject_named("inner", body, context);
        return;
    }
    for (;;) {
        rs_start("inner");
        if (body(context)) {
            rs_end();
            return;
        }
    }
}

struct point {
    double shift, x, y, sum;
    int depth;
};

/* ---- models -------------------------------------------------------------------------------------------------------- */

static bool in_disc(void *context) {
    struct point *p = context;
    p->x = ars_sample("x", ars_uniform(-1, 1)) + ars_draw(ars_normal(p->shift, 0.1));
    p->y = ars_sample("y", ars_normal(0, 0.7));
    ars_result("inside", p->x);
    return p->x * p->x + p->y * p->y < 1;
}

static bool above(void *context) {
    struct point *p = context;
    p->y = ars_sample("y", ars_normal(p->x, 1));
    return p->y > p->x + tanh(p->x);
}

static bool around_another(void *context) {
    struct point *p = context;
    p->x = ars_sample("x", ars_normal(0, 1));
    inner_loop(above, p);
    double again = p->y;
    if (p->x > 0.5) inner_loop(above, p); /* a second loop in some tries only */
    p->sum = p->x + again + p->y;
    return p->sum > 0;
}

static bool calls_itself(void *context) {
    struct point *p = context, below = {.depth = p->depth - 1};
    p->x = ars_sample("x", ars_normal(0, 1));
    if (p->depth > 0) inner_loop(calls_itself, &below);
    p->sum = p->x + below.sum;
    return p->x + 0.5 * below.sum > -0.3;
}

/* ---- mistakes ------------------------------------------------------------------------------------------------------ */

static bool mistaken; /* in this trace */

static bool leaves_a_loop_open(void *context) {
    (void)context;
    if (mistaken) {
        rs_start("open");
        ars_sample("x", ars_uniform(0, 1));
    }
    return true;
}

static bool ends_what_it_did_not_start(void *context) {
    (void)context;
    ars_sample("x", ars_uniform(0, 1));
    if (mistaken) rs_end();
    return true;
}

static bool jumps_away(void *context) {
    if (mistaken) longjmp(away, 1);
    *(double *)context = ars_sample("x", ars_uniform(0, 1));
    return true;
}

static bool observes(void *context) {
    (void)context;
    if (mistaken) ars_observe("y", ars_normal(0, 1));
    return true;
}

static bool never(void *context) {
    (void)context;
    return !mistaken;
}

/* Half of the prior is there, next to nothing of the test's proposal: only a run under p gets there. */
static bool fails_under_p(void *context) {
    double x = ars_sample("x", ars_uniform(0, 1));
    if (x < 0.5 && mistaken) ars_sample("wrong", ars_normal(0, -1));
    *(double *)context = x;
    return true;
}

static bool crashes_under_p(void *context) {
    double x = ars_sample("x", ars_uniform(0, 1));
    if (x < 0.5 && mistaken) raise(SIGSEGV);
    *(double *)context = x;
    return true;
}

static bool asks_for_a_trace(void *context) {
    (void)context;
    if (mistaken) ars_next_trace();
    return true;
}

static const struct {
    const char *name;
    body_of_loop *body;
} mistakes[] = {
    {"leaves_a_loop_open", leaves_a_loop_open},
    {"ends_what_it_did_not_start", ends_what_it_did_not_start},
    {"jumps_away", jumps_away},
    {"jumps_away_again", jumps_away},
    {"jumps_away_and_ends", jumps_away},
    {"observes", observes},
    {"never", never},
    {"fails_under_p", fails_under_p},
    {"crashes_under_p", crashes_under_p},
    {"asks_for_a_trace", asks_for_a_trace},
};

static double make_mistake(const char *name) {
    double context = 0;
    mistaken = ars_sample("mistaken", ars_bernoulli(0.25)) == 1;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (strcmp(name, mistakes[i].name) != 0) continue;
        for (volatile int n = strcmp(name, "jumps_away_again") == 0 ? 2 : 1; n > 0; n--)
            if (!setjmp(away)) outer_loop(mistakes[i].body, &context);
    }
    if (strcmp(name, "jumps_away") == 0) ars_sample("after", ars_normal(0, 1));
    return context;
}

/* -------------------------------------------------------------------------------------------------------------------- */

static void model(void *user) {
    const char *name = user;
    struct point p = {.shift = 0, .depth = 2};
    if (strcmp(name, "single") == 0) {
        p.shift = 0.3 * ars_sample("shift", ars_normal(0, 1));
        outer_loop(in_disc, &p);
        p.sum = p.x + p.y;
        outer_loop(in_disc, &p);
        p.sum += p.x;
    } else if (strcmp(name, "nested") == 0) {
        outer_loop(around_another, &p);
    } else if (strcmp(name, "recursive") == 0) {
        outer_loop(calls_itself, &p);
    } else {
        p.sum = make_mistake(name);
    }
    ars_observe("data", ars_normal(p.sum, 0.5));
    ars_result("sum", p.sum);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    outer_in_place = strcmp(argv[2], "place") == 0;
    inner_in_place = strcmp(argv[3], "place") == 0;
    return ars_main(argc, argv, model, argv[1]);
}

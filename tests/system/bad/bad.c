/* bad.c: one mistake per name. A trace makes it if its first draw says so, so that a run has good and bad traces.
 * Usage: bad MISTAKE */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ars.h>

static double uniform(const char *name) {
    return ars_sample(name, ars_uniform(0, 1));
}

/* ---- loops that are left -------------------------------------------------------------------------------------------- */

/* Returns without rs_end if told to. */
__attribute__((noinline)) static double leaky(bool leave) {
    for (;;) {
        rs_start();
        double x = uniform("x");
        if (leave) return x;
        if (x < 0.5) {
            rs_end();
            return x;
        }
    }
}

static bool over; /* nothing else happens in this trace */
static void left_nothing_after(void) {
    leaky(true);
    over = true;
}
static volatile double sink; /* what is stored here is not the last thing a function does: no tail calls */
static void left_called_again(void) {
    sink = leaky(true);
    sink = leaky(false);
}
static void left_called_in_a_for(void) {
    for (int i = 0; i < 3; i++) sink = leaky(i == 0);
}
static void left_sample_after(void) {
    leaky(true);
    uniform("after");
}
static void left_draw_after(void) {
    leaky(true);
    ars_draw(ars_normal(0, 1));
}
static void left_observe_after(void) {
    leaky(true);
    ars_observe("y", ars_normal(0, 1));
}
static void left_result_after(void) {
    leaky(true);
    ars_result("after", 1);
}
static void left_loop_after(void) {
    leaky(true);
    for (;;) {
        rs_start();
        if (uniform("x") < 0.5) break;
    }
    rs_end();
}
static void left_rs_end_after(void) {
    leaky(true);
    rs_end();
}
/* The second call happens at the same depth, with a larger array in the frame. */
__attribute__((noinline)) static double leaky_with_array(int n, bool leave) {
    char room[n];
    memset(room, 0, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    for (;;) {
        rs_start();
        double x = uniform("x");
        if (leave) return x;
        if (x < 0.5) {
            rs_end();
            return x;
        }
    }
}
static void left_larger_frame_after(void) {
    sink = leaky_with_array(16, true);
    sink = leaky_with_array(512, false);
}
static inline __attribute__((always_inline)) double leaky_inline(bool leave) {
    for (;;) {
        rs_start();
        double x = uniform("x");
        if (leave) return x;
        if (x < 0.5) {
            rs_end();
            return x;
        }
    }
}
static void left_inlined_called_again(void) {
    sink = leaky_inline(true);
    sink = leaky_inline(false);
}
static void left_by_break(void) {
    for (;;) {
        rs_start();
        if (uniform("x") < 0.5) break;
    }
}
static void left_by_break_sample_after(void) {
    left_by_break();
    uniform("after");
}
static void left_by_break_observe_after(void) {
    for (;;) {
        rs_start();
        if (uniform("x") < 0.5) break;
    }
    ars_observe("y", ars_normal(0, 1));
}
static jmp_buf back;
__attribute__((noinline)) static void jumps(void) {
    for (;;) {
        rs_start();
        if (uniform("x") < 2) longjmp(back, 1);
    }
}
static void left_by_longjmp(void) {
    if (setjmp(back) == 0) jumps();
}
static void left_by_longjmp_sample_after(void) {
    if (setjmp(back) == 0) jumps();
    uniform("after");
}
static void outer_retried(void) {
    for (int i = 0;; i++) {
        rs_start("outer");
        for (;;) {
            rs_start("inner");
            if (uniform("x") < 0.5) break; /* rs_end is missing */
        }
        if (i == 1) break;
    }
    rs_end();
}
static void rs_end_alone(void) {
    rs_end();
}
static void rs_end_twice(void) {
    leaky(false);
    rs_end();
}

/* ---- inside a loop --------------------------------------------------------------------------------------------------- */

static void observe_in_loop(void) {
    for (;;) {
        rs_start("around");
        ars_observe("y", ars_normal(uniform("x"), 1));
    }
}
static void normals_in_loop(void) {
    double mean[2] = {0, 0}, std[2] = {1, 1};
    for (;;) {
        rs_start("around");
        ars_observe_normals("y", mean, std, 2, NULL);
    }
}
static void factor_in_loop(void) {
    for (;;) {
        rs_start("around");
        ars_factor("weight", -uniform("x"));
    }
}
static void never_accepts(void) {
    for (;;) {
        rs_start("hopeless");
        uniform("x");
    }
}

/* ---- values ---------------------------------------------------------------------------------------------------------- */

static void factor_nan(void) {
    ars_factor("weight", NAN);
}
static void factor_infinite(void) {
    ars_factor("weight", INFINITY);
}
static void site_changes(void) {
    ars_sample("changing", ars_normal(0, 1));
    ars_sample("changing", ars_uniform(0, 1));
}
static void observe_changes(void) {
    ars_observe("y", ars_exponential(1));
}
static void name_empty(void) {
    uniform("");
}
static void name_of(size_t size) {
    char *name = malloc(size + 1);
    memset(name, 'n', size);
    name[size] = 0;
    uniform(name);
    free(name);
}
static void name_long(void) {
    name_of(1025);
}
static void name_fits(void) {
    name_of(1024);
}
static void name_long_in_loop(void) {
    for (;;) {
        rs_start("around");
        name_of(1020);
    }
}

/* ---- the end of the process ------------------------------------------------------------------------------------------- */

static void segfault(void) {
    raise(SIGSEGV);
}
static void aborts(void) {
    abort();
}
static void exits(void) {
    exit(3);
}
static void exits_0(void) {
    exit(0);
}
static void exits_86(void) {
    _exit(86); /* the codes that libars uses among its own processes */
}
static void exits_87(void) {
    _exit(87);
}
static void endless(void) {
    for (volatile unsigned i = 0;; i++) {
    }
}
static void *sleeper(void *unused) {
    for (;;) pause();
    return unused;
}
static void start_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
}
static void thread_in_trace(void) {
    start_thread();
    leaky(false);
}

struct mistake {
    const char *name;
    void (*make)(void);
};
#define M(name)                                                                                                        \
    { #name, name }
static const struct mistake mistakes[] = {M(left_nothing_after),
                                          M(left_called_again),
                                          M(left_called_in_a_for),
                                          M(left_sample_after),
                                          M(left_draw_after),
                                          M(left_observe_after),
                                          M(left_result_after),
                                          M(left_loop_after),
                                          M(left_rs_end_after),
                                          M(left_larger_frame_after),
                                          M(left_inlined_called_again),
                                          M(left_by_break),
                                          M(left_by_break_sample_after),
                                          M(left_by_break_observe_after),
                                          M(left_by_longjmp),
                                          M(left_by_longjmp_sample_after),
                                          M(outer_retried),
                                          M(rs_end_alone),
                                          M(rs_end_twice),
                                          M(observe_in_loop),
                                          M(normals_in_loop),
                                          M(factor_in_loop),
                                          M(never_accepts),
                                          M(factor_nan),
                                          M(factor_infinite),
                                          M(site_changes),
                                          M(observe_changes),
                                          M(name_empty),
                                          M(name_long),
                                          M(name_fits),
                                          M(name_long_in_loop),
                                          M(segfault),
                                          M(aborts),
                                          M(exits),
                                          M(exits_0),
                                          M(exits_86),
                                          M(exits_87),
                                          M(endless),
                                          M(thread_in_trace)};

static const struct mistake *find(const char *name) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (strcmp(mistakes[i].name, name) == 0) return &mistakes[i];
    return NULL;
}

/* ---- wrong parameters: the latent "which" chooses, the site's name says which ------------------------------------------- */

static void wrong_parameters(void) {
    const double short_p[] = {0.5, 0.4}, long_p[] = {0.5, 0.6}, negative_p[] = {1.5, -0.5}, nan_p[] = {0.5, NAN};
    static double many[513];
    for (size_t i = 0; i < 513; i++) many[i] = 1 / 513.;
    const struct {
        const char *name;
        ars_dist dist;
    } wrong[] = {
        {"uniform empty", ars_uniform(1, 1)},
        {"uniform reversed", ars_uniform(1, 0)},
        {"uniform nan", ars_uniform(NAN, 1)},
        {"uniform infinite", ars_uniform(0, INFINITY)},
        {"normal negative", ars_normal(0, -1)},
        {"normal zero", ars_normal(0, 0)},
        {"normal nan mean", ars_normal(NAN, 1)},
        {"normal nan std", ars_normal(0, NAN)},
        {"bernoulli negative", ars_bernoulli(-0.1)},
        {"bernoulli above 1", ars_bernoulli(1.1)},
        {"bernoulli nan", ars_bernoulli(NAN)},
        {"categorical short", ars_categorical(short_p, 2)},
        {"categorical long", ars_categorical(long_p, 2)},
        {"categorical negative", ars_categorical(negative_p, 2)},
        {"categorical nan", ars_categorical(nan_p, 2)},
        {"categorical none", ars_categorical(short_p, 0)},
        {"categorical null", ars_categorical(NULL, 2)},
        {"categorical many", ars_categorical(many, 513)},
        {"poisson negative", ars_poisson(-1)},
        {"poisson nan", ars_poisson(NAN)},
        {"binomial negative", ars_binomial(3, -0.1)},
        {"binomial above 1", ars_binomial(3, 1.5)},
        {"binomial nan", ars_binomial(3, NAN)},
        {"beta negative a", ars_beta(-1, 1)},
        {"beta negative b", ars_beta(1, -1)},
        {"beta zero", ars_beta(0, 1)},
        {"beta nan", ars_beta(1, NAN)},
        {"gamma negative shape", ars_gamma(-1, 1)},
        {"gamma negative rate", ars_gamma(1, -1)},
        {"gamma nan", ars_gamma(NAN, 1)},
        {"exponential negative", ars_exponential(-1)},
        {"exponential zero", ars_exponential(0)},
        {"exponential nan", ars_exponential(NAN)},
        {"weibull negative scale", ars_weibull(-1, 1)},
        {"weibull negative shape", ars_weibull(1, -1)},
        {"weibull nan", ars_weibull(1, NAN)},
        {"lognormal negative", ars_lognormal(0, -1)},
        {"lognormal nan", ars_lognormal(NAN, 1)},
        {"truncated negative", ars_truncated_normal(0, -1, 0, 1)},
        {"truncated reversed", ars_truncated_normal(0, 1, 1, 0)},
        {"truncated nan", ars_truncated_normal(0, 1, NAN, 1)},
    };
    enum { N = sizeof wrong / sizeof *wrong };
    double even[N];
    for (size_t i = 0; i < N; i++) even[i] = 1. / N;
    size_t which = (size_t)ars_sample("which", ars_categorical(even, N));
    double kind = uniform("call");
    if (kind < 0.34)
        ars_sample(wrong[which].name, wrong[which].dist);
    else if (kind < 0.67)
        ars_observe(wrong[which].name, wrong[which].dist);
    else
        ars_draw(wrong[which].dist);
}

/* ---- the model --------------------------------------------------------------------------------------------------------- */

struct plan {
    const struct mistake *mistake;
    bool in_continuation; /* make the mistake only there */
};

/* The mistake in the loop is made in every process, or in continuations only. */
static double good_loop(const struct plan *plan, bool now) {
    for (;;) {
        rs_start("good loop");
        double x = uniform("x");
        if (now && plan->in_continuation && ars_in_continuation()) plan->mistake->make();
        if (x < 0.5) {
            rs_end();
            return x;
        }
    }
}

static void model(void *user) {
    const struct plan *plan = user;
    bool now = ars_sample("mistaken", ars_bernoulli(0.25)) == 1;
    if (now && plan->mistake && !plan->in_continuation) plan->mistake->make();
    if (over) return;
    double x = good_loop(plan, now && plan->mistake);
    double y = ars_observe("y", ars_normal(x, 1));
    ars_result("sum", x + y);
}

static void model_of_parameters(void *user) {
    (void)user;
    wrong_parameters();
    ars_observe("y", ars_normal(0, 1));
}

static void model_of_data(void *user) {
    (void)user;
    double mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    ars_observe("y", ars_normal(uniform("x"), 1));
    ars_observe_normals("many", mean, std, 3, NULL);
    ars_observe("row", ars_normal(0, 1));
    ars_observe("row", ars_normal(0, 1));
}

static bool at_once(void *nothing) {
    (void)nothing;
    return true;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "nothing";
    struct plan plan = {find(what), argc > 2 && strcmp(argv[2], "in_continuation") == 0};
    if (strcmp(what, "sample_before") == 0) uniform("early");
    if (strcmp(what, "observe_before") == 0) ars_observe("early", ars_normal(0, 1));
    if (strcmp(what, "rs_start_before") == 0) leaky(false);
    if (strcmp(what, "reject_before") == 0) ars_reject(at_once, NULL);
    if (strcmp(what, "thread_before") == 0) start_thread();
    if (strcmp(what, "never_begins") == 0) return 4;
    if (strcmp(what, "sleeps") == 0) pause();
    if (strcmp(what, "parameters") == 0) return ars_main(argc, argv, model_of_parameters, NULL);
    if (strcmp(what, "data") == 0) return ars_main(argc, argv, model_of_data, NULL);
    int code = ars_main(argc, argv, model, &plan);
    if (strcmp(what, "sample_after") == 0) uniform("late");
    return code;
}

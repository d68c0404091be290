/* Small models for the tests of budgets: the first argument says which one runs. Their evidence is known by quadrature. */
#include <ars.h>

#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A loop with one latent, accepted below a limit. */
#define BELOW(loop_name, variable, latent, limit)                                                                      \
    do {                                                                                                               \
        rs_start(loop_name);                                                                                           \
        variable = ars_sample(latent, ars_uniform(0, 1));                                                              \
    } while (variable >= (limit));                                                                                     \
    rs_end()

/* ---- loops with and without proposals ---------------------------------------------------------------------------- */

static void two(const char *unused) {
    (void)unused;
    double u, v, x = ars_sample("x", ars_normal(0, 1));
    BELOW("first", u, "u", 0.4);
    BELOW("second", v, "v", 0.5);
    ars_observe("y", ars_normal(x + u + v, 0.5));
    ars_result("sum", x + u + v);
}

/* One try in a thousand draws the latent v. */
static void rare(const char *unused) {
    (void)unused;
    double u, v = 0;
    int accepted = 0;
    while (!accepted) {
        rs_start("loop");
        u = ars_sample("u", ars_uniform(0, 1));
        v = u > 0.999 ? ars_sample("v", ars_uniform(0, 1)) : u;
        accepted = v < 0.5;
    }
    rs_end();
    ars_observe("y", ars_normal(v, 0.5));
}

/* One try in two thousand of the inner loop draws the latent v: continuations of the outer loop may be the first to. */
static void hidden(const char *unused) {
    (void)unused;
    double a, u;
    do {
        rs_start("outer");
        a = ars_sample("a", ars_uniform(0, 1));
        do {
            rs_start("inner");
            u = ars_sample("u", ars_uniform(0, 1));
            if (u > 0.9995) u = ars_sample("v", ars_uniform(0, 1));
        } while (u > 0.6);
        rs_end();
    } while (a > 0.5);
    rs_end();
    ars_observe("y", ars_normal(a + u, 0.5));
}

/* One trace in a thousand enters the loop. */
static void seldom(const char *unused) {
    (void)unused;
    double v = 0.25;
    if (ars_sample("kind", ars_bernoulli(0.001)) > 0.5) {
        BELOW("loop", v, "v", 0.5);
    }
    ars_observe("y", ars_normal(v, 0.5));
}

/* ---- many loops ----------------------------------------------------------------------------------------------------- */

static void entries(const char *count) {
    double u, sum = 0;
    int n = atoi(count);
    for (int i = 0; i < n; i++) {
        BELOW("loop", u, "u", 0.998);
        sum += u;
    }
    ars_observe("y", ars_normal(sum / n, 0.5));
}

#define LOOP(k)                                                                                                        \
    BELOW("loop" #k, u, "u", 0.99);                                                                                    \
    sum += u;
#define TEN(k)                                                                                                         \
    LOOP(k##0) LOOP(k##1) LOOP(k##2) LOOP(k##3) LOOP(k##4) LOOP(k##5) LOOP(k##6) LOOP(k##7) LOOP(k##8) LOOP(k##9)

static void sixty(const char *unused) {
    (void)unused;
    double u, sum = 0;
    TEN(0) TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) ars_observe("y", ars_normal(sum / 60, 0.5));
}

/* ---- trouble -------------------------------------------------------------------------------------------------------- */

/* Under the prior, one try in 741 is accepted. */
static void hard(const char *unused) {
    (void)unused;
    double z;
    do {
        rs_start("loop");
        z = ars_sample("z", ars_normal(0, 1));
    } while (z < 3);
    rs_end();
    ars_observe("y", ars_normal(z, 0.5));
}

/* Only continuations fail. */
static void fragile(const char *unused) {
    (void)unused;
    double v;
    do {
        rs_start("loop");
        v = ars_sample("v", ars_uniform(0, 1));
        if (v > 0.9 && ars_in_continuation()) abort();
    } while (v >= 0.5);
    rs_end();
    ars_observe("y", ars_normal(v, 0.5));
}

static void weightless(const char *unused) {
    (void)unused;
    double v;
    BELOW("loop", v, "v", 0.5);
    ars_observe("y", ars_normal(v, 0.5));
    ars_factor("never", -INFINITY);
}

static double golden(uint64_t n) {
    return (double)(n * 0x9E3779B97F4A7C15u >> 11) / 9007199254740992.0;
}

/* Uniform, from something that a second run of the trace does not repeat. */
static double own(const char *source) {
    static uint64_t calls, state;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!strcmp(source, "clock")) return golden((uint64_t)now.tv_nsec * 2654435761u + (uint64_t)now.tv_sec);
    if (!strcmp(source, "counter")) return golden(++calls + 1000 * (uint64_t)getpid());
    if (!state) state = (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

static void unrepeatable(const char *source) {
    double v, shift = own(source);
    BELOW("loop", v, "v", 0.5);
    ars_observe("y", ars_normal(v + shift, 0.5));
    ars_result("shift", shift);
}

/* ---- a loop within a loop, whose tries in continuations of its own are counted --------------------------------------- */

static unsigned long *counted;

struct inner {
    double a, b;
    bool outer_is_continued;
};

static bool inner_try(void *context) {
    struct inner *it = context;
    if (ars_in_continuation() && !it->outer_is_continued) __atomic_fetch_add(counted, 1, __ATOMIC_RELAXED);
    it->b = ars_sample("b", ars_uniform(0, 1));
    return it->b < 0.5;
}

static void nested(const char *how) {
    struct inner it = {0, 0, false};
    bool in_place = !strcmp(how, "reject"), accepted = false;
    while (!accepted) {
        rs_start("outer");
        it.outer_is_continued = ars_in_continuation();
        it.a = ars_sample("a", ars_uniform(0, 1));
        if (in_place) {
            ars_reject_named("inner", inner_try, &it);
        } else {
            for (bool inside = false; !inside;) {
                rs_start("inner");
                inside = inner_try(&it);
            }
            rs_end();
        }
        accepted = it.a + it.b < 0.4;
    }
    rs_end();
    ars_observe("y", ars_normal(it.a + it.b, 0.5));
}

/* ---- all ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*model)(const char *);
} all[] = {
    {"two", two},          {"rare", rare}, {"hidden", hidden},   {"seldom", seldom}, {"entries", entries},
    {"sixty", sixty},      {"hard", hard}, {"fragile", fragile}, {"nested", nested}, {"weightless", weightless},
    {"own", unrepeatable},
};

static char **words;

static void model(void *user) {
    size_t i = *(size_t *)user;
    all[i].model(words[2] ? words[2] : "");
}

static unsigned long *shared_counter(const char *path) {
    int file = open(path, O_RDWR);
    if (file < 0) return NULL;
    void *memory = mmap(NULL, sizeof(unsigned long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

int main(int argc, char **argv) {
    words = argv;
    static unsigned long unshared;
    counted = argc > 3 ? shared_counter(argv[3]) : &unshared;
    for (size_t i = 0; argc > 1 && counted && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) return ars_main(argc, argv, model, &i);
    fprintf(stderr, "usage: models MODEL [ARGUMENT [COUNTER]]\n");
    return 2;
}

/* faults.c: simulators for the tests of limits. Usage: faults WHAT [ARGUMENTS] */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <ars.h>

static const char *what;
static int argument;

/* A loop whose body is accepted with probability 1/2. */
static double one_loop(const char *name) {
    for (;;) {
        rs_start();
        double x = ars_sample(name, ars_uniform(0, 1));
        if (x < 0.5) {
            rs_end();
            return x;
        }
    }
}

/* ---- memory: every trace leaks; a worker that has leaked too much crashes, as code that does not look at malloc's result
 * does ---------------------------------------------------------------------------------------------------------------- */

static char *volatile kept;

static void leaky(void) {
    size_t size = (size_t)argument << 20;
    kept = malloc(size);
    kept[0] = 1;
    kept[size - 1] = 1;
}

static void hungry(void) {
    if (ars_sample("hungry", ars_uniform(0, 1)) < 0.2) {
        char *memory = malloc((size_t)argument << 20);
        if (!memory) abort();
        memset(memory, 1, (size_t)argument << 20);
        free(memory);
    }
}

/* A trace with more draws than there is memory for. */
static void wordy(void) {
    if (ars_sample("hungry", ars_uniform(0, 1)) >= 0.2) return;
    for (int i = 0; i < 1000 * argument; i++) ars_sample("word", ars_uniform(0, 1));
}

/* ---- a continuation that dies while nobody keeps its children's ends: how it died cannot be known ------------------------ */

static void vanishing(void) {
    bool vanishes = ars_sample("vanishes", ars_uniform(0, 1)) < 0.2;
    for (;;) {
        rs_start("trap door");
        double x = ars_sample("x", ars_uniform(0, 1));
        if (vanishes && ars_in_continuation()) abort();
        if (x < 0.5) {
            rs_end();
            return;
        }
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------------- */

/* A try that takes for ever, in the main run or in a continuation, in the traces whose first draw says so. */
static void slow_try(void) {
    bool slow = ars_sample("slow", ars_uniform(0, 1)) < 0.2;
    for (;;) {
        rs_start("slow loop");
        double x = ars_sample("x", ars_uniform(0, 1));
        while (slow && (!argument || ars_in_continuation())) usleep(1000);
        if (x < 0.5) {
            rs_end();
            return;
        }
    }
}

/* Many tries, each of them short. */
static void long_loop(void) {
    for (int i = 0;; i++) {
        rs_start("long loop");
        ars_sample("x", ars_uniform(0, 1));
        usleep(20000);
        if (i >= 60 || ars_in_continuation()) {
            rs_end();
            return;
        }
    }
}

/* ---- many at once: a continuation goes on when `argument` of them have come -------------------------------------------- */

static _Atomic int *arrived;

static void barrier(int loops) {
    for (int i = 0; i < loops; i++) {
        for (;;) {
            rs_start("gate");
            double x = ars_sample("x", ars_uniform(0, 1));
            if (ars_in_continuation()) {
                atomic_fetch_add(arrived, 1);
                while (atomic_load(arrived) < argument)
                    usleep(50000); /* a thousand that look often leave no time to others */
            }
            if (x < 2) {
                rs_end();
                break;
            }
        }
    }
}

static void model(void *user) {
    (void)user;
    double x = ars_sample("first", ars_normal(0, 1));
    if (strcmp(what, "leaky") == 0) leaky();
    if (strcmp(what, "hungry") == 0) hungry();
    if (strcmp(what, "wordy") == 0) wordy();
    if (strcmp(what, "vanishing") == 0) vanishing();
    if (strcmp(what, "slow_try") == 0) slow_try();
    if (strcmp(what, "long_loop") == 0) long_loop();
    if (strcmp(what, "barrier") == 0) barrier(250);
    if (strcmp(what, "never") == 0)
        for (;;) {
            rs_start("hopeless");
            ars_sample("x", ars_uniform(0, 1));
        }
    if (strcmp(what, "loops") == 0)
        for (int i = 0; i < argument; i++) x += one_loop("y");
    if (strcmp(what, "crash") == 0 && x > 1) {
        one_loop("before");
        fprintf(stderr, "about to divide by zero\n");
        abort();
    }
    ars_observe("y", ars_normal(x, 1));
    ars_result("sum", x);
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "";
    argument = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(what, "vanishing") == 0) signal(SIGCHLD, SIG_IGN);
    arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arrived == MAP_FAILED) return 1;
    return ars_main(argc, argv, model, NULL);
}

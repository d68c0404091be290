/* starved.c: in some traces a process needs a twentieth of a second, on a core that it shares with 30 others: starved WHERE. WHERE is
 * "worker", "try" (of a loop), or "continuation" (in a forked re-run of that loop alone). The others are its own
 * children, so that no setting of the system divides cores between groups of processes. */
#define _GNU_SOURCE
#include <ars.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { OTHERS = 30 };
static const double NEEDED = 0.05; /* seconds */
static const char *where;

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All on the core that this process is on now. */
static void share_core(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Returns how long it took. */
static double starve(void) {
    pid_t others[OTHERS], me = getpid();
    double began = seconds(CLOCK_MONOTONIC);
    share_core();
    for (int i = 0; i < OTHERS; i++) {
        if ((others[i] = fork()) != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == me) {
        }
        _exit(0);
    }
    double ran = seconds(CLOCK_PROCESS_CPUTIME_ID);
    while (seconds(CLOCK_PROCESS_CPUTIME_ID) - ran < NEEDED) {
    }
    /* Not waited for: they need the core to die, and waiting for them would be this process's own time. */
    for (int i = 0; i < OTHERS; i++) kill(others[i], SIGKILL);
    return seconds(CLOCK_MONOTONIC) - began;
}

static double loop(bool starves) {
    for (;;) {
        rs_start("loop");
        double took = 0;
        if (starves && (ars_in_continuation() ? !strcmp(where, "continuation") : !strcmp(where, "try")))
            took = starve();
        if (ars_sample("u", ars_uniform(0, 1)) < 0.9) {
            rs_end();
            return took;
        }
    }
}

static void model(void *nothing) {
    (void)nothing;
    double x = ars_sample("x", ars_normal(0, 1)), took = 0;
    bool starves = x > 1;
    if (starves && !strcmp(where, "worker")) took = starve();
    took += loop(starves);
    ars_result("took", took);
    ars_observe("y", ars_normal(x, 1));
}

int main(int argc, char **argv) {
    where = argc > 1 ? argv[1] : "nowhere";
    return ars_main(argc, argv, model, NULL);
}

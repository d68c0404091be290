/* fork.c: the one place that forks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "fork.h"
#include "process.h"
#include "resource_limits.h"
#include "where.h"

/* A directory's link count is 2 and its subdirectories: one per thread. One system call, no parsing. */
static bool sees_threads(void) {
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink > 3;
}

/* pthread_join returns a moment before the kernel has taken the thread off its list, and on a busy machine a moment is long. */
bool ars__has_threads(void) {
    const struct timespec moment = {0, 1000000};
    for (int i = 0; i < 50 && sees_threads(); i++) nanosleep(&moment, NULL);
    return sees_threads();
}

/* A copy of the process that we did not make would write into the trace of the one that we did. Outside a trace every call
 * looks twice, so this costs the others nothing. */
static void after_fork(void) {
    if (ars__me.forking) return;
    ars__me.role = ARS__FOREIGN;
    ars__me.in_trace = false;
    ars__me.loops.depth = 0;
}

void ars__watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

/* fork of a snapshot, which has run nothing since it was forked itself: so what libc and others do before and after a fork
 * (pthread_atfork), on pages that the child would have to copy, has been done. */
static pid_t fork_again(void) {
#ifdef ARS__HAS_BARE_FORK
    return _Fork();
#else
    return fork();
#endif
}

/* The order of the steps matters:
 *  - flush first, or what the parent had buffered would be written by both;
 *  - refuse threads: a fork copies only the caller, and a lock that another thread holds stays held for ever.
 * Neither is needed of a snapshot: it was flushed, and had one thread, when it was forked, and has run our code only.
 * In the child:
 *  1. it marks what it is, so that whatever happens next is accounted to the right process;
 *  2. it asks to die with its parent, then looks whether the parent has died already: no orphan survives;
 *  3. a snapshot, and so every continuation it will fork, prints to nowhere;
 *  4. its random stream is set by the caller, who knows which one it is, before simulator code runs. */
pid_t ars__fork(enum ars__role role) {
    bool of_snapshot = role == ARS__TRY_Q || role == ARS__RUN_P;
    if (!of_snapshot && ars__has_threads()) {
        errno = ARS__HAS_THREADS;
        return -1;
    }
    if (!of_snapshot) fflush(NULL);
    pid_t parent = getpid();
    ars__me.forking = true;
    pid_t pid = of_snapshot ? fork_again() : fork();
    ars__me.forking = false;
    if (pid != 0) return pid;

    ars__me.role = role;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(ARS__EXIT_FAILED);
    if (role == ARS__SNAPSHOT) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null >= 0 && null != STDOUT_FILENO) { /* it is, if the simulator has closed its own */
            dup2(null, STDOUT_FILENO);
            close(null);
        }
    }
    return 0;
}

enum { FIRST_PAUSE_MS = 1, LAST_PAUSE_MS = 64 };

/* A system without room for one more process has some in a moment, when another trace is over. The host then lowers the number
 * of workers: see replay.c there. */
pid_t ars__fork_patiently(enum ars__role role, const char *what) {
    for (int pause = FIRST_PAUSE_MS;; pause *= 2) {
        bool crowded = role == ARS__SNAPSHOT && ars__crowded();
        pid_t pid = crowded ? -1 : ars__fork(role);
        if (pid >= 0) return pid;
        int why = crowded ? EAGAIN : errno;
        if (why == ARS__HAS_THREADS)
            ars__fail(ARS_FAIL_THREADS, 0,
                      "the simulator has more than one thread; libars forks it and needs it to have one");
        if ((why != EAGAIN && why != ENOMEM) || pause > LAST_PAUSE_MS) {
            if (crowded)
                ars__fail(ARS_FAIL_FORK, why,
                          "%s was not forked: there are %u processes, as many as max_processes allows", what,
                          ars__me.max_processes);
            ars__fail(ARS_FAIL_FORK, why, "%s could not be forked: %s", what, strerror(why));
        }
        nanosleep(&(struct timespec){.tv_nsec = pause * 1000000L}, NULL);
    }
}

void ars__reap(pid_t pid, int *status) {
    int kept = errno;
    ars__at_work(pid);
    while (waitpid(pid, status, 0) < 0) {
        if (errno == EINTR) continue;
        /* The simulator waited for all its children and got ours. It has ended; how is not known any more. */
        *status = -1;
        break;
    }
    ars__at_work(getpid());
    errno = kept;
}

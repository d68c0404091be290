/* family.c: how one process becomes a family: the split, the zygote that forks workers, and the worker's day. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "data.h"
#include "family.h"
#include "fork.h"
#include "futex.h"
#include "host_path.h"
#include "kept.h"
#include "loops.h"
#include "method.h"
#include "process.h"
#include "resource_limits.h"
#include "rewind.h"
#include "scopes.h"
#include "segment.h"
#include "sites.h"
#include "snapshot.h"
#include "trace.h"
#include "where.h"

/* ---- a sign of life for the launcher --------------------------------------------------------------------------------- */

bool ars__controlled(void) {
    const char *endpoint = getenv("ARS_ENDPOINT");
    return endpoint && *endpoint;
}

/* Runs before main: the launcher learns at once that this program is linked against libars, however long its
 * initialisation takes. */
__attribute__((constructor)) static void say_alive(void) {
    const char *text = getenv("ARS_ALIVE_FD");
    if (!text || !ars__controlled()) return;
    struct stat st;
    int fd = atoi(text);
    if (fstat(fd, &st)) return;
    ars__me.alive = (struct ars__alive){.known = true, .fd = fd, .device = st.st_dev, .inode = st.st_ino};
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    ssize_t n = write(fd, "A", 1);
    (void)n;
}

/* A program that closes all descriptors and opens its own may have something else at that number. */
static bool alive_is_ours(void) {
    const struct ars__alive *alive = &ars__me.alive;
    struct stat st;
    return alive->known && !fstat(alive->fd, &st) && st.st_dev == alive->device && st.st_ino == alive->inode;
}

void ars__alive_error(const char *text) {
    if (!alive_is_ours()) return;
    char line[ARS_WIRE_TEXT + 2];
    int n = snprintf(line, sizeof line, "E%s", text);
    ssize_t written = write(ars__me.alive.fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    (void)written;
}

_Noreturn void ars__cannot_start(const char *what, int error) {
    char text[ARS_WIRE_TEXT];
    snprintf(text, sizeof text, "%s%s%s", what, error ? ": " : "", error ? strerror(error) : "");
    ars__alive_error(text);
    fprintf(stderr, "libars: %s\n", text);
    _exit(ARS__EXIT_FAILED);
}

/* ---- workers ----------------------------------------------------------------------------------------------------------- */

static void become_worker(uint32_t w) {
    setpgid(0, 0); /* its family can be ended as one */
    ars__me.worker = w;
    ars__me.mine = ars__worker_at(ars__me.shm, ars__me.per_worker, w);
    ars__me.channel = &ars__me.mine->channel;
    ars__me.channel_number = w;
    ars__me.where = &ars__me.mine->where;
    ars__me.order_number = atomic_load(&ars__me.mine->order_taken);
    ars__handles_begin(getpid());
    ars__limit_memory();
}

/* Takes the next order, and the run's settings with it. */
static void await_order(void) {
    struct ars__worker *w = ars__me.mine;
    if (atomic_load(&w->order_done) != ars__me.order_number) {
        fflush(NULL); /* what the simulator has written to files is there when its traces are; nobody may come back */
        atomic_store(&w->order_done, ars__me.order_number);
        ars__raise_attention(ars__me.worker);
    }
    uint32_t number;
    while ((number = atomic_load(&w->order_number)) == ars__me.order_number)
        ars__futex_wait(&w->order_number, number, 1000000000);
    const struct ars__run *run = &ars__me.shm->run;
    ars__me.order_number = number;
    ars__me.trace_number = w->order_first;
    ars__me.traces_left = w->order_count;
    atomic_store(&w->order_taken, number);
    ars__me.flags = run->flags;
    ars__me.max_tries = run->max_tries ? run->max_tries : UINT64_MAX;
    ars__me.max_rejected = run->max_rejected;
    ars__me.seed = run->seed;
    if (run->number != ars__me.run_number) {
        ars__me.run_number = run->number;
        ars__data_begin_run();
    }
}

bool ars__worker_next(void) {
    struct ars__worker *w = ars__me.mine;
    if (ars__me.in_trace) {
        ars__loops_reset();
        ars__data_end_trace();
        ars__habits_learn();
        ars__trace_send(&ars__me.trace);
        ars__snapshots_await();
        ars__me.trace_number++;
        ars__me.traces_left--;
    }
    ars__me.in_trace = false;
    while (!ars__me.traces_left) await_order();
    ars__at_loop(ARS_NO_SITE);
    ars__at_site(ARS_NO_SITE);
    ars__beat(false);
    atomic_store(&w->current_trace, ars__me.trace_number);
    atomic_fetch_add(&w->traces_begun, 1);
    ars__trace_reset(&ars__me.trace);
    ars__instances_reset();
    ars__scopes_reset();
    ars__data_begin_trace();
    ars__me.state = 0;
    ars__me.told = 0;
    ars__rng_init(&ars__me.rng, ars__me.seed, ars__me.trace_number, 0);
    return ars__me.in_trace = true;
}

/* ---- the zygote ---------------------------------------------------------------------------------------------------------- */

enum { ORPHANS_EVERY_MS = 1000 };

struct zygote {
    int host;                    /* socket */
    pid_t pid[ARS__MAX_WORKERS]; /* 0: none */
    struct pollfd poll[ARS__MAX_WORKERS + 1];
    uint32_t whose[ARS__MAX_WORKERS + 1];
    int pidfd[ARS__MAX_WORKERS];
};

static void tell_host_of_worker(const struct zygote *z, enum ars__zygote_op op, uint32_t w, pid_t pid, int status) {
    struct ars__zygote_message m = {op, w, pid, status};
    while (send(z->host, &m, sizeof m, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR) continue;
        fprintf(stderr, "libars: the zygote cannot talk to ars-host: %s\n", strerror(errno));
        _exit(ARS__EXIT_FAILED); /* the host sees that at once, and the workers end with us */
    }
}

/* Ends what is left of a worker's family. Orphans come to us (we are their subreaper), and waitpid by process group says
 * when the last is gone: only then may its slots be used again. The group is signalled when its leader is dead, and forks
 * no more, and before it is waited for: until then the number is that of no other group. */
static int end_family(struct zygote *z, uint32_t w) {
    pid_t pid = z->pid[w];
    int status = 0;
    siginfo_t info;
    kill(pid, SIGKILL);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    while (waitpid(-pid, NULL, 0) > 0 || errno == EINTR) {
    }
    close(z->pidfd[w]);
    z->pid[w] = 0;
    return status;
}

/* Its area is open while it is forked: the worker itself has nothing left to do that could fail. */
static pid_t fork_into_area(uint32_t w, enum ars__zygote_op *failure) {
    *failure = ARS__AREA_FAILED;
    if (!ars__area_open(w)) return -1;
    *failure = ARS__FORK_FAILED;
    pid_t pid = ars__fork(ARS__WORKER);
    int why = errno;
    if (pid != 0) ars__area_close(w);
    errno = why;
    return pid;
}

/* True in the new worker. */
static bool spawn(struct zygote *z, uint32_t w) {
    enum ars__zygote_op failure;
    pid_t pid = fork_into_area(w, &failure);
    if (pid == 0) {
        close(z->host);
        for (uint32_t i = 0; i < ars__me.n_workers; i++)
            if (z->pid[i]) close(z->pidfd[i]);
        become_worker(w);
        return true;
    }
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        int why = errno;
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        tell_host_of_worker(z, failure, w, 0, why);
        return false;
    }
    setpgid(pid, pid);
    fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    z->pid[w] = pid;
    z->pidfd[w] = pidfd;
    tell_host_of_worker(z, ARS__STARTED, w, pid, 0);
    return false;
}

_Noreturn static void stop(struct zygote *z) {
    for (uint32_t w = 0; w < ars__me.n_workers; w++)
        if (z->pid[w]) end_family(z, w);
    _exit(0);
}

/* Returns in a worker. */
static bool obey(struct zygote *z) {
    struct ars__zygote_message m;
    ssize_t n = recv(z->host, &m, sizeof m, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return false;
    if (n != sizeof m || m.op == ARS__STOP) stop(z);
    if (m.worker >= ars__me.n_workers) return false;
    if (m.op == ARS__SPAWN && !z->pid[m.worker]) return spawn(z, m.worker);
    if (m.op == ARS__KILL && z->pid[m.worker]) {
        int status = end_family(z, m.worker);
        tell_host_of_worker(z, ARS__DIED, m.worker, 0, status);
    }
    return false;
}

static int watch(struct zygote *z) {
    int n = 1;
    z->poll[0] = (struct pollfd){z->host, POLLIN, 0};
    for (uint32_t w = 0; w < ars__me.n_workers; w++) {
        if (!z->pid[w]) continue;
        z->whose[n] = w;
        z->poll[n++] = (struct pollfd){z->pidfd[w], POLLIN, 0};
    }
    return n;
}

/* Orphans come to us: the continuation of a snapshot that was killed, for one. They are dead or about to be; a worker that is dead
 * is the loop's to deal with. */
static void reap_orphans(const struct zygote *z) {
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid) return;
        for (uint32_t w = 0; w < ars__me.n_workers; w++)
            if (z->pid[w] == info.si_pid) return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/* Parks here for good, and returns once in every worker. It blocks every signal that can be blocked, so that the
 * simulator's own handlers and timers do not run in it; workers get the mask back. */
static void live_as_zygote(int host) {
    struct zygote *z = calloc(1, sizeof *z);
    if (!z) {
        fprintf(stderr, "libars: no memory for the table of workers\n");
        _exit(ARS__EXIT_FAILED);
    }
    z->host = host;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all, kept;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &kept);
    for (;;) {
        int n = watch(z);
        int ready = poll(z->poll, (nfds_t)n, ORPHANS_EVERY_MS);
        if (ready == 0) reap_orphans(z);
        if (ready <= 0) continue;
        for (int i = 1; i < n; i++) {
            if (!z->poll[i].revents) continue;
            uint32_t w = z->whose[i];
            pid_t pid = z->pid[w];
            int status = end_family(z, w);
            tell_host_of_worker(z, ARS__DIED, w, pid, status);
        }
        if (z->poll[0].revents && obey(z)) break;
    }
    free(z);
    sigprocmask(SIG_SETMASK, &kept, NULL);
}

/* ---- the split ------------------------------------------------------------------------------------------------------------ */

_Noreturn static void become_host(int shm, int zygote, pid_t pid) {
    char arguments[5][16];
    snprintf(arguments[0], 16, "%d", shm);
    snprintf(arguments[1], 16, "%d", zygote);
    snprintf(arguments[2], 16, "%d", (int)pid);
    snprintf(arguments[3], 16, "%u", ars__me.n_workers);
    snprintf(arguments[4], 16, "%u", ars__me.per_worker);
    fcntl(shm, F_SETFD, 0);
    fcntl(zygote, F_SETFD, 0);
    /* Timers survive an exec, and handlers do not: the simulator's alarm would end the host. */
    const struct itimerval none = {{0, 0}, {0, 0}};
    static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) setitimer(timers[i], &none, NULL);
    ssize_t told = alive_is_ours() ? write(ars__me.alive.fd, "S", 1) : 0;
    (void)told;
    struct ars__host_path host;
    int why = 0;
    if (ars__host_find(&host)) {
        execl(host.path, "ars-host", "--shm", arguments[0], "--zygote", arguments[1], "--zygote-pid", arguments[2],
              "--workers", arguments[3], "--snapshots", arguments[4], (char *)NULL);
        why = errno;
        snprintf(host.problem, sizeof host.problem, "cannot run ars-host at %.300s", host.path);
    }
    kill(pid, SIGKILL);
    ars__cannot_start(host.problem, why);
}

void ars__split(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long standard = (cores < 1 ? 1 : cores) * ARS__DEFAULT_WORKERS_PER_CORE;
    if (standard > ARS__MAX_WORKERS) standard = ARS__MAX_WORKERS;
    ars__me.n_workers = (uint32_t)ars__setting("ARS_WORKERS", (uint64_t)standard, ARS__MAX_WORKERS);
    uint32_t snapshots = ARS__MAX_CHANNELS / ars__me.n_workers - 1; /* for which there is room */
    if (snapshots > ARS__DEFAULT_MAX_SNAPSHOTS) snapshots = ARS__DEFAULT_MAX_SNAPSHOTS;
    ars__me.per_worker = (uint32_t)ars__setting("ARS_SNAPSHOTS", snapshots, ARS__MAX_SNAPSHOTS);
    ars__me.max_processes = (uint32_t)ars__setting("ARS_MAX_PROCESSES", ARS__DEFAULT_MAX_PROCESSES, UINT32_MAX);
    ars__setting("ARS_MAX_MEMORY", 0, UINT64_MAX >> 2); /* refused now, not in every worker */
    if ((uint64_t)ars__me.n_workers * (ars__me.per_worker + 1) > ARS__MAX_CHANNELS)
        ars__cannot_start("ARS_WORKERS times ARS_SNAPSHOTS is too large; lower one of them", 0);
    if (!ars__kept_make()) ars__cannot_start("no memory for the state of a worker", errno);
    int fd = memfd_create("ars", MFD_CLOEXEC | MFD_ALLOW_SEALING), pair[2];
    if (fd < 0) ars__cannot_start("no shared memory", errno);
    ars__me.shm = ars__segment_make(fd);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) ars__cannot_start("no socket pair", errno);

    pid_t pid = ars__fork(ARS__ZYGOTE);
    if (pid < 0 && errno == ARS__HAS_THREADS)
        ars__cannot_start(
            "the simulator has more than one thread when its first trace begins; libars forks it and needs it to "
            "have one. Start threads after the fork, or build it without them",
            0);
    if (pid < 0) ars__cannot_start("the zygote could not be forked", errno);
    if (pid > 0) {
        close(pair[1]);
        become_host(fd, pair[0], pid);
    }
    close(fd);
    close(pair[0]);
    if (alive_is_ours()) close(ars__me.alive.fd);
    ars__me.alive.known = false;
    unsetenv("ARS_ENDPOINT"); /* programs that the simulator starts are not simulators */
    ars__watch_forks();
    live_as_zygote(pair[1]);
}

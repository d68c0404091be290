/* family.c: the zygote and the families of workers that it forks for us. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "columns.h"
#include "crash_says.h"
#include "family.h"
#include "host.h"
#include "methods.h"
#include "records.h"
#include "relay.h"
#include "replay.h"
#include "schedule.h"
#include "sites.h"
#include "start.h"
#include "stray.h"

enum { SPAWN_LIMIT_S = 60, KILL_LIMIT_S = 10, STOP_LIMIT_MS = 2000, FORK_TRIES = 5, FIRST_BACKOFF_MS = 100 };
enum { MESSAGES_PER_TURN = 4 * ARS__MAX_WORKERS }; /* more than the zygote ever has to say at once */

uint64_t host_current_trace(const struct worker *worker) {
    return worker->first + worker->finished;
}

/* ---- words to the zygote ----------------------------------------------------------------------------------------- */

static bool tell_zygote(struct host *host, enum ars__zygote_op op, uint32_t worker) {
    struct ars__zygote_message m = {.op = op, .worker = worker};
    for (int i = 0; i < 10; i++) {
        if (send(host->zygote_fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof m) return true;
        if (errno != EAGAIN && errno != EINTR) return false;
        struct pollfd p = {host->zygote_fd, POLLOUT, 0};
        poll(&p, 1, 100);
    }
    return false;
}

void host_family_spawn(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    worker->state = WORKER_SPAWNING;
    worker->answer_by = host->now + SPAWN_LIMIT_S * HOST_S;
    if (!tell_zygote(host, ARS__SPAWN, w)) host_family_lost(host);
}

void host_family_kill(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    if (worker->state != WORKER_ALIVE) return;
    worker->state = WORKER_DYING;
    worker->answer_by = host->now + KILL_LIMIT_S * HOST_S;
    if (!tell_zygote(host, ARS__KILL, w)) host_family_lost(host);
}

void host_family_condemn(struct host *host, uint32_t w, enum ars_failure_kind kind, const char *format, ...) {
    struct worker *worker = &host->workers[w];
    if (worker->state != WORKER_ALIVE) return;
    va_list args;
    va_start(args, format);
    worker->doom = (struct ars_wire_failure){.trace = host_current_trace(worker), .kind = kind};
    host_family_where(host, &ars__worker_at(host->shm, host->per_worker, w)->where, &worker->doom);
    vsnprintf(worker->doom.text, sizeof worker->doom.text, format, args);
    va_end(args);
    host_family_kill(host, w);
}

/* ---- a death ----------------------------------------------------------------------------------------------------- */

void host_family_where(const struct host *host, const struct ars__where *where, struct ars_wire_failure *failure) {
    failure->loop_id = host_site_or_none(host, atomic_load(&where->loop_id), 1u << ARS_SITE_LOOP);
    failure->site_id = host_site_or_none(host, atomic_load(&where->site_id),
                                         1u << ARS_SITE_SAMPLE | 1u << ARS_SITE_OBSERVE | 1u << ARS_SITE_RESULT);
}

static struct ars_wire_failure failure_of(const struct host *host, const struct worker *worker, int status) {
    struct ars_wire_failure f = {.trace = host_current_trace(worker)};
    const struct ars__where *where =
        &ars__worker_at(host->shm, host->per_worker, (uint32_t)(worker - host->workers))->where;
    host_family_where(host, where, &f);
    if (ars__stray_describe(where, &f)) return f;
    if (WIFSIGNALED(status)) {
        f.kind = ARS_FAIL_CRASH;
        f.detail = WTERMSIG(status);
        snprintf(f.text, sizeof f.text, "the simulator was ended by signal %d (%s) in this trace%s", f.detail,
                 strsignal(f.detail), ars__crash_hint(f.detail));
    } else {
        f.kind = ARS_FAIL_EXIT;
        f.detail = WIFEXITED(status) ? WEXITSTATUS(status) : status;
        snprintf(
            f.text, sizeof f.text,
            "the simulator exited with code %d in the middle of a trace; a model returns to ars_main or ars_next_trace",
            f.detail);
    }
    return f;
}

/* The first unfinished trace of its order fails or is run again, the others go back into the queue. */
static void account(struct host *host, struct worker *worker, int status) {
    if (worker->finished == worker->count) return;
    bool killed = worker->doom.kind != 0;
    bool innocent = worker->last_failed || (killed && worker->doom.trace != host_current_trace(worker));
    if (!innocent && (killed || !host_methods_died(host, (uint32_t)(worker - host->workers), status))) {
        struct ars_wire_failure failure = killed ? worker->doom : failure_of(host, worker, status);
        bool slow = failure.kind == ARS_FAIL_TIMEOUT || failure.kind == ARS_FAIL_TRY_TIMEOUT;
        if (slow || !host_replay(host, &failure)) {
            host_columns_fail(host, &failure, 0);
            worker->finished++;
        }
    }
    host_requeue(host, host_current_trace(worker), worker->count - worker->finished);
}

void host_family_count(struct host *host, uint32_t w) {
    uint32_t alive =
        atomic_load_explicit(&ars__worker_at(host->shm, host->per_worker, w)->snapshots_alive, memory_order_relaxed);
    if (alive > host->per_worker) alive = host->per_worker;
    atomic_store_explicit(&host->shm->snapshots_alive[w], alive, memory_order_relaxed);
}

/* As the segment was before the first worker lived here. */
static void reset(struct host *host, uint32_t w) {
    struct ars__worker *shared = ars__worker_at(host->shm, host->per_worker, w);
    struct worker *worker = &host->workers[w];
    host_relay_reset(host, w);
    for (uint32_t i = 0; i < host->per_worker; i++) {
        struct ars__snapshot *s = ars__snapshot_at(host->shm, host->per_worker, w, i);
        if (atomic_load(&s->status) != ARS__SLOT_FREE) atomic_store(&s->status, ARS__SLOT_FREE);
        if (atomic_load(&s->order) != ARS__WAIT) atomic_store(&s->order, ARS__WAIT);
    }
    shared->order_first = shared->order_count = 0;
    shared->order_n_known = 0;
    atomic_store(&shared->order_number, 0);
    atomic_store(&shared->order_taken, 0);
    atomic_store(&shared->order_done, 0);
    atomic_store(&shared->current_trace, 0);
    atomic_store(&shared->traces_begun, 0);
    atomic_store(&shared->ring_written, 0);
    atomic_store(&shared->ring_read, 0);
    atomic_store(&shared->ring_full, 0);
    atomic_store(&shared->snapshots_alive, 0);
    host_family_count(host, w);
    atomic_store(&shared->where.stray, 0);
    atomic_store(&shared->where.rewind, ARS__REWIND_NOT);
    atomic_store(&shared->n_missed, 0);
    atomic_store(&shared->where.pid, 0);
    atomic_store(&shared->where.beat, (atomic_load(&shared->where.beat) | 1) + 1); /* not in a try */
    struct buffer kept = worker->bytes;
    kept.size = 0;
    *worker = (struct worker){
        .state = WORKER_NONE, .fork_tries = worker->fork_tries, .bytes = kept, .states = worker->states};
}

static void died(struct host *host, uint32_t w, int status) {
    struct worker *worker = &host->workers[w];
    if (worker->state != WORKER_ALIVE && worker->state != WORKER_DYING) return;
    worker->state = WORKER_DYING; /* nobody is left to kill, whatever its last records say */
    if (worker->has_order && host->run.active && !host->run.cancelled) {
        host_records_read(host, w, true); /* what it had written counts */
        account(host, worker, status);
    }
    reset(host, w);
}

/* `area`: the worker could not be given its part of the segment. */
static void fork_failed(struct host *host, uint32_t w, int status, bool area) {
    struct worker *worker = &host->workers[w];
    struct ars_wire_failure *f = &host->run.fork_failure;
    if (worker->state != WORKER_SPAWNING) return;
    bool threads = !area && status == -1;
    *f = (struct ars_wire_failure){.kind = threads ? ARS_FAIL_THREADS
                                           : area  ? ARS_FAIL_MEMORY
                                                   : ARS_FAIL_FORK,
                                   .detail = status,
                                   .loop_id = ARS_NO_SITE,
                                   .site_id = ARS_NO_SITE};
    if (area)
        snprintf(f->text, sizeof f->text,
                 "the system refused to open a worker's part of the shared memory (mprotect), %d times in a row: %s. "
                 "Free memory, or raise vm.max_map_count if the simulator has very many mappings",
                 FORK_TRIES, strerror(status));
    else if (threads)
        snprintf(f->text, sizeof f->text,
                 "the simulator has more than one thread and cannot be forked; run it with one (for "
                 "instance OMP_NUM_THREADS=1)");
    else
        snprintf(f->text, sizeof f->text, "the system refused to fork the simulator, %d times in a row: %s", FORK_TRIES,
                 strerror(status));
    worker->fork_tries++;
    if (threads || worker->fork_tries >= FORK_TRIES) {
        worker->state = WORKER_GAVE_UP;
        if (!threads) host_fork_refused(host, f->text, false);
        return;
    }
    host->run.counters.forks_refused++;
    worker->state = WORKER_BACKOFF;
    worker->retry_at = host->now + (FIRST_BACKOFF_MS * HOST_MS << (worker->fork_tries - 1));
}

/* ---- words from the zygote --------------------------------------------------------------------------------------- */

void host_family_receive(struct host *host) {
    for (int i = 0; i < MESSAGES_PER_TURN && !host->zygote_lost; i++) {
        struct ars__zygote_message m;
        ssize_t n = recv(host->zygote_fd, &m, sizeof m, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n != (ssize_t)sizeof m || m.worker >= host->n_workers) { /* the end, an error, or nonsense */
            host_family_lost(host);
            return;
        }
        struct worker *worker = &host->workers[m.worker];
        if (m.op == ARS__STARTED && worker->state == WORKER_SPAWNING) {
            worker->state = WORKER_ALIVE;
            worker->pid = m.pid;
            worker->fork_tries = 0;
            host->run.counters.workers_started++;
        } else if (m.op == ARS__DIED) {
            died(host, m.worker, m.status);
        } else if (m.op == ARS__FORK_FAILED) {
            fork_failed(host, m.worker, m.status, false);
        } else if (m.op == ARS__AREA_FAILED) {
            fork_failed(host, m.worker, m.status, true);
        }
    }
}

static void end_everybody(struct host *host);

void host_family_lost(struct host *host) {
    if (host->zygote_lost) return;
    host->zygote_lost = true;
    /* Its socket closes a moment before it can be waited for. */
    for (int i = 0; i < 50 && (host_family_reap(host), !host->zygote_reaped); i++) usleep(2000);
    char text[256] = "the simulator's zygote process stopped answering";
    if (host->zygote_reaped && WIFSIGNALED(host->zygote_status))
        snprintf(text, sizeof text, "the simulator's zygote process was ended by signal %d (%s)",
                 WTERMSIG(host->zygote_status), strsignal(WTERMSIG(host->zygote_status)));
    else if (host->zygote_reaped)
        snprintf(text, sizeof text, "the simulator's zygote process exited with code %d",
                 WEXITSTATUS(host->zygote_status));
    end_everybody(host); /* so that nobody writes any more */
    for (uint32_t w = 0; w < host->n_workers; w++) {
        struct worker *worker = &host->workers[w];
        worker->state = WORKER_GAVE_UP;
        /* What had finished is sent; the controller starts the simulator again and has the rest done there. */
        if (worker->has_order && host->run.active && !host->run.cancelled) host_records_read(host, w, true);
        worker->has_order = false;
    }
    host_give_up(host, "%s", text);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Calls `each` with our children's ids. They are listed by thread. */
static void for_children(struct host *host, void (*each)(struct host *, pid_t)) {
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300];
        int pid;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/children", entry->d_name);
        FILE *list = fopen(path, "re");
        if (!list) continue;
        while (fscanf(list, "%d", &pid) == 1) each(host, pid);
        fclose(list);
    }
    closedir(tasks);
}

static void remember_stranger(struct host *host, pid_t pid) {
    if (pid == host->zygote_pid) return;
    host->strangers = host_grow(host->strangers, (host->n_strangers + 1) * sizeof *host->strangers);
    host->strangers[host->n_strangers++] = pid;
}

static void kill_relative(struct host *host, pid_t pid) {
    for (size_t i = 0; i < host->n_strangers; i++)
        if (host->strangers[i] == pid) return;
    kill(pid, SIGKILL);
}

void host_family_open(struct host *host) {
    for_children(host, remember_stranger);
    /* From now on the orphans of the family come to us, so that nothing outlives us. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void note_zygote(struct host *host, pid_t pid, int status) {
    if (pid != host->zygote_pid || host->zygote_reaped) return; /* a later one may have its number */
    host->zygote_reaped = true;
    host->zygote_status = status;
}

void host_family_reap(struct host *host) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) note_zygote(host, pid, status);
    if (host->zygote_reaped && !host->zygote_lost && !host->quit) {
        host_family_receive(host); /* its last words first */
        host_family_lost(host);
    }
}

/* Ends the zygote, if it is still there, and all below it. Whoever is left has become our child, or will when its parent is
 * dead. Only children that nobody has waited for are signalled, so a number is never somebody else's. */
static void end_everybody(struct host *host) {
    for (int i = 0; i < 200; i++) {
        pid_t pid;
        int status;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) note_zygote(host, pid, status);
        if (pid < 0 && errno == ECHILD) break;
        if (host->n_strangers && i > 20) break; /* what remains may be theirs */
        for_children(host, kill_relative);
        usleep(5000);
    }
}

static bool zygote_is_ours(struct host *host) {
    siginfo_t info;
    return !host->zygote_reaped && host->zygote_pid > 0 &&
           !waitid(P_PID, (id_t)host->zygote_pid, &info, WEXITED | WNOHANG | WNOWAIT);
}

void host_family_end(struct host *host) {
    host->quit = true;
    if (zygote_is_ours(host)) {
        if (!host->zygote_lost) tell_zygote(host, ARS__STOP, 0);
        uint64_t end = host_now() + (host->zygote_lost ? 0 : STOP_LIMIT_MS * HOST_MS);
        while (host_family_reap(host), !host->zygote_reaped && host_now() < end) usleep(2000);
        if (!host->zygote_reaped) kill(host->zygote_pid, SIGKILL);
    }
    end_everybody(host);
}

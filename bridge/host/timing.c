/* timing.c: how long each trace, and each try of a loop, may take. Neither waiting for the controller nor waiting for a core is
 * a trace's own time. */
#include <stdio.h>

#include "cores.h"
#include "family.h"
#include "host.h"
#include "records.h"
#include "relay.h"
#include "schedule.h"
#include "sites.h"
#include "timing.h"

enum { TICK_MS = 50, IDLE_LIMIT_S = 10 };

/* A single step of a trace's clock counts for no more than this: if we were stopped ourselves, nobody's time is up. */
#define LONGEST_STEP (250 * HOST_MS)

/* Until a trace has used this part of a limit nobody looks at its processes: most end before. That time does not count where
 * the kernel counts waits, since nobody knows how much of it was one. */
enum { UNWATCHED_PART = 20 };

static uint64_t at_most(uint64_t value, uint64_t most) {
    return value < most ? value : most;
}

static double seconds(uint64_t ns) {
    return (double)ns / (double)HOST_S;
}

void host_clock(struct host *host, struct worker *worker) {
    uint64_t step = host->now - worker->since;
    worker->since = host->now;
    if (!worker->has_order || worker->waiting || host->blocked) return;
    worker->spent += at_most(step, LONGEST_STEP);
}

void host_clock_reset(struct host *host, struct worker *worker) {
    worker->spent = worker->own = worker->counted = 0;
    worker->since = host->now;
}

/* ---- the processes of a trace ------------------------------------------------------------------------------------ */

struct at_work {
    uint32_t channel;
    const struct ars__where *where;
    pid_t pid;
    uint64_t own; /* of the time since the last tick */
};

/* Its own word for which process is at work; nobody else's time is at stake. */
static pid_t process_of(const struct ars__where *where, pid_t otherwise) {
    uint32_t pid = atomic_load_explicit(&where->pid, memory_order_relaxed);
    return pid > 0 && pid <= INT32_MAX ? (pid_t)pid : otherwise;
}

/* The processes that a trace waits for: its worker, and when that has done its part, the snapshots' continuations. */
static uint32_t find_processes(struct host *host, uint32_t w, struct at_work *found) {
    uint32_t slots[ARS__MAX_SNAPSHOTS], n = host_records_at_work(host, w, slots);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t channel = ars__snapshot_channel(host->n_workers, host->per_worker, w, slots[i]);
        const struct ars__where *where = &ars__snapshot_at(host->shm, host->per_worker, w, slots[i])->where;
        found[i] = (struct at_work){channel, where, process_of(where, 0), 0};
    }
    const struct ars__where *where = &ars__worker_at(host->shm, host->per_worker, w)->where;
    found[n] = (struct at_work){w, where, process_of(where, host->workers[w].pid), 0};
    return n + 1;
}

/* Whether it is time to look at what the kernel says of this trace's processes. */
static bool is_watched(const struct host *host, const struct worker *worker) {
    double limit = host->run.config.trace_timeout, of_try = host->run.config.try_timeout;
    if (of_try > 0 && (limit <= 0 || of_try < limit)) limit = of_try;
    return host->counts_cores && limit > 0 && seconds(worker->spent) > limit / UNWATCHED_PART;
}

static uint64_t own_time(struct host *host, const struct at_work *process, uint64_t last_tick) {
    struct cpu_clock *clock = &host->channels[process->channel].cpu;
    struct cpu_reading now;
    uint64_t elapsed = host->now - last_tick;
    if (clock->at != last_tick)
        *clock = (struct cpu_clock){.share = 1}; /* nobody looked then: its life's share counts */
    clock->at = host->now;
    bool known = host_cpu_read(process->pid, &now);
    return host_own_time(clock, known ? &now : NULL, elapsed);
}

/* The times since the last tick. A trace's own is that of the process that waited least: as long as one of them has a core,
 * or sleeps, the trace goes on. The worker sleeps while its snapshots are at work, and is the last of these. */
static void measure(struct host *host, struct worker *worker, struct at_work *processes, uint32_t n) {
    uint64_t last_tick = worker->looked, spent = worker->spent - worker->counted, most = 0;
    bool watched = is_watched(host, worker);
    for (uint32_t i = 0; i < n; i++) {
        bool parked = n > 1 && i == n - 1;
        processes[i].own = host->now - last_tick;
        if (host->counts_cores && !parked) processes[i].own = watched ? own_time(host, &processes[i], last_tick) : 0;
        processes[i].own = at_most(processes[i].own, LONGEST_STEP);
        if (!parked && processes[i].own > most) most = processes[i].own;
    }
    worker->looked = host->now;
    worker->counted = worker->spent;
    worker->own += at_most(spent, most);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void check_time(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    double limit = host->run.config.trace_timeout, own = seconds(worker->own);
    if (worker->finished == worker->count) {
        if (seconds(worker->spent) > (limit > IDLE_LIMIT_S ? limit : IDLE_LIMIT_S))
            host_family_kill(host,
                             w); /* all its traces are in; it hangs between two of them, and its end costs nothing */
    } else if (limit > 0 && own > limit) {
        host_family_condemn(
            host, w, ARS_FAIL_TIMEOUT,
            "the trace took more than %g s of its own time (waiting for the controller or for a core not counted); "
            "raise trace_timeout if the simulator needs longer",
            limit);
    } else if (limit > 0 && seconds(worker->spent) > limit * HOST_MOST_WAITING) {
        host_family_condemn(
            host, w, ARS_FAIL_TIMEOUT,
            "the trace took %d times its limit of %g s, mostly waiting for a core; run fewer workers, or "
            "fewer other programs, on this machine",
            HOST_MOST_WAITING, limit);
    }
}

/* The time of the present try of one process. */
static void check_try(struct host *host, uint32_t w, const struct at_work *process, uint64_t step) {
    struct channel *c = &host->channels[process->channel];
    uint32_t beat = atomic_load_explicit(&process->where->beat, memory_order_relaxed);
    bool stands = c->waiting || host->blocked;
    if (beat != c->beat || !(beat & 1)) {
        c->beat = beat;
        c->tried = c->tried_wall = 0;
    } else if (!stands) {
        c->tried += process->own;
        c->tried_wall += step;
    }
    double limit = host->run.config.try_timeout;
    if (seconds(c->tried) <= limit && seconds(c->tried_wall) <= limit * HOST_MOST_WAITING) return;
    struct ars_wire_failure at;
    host_family_where(host, process->where, &at);
    int size = 1;
    const char *loop = at.loop_id == ARS_NO_SITE ? "?" : host_site_address(host, at.loop_id, &size);
    host_family_condemn(host, w, ARS_FAIL_TRY_TIMEOUT,
                        "one try of the loop %.*s took more than %g s; raise try_timeout if the simulator needs longer",
                        size < 200 ? size : 200, loop, limit);
    host->workers[w].doom.loop_id = at.loop_id;
    host->workers[w].doom.site_id = at.site_id;
}

/* One look at a worker that is at work. */
static void check_worker(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    uint64_t begun =
        atomic_load_explicit(&ars__worker_at(host->shm, host->per_worker, w)->traces_begun, memory_order_relaxed);
    if (begun - worker->begun_before > worker->count) { /* or a heart that races would keep the clock at 0 for ever */
        host_family_condemn(host, w, ARS_FAIL_PROTOCOL,
                            "the simulator's process said that it had begun more traces than it was given");
        return;
    }
    if (begun != worker->begun) {
        worker->begun = begun;
        host_clock_reset(host, worker);
    }
    host_clock(host, worker);
    struct at_work processes[ARS__MAX_SNAPSHOTS + 1];
    uint64_t step = at_most(host->now - worker->looked, LONGEST_STEP);
    uint32_t n = find_processes(host, w, processes);
    measure(host, worker, processes, n);
    check_time(host, w);
    for (uint32_t i = 0; i < n && worker->state == WORKER_ALIVE && host->run.config.try_timeout > 0; i++)
        check_try(host, w, &processes[i], step);
}

void host_tick(struct host *host) {
    if (host->now < host->next_tick) return;
    host->next_tick = host->now + TICK_MS * HOST_MS;
    host_family_reap(host);
    for (uint32_t w = 0; w < host->n_workers && !host->zygote_lost; w++) {
        struct worker *worker = &host->workers[w];
        if (worker->state == WORKER_ALIVE && worker->has_order) {
            if (!host->blocked) host_worker_look(host, w);
            if (!host->blocked) host_relay_missed(host, w);
            if (worker->state == WORKER_ALIVE && worker->has_order) check_worker(host, w);
        } else if ((worker->state == WORKER_SPAWNING || worker->state == WORKER_DYING) &&
                   host->now > worker->answer_by) {
            host_family_lost(host);
        }
    }
}

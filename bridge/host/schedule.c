/* schedule.c: the run: which traces are still to do, and who does them. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "cores.h"
#include "family.h"
#include "futex.h"
#include "host.h"
#include "link.h"
#include "listed.h"
#include "records.h"
#include "replay.h"
#include "schedule.h"
#include "start.h"
#include "timing.h"
#include "wanted.h"

enum { LONGEST_CHUNK = 256, FAILURES_PER_TURN = 1024 };

/* ---- the queue --------------------------------------------------------------------------------------------------- */

void host_requeue(struct host *host, uint64_t first, uint64_t count) {
    struct run *run = &host->run;
    if (!count) return;
    if (run->n_queue == run->queue_capacity) {
        run->queue_capacity = run->queue_capacity ? 2 * run->queue_capacity : 64;
        run->queue = host_grow(run->queue, run->queue_capacity * sizeof *run->queue);
    }
    run->queue[run->n_queue++] = (struct range){first, count};
    run->queued += count;
}

static struct range dequeue(struct run *run, uint64_t most) {
    struct range *next = &run->queue[run->n_queue - 1], taken = {next->first, next->count < most ? next->count : most};
    next->first += taken.count;
    next->count -= taken.count;
    if (!next->count) run->n_queue--;
    run->queued -= taken.count;
    return taken;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static uint32_t most_workers(const struct host *host, const struct ars_wire_run *config) {
    uint32_t use = config->max_workers && config->max_workers < host->n_workers ? config->max_workers : host->n_workers;
    return config->n_traces < use ? (uint32_t)config->n_traces : use;
}

static void share_run(struct host *host, const unsigned char *frame, size_t data_size) {
    const struct ars_wire_run *config = &host->run.config;
    memcpy(host->shm->data, frame + sizeof *config, data_size);
    host->shm->run = (struct ars__run){.number = config->header.run,
                                       .seed = config->seed,
                                       .max_tries = config->max_tries,
                                       .max_rejected = config->max_rejected,
                                       .flags = config->flags,
                                       .n_observed = config->header.count,
                                       .data_size = data_size,
                                       .wanted = config->wanted};
}

void host_run_start(struct host *host, const unsigned char *frame) {
    struct run *run = &host->run;
    struct ars_wire_run config;
    memcpy(&config, frame, sizeof config);
    const ars__run_parts parts = ars__parts_of_run(frame);
    const size_t data_size = parts.budgets - sizeof config;
    if (data_size > ARS__DATA_BYTES) {
        host_give_up(host, "the observed data have %zu bytes; at most %d are possible", data_size, ARS__DATA_BYTES);
        return;
    }
    run->active = true;
    run->cancelled = false;
    run->config = config;
    run->last_number = config.header.run;
    run->n_queue = 0;
    run->queued = run->accounted = 0;
    run->hopeless.kind = run->fork_failure.kind = 0;
    run->counters = (struct ars_wire_done){0};
    run->use_workers = run->wanted_workers = most_workers(host, &config);
    run->raise_at = 0;
    run->n_replays = 0;
    run->counters.fewest_workers = run->use_workers;
    bool asks = !(config.flags & ARS_RUN_PROPOSE_PRIOR);
    run->chunk = asks || (config.flags & ARS_RUN_ESTIMATE) ? 1 : LONGEST_CHUNK;

    host->unanswered = 0;
    host->counts_cores = host_cores_counted();

    share_run(host, frame, data_size);
    host_wanted_start(host, frame + parts.budgets, parts.listed - parts.budgets);
    host_listed_start(host, frame + parts.listed);
    for (uint32_t w = 0; w < host->n_workers; w++) {
        struct worker *worker = &host->workers[w];
        worker->fork_tries = 0;
        if (worker->state == WORKER_GAVE_UP || worker->state == WORKER_BACKOFF) worker->state = WORKER_NONE;
    }
}

void host_run_cancel(struct host *host) {
    struct run *run = &host->run;
    run->cancelled = true;
    run->n_queue = 0;
    run->queued = 0;
    host->steps_out.size = 0;
    host->n_steps_out = 0;
    for (uint32_t w = 0; w < host->n_workers; w++)
        if (host->workers[w].has_order) host_family_kill(host, w);
}

void host_run_finish(struct host *host) {
    struct run *run = &host->run;
    if (!run->active || (!run->cancelled && run->accounted < run->config.n_traces)) return;
    for (uint32_t w = 0; w < host->n_workers; w++)
        if (host->workers[w].has_order) return;
    host->steps_out.size = 0; /* of processes that died while they asked */
    host->n_steps_out = 0;
    host_link_flush(host, true);
    if (host->blocked || host->disconnected) return;
    struct ars_wire_done done = run->counters;
    done.header = host_header(host, ARS_MSG_DONE, sizeof done, 0);
    done.cancelled = run->cancelled;
    if (host_link_send(host, &done, sizeof done, false)) run->active = false;
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

/* Puts a range that this worker may do at the end of the queue. A trace that died is for a new process, and a new process takes
 * it first. False: there is nothing for this one. */
static bool choose(struct host *host, uint32_t w) {
    struct run *run = &host->run;
    if (!run->n_replays) return true;
    bool fresh = !host->workers[w].order_number;
    for (size_t i = run->n_queue; i-- > 0;) {
        if (host_replay_wants_fresh(host, run->queue[i].first) != fresh) continue;
        struct range chosen = run->queue[i];
        run->queue[i] = run->queue[run->n_queue - 1];
        run->queue[run->n_queue - 1] = chosen;
        return true;
    }
    if (fresh) return true;
    for (uint32_t other = 0; other < run->use_workers; other++) {
        enum worker_state state = host->workers[other].state;
        bool new_one_is_there = state == WORKER_ALIVE && !host->workers[other].order_number;
        bool new_one_comes = state == WORKER_SPAWNING || state == WORKER_DYING || state == WORKER_NONE;
        if (new_one_is_there || new_one_comes) return false;
    }
    host_family_kill(host, w); /* then one comes in its place */
    return false;
}

static void hand_out(struct host *host, uint32_t w) {
    struct run *run = &host->run;
    struct worker *worker = &host->workers[w];
    if (!run->active || run->cancelled || run->hopeless.kind || !run->queued) return;
    if (worker->state != WORKER_ALIVE || worker->has_order) return;
    if (w >= run->use_workers) {
        if (run->use_workers < run->wanted_workers) host_family_kill(host, w); /* the system has no room for it */
        return;
    }
    if (!choose(host, w)) return;
    /* Smaller pieces near the end, so that nobody idles while another has a long list. */
    uint64_t most = run->queued / (4ull * run->use_workers);
    if (most > run->chunk) most = run->chunk;
    struct range order = dequeue(run, most ? most : 1);
    struct ars__worker *shared = ars__worker_at(host->shm, host->per_worker, w);
    worker->has_order = true;
    worker->last_failed = false;
    worker->first = order.first;
    worker->count = order.count;
    worker->finished = 0;
    worker->begun = worker->begun_before = atomic_load_explicit(&shared->traces_begun, memory_order_relaxed);
    host_clock_reset(host, worker);
    shared->order_first = order.first;
    shared->order_count = order.count;
    host_listed_share(host, &order, shared);
    if (!++worker->order_number) worker->order_number = 1; /* 0 means none */
    atomic_store_explicit(&shared->order_number, worker->order_number, memory_order_release);
    ars__futex_wake(&shared->order_number, INT_MAX);
}

void host_worker_look(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    if (worker->state != WORKER_ALIVE) return;
    struct ars__worker *shared = ars__worker_at(host->shm, host->per_worker, w);
    host_family_count(host, w);
    /* Order of reading: an order that is done has all its records in the ring. */
    bool done = atomic_load_explicit(&shared->order_done, memory_order_acquire) == worker->order_number;
    if (!host_records_read(host, w, false) || worker->state != WORKER_ALIVE) return;
    if (worker->has_order && done) {
        if (worker->finished < worker->count) {
            host_family_condemn(host, w, ARS_FAIL_PROTOCOL,
                                "the simulator's process said that it was done without a record of this trace");
            return;
        }
        worker->has_order = false;
    }
    if (!worker->has_order) hand_out(host, w);
}

/* Fails queued traces as fast as the link takes them, and stops in between to hear the controller. */
static void fail_queue(struct host *host) {
    for (int i = 0; i < FAILURES_PER_TURN && host->run.queued && !host->blocked && !host->disconnected; i++) {
        host->run.hopeless.trace = dequeue(&host->run, 1).first;
        host_columns_fail(host, &host->run.hopeless, 0);
        if (host_columns_due(host)) host_link_flush(host, false);
    }
}

void host_schedule(struct host *host) {
    struct run *run = &host->run;
    if (host->zygote_lost) return;
    for (uint32_t w = 0; host->prefork && w < host->n_workers; w++)
        if (host->workers[w].state == WORKER_NONE) host_family_spawn(host, w);
    if (!run->active || run->cancelled) return;
    if (run->hopeless.kind) fail_queue(host);
    if (!run->queued || run->hopeless.kind) return;
    host_raise_concurrency(host);
    uint64_t coming = 0;
    bool hope = false;
    for (uint32_t w = 0; w < run->use_workers && run->queued; w++) {
        struct worker *worker = &host->workers[w];
        hand_out(host, w);
        bool again = worker->state == WORKER_BACKOFF && host->now >= worker->retry_at;
        if (coming < run->queued && (worker->state == WORKER_NONE || again)) host_family_spawn(host, w);
        coming += worker->state == WORKER_SPAWNING;
        hope |= worker->state != WORKER_GAVE_UP;
    }
    if (!hope && run->queued) run->hopeless = run->fork_failure;
}

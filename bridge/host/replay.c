/* replay.c: a trace whose process died is run again. Its random streams are named by seed, trace and continuation, so what an
 * outsider killed comes out as it would have; what dies of itself dies again, and that is the failure. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "replay.h"

enum { DEATHS = 1, KILLS = 3, REFUSALS = 3, UNDONE = 100, RAISE_AFTER_S = 5 };

struct replay {
    uint64_t trace;
    uint8_t deaths;   /* of itself: the next process to run it is a new one, without what earlier traces have left */
    uint8_t kills;    /* SIGKILL: by somebody else, or by a system that is out of memory */
    uint8_t refusals; /* of forks, with one worker left */
    uint8_t undone;   /* times that a continuation could not be undone, each for a reason that is then known */
};

/* There are few: what is run again is next in the queue. */
static struct replay *find_replay(struct run *run, uint64_t trace) {
    for (size_t i = 0; i < run->n_replays; i++)
        if (run->replays[i].trace == trace) return &run->replays[i];
    return NULL;
}

static struct replay *entry(struct run *run, uint64_t trace) {
    struct replay *known = find_replay(run, trace);
    if (known) return known;
    if (run->n_replays == run->replays_capacity) {
        run->replays_capacity = run->replays_capacity ? 2 * run->replays_capacity : 16;
        run->replays = host_grow(run->replays, run->replays_capacity * sizeof *run->replays);
    }
    run->replays[run->n_replays] = (struct replay){.trace = trace};
    return &run->replays[run->n_replays++];
}

bool host_replay_wants_fresh(struct host *host, uint64_t trace) {
    const struct replay *known = host->run.n_replays ? find_replay(&host->run, trace) : NULL;
    return known && known->deaths;
}

void host_replay_forget(struct host *host, uint64_t trace) {
    struct run *run = &host->run;
    struct replay *known = run->n_replays ? find_replay(run, trace) : NULL;
    if (known) *known = run->replays[--run->n_replays];
}

uint32_t host_replay_undone(struct host *host, uint64_t trace) {
    struct run *run = &host->run;
    if (!run->active || run->cancelled || entry(run, trace)->undone == UNDONE) return 0;
    return ++entry(run, trace)->undone;
}

/* ---- refused forks ----------------------------------------------------------------------------------------------- */

static uint32_t usable(const struct host *host) {
    uint32_t n = 0;
    for (uint32_t w = 0; w < host->run.use_workers; w++) n += host->workers[w].state != WORKER_GAVE_UP;
    return n;
}

void host_fork_refused(struct host *host, const char *text, bool halve) {
    struct run *run = &host->run;
    run->counters.forks_refused++;
    if (halve && run->use_workers > 1) run->use_workers = (run->use_workers + 1) / 2;
    run->raise_at = host->now + RAISE_AFTER_S * HOST_S;
    uint32_t left = usable(host);
    if (left >= run->counters.fewest_workers) return;
    run->counters.fewest_workers = left;
    fprintf(stderr, "ars-host: %s; going on with %u worker%s\n", text, left, left == 1 ? "" : "s");
}

/* One more after a while without a refusal. */
void host_raise_concurrency(struct host *host) {
    struct run *run = &host->run;
    if (!run->raise_at || host->now < run->raise_at) return;
    run->raise_at = host->now + RAISE_AFTER_S * HOST_S;
    for (uint32_t w = 0; w < run->use_workers; w++)
        if (host->workers[w].state == WORKER_GAVE_UP) {
            host->workers[w].state = WORKER_NONE;
            host->workers[w].fork_tries = 0;
            return;
        }
    if (run->use_workers < run->wanted_workers)
        run->use_workers++;
    else
        run->raise_at = 0;
}

/* ---- what may be run again --------------------------------------------------------------------------------------- */

static bool again(struct host *host, const struct ars_wire_failure *f) {
    struct run *run = &host->run;
    switch (f->kind) {
    case ARS_FAIL_CRASH:
        if (f->detail == SIGKILL) return entry(run, f->trace)->kills++ < KILLS;
        return entry(run, f->trace)->deaths++ < DEATHS;
    case ARS_FAIL_EXIT:
    case ARS_FAIL_LOST:
    case ARS_FAIL_MEMORY:   /* perhaps the traces before it left too little */
    case ARS_FAIL_PROTOCOL: /* or wrote over what their process shares with us */
        return entry(run, f->trace)->deaths++ < DEATHS;
    case ARS_FAIL_FORK: {
        if (f->detail != EAGAIN && f->detail != ENOMEM) return false;
        bool alone = run->use_workers == 1;
        host_fork_refused(host, f->text, true);
        return !alone || entry(run, f->trace)->refusals++ < REFUSALS;
    }
    default:
        return false;
    }
}

bool host_replay(struct host *host, const struct ars_wire_failure *failure) {
    struct run *run = &host->run;
    if (!run->active || run->cancelled || !again(host, failure)) return false;
    run->counters.replays++;
    return true;
}

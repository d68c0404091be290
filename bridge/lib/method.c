/* method.c: whether the entry of a loop is estimated, and how.
 *
 * A run says what is allowed (ARS_RUN_REWIND, ARS_RUN_CHECK). Where rewinding is, a loop is rewound until there is a reason not to:
 * the system does not allow it, a continuation did what cannot be undone, both ways did not agree, or forking is cheaper. The host
 * passes a reason on to all workers (shm.h), so a loop's worth of trouble is had once.
 *
 * The oracle: the first entries of a loop, and one in CHECK_EVERY after that, are estimated both ways. The snapshot is forked
 * first, and waits as it always does; then the worker rewinds. The host compares the two to the last bit (methods.c there). */
#include "method.h"

#include "continuation.h"
#include "kept.h"
#include "loops.h"
#include "process.h"
#include "resource_limits.h"
#include "rewind.h"
#include "snapshot.h"
#include "trace.h"

enum {
    FIRST_CHECKS = 8, /* of a loop, by all workers together */
    MOST_CHECKED = 2, /* of them by one */
    MOST_CHECKS = 50, /* attempts, for a loop inside another one, whose entries rarely survive */
    CHECK_EVERY = 1000,
    CLEAN = 2,        /* entries without a missed page, after which a process is known */
    CLEAN_ALONE = 64, /* the same, where there is one worker */
    WINDOW = 32,      /* entries, between two looks at the costs */
    MOST_SLEEPERS = 8,
    SLOW_FORK = 3000000 /* ticks: a millisecond or so */
};

static struct ars__habit *habit_of(uint32_t loop_id) {
    return &ars__me.kept->habits.of[loop_id];
}

static struct ars_wire_loop *record_of(const struct ars__loop *loop) {
    return &ars__loop_records(&ars__me.trace)[loop->record];
}

static bool has_snapshot(const struct ars__loop *loop) {
    return ars__loop_slots(&ars__me.trace)[loop->record] != ARS__NO_SLOT;
}

/* ---- whether it is estimated -------------------------------------------------------------------------------------------- */

/* A rejected try takes along what was estimated inside it. If an earlier run of this trace has shown which try each loop accepts,
 * the others are not worth it. An index that belongs to another entry, met in a rejected try further out, does no harm. */
static bool in_accepted_tries(void) {
    const struct ars__worker *mine = ars__me.mine;
    const uint32_t n = mine->order_n_known < ARS__MOST_KNOWN ? mine->order_n_known : ARS__MOST_KNOWN;
    for (size_t i = 0; i + 1 < ars__me.loops.depth; i++) {
        const struct ars__loop *outer = &ars__me.loops.at[i];
        const uint32_t known = (uint32_t)outer->record < n ? mine->order_known[outer->record] : 0;
        if (known && outer->tries != known) return false;
    }
    return true;
}

bool ars__entry_is_estimated(struct ars_wire_wanted *wanted) {
    if (ars__me.role != ARS__WORKER || !(ars__me.flags & ARS_RUN_ESTIMATE)) return false;
    if (ars__me.trace.impossible) return false; /* its weight is 0 whatever they say */
    *wanted = ars__wanted_of(ars__me.shm, ars__top(&ars__me.loops)->site_id);
    return wanted->runs_p && in_accepted_tries();
}

/* ---- what forking costs ------------------------------------------------------------------------------------------------ */

void ars__habits_forked(uint64_t ticks) {
    uint64_t *least = &ars__me.kept->habits.least_fork;
    if (!*least || ticks < *least) *least = ticks;
}

/* Both are least times, so that other processes on the same core do not count. Of a forked process the parent sees half the cost:
 * it has to end, too, and to copy the pages that it writes. Loops inside another one are rewound at every entry, but forked
 * snapshots run only if the outer try is accepted. */
static bool is_fork_cheaper(const struct ars__habit *h, uint64_t least_fork) {
    if (!least_fork || !h->least_cost) return false;
    const double fork = 2 * (double)least_fork, survives = (double)h->survived / h->entries;
    const double body = (double)h->least_cost - (double)h->least_overhead;
    return (double)h->least_cost > 1.5 * (fork + survives * (h->continuations * fork + (body > 0 ? body : 0)));
}

static void learn_cost(struct ars__habit *h) {
    const struct ars__rewind *r = &ars__me.kept->rewind;
    if (r->cost < h->least_cost || !h->least_cost) h->least_cost = r->cost;
    if (r->overhead < h->least_overhead || !h->least_overhead) h->least_overhead = r->overhead;
    h->continuations = r->number_q + r->number_p;
    if (++h->entries % WINDOW) return;
    if (is_fork_cheaper(h, ars__me.kept->habits.least_fork)) h->reason = ARS_REASON_COST;
    h->least_cost = h->least_overhead = 0;
}

void ars__habits_learn(void) {
    const struct ars_wire_loop *loops = ars__loop_records(&ars__me.trace);
    const uint32_t *slots = ars__loop_slots(&ars__me.trace);
    for (size_t i = 0; i < ars__n_loops(&ars__me.trace); i++) {
        if (!loops[i].rewinds) continue;
        struct ars__habit *h = habit_of(loops[i].site_id);
        h->survived++;
        h->checked += slots[i] != ARS__NO_SLOT;
    }
}

/* ---- the choice --------------------------------------------------------------------------------------------------------- */

static bool wants_check(uint32_t loop_id) {
    const struct ars__habit *h = habit_of(loop_id);
    if (ars__me.flags & ARS_RUN_CHECK) return true;
    const struct ars__loop_method *known = &ars__me.shm->methods[loop_id];
    if (h->checked < MOST_CHECKED && h->checks < MOST_CHECKS &&
        atomic_load_explicit(&known->checked, memory_order_relaxed) < FIRST_CHECKS)
        return true;
    return h->entries % CHECK_EVERY == CHECK_EVERY - 1;
}

/* A comparison takes what there is, and fails no trace that needs no snapshot. In "check" all entries are compared. */
static bool can_check(void) {
    return (ars__me.flags & ARS_RUN_CHECK) || (ars__me.snapshots.alive < ars__me.per_worker && !ars__crowded());
}

static bool wants_sleeper(const struct ars__habit *h) {
    const struct ars__kept *kept = ars__me.kept;
    if (kept->habits.least_fork > SLOW_FORK && kept->rewind.sleepers >= MOST_SLEEPERS) return false;
    return !h->entries || kept->rewind.clean < (ars__me.n_workers == 1 ? CLEAN_ALONE : CLEAN);
}

/* "check" compares whatever it costs. */
static bool counts(uint32_t reason) {
    return reason && !(reason == ARS_REASON_COST && (ars__me.flags & ARS_RUN_CHECK));
}

/* Why this loop is forked; ARS_REASON_NONE if it is not. */
static enum ars_fork_reason reason_to_fork(uint32_t loop_id, int32_t *detail) {
    const struct ars__habit *h = habit_of(loop_id);
    const struct ars__loop_method *known = &ars__me.shm->methods[loop_id];
    const uint32_t reason = atomic_load_explicit(&known->reason, memory_order_acquire);
    if ((*detail = atomic_load_explicit(&ars__me.shm->cannot_rewind, memory_order_relaxed))) return ARS_REASON_SYSTEM;
    *detail = h->detail;
    if (counts(h->reason)) return (enum ars_fork_reason)h->reason;
    *detail = known->detail;
    if (counts(reason)) return (enum ars_fork_reason)reason;
    return ars__rewind_open(detail);
}

/* Whether it holds for the loop from now on, and not for this entry alone. */
static bool is_lasting(enum ars_fork_reason reason) {
    return reason != ARS_REASON_FAILURE && reason != ARS_REASON_THREADS;
}

static void fork_it(struct ars__loop *loop, enum ars_fork_reason reason, int32_t detail) {
    struct ars_wire_loop *record = record_of(loop);
    record->method = ARS_METHOD_FORK;
    record->reason = (uint16_t)reason;
    record->detail = detail;
    if (!has_snapshot(loop)) ars__snapshot_at_entry(loop);
}

void ars__estimate_at_entry(struct ars__loop *loop, const struct ars_wire_wanted *wanted) {
    int32_t detail = 0;
    if (!(ars__me.flags & ARS_RUN_REWIND)) {
        fork_it(loop, ARS_REASON_NONE, 0);
        return;
    }
    enum ars_fork_reason reason = reason_to_fork(loop->site_id, &detail);
    if (reason) {
        fork_it(loop, reason, detail);
        return;
    }
    struct ars__habit *h = habit_of(loop->site_id);
    if (wants_check(loop->site_id) && can_check()) {
        h->checks++;
        ars__snapshot_at_entry(loop);
        if (ars__continuing()) return; /* the snapshot's */
    }
    reason = ars__rewind_at_entry(loop, wanted, wants_sleeper(h), &detail);
    if (ars__continuing()) return;
    if (!reason) {
        learn_cost(h);
        return;
    }
    if (is_lasting(reason)) {
        h->reason = (uint16_t)reason;
        h->detail = detail;
    }
    fork_it(loop, reason, detail);
}

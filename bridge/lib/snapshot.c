/* snapshot.c: a copy of the simulator parked at the entry of one loop, and the continuations it forks.
 *
 * A continuation is the simulator going on from there. Under q it makes tries until it is accepted or, where tries
 * are counted, those wanted are used up: a rejected one goes on as the next try, an accepted one cannot, so the snapshot
 * forks another. Under p it makes tries until it is accepted. Its only effect is a few counters in the snapshot's slot. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ahead.h"
#include "ask.h"
#include "continuation.h"
#include "crash_says.h"
#include "fail.h"
#include "fork.h"
#include "futex.h"
#include "loops.h"
#include "machine.h"
#include "method.h"
#include "process.h"
#include "resource_limits.h"
#include "rewind.h"
#include "sites.h"
#include "snapshot.h"
#include "stray.h"
#include "trace.h"
#include "where.h"

static struct ars__snapshot *slot_at(uint32_t slot) {
    return ars__snapshot_at(ars__me.shm, ars__me.per_worker, ars__me.worker, slot);
}

static uint32_t channel_of(uint32_t slot) {
    return ars__snapshot_channel(ars__me.n_workers, ars__me.per_worker, ars__me.worker, slot);
}

/* ---- continuations ------------------------------------------------------------------------------------------------- */

_Noreturn static void snapshot_done(enum ars__snapshot_status status) {
    atomic_store(&ars__me.snapshot->status, status);
    ars__raise_attention(ars__me.channel_number);
    _exit(0);
}

/* This continuation has ended as it should. */
_Noreturn static void leave(void) {
    if (ars__me.is_last_run) snapshot_done(ARS__SLOT_DONE);
    ars__me.snapshot->left = 1;
    _exit(ARS__EXIT_LEFT);
}

/* A try of the loop at the root has ended; returns if this continuation goes on. */
void ars__continuation_tried(const struct ars__loop *root, enum ars__outcome outcome) {
    struct ars__snapshot *s = ars__me.snapshot;
    if (!s)
        ars__rewind_tried(root, outcome);
    else if (ars__continuation_count(&s->estimate, &s->wanted, root, outcome))
        leave();
}

/* ---- the snapshot ---------------------------------------------------------------------------------------------------- */

static void describe_end(struct ars__snapshot *s, int status, const char *what, const char *loop) {
    struct ars_wire_failure *f = &s->failure;
    f->trace = ars__me.trace_number;
    ars__where_read(&s->where, f);
    if (ars__stray_describe(&s->where, f)) return;
    if (status >= 0 && WIFSIGNALED(status)) {
        f->kind = ARS_FAIL_CRASH;
        f->detail = WTERMSIG(status);
        snprintf(f->text, sizeof f->text, "%s of the loop %s was ended by signal %d (%s)%s", what, loop, f->detail,
                 strsignal(f->detail), ars__crash_hint(f->detail));
    } else if (status >= 0 && WIFEXITED(status)) {
        f->kind = ARS_FAIL_EXIT;
        f->detail = WEXITSTATUS(status);
        snprintf(f->text, sizeof f->text, "%s of the loop %s called exit(%d) inside the loop", what, loop, f->detail);
    } else {
        f->kind = ARS_FAIL_LOST;
        f->detail = 0;
        snprintf(f->text, sizeof f->text,
                 "%s of the loop %s vanished: the simulator waited for a child that was not its own", what, loop);
    }
}

/* Returns true in the continuation, false in the snapshot when the continuation has ended well. */
static bool continue_once(enum ars__role role, uint32_t number) {
    struct ars__snapshot *s = ars__me.snapshot;
    s->left = 0;
    atomic_store_explicit(&s->where.site_id, ARS_NO_SITE, memory_order_relaxed);
    ars__beat(false);
    pid_t pid = ars__fork_patiently(role, "a continuation");
    if (pid == 0) {
        ars__me.rng = ars__stream(role, number);
        if (role == ARS__TRY_Q) ars__ahead_begin(number);
        return true;
    }
    s->forks++;
    int status;
    ars__reap(pid, &status);
    if (s->left) return false;
    if (!(status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == ARS__EXIT_FAILED && s->failure.kind)) {
        char name[200];
        ars__loop_name(ars__top(&ars__me.loops)->mark, name, sizeof name);
        describe_end(s, status, role == ARS__RUN_P ? "a run under p" : "a try under q", name);
    }
    snapshot_done(ARS__SLOT_FAILED);
}

/* Parks, and on GO forks the continuations one after another, and becomes the last of them. Returns in a continuation. */
static void live_as_snapshot(void) {
    struct ars__snapshot *s = ars__me.snapshot;
    uint32_t order;
    while ((order = atomic_load(&s->order)) == ARS__WAIT) ars__futex_wait(&s->order, ARS__WAIT, 1000000000);
    if (order == ARS__QUIT) _exit(0);
    atomic_store(&s->status, ARS__SLOT_RUNNING);
    ars__beat(false);
    s->asked_ahead = ars__ask_ahead(ars__top(&ars__me.loops), 0, (uint32_t)ars__left_q(&s->wanted, &s->estimate));
    for (uint32_t number = 0; ars__left_q(&s->wanted, &s->estimate); number++)
        if (continue_once(ARS__TRY_Q, number)) return;
    for (uint32_t number = 0; ars__wants_whole(&s->wanted, &s->estimate, ars__top(&ars__me.loops)); number++)
        if (continue_once(ARS__TRY_Q, number)) {
            ars__begin_whole(number);
            return;
        }
    for (uint32_t number = 0; number + 1 < s->wanted.runs_p; number++)
        if (continue_once(ARS__RUN_P, number)) return;
    ars__me.is_last_run = true;
    ars__me.role = ARS__RUN_P;
    ars__at_site(ARS_NO_SITE);
    ars__me.rng = ars__stream(ARS__RUN_P, s->wanted.runs_p - 1);
}

/* ---- the worker's side ------------------------------------------------------------------------------------------------ */

/* The lowest free slot, so that the slots in use stay few and their memory small. A slot that the host still reads is free
 * soon; if all belong to this trace, none ever will be. */
static uint32_t free_slot(void) {
    for (;;) {
        uint32_t reading = ARS__NO_SLOT;
        for (uint32_t i = 0; i < ars__me.per_worker; i++) {
            if (ars__me.snapshots.pid[i]) continue;
            if (atomic_load(&slot_at(i)->status) == ARS__SLOT_FREE) return i;
            reading = i;
        }
        if (reading == ARS__NO_SLOT)
            ars__fail(ARS_FAIL_LIMIT, 0,
                      "one trace entered more than %u loops; each keeps a snapshot until the trace ends. Raise "
                      "ARS_SNAPSHOTS in the "
                      "simulator's environment",
                      ars__me.per_worker);
        uint32_t status = atomic_load(&slot_at(reading)->status);
        if (status != ARS__SLOT_FREE) ars__futex_wait(&slot_at(reading)->status, status, 100000000);
    }
}

/* Counted here; the word in the segment is for others to read. Now and then the host is told, who passes it on. */
static void count_alive(int change) {
    const uint32_t alive = ars__me.snapshots.alive += (uint32_t)change;
    atomic_store_explicit(&ars__me.mine->snapshots_alive, alive, memory_order_relaxed);
    if (alive && alive % ars__notice_every() == 0) ars__raise_attention(ars__me.worker);
}

void ars__snapshot_at_entry(struct ars__loop *loop) {
    uint32_t slot = free_slot();
    struct ars__snapshot *s = slot_at(slot);
    s->estimate = (struct ars__estimate){0};
    s->forks = s->asked_ahead = s->used_ahead = 0;
    s->failure.kind = ARS_OK;
    atomic_store_explicit(&s->where.loop_id, loop->site_id, memory_order_relaxed);
    atomic_store_explicit(&s->where.site_id, ARS_NO_SITE, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->where.beat, 2, memory_order_relaxed); /* never a number of an earlier trace */
    atomic_store_explicit(&s->where.stray, 0, memory_order_relaxed);
    atomic_store(&s->channel.state, ARS__IDLE);
    atomic_store(&s->order, ARS__WAIT);
    atomic_store(&s->status, ARS__SLOT_PARKED);
    ars__loop_keep_first(loop, &s->first);

    const uint64_t began = ars__ticks();
    pid_t pid = ars__fork_patiently(ARS__SNAPSHOT, "a snapshot");
    if (pid == 0) {
        ars__me.snapshot = s;
        ars__me.channel = &s->channel;
        ars__me.where = &s->where;
        ars__me.channel_number = channel_of(slot);
        ars__me.root = ars__me.loops.depth;
        live_as_snapshot();
        return;
    }
    ars__habits_forked(ars__ticks() - began);
    ars__me.snapshots.pid[slot] = pid;
    atomic_store_explicit(&s->where.pid, (uint32_t)pid, memory_order_relaxed);
    count_alive(1);
    ars__me.trace.snapshots++;
    ars__loop_slots(&ars__me.trace)[loop->record] = slot;
}

static void reap_slot(uint32_t slot, int *status) {
    ars__reap(ars__me.snapshots.pid[slot], status);
    ars__me.snapshots.pid[slot] = 0;
    count_alive(-1);
}

void ars__snapshots_dismiss_from(size_t record) {
    uint32_t *slots = ars__loop_slots(&ars__me.trace);
    for (size_t i = record; i < ars__n_loops(&ars__me.trace); i++) {
        uint32_t slot = slots[i];
        if (slot == ARS__NO_SLOT) continue;
        struct ars__snapshot *s = slot_at(slot);
        atomic_store(&s->order, ARS__QUIT);
        ars__futex_wake(&s->order, 1);
        int status;
        reap_slot(slot, &status);
        atomic_store(&s->status, ARS__SLOT_FREE);
        slots[i] = ARS__NO_SLOT;
    }
}

void ars__snapshots_await(void) {
    const uint32_t *slots = ars__loop_slots(&ars__me.trace);
    for (size_t i = 0; i < ars__n_loops(&ars__me.trace); i++) {
        uint32_t slot = slots[i];
        if (slot == ARS__NO_SLOT) continue;
        struct ars__snapshot *s = slot_at(slot);
        int status;
        reap_slot(slot, &status);
        ars__ahead_learn(ars__loop_records(&ars__me.trace)[i].site_id, s->asked_ahead, s->used_ahead);
        uint32_t said = atomic_load(&s->status);
        if (said != ARS__SLOT_PARKED && said != ARS__SLOT_RUNNING) continue;
        if (!s->failure.kind) {
            int n;
            const char *loop = ars__site_address(ars__loop_records(&ars__me.trace)[i].site_id, &n);
            char name[200];
            snprintf(name, sizeof name, "%.*s", n, loop);
            bool under_p = said == ARS__SLOT_RUNNING && !ars__left_q(&s->wanted, &s->estimate);
            describe_end(s, status, under_p ? "a run under p" : "the snapshot", name);
        }
        atomic_store(&s->status, ARS__SLOT_FAILED);
        ars__raise_attention(channel_of(slot));
    }
}

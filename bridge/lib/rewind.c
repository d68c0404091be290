/* rewind.c: continuations that run where the loop stands, and are undone. rewind.h has the picture.
 *
 * One entry of a loop: ars__mark notes the registers, ars__pages_save the memory. Then control comes back to the line after
 * ars__mark again and again, each time with everything as it was at the entry, but for struct ars__rewind, which says what is
 * next: another continuation, or the main run. The simulator returns from rs_start each time and does not know which it is.
 *
 * A continuation never waits for its turn in another process, so whatever it asks the controller, it asks as the worker: through the
 * worker's mailbox, which is shared memory and not put back. */
#include "rewind.h"

#include <errno.h>

#include "ahead.h"
#include "continuation.h"
#include "fail.h"
#include "fork.h"
#include "kept.h"
#include "loops.h"
#include "process.h"
#include "where.h"

#ifdef ARS__HAS_REWIND

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct ars__rewind *here(void) {
    return &ars__me.kept->rewind;
}

struct ars__guard *ars__rewind_guard(void) {
    return &here()->guard;
}

bool ars__rewinding(void) {
    return ars__me.kept && here()->running && ars__continuing() && !ars__me.snapshot;
}

bool ars__rehearsing(void) {
    return ars__rewinding() && here()->rehearsing;
}

void ars__rewind_pause(void) {
    if (!ars__rewinding() || !here()->guard.on) return;
    here()->waiting = ars__ticks();
    ars__guard_off(&here()->guard);
}

void ars__rewind_resume(void) {
    if (!ars__rewinding() || here()->guard.on) return;
    here()->waited += ars__ticks() - here()->waiting;
    ars__guard_on(&here()->guard);
}

/* ---- undoing ------------------------------------------------------------------------------------------------------------ */

static void say(enum ars__rewind_state state, uint32_t loop_id) {
    atomic_store_explicit(&ars__me.where->rewound_loop, loop_id, memory_order_relaxed);
    atomic_store_explicit(&ars__me.where->rewind, state, memory_order_relaxed);
}

/* What this process had not expected, others will. */
static void report_missed(const struct ars__rewind *r) {
    struct ars__worker *mine = ars__me.mine;
    const uint32_t most = sizeof mine->missed / sizeof *mine->missed;
    const uint32_t n = r->pages.n_missed < most ? r->pages.n_missed : most;
    if (atomic_load(&mine->n_missed)) return; /* the last ones are still there */
    for (uint32_t i = 0; i < n; i++) mine->missed[i] = r->pages.missed[i];
    atomic_store(&mine->n_missed, n);
}

/* Memory is lost. Random streams have names, so another process makes the same trace again. */
_Noreturn static void begin_again(struct ars__rewind *r) {
    report_missed(r);
    atomic_store(&ars__me.where->rewind, ARS__REWIND_LOST);
    ars__pages_forget(&r->pages);
    for (;;) ars__raw(SYS_exit_group, ARS__EXIT_FAILED, 0, 0, 0, 0, 0);
}

/* On a stack of its own. */
static void undo(void) {
    struct ars__rewind *r = here();
    const uint64_t began = ars__ticks();
    ars__guard_undo(&r->guard);
    if (!ars__pages_restore(&r->pages)) begin_again(r);
    r->overhead += ars__ticks() - began;
    ars__jump(&r->registers);
}

_Noreturn static void leave(void) {
    struct ars__rewind *r = here();
    ars__guard_off(&r->guard);
    ars__on_stack(r->stack + sizeof r->stack, undo);
}

_Noreturn void ars__rewind_refuse(enum ars_fork_reason reason, int32_t detail) {
    here()->reason = reason;
    here()->detail = detail;
    leave();
}

void ars__rewind_tried(const struct ars__loop *loop, enum ars__outcome outcome) {
    struct ars__rewind *r = here();
    if (r->rehearsing) {
        if (outcome == ARS__REJECTED) return;
        r->is_abandoned = outcome == ARS__ABANDONED;
        leave();
    }
    if (ars__continuation_count(&r->estimate, &r->wanted, loop, outcome)) leave();
}

/* ---- the entry ------------------------------------------------------------------------------------------------------- */

/* The first write to a page of the shared memory is a fault like others, after which all memory is looked through for new pages.
 * They were had one by one until the ring had come round, so they are had now (Linux 5.14; without it, that is what happens).
 * They cannot be left out of the count instead: sending a trace also writes to the stack, and signal handlers may run meanwhile. */
static void fault_in_shared_memory(void) {
    madvise(ars__me.mine, sizeof *ars__me.mine, MADV_POPULATE_WRITE);
}

/* Runs before every fork of a process that has rewound: libars's own, and the simulator's (pthread_atfork). */
static void before_fork(void) {
    struct ars__rewind *r = here();
    if (ars__me.role == ARS__WORKER && !r->why_not)
        ars__pages_before_fork(&r->pages, (uintptr_t)__builtin_frame_address(0));
}

enum ars_fork_reason ars__rewind_open(int32_t *detail) {
    struct ars__rewind *r = here();
    if (!r->opened) {
        r->opened = true;
        fault_in_shared_memory();
        say(ARS__REWIND_OPENING, ARS_NO_SITE);
        r->why_not = ars__pages_open(&r->pages);
        if (!r->why_not) r->why_not = pthread_atfork(before_fork, NULL, NULL);
        if (!r->why_not) r->why_not = ars__guard_open(&r->guard);
        /* With one worker all traces are its own, and a simulator that carries something over from one to the next sees no other
         * process: so as little as possible is left to chance. */
        if (!r->why_not && ars__me.n_workers == 1) ars__pages_call_witness(&r->pages);
        say(ARS__REWIND_NOT, ARS_NO_SITE);
    }
    *detail = r->why_not;
    if (r->why_not) return ARS_REASON_SYSTEM;
    *detail = 0;
    if (ars__shadow_stack()) return ARS_REASON_SHADOW_STACK;
    return ars__has_threads() ? ARS_REASON_THREADS : ARS_REASON_NONE;
}

/* Takes the pages that other processes have missed. */
static void own_pages(struct ars__rewind *r) {
    const struct ars__shm *shm = ars__me.shm;
    const uint32_t n = atomic_load_explicit(&shm->n_missed, memory_order_acquire);
    if (n == r->n_owned || n > ARS__MOST_MISSED) return;
    ars__pages_own(&r->pages, shm->missed + r->n_owned, n - r->n_owned);
    r->n_owned = n;
}

/* The first draw's proposal is kept where no rewind reaches it: in the snapshot's slot if there is one, else here. */
static void keep_first(struct ars__rewind *r, struct ars__loop *loop) {
    const size_t depth = ars__me.loops.depth;
    if (ars__loop_slots(&ars__me.trace)[loop->record] != ARS__NO_SLOT) return;
    if (depth > ARS__KEPT_DEPTH) {
        ars__loop_cache(loop);
        return;
    }
    ars__loop_keep_first(loop, &r->first[depth - 1]);
}

static bool begin(struct ars__rewind *r, struct ars__loop *loop, const struct ars_wire_wanted *wanted, bool remember) {
    fflush(NULL); /* as before a fork: what the main run has printed is out, and a continuation finds empty buffers */
    own_pages(r);
    keep_first(r, loop);
    if (!ars__guard_enter(&r->guard)) return false;
    r->began = ars__ticks();
    r->overhead = r->waited = 0;
    r->wanted = *wanted;
    r->estimate = (struct ars__estimate){0};
    r->number_q = r->number_whole = r->number_p = r->asked = 0;
    r->rehearsing = r->rehearsed = r->is_abandoned = false;
    r->pages.n_missed = 0;
    r->has_asked = false;
    r->reason = ARS_REASON_NONE;
    r->detail = 0;
    r->site_id = atomic_load_explicit(&ars__me.where->site_id, memory_order_relaxed);
    r->in_try = atomic_load_explicit(&ars__me.where->beat, memory_order_relaxed) & 1;
    ars__ahead_used_in_place();
    if (remember && ars__pages_look(&r->pages, (uintptr_t)__builtin_frame_address(0))) {
        ars__pages_remember(&r->pages);
        r->sleepers++;
    }
    say(ARS__REWIND_RUNNING, loop->site_id);
    r->running = true;
    return true;
}

/* The clock of tries stands still meanwhile: a sleeper that ends has to wait for a core like everybody. */
static void end(struct ars__rewind *r) {
    ars__beat(false);
    r->running = false;
    r->clean = r->pages.n_missed ? 0 : r->clean + 1;
    if (r->pages.n_missed) report_missed(r);
    say(ARS__REWIND_NOT, ARS_NO_SITE);
    ars__pages_forget(&r->pages);
    ars__guard_leave(&r->guard);
    ars__at_site(r->site_id);
    ars__at_loop(ars__top(&ars__me.loops)->site_id);
    ars__beat(r->in_try);
}

static void go_on(struct ars__rewind *r, enum ars__role role) {
    ars__at_site(ARS_NO_SITE);
    ars__beat(false);
    ars__me.role = role;
    ars__me.root = ars__me.loops.depth;
    ars__guard_on(&r->guard);
}

static void go_on_as(struct ars__rewind *r, enum ars__role role, uint32_t number) {
    ars__me.rng = ars__stream(role, number);
    if (role == ARS__TRY_Q) ars__ahead_begin(number);
    go_on(r, role);
}

/* If the main run is abandoned there is nothing to estimate, and what would be wanted might never come: a state in which no try
 * can be accepted. A fork waits until this is known. Here the main run's own draws, made in advance, tell. */
static void rehearse(struct ars__rewind *r) {
    r->rehearsing = r->rehearsed = true;
    go_on(r, ARS__TRY_Q);
}

static void go_on_as_whole(struct ars__rewind *r, uint32_t number) {
    ars__begin_whole(number);
    go_on(r, ARS__TRY_Q);
}

/* The first continuation has shown what the others will ask. */
static void ask_ahead(struct ars__rewind *r) {
    r->has_asked = true;
    ars__beat(false);
    const uint64_t began = ars__ticks();
    r->asked = ars__ask_ahead(ars__top(&ars__me.loops), 1, (uint32_t)ars__left_q(&r->wanted, &r->estimate));
    r->waited += ars__ticks() - began;
}

static void finish(struct ars__rewind *r) {
    const struct ars__loop *loop = ars__top(&ars__me.loops);
    struct ars_wire_loop *record = &ars__loop_records(&ars__me.trace)[loop->record];
    end(r);
    r->cost = ars__ticks() - r->began - r->waited;
    ars__ahead_learn(loop->site_id, r->asked, ars__ahead_used_in_place());
    ars__estimate_put(&r->estimate, record);
    record->rewinds = r->number_q + r->number_whole + r->number_p + r->rehearsed;
    record->method = r->is_abandoned ? ARS_METHOD_NONE : ARS_METHOD_REWIND;
    record->pages = (uint32_t)r->pages.n_pages;
}

enum ars_fork_reason ars__rewind_at_entry(struct ars__loop *loop, const struct ars_wire_wanted *wanted, bool remember,
                                          int32_t *detail) {
    struct ars__rewind *r = here();
    if (!begin(r, loop, wanted, remember)) return ARS_REASON_SYSTEM;
    if (ars__mark(&r->registers) == 0) {
        if (!ars__pages_save(&r->pages, r->registers.rsp)) r->reason = ARS_REASON_PAGES;
        r->overhead += ars__ticks() - r->began;
    }
    /* Here after every continuation. All memory is as it was when it was saved, and r says how far we are. */
    if (r->reason) {
        end(r);
        *detail = r->detail;
        return r->reason;
    }
    r->rehearsing = false;
    const bool wants_q = ars__left_q(&r->wanted, &r->estimate);
    if (ars__can_be_abandoned(ars__top(&ars__me.loops)) && !r->rehearsed) {
        rehearse(r);
        return ARS_REASON_NONE;
    }
    if (r->is_abandoned) {
        finish(r);
        return ARS_REASON_NONE;
    }
    if (wants_q && r->number_q == 1 && !r->has_asked) ask_ahead(r);
    if (wants_q)
        go_on_as(r, ARS__TRY_Q, r->number_q++);
    else if (ars__wants_whole(&r->wanted, &r->estimate, ars__top(&ars__me.loops)))
        go_on_as_whole(r, r->number_whole++);
    else if (r->estimate.runs_p < r->wanted.runs_p)
        go_on_as(r, ARS__RUN_P, r->number_p++);
    else
        finish(r);
    return ARS_REASON_NONE;
}

#else

bool ars__rewinding(void) {
    return false;
}
bool ars__rehearsing(void) {
    return false;
}
void ars__rewind_pause(void) {}
void ars__rewind_resume(void) {}
enum ars_fork_reason ars__rewind_open(int32_t *detail) {
    *detail = ENOSYS;
    return ARS_REASON_SYSTEM;
}
enum ars_fork_reason ars__rewind_at_entry(struct ars__loop *loop, const struct ars_wire_wanted *wanted, bool remember,
                                          int32_t *detail) {
    (void)loop, (void)wanted, (void)remember;
    return ars__rewind_open(detail);
}
_Noreturn void ars__rewind_refuse(enum ars_fork_reason reason, int32_t detail) {
    ars__fail(ARS_FAIL_MISUSE, detail, "a continuation was refused (%d) where there is none", (int)reason);
}
void ars__rewind_tried(const struct ars__loop *loop, enum ars__outcome outcome) {
    (void)loop, (void)outcome;
}

#endif

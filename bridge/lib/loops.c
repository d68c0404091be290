/* loops.c: the stack of open rejection loops, and what rs_start and rs_end do to it.
 *
 * Loop identity is the mark of the rs_start and the caller's frame. With the stack growing down:
 *   same mark, same frame, tag in place               a retry
 *   same mark, same frame, no tag                     the loop was left and its function called again: an error
 *   deeper frame, or another mark in this frame       a loop within the innermost open one
 *   shallower frame                                   the innermost open loop was left: an error
 * See ARS__RS_CALL in ars.h for what keeps the optimiser out of this.
 * Loops with a handle (handles.c) lie on the same stack, and have no frame. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "continuation.h"
#include "fail.h"
#include "given.h"
#include "loops.h"
#include "method.h"
#include "process.h"
#include "rejected_log.h"
#include "sites.h"
#include "snapshot.h"
#include "tables.h"
#include "thread_owner.h"
#include "trace.h"
#include "where.h"

/* The alloca in the macro moves the stack pointer by at least this. */
enum { MOVED_BY = 16 };

/* Whether the tag is still allocated and untouched. What lies where it was is not enough: that may be a leftover. */
static bool in_place(const struct ars__frame_tag *tag, const char *pointer) {
    return tag->at && pointer <= tag->below && *(const volatile uint64_t *)tag->at == tag->number;
}

_Noreturn void ars__loop_left(const struct ars__loop *loop, const char *how) {
    char name[200];
    ars__loop_name(loop->mark, name, sizeof name);
    if (loop->handle)
        ars__fail(
            ARS_FAIL_LOOP_LEFT, 0,
            "the loop %s was left without ars_loop_accept (%s). Call ars_loop_accept, or ars_loop_abandon if it is "
            "given up, before every way out of it: break, return, exception, longjmp",
            name, how);
    ars__fail(
        ARS_FAIL_LOOP_LEFT, 0,
        "the loop %s was left without rs_end (%s). Call rs_end before every way out of it: break, return, exception, "
        "longjmp. rs_start and rs_end must both stand in the function that holds the loop, not in one that it calls",
        name, how);
}

void ars__loop_needs_trace(ars__loop_mark *mark, const char *what) {
    if (ars__me.in_trace) return;
    char name[200];
    ars__loop_name(mark, name, sizeof name);
    ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
              "%s of %s was called outside a trace: call it from the model that ars_main runs, or after ars_next_trace",
              what, name);
}

const struct ars__loop *ars__innermost_framed(void) {
    for (size_t i = ars__me.loops.depth; i-- > 0;)
        if (!ars__me.loops.at[i].handle) return &ars__me.loops.at[i];
    return NULL;
}

void ars__loops_check(const char *caller, const char *what, const char *name) {
    const struct ars__loop *framed = ars__innermost_framed();
    if (!framed || caller <= framed->frame) return;
    char how[120];
    snprintf(how, sizeof how, "its function had ended when %s(%s%.60s%s) was called", what, name ? "\"" : "",
             name ? name : "", name ? "\"" : "");
    ars__loop_left(framed, how);
}

void ars__loops_reset(void) {
    struct ars__loop *top = ars__top(&ars__me.loops);
    if (top) ars__loop_left(top, "it was still open when the trace ended");
}

/* The entry of this activation, which is the last one. Forgets activations deeper than this frame: they have returned. */
static struct ars__tagged_frame *tagged_at(const ars__loop_mark *mark, const char *frame) {
    struct ars__tagged_frames *m = &ars__me.tagged;
    while (m->n && m->at[m->n - 1].frame < frame) m->n--;
    for (size_t i = m->n; i-- > 0 && m->at[i].frame == frame;)
        if (m->at[i].mark == mark) return &m->at[i];
    if (m->n == m->room) {
        size_t room = m->room ? 4 * m->room : ARS__FEW_FRAMES;
        struct ars__tagged_frame *grown =
            m->room ? ars__enlarge(m->at, m->n * sizeof *m->at, room * sizeof *m->at) : ars__me.few.tagged;
        if (!grown) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the table of loops");
        m->at = grown;
        m->room = room;
    }
    m->at[m->n] = (struct ars__tagged_frame){.mark = mark, .frame = frame};
    return &m->at[m->n++];
}

/* The macro calls this right after an entry that found no tag in place. */
void ars__rs_tag(void *memory) {
    struct ars__loop *top = ars__top(&ars__me.loops);
    uint64_t *at = memory;
    *at = ++ars__me.tagged.last_number;
    top->tag.at = at;
    top->tag.number = *at;
    top->tag.settled = __builtin_frame_address(0);
    tagged_at(top->mark, top->frame)->tag = top->tag;
}

static struct ars__loop *push(void) {
    struct ars__loops *l = &ars__me.loops;
    if (l->depth == l->room) {
        size_t room = l->room ? 4 * l->room : ARS__FEW_LOOPS;
        struct ars__loop *grown =
            l->room ? ars__enlarge(l->at, l->depth * sizeof *grown, room * sizeof *grown) : ars__me.few.loops;
        if (!grown) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for %zu open loops", room);
        memset(grown + l->room, 0, (room - l->room) * sizeof *grown);
        l->at = grown;
        l->room = room;
    }
    return &l->at[l->depth]; /* counted by the caller when it is filled in */
}

/* A loop without a snapshot keeps its first draw's proposal in memory of its own, which the next loop at this depth
 * takes over. */
void ars__loop_cache(struct ars__loop *loop) {
    if (ars__me.flags & ARS_RUN_PROPOSE_PRIOR) {
        if (!loop->owns_first) loop->first = NULL;
        return;
    }
    if (!loop->owns_first) {
        loop->first = malloc(sizeof *loop->first);
        if (!loop->first) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for a loop");
        loop->owns_first = true;
    }
    loop->first->request_size = 0;
}

void ars__loop_keep_first(struct ars__loop *loop, struct ars__first *first) {
    if (loop->owns_first) free(loop->first);
    loop->owns_first = false;
    loop->first = first;
    first->request_size = 0;
}

/* Only tries of the outermost loop are timed, or of the one that a continuation estimates: those within are part of them. */
static bool times_tries(void) {
    return ars__me.loops.depth == (ars__continuing() ? ars__me.root : 1);
}

void ars__try_begins(void) {
    ars__script_begin(ars__top(&ars__me.loops));
    if (times_tries()) ars__beat(true);
}

void ars__try_ends(void) {
    if (times_tries()) ars__beat(false);
}

void ars__loop_close(void) {
    ars__try_ends();
    ars__me.loops.depth--;
    const struct ars__loop *outer = ars__top(&ars__me.loops);
    ars__at_loop(outer ? outer->site_id : ARS_NO_SITE);
}

struct ars__loop *ars__loop_open(ars__loop_mark *mark, const char *frame) {
    struct ars__trace *t = &ars__me.trace;
    struct ars__loop *outer = ars__top(&ars__me.loops);
    int32_t parent = outer ? outer->record : -1;
    ars__script_close(outer);
    struct ars__loop *loop = push();
    loop->mark = mark;
    loop->frame = frame;
    loop->tries = 1;
    loop->in_place = false;
    loop->given = false;
    loop->handle = NULL;
    loop->entry_scope = ars__me.scope;
    if (ars__me.role == ARS__RUN_P) {
        loop->record = -1;
        loop->site_id = outer->site_id;
        ars__me.loops.depth++;
        return loop;
    }
    char name[ARS_WIRE_MAX_NAME + 1];
    ars__loop_name(mark, name, sizeof name);
    struct ars_wire_loop record = {.site_id = ars__site_id(name, ARS_SITE_LOOP, 0), .parent = parent, .tries = 1};
    record.instance = ars__instance_take(record.site_id);
    loop->site_id = record.site_id;
    loop->record = (int32_t)ars__n_loops(t);
    ars__buffer_add(&t->loops, &record, sizeof record);
    ars__buffer_add(&t->slots, &(uint32_t){ARS__NO_SLOT}, sizeof(uint32_t));
    loop->entry = ars__trace_position(t);
    loop->entry_state = ars__me.state;
    loop->entry_told = ars__me.told;
    loop->try_ratio = 0;
    loop->entry_rejected = loop->try_rejected = ars__rejected_now(t);
    loop->recorded = 0;
    ars__me.loops.depth++;
    t->entries++;
    ars__at_loop(loop->site_id);
    return loop;
}

void ars__loop_entered(struct ars__loop *loop) {
    if (ars__me.role == ARS__RUN_P) return;
    struct ars_wire_wanted wanted;
    if (ars__entry_is_estimated(&wanted))
        ars__estimate_at_entry(loop, &wanted);
    else
        ars__loop_cache(loop);
    ars__try_begins();
}

static bool enter(ars__loop_mark *mark, const char *frame, const char *pointer, const void *pin) {
    struct ars__loop *loop = ars__loop_open(mark, frame);
    loop->pin = pin;
    loop->tag = tagged_at(mark, frame)->tag;
    /* Elsewhere than settled, what looks like the tag may be a leftover in an array of variable length. */
    bool fresh = pointer != loop->tag.settled || !in_place(&loop->tag, pointer);
    if (fresh) loop->tag = (struct ars__frame_tag){.below = pointer - MOVED_BY};
    ars__loop_entered(loop);
    return fresh;
}

/* The present try was rejected: what it drew is counted, and vanishes. The sum of all log p/q stays. */
static void reject(struct ars__loop *loop) {
    struct ars__trace *t = &ars__me.trace;
    struct ars_wire_loop *record = &ars__loop_records(t)[loop->record];
    record->log_ratio_rejected += loop->try_ratio;
    record->s_pq_main += ars__try_square(loop);
    ars__given_rejected(loop);
    if (ars__recording_rejected()) ars__rejected_keep(loop);
    ars__trace_rewind(t, &loop->entry);
    loop->try_ratio = 0;
    ars__me.state = loop->entry_state;
    ars__me.told = loop->entry_told;
}

static bool has_snapshots(void) {
    return ars__me.role == ARS__WORKER && (ars__me.flags & ARS_RUN_ESTIMATE);
}

void ars__loop_again(struct ars__loop *loop) {
    if (++loop->tries > ars__me.max_tries) {
        char name[200];
        ars__loop_name(loop->mark, name, sizeof name);
        ars__fail(ARS_FAIL_TOO_MANY_TRIES, 0,
                  "the loop %s was not accepted in %llu tries. If it can be accepted at all, raise max_tries", name,
                  (unsigned long long)ars__me.max_tries);
    }
    ars__try_begins();
    ars__me.scope = loop->entry_scope;
    if (ars__me.role == ARS__RUN_P) return;

    ars__loop_records(&ars__me.trace)[loop->record].tries = loop->tries;
    if (has_snapshots()) ars__snapshots_dismiss_from((size_t)loop->record + 1);
    reject(loop);
}

static bool is_root(void) {
    return ars__continuing() && ars__me.loops.depth == ars__me.root;
}

void ars__loop_retry(struct ars__loop *loop) {
    if (is_root()) ars__continuation_tried(loop, ARS__REJECTED);
    ars__loop_again(loop);
}

void ars__loop_accepted(struct ars__loop *loop) {
    if (is_root()) ars__continuation_tried(loop, ARS__ACCEPTED);
    if (ars__recording_rejected()) ars__rejected_close(loop, true);
    ars__loop_close();
}

bool ars__can_be_abandoned(const struct ars__loop *loop) {
    return loop->handle && ars__me.marks.abandons;
}

/* None of its tries was accepted. Nothing that the loop drew is part of the trace, but all of it counts for the weight
 * (ars__trace_send), so there is nothing to estimate. */
void ars__loop_abandoned(struct ars__loop *loop) {
    if (is_root()) ars__continuation_tried(loop, ARS__ABANDONED);
    if (ars__me.role != ARS__RUN_P) {
        struct ars_wire_loop *record = &ars__loop_records(&ars__me.trace)[loop->record];
        record->abandoned = 1;
        if (has_snapshots()) {
            ars__snapshots_dismiss_from((size_t)loop->record);
            record->method = ARS_METHOD_NONE;
        }
        reject(loop);
        if (ars__recording_rejected()) ars__rejected_close(loop, false);
    }
    ars__loop_close();
}

static __attribute__((noinline)) bool start(ars__loop_mark *mark, const char *frame, const char *pointer,
                                            const void *pin) {
    int kept = errno;
    ars__thread_check(ARS__CALL_RS_START);
    ars__loop_needs_trace(mark, "rs_start");
    struct ars__loop *top = ars__top(&ars__me.loops);
    if (top && top->mark == mark && top->frame == frame) {
        if (pin != top->pin || !in_place(&top->tag, pointer))
            ars__loop_left(top, "its function was called again, or an array of variable length stands before rs_start");
        ars__loop_retry(top);
        errno = kept;
        return false;
    }
    const struct ars__loop *framed = ars__innermost_framed();
    if (framed && frame > framed->frame) ars__loop_left(framed, "its function had ended when another loop began");
    for (size_t i = 0; i < ars__me.loops.depth; i++)
        if (ars__me.loops.at[i].mark == mark && ars__me.loops.at[i].frame == frame)
            ars__loop_left(top, "a loop around it was tried again");
    bool fresh = enter(mark, frame, pointer, pin);
    errno = kept;
    return fresh;
}

bool ars__rs_start(ars__loop_mark *mark, void *frame, const void *pin) {
    return ars__me.role != ARS__ALONE && start(mark, frame, __builtin_frame_address(0), pin);
}

void ars__rs_end(void *frame, const char *file, const char *func) {
    if (ars__me.role == ARS__ALONE) return;
    ars__thread_check(ARS__CALL_RS_END);
    struct ars__loop *top = ars__top(&ars__me.loops);
    if (!top || top->in_place) {
        const char *slash = strrchr(file, '/');
        ars__fail(
            ARS_FAIL_RS_END, 0,
            "rs_end was called in %.80s:%.80s, but no loop is open: call rs_start at the top of the loop, on every "
            "try; the body of ars_reject has no marks of its own loop",
            slash ? slash + 1 : file, func);
    }
    if (top->handle) ars__loop_left(top, "rs_end was called, which ends no loop that has a handle");
    if ((char *)frame > top->frame) ars__loop_left(top, "rs_end of a loop around it was called");
    ars__loop_accepted(top);
}

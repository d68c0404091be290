/* loop_in_place.c: ars_reject, a loop whose body can be repeated where it stands.
 *
 * A body that touches its own state only needs no copy of the process: to make a try from the state at entry is to call
 * it again. So the continuations that a snapshot would fork are made here, by the worker, before the tries of the main
 * run: what the body leaves behind is then that of the accepted try. They draw from the streams that the forked ones
 * would have, and count as those would, so a loop's estimates are the same bits either way. */
#include <errno.h>

#include "ahead.h"
#include "continuation.h"
#include "loops.h"
#include "method.h"
#include "process.h"
#include "rejected_log.h"
#include "thread_owner.h"
#include "trace.h"

struct body {
    bool (*call)(void *);
    void *context;
    size_t depth; /* of the loop */
    struct ars_wire_wanted wanted;
    struct ars__estimate estimate;
};

/* Both arrays grow while a body runs: ask again after every call of it. */
static struct ars__loop *loop_of(const struct body *body) {
    return &ars__me.loops.at[body->depth - 1];
}

static struct ars_wire_loop *record_of(const struct body *body) {
    return &ars__loop_records(&ars__me.trace)[loop_of(body)->record];
}

static bool try_once(const struct body *body) {
    bool accepted = body->call(body->context);
    if (ars__me.loops.depth != body->depth)
        ars__loop_left(ars__top(&ars__me.loops), "the body of the ars_reject around it returned");
    return accepted;
}

/* One more try. True: the continuation is over. */
static bool try_and_count(struct body *body) {
    const bool accepted = try_once(body);
    return ars__continuation_count(&body->estimate, &body->wanted, loop_of(body),
                                   accepted ? ARS__ACCEPTED : ARS__REJECTED);
}

/* One continuation, and everything as it was at the loop's entry. */
static void continue_once(struct body *body, enum ars__role role, uint32_t number) {
    const struct ars_wire_loop main_run = *record_of(body);
    const double log_ratio_all = ars__me.trace.log_ratio_all;
    const uint32_t entries = ars__me.trace.entries;
    const ars__rng rng = ars__me.rng;
    ars__me.rng = ars__stream(role, number);
    ars__me.role = role;
    if (role == ARS__TRY_Q) ars__ahead_begin(number);
    ars__me.root = body->depth;
    ars__try_begins();
    while (!try_and_count(body)) ars__loop_again(loop_of(body));

    struct ars__loop *loop = loop_of(body);
    struct ars_wire_loop *record = record_of(body);
    ars__trace_rewind(&ars__me.trace, &loop->entry);
    record->tries = main_run.tries;
    record->log_ratio_rejected = main_run.log_ratio_rejected;
    record->s_pq_main = main_run.s_pq_main;
    loop->tries = 1;
    loop->try_ratio = 0;
    ars__me.state = loop->entry_state;
    ars__me.told = loop->entry_told;
    ars__me.scope = loop->entry_scope;
    ars__me.trace.log_ratio_all = log_ratio_all;
    ars__me.trace.entries = entries;
    ars__me.rng = rng;
    ars__me.role = ARS__WORKER;
    ars__me.root = 0;
    ars__me.ahead = 0;
}

static void estimate_acceptance(struct body *body) {
    const uint32_t loop_id = loop_of(body)->site_id;
    uint32_t asked = 0;
    /* The main run is still to come: the first continuation shows what the others will ask. */
    for (uint32_t number = 0; ars__left_q(&body->wanted, &body->estimate); number++) {
        continue_once(body, ARS__TRY_Q, number);
        const uint64_t left = ars__left_q(&body->wanted, &body->estimate);
        if (number || !left) continue;
        ars__try_ends();
        asked = ars__ask_ahead(loop_of(body), 1, (uint32_t)left);
    }
    ars__ahead_learn(loop_id, asked, ars__ahead_used_in_place());
    for (uint32_t number = 0; body->estimate.runs_p < body->wanted.runs_p; number++)
        continue_once(body, ARS__RUN_P, number);
    ars__estimate_put(&body->estimate, record_of(body));
    record_of(body)->method = ARS_METHOD_IN_PLACE;
}

/* A call is always an entry, so an open loop that is not around us was left. */
static void check_entry(ars__loop_mark *mark, const char *frame) {
    ars__loop_needs_trace(mark, "ars_reject");
    const struct ars__loop *framed = ars__innermost_framed();
    if (framed && frame >= framed->frame) ars__loop_left(framed, "its function had ended when another loop began");
}

void ars__reject(ars__loop_mark *mark, bool (*call)(void *), void *context) {
    if (ars__me.role == ARS__ALONE) {
        while (!call(context)) {
        }
        return;
    }
    const char *frame = __builtin_frame_address(0);
    int kept = errno;
    ars__thread_check(ARS__CALL_REJECT);
    check_entry(mark, frame);
    struct ars__loop *loop = ars__loop_open(mark, frame);
    loop->in_place = true;
    if (ars__me.role != ARS__RUN_P) ars__loop_cache(loop);
    struct body body = {call, context, ars__me.loops.depth, {0}, {0}};
    if (ars__entry_is_estimated(&body.wanted)) estimate_acceptance(&body);
    errno = kept;
    ars__try_begins();
    while (!try_once(&body)) ars__loop_again(loop_of(&body));
    if (ars__recording_rejected()) ars__rejected_close(loop_of(&body), true);
    ars__loop_close();
}

/* rejected_log.c: what rejected tries drew, for runs that ask for it (ARS_RUN_RECORD_REJECTED).
 *
 * A rejected try is recorded when it is rejected, so inner tries come before the outer one that they belong to. Of one
 * entry of a loop the first max_rejected tries are kept: given that they were rejected, tries are alike, so the first
 * ones stand for the rest, and their number says for how many. */
#include "rejected_log.h"
#include "fail.h"
#include "loops.h"
#include "process.h"
#include "sites.h"
#include "trace.h"

enum { MOST_BYTES = ARS__MAX_RECORD / 2 };

bool ars__recording_rejected(void) {
    return (ars__me.flags & ARS_RUN_RECORD_REJECTED) && ars__me.role == ARS__WORKER;
}

static struct ars_wire_try *try_at(struct ars__trace *t, size_t byte) {
    return (struct ars_wire_try *)(void *)(t->tries.bytes + byte);
}

static void check_room(const struct ars__trace *t, size_t more, const struct ars__loop *loop) {
    size_t size = t->tries.used + t->rejected.used + t->rejected_params.used + more;
    if (size <= MOST_BYTES) return;
    char name[200];
    ars__loop_name(loop->mark, name, sizeof name);
    ars__fail(ARS_FAIL_LIMIT, 0,
              "the rejected tries of one trace take more than %d bytes, the last of them of the loop %s. Record fewer "
              "tries per loop: lower max_rejected, which is %u",
              (int)MOST_BYTES, name, (unsigned)ars__me.max_rejected);
}

/* Nothing of a try that is not recorded stays, nor of the loops inside it. */
static void forget(struct ars__trace *t, const struct ars__log_position *to) {
    t->tries.used = to->tries;
    t->rejected.used = to->samples;
    t->rejected_params.used = to->params;
}

void ars__rejected_keep(struct ars__loop *loop) {
    struct ars__trace *t = &ars__me.trace;
    if (loop->recorded >= ars__me.max_rejected) {
        forget(t, &loop->try_rejected);
        return;
    }
    size_t samples = t->samples.used - loop->entry.samples, params = t->params.used - loop->entry.params;
    check_room(t, sizeof(struct ars_wire_try) + samples + params, loop);

    int32_t index = (int32_t)(t->tries.used / sizeof(struct ars_wire_try));
    uint32_t before = (uint32_t)(loop->entry.samples / sizeof(struct ars_wire_sample));
    for (size_t at = loop->try_rejected.tries; at < t->tries.used; at += sizeof(struct ars_wire_try)) {
        struct ars_wire_try *inner = try_at(t, at);
        if (inner->parent >= 0) continue;
        inner->parent = index;
        inner->prefix -= before;
    }
    const struct ars_wire_loop *record = &ars__loop_records(t)[loop->record];
    struct ars_wire_try mine = {.site_id = loop->site_id,
                                .instance = record->instance,
                                .parent = -1,
                                .prefix = before,
                                .n_samples = (uint32_t)(samples / sizeof(struct ars_wire_sample))};
    ars__buffer_add(&t->tries, &mine, sizeof mine);
    if (samples) {
        struct ars_wire_sample *moved = ars__buffer_add(&t->rejected, t->samples.bytes + loop->entry.samples, samples);
        for (uint32_t i = 0; i < mine.n_samples; i++) moved[i].loop = index;
    }
    if (params) ars__buffer_add(&t->rejected_params, t->params.bytes + loop->entry.params, params);
    loop->recorded++;
    loop->try_rejected = ars__rejected_now(t);
}

/* Only now is it known how many tries there were. Those of this entry have no parent yet, and no loop around them or
 * inside the accepted try has both the site and the instance. */
void ars__rejected_close(struct ars__loop *loop, bool accepted) {
    struct ars__trace *t = &ars__me.trace;
    const uint64_t rejected = loop->tries - accepted;
    if (!rejected) return;
    const struct ars_wire_loop *record = &ars__loop_records(t)[loop->record];
    for (size_t at = loop->entry_rejected.tries; at < t->tries.used; at += sizeof(struct ars_wire_try)) {
        struct ars_wire_try *mine = try_at(t, at);
        if (mine->parent >= 0 || mine->site_id != loop->site_id || mine->instance != record->instance) continue;
        mine->recorded = loop->recorded;
        mine->rejected = rejected;
    }
}

/* trace.c: the record of one trace, and its way into the worker's ring. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ask.h"
#include "fail.h"
#include "futex.h"
#include "process.h"
#include "sites.h"
#include "tables.h"
#include "trace.h"

void *ars__buffer_add(struct ars__buffer *b, const void *bytes, size_t size) {
    if (b->used + size > b->room) {
        size_t room = b->room ? 2 * b->room : 1024;
        while (room < b->used + size) room *= 2;
        unsigned char *grown = room <= ARS__MAX_RECORD ? ars__enlarge(b->bytes, b->used, room) : NULL;
        if (!grown)
            ars__fail(ARS_FAIL_MEMORY, 0, "no room for a trace of more than %zu bytes (the limit is %d)",
                      b->used + size, (int)ARS__MAX_RECORD);
        b->bytes = grown;
        b->room = room;
    }
    void *at = b->bytes + b->used;
    if (bytes) memcpy(at, bytes, size);
    b->used += size;
    return at;
}

void ars__trace_reset(struct ars__trace *t) {
    struct ars__buffer *all[] = {&t->samples, &t->params, &t->observes, &t->observed, &t->results,        &t->resulted,
                                 &t->loops,   &t->slots,  &t->tries,    &t->rejected, &t->rejected_params};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->used = 0;
    if (!t->samples.bytes)
        t->samples = (struct ars__buffer){(void *)ars__me.few.samples, 0, sizeof ars__me.few.samples};
    if (!t->loops.bytes) t->loops = (struct ars__buffer){(void *)ars__me.few.records, 0, sizeof ars__me.few.records};
    t->log_likelihood = t->log_ratio_all = 0;
    t->snapshots = t->entries = 0;
    t->impossible = false;
}

struct ars__position ars__trace_position(const struct ars__trace *t) {
    struct ars__position m = {t->samples.used, t->params.used, t->results.used, t->resulted.used, t->loops.used};
    return m;
}

void ars__trace_rewind(struct ars__trace *t, const struct ars__position *to) {
    for (size_t at = to->samples; at < t->samples.used; at += sizeof(struct ars_wire_sample))
        ars__instance_give_back(((struct ars_wire_sample *)(void *)(t->samples.bytes + at))->site_id);
    for (size_t at = to->loops; at < t->loops.used; at += sizeof(struct ars_wire_loop))
        ars__instance_give_back(((struct ars_wire_loop *)(void *)(t->loops.bytes + at))->site_id);
    t->samples.used = to->samples;
    t->params.used = to->params;
    t->results.used = to->results;
    t->resulted.used = to->resulted;
    t->slots.used = to->loops / sizeof(struct ars_wire_loop) * sizeof(uint32_t);
    t->loops.used = to->loops;
}

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

/* The host is told of every trace that waits for something, and of the others in bulk. */
enum { TELL_AFTER_BYTES = 64 << 10, TELL_AFTER_NS = 5 * 1000 * 1000 };

static int64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void tell_host_of_records(bool at_once) {
    uint64_t written = atomic_load_explicit(&ars__me.mine->ring_written, memory_order_relaxed);
    int64_t now = now_ns();
    if (!at_once && written - ars__me.told_host.at_byte < TELL_AFTER_BYTES &&
        now - ars__me.told_host.at_time < TELL_AFTER_NS)
        return;
    ars__me.told_host.at_byte = written;
    ars__me.told_host.at_time = now;
    ars__raise_attention(ars__me.worker);
}

static void ring_write(const void *bytes, size_t size) {
    struct ars__worker *w = ars__me.mine;
    const unsigned char *from = bytes;
    uint64_t written = atomic_load_explicit(&w->ring_written, memory_order_relaxed);
    while (size) {
        size_t space = ARS__RING_BYTES - (size_t)(written - atomic_load(&w->ring_read));
        if (!space) {
            uint32_t seen = atomic_load(&w->ring_space);
            atomic_store(&w->ring_full, 1);
            tell_host_of_records(true);
            if (written - atomic_load(&w->ring_read) == ARS__RING_BYTES)
                ars__futex_wait(&w->ring_space, seen, 1000000000);
            continue;
        }
        size_t at = (size_t)(written % ARS__RING_BYTES);
        size_t n = size < space ? size : space;
        if (n > ARS__RING_BYTES - at) n = ARS__RING_BYTES - at;
        memcpy(w->ring + at, from, n);
        from += n;
        size -= n;
        written += n;
        atomic_store(&w->ring_written, written);
    }
}

static uint32_t count_items(const struct ars__buffer *b, size_t item) {
    return (uint32_t)(b->used / item);
}

/* Writes a part of the record, and zeros up to where the next one begins. */
static void send_part(const struct ars__layout *layout, enum ars__part part, const struct ars__buffer *const *from) {
    static const unsigned char zeros[8] = {0};
    size_t left = (size_t)(layout->at[part + 1] - layout->at[part]);
    for (; *from; from++) {
        ring_write((*from)->bytes, (*from)->used);
        left -= (*from)->used;
    }
    ring_write(zeros, left);
}

static void send_record(const struct ars_wire_trace *head, const struct ars__trace *t) {
    enum { MOST = 5 }; /* buffers of one part, and the NULL behind them */
    const struct ars__buffer *const parts[ARS__PARTS][MOST] = {
        [ARS__PART_SAMPLES] = {&t->samples},
        [ARS__PART_OBSERVES] = {&t->observes},
        [ARS__PART_RESULTS] = {&t->results},
        [ARS__PART_LOOPS] = {&t->loops},
        [ARS__PART_SLOTS] = {&t->slots},
        [ARS__PART_VALUES] = {&t->observed, &t->resulted, &t->params, &t->rejected_params},
        [ARS__PART_TRIES] = {&t->tries},
        [ARS__PART_REJECTED] = {&t->rejected},
    };
    const struct ars__layout layout =
        ars__record_layout(head, count_items(&t->rejected, sizeof(struct ars_wire_sample)));
    const uint64_t size = layout.at[ARS__PARTS];
    if (size > ARS__MAX_RECORD)
        ars__fail(ARS_FAIL_LIMIT, 0, "the trace has %llu bytes, more than the limit of %d", (unsigned long long)size,
                  (int)ARS__MAX_RECORD);
    const struct ars__record record = {(uint32_t)size, 0};
    ring_write(&record, sizeof record);
    ring_write(head, sizeof *head);
    for (int i = ARS__PART_SAMPLES; i < ARS__PART_FAILURE; i++) send_part(&layout, (enum ars__part)i, parts[i]);
}

/* The log p/q that weights of every kind have: of what the trace has drawn, and of all tries of loops that it has abandoned. */
static double log_ratio(const struct ars__trace *t) {
    if (t->impossible) return -INFINITY;
    double sum = 0;
    const struct ars_wire_sample *s = (void *)t->samples.bytes;
    for (size_t i = 0; i < ars__n_samples(t); i++) sum += s[i].log_p - s[i].log_q;
    const struct ars_wire_loop *loops = ars__loop_records(t);
    for (size_t i = 0; i < ars__n_loops(t); i++)
        if (loops[i].abandoned) sum += loops[i].log_ratio_rejected;
    return sum;
}

void ars__trace_send(struct ars__trace *t) {
    struct ars_wire_trace head = {
        .trace = ars__me.trace_number,
        .snapshots = t->snapshots,
        .n_samples = (uint32_t)ars__n_samples(t),
        .n_observes = count_items(&t->observes, sizeof(struct ars_wire_values)),
        .n_results = count_items(&t->results, sizeof(struct ars_wire_result)),
        .n_loops = (uint32_t)ars__n_loops(t),
        .n_values = count_items(&t->observed, 8) + count_items(&t->resulted, 8) + count_items(&t->params, 8) +
                    count_items(&t->rejected_params, 8),
        .n_tries = count_items(&t->tries, sizeof(struct ars_wire_try)),
        .log_likelihood = t->log_likelihood,
        .log_ratio_accepted = log_ratio(t),
        .log_ratio_all = t->impossible ? -INFINITY : t->log_ratio_all,
    };
    send_record(&head, t);
    tell_host_of_records(t->snapshots > 0); /* some may wait to be told to go */
}

void ars__trace_send_failure(const struct ars_wire_failure *failure) {
    struct ars_wire_trace head = {.trace = failure->trace, .failure = failure->kind};
    const struct ars__record record = {(uint32_t)ars__record_layout(&head, 0).at[ARS__PARTS], 0};
    ring_write(&record, sizeof record);
    ring_write(&head, sizeof head);
    ring_write(failure, sizeof *failure);
    tell_host_of_records(true);
}

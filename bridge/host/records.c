/* records.c: from the bytes in a worker's ring, and the results of its snapshots, to finished traces. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "family.h"
#include "futex.h"
#include "host.h"
#include "link.h"
#include "methods.h"
#include "records.h"
#include "relay.h"
#include "replay.h"
#include "schedule.h"
#include "sites.h"
#include "timing.h"
#include "wanted.h"

enum { FILLS_PER_TURN = 4 };

struct record {
    ars__trace_view view;
    unsigned char *loops, *slots, *failure;
};

static struct ars__snapshot *slot_at(struct host *host, const struct worker *worker, uint32_t slot) {
    return ars__snapshot_at(host->shm, host->per_worker, (uint32_t)(worker - host->workers), slot);
}

static bool wrong(ars__why *why, const char *text) {
    snprintf(why->text, sizeof why->text, "%s", text);
    return false;
}

/* ---- ring to buffer ---------------------------------------------------------------------------------------------- */

static bool condemn_ring(struct host *host, struct worker *worker, const char *text) {
    worker->broken = true;
    host_family_condemn(host, (uint32_t)(worker - host->workers), ARS_FAIL_PROTOCOL,
                        "the simulator's process sent a record that makes no sense: %s", text);
    return false;
}

/* Takes what is in the ring; false if there is nothing. */
static bool fill(struct host *host, struct worker *worker) {
    struct ars__worker *shared = ars__worker_at(host->shm, host->per_worker, (uint32_t)(worker - host->workers));
    uint64_t n = atomic_load_explicit(&shared->ring_written, memory_order_acquire) - worker->ring_read;
    if (n == 0) return false;
    if (n > ARS__RING_BYTES) return condemn_ring(host, worker, "more bytes in the ring than it holds");
    size_t at = worker->ring_read % ARS__RING_BYTES, first = ARS__RING_BYTES - at;
    if (first > n) first = n;
    host_buffer_add(&worker->bytes, shared->ring + at, first);
    host_buffer_add(&worker->bytes, shared->ring, n - first);
    worker->ring_read += n;
    /* First the position, then the flag: a worker sets the flag and then looks at the position again. */
    atomic_store(&shared->ring_read, worker->ring_read);
    if (atomic_exchange(&shared->ring_full, 0)) {
        atomic_fetch_add(&shared->ring_space, 1);
        ars__futex_wake(&shared->ring_space, INT_MAX);
    }
    return true;
}

/* ---- one record -------------------------------------------------------------------------------------------------- */

/* The arrays of a record of `size` bytes, which must be exactly what its counts need. */
static bool open_record(unsigned char *bytes, uint64_t size, struct record *r, ars__why *why) {
    struct ars_wire_trace *t = &r->view.trace;
    memcpy(t, bytes + sizeof(struct ars__record), sizeof *t);
    struct ars__layout layout = ars__record_layout(t, 0);
    if (layout.at[ARS__PARTS] > size) return wrong(why, "its size is not that of its parts");
    const uint64_t room = size - layout.at[ARS__PARTS];
    r->view.tries = bytes + layout.at[ARS__PART_TRIES];
    if (!ars__count_rejected(r->view.tries, t->n_tries, room / sizeof(struct ars_wire_sample), &r->view.n_rejected,
                             why))
        return false;
    layout = ars__record_layout(t, r->view.n_rejected);
    if (layout.at[ARS__PARTS] != size) return wrong(why, "its size is not that of its parts");
    r->view.samples = bytes + layout.at[ARS__PART_SAMPLES];
    r->view.observes = bytes + layout.at[ARS__PART_OBSERVES];
    r->view.results = bytes + layout.at[ARS__PART_RESULTS];
    r->view.loops = r->loops = bytes + layout.at[ARS__PART_LOOPS];
    r->slots = bytes + layout.at[ARS__PART_SLOTS];
    r->view.values = bytes + layout.at[ARS__PART_VALUES];
    r->view.rejected = bytes + layout.at[ARS__PART_REJECTED];
    r->failure = bytes + layout.at[ARS__PART_FAILURE];
    return true;
}

static uint32_t slot_of(const struct record *r, uint32_t loop) {
    uint32_t slot;
    memcpy(&slot, r->slots + loop * sizeof slot, sizeof slot);
    return slot;
}

static struct ars_wire_loop loop_at(const struct record *r, uint32_t loop) {
    struct ars_wire_loop l;
    memcpy(&l, r->loops + loop * sizeof l, sizeof l);
    return l;
}

/* What a worker has estimated by itself is what was wanted, or nothing. */
static bool check_estimates(const struct host *host, const struct record *r, ars__why *why) {
    for (uint32_t i = 0; i < r->view.trace.n_loops; i++) {
        const struct ars_wire_loop l = loop_at(r, i);
        if (slot_of(r, i) != ARS__NO_SLOT) continue; /* its numbers are still to come */
        if (l.runs_p && !host_wanted_is_met(host, &l))
            return wrong(why, "estimates of a loop that are not those asked for");
    }
    return true;
}

static bool check_slots(struct host *host, const struct worker *worker, const struct record *r, ars__why *why) {
    uint64_t seen[ARS__MAX_SNAPSHOTS / 64] = {0};
    for (uint32_t i = 0; i < r->view.trace.n_loops; i++) {
        uint32_t slot = slot_of(r, i);
        if (slot == ARS__NO_SLOT) continue;
        if (!(host->run.config.flags & ARS_RUN_ESTIMATE)) return wrong(why, "a snapshot in a run without estimates");
        if (!host_wanted_of(host, loop_at(r, i).site_id).runs_p)
            return wrong(why, "a snapshot of a loop that is not to be estimated");
        if (slot >= host->per_worker || seen[slot / 64] >> slot % 64 & 1) return wrong(why, "a wrong snapshot slot");
        seen[slot / 64] |= 1ull << slot % 64;
        uint32_t status = atomic_load(&slot_at(host, worker, slot)->status);
        if (status != ARS__SLOT_PARKED && status != ARS__SLOT_FAILED)
            return wrong(why, "a snapshot that is not parked");
    }
    return true;
}

static void note_methods(struct host *host, const struct worker *worker, const struct record *r) {
    for (uint32_t i = 0; i < r->view.trace.n_loops; i++) {
        const struct ars_wire_loop l = loop_at(r, i);
        host_methods_note(host, &l);
    }
    host_methods_take_missed(host, (uint32_t)(worker - host->workers));
}

/* The trace at worker->parsed is over, for good or bad. */
static void account(struct host *host, struct worker *worker, const struct record *r,
                    const struct ars_wire_failure *failure) {
    struct ars__record header;
    if (failure) {
        struct ars_wire_failure f = *failure;
        f.trace = r->view.trace.trace;
        f.text[sizeof f.text - 1] = 0;
        if (host_replay(host, &f))
            host_requeue(host, f.trace, 1);
        else
            host_columns_fail(host, &f, r->view.trace.snapshots);
    } else {
        note_methods(host, worker, r);
        host_columns_add(host, &r->view);
    }
    memcpy(&header, worker->bytes.data + worker->parsed, sizeof header);
    worker->parsed += header.size;
    worker->finished++;
    worker->last_failed = r->view.trace.failure != 0;
    host_relay_drop(host, (uint32_t)(worker - host->workers));
    host_clock_reset(host, worker);
}

static void send_snapshots(struct host *host, struct worker *worker, const struct record *r) {
    for (uint32_t i = 0; i < r->view.trace.n_loops; i++) {
        uint32_t slot = slot_of(r, i);
        if (slot == ARS__NO_SLOT) continue;
        struct ars__snapshot *s = slot_at(host, worker, slot);
        worker->at_work++;
        if (atomic_load(&s->status) != ARS__SLOT_PARKED) continue;
        s->wanted = host_wanted_of(host, loop_at(r, i).site_id);
        atomic_store_explicit(&s->order, ARS__GO, memory_order_release);
        ars__futex_wake(&s->order, INT_MAX);
    }
}

/* Puts a snapshot's results into its loop's entry, or remembers its failure, and frees the slot. */
static void collect_slot(struct host *host, struct worker *worker, struct record *r, uint32_t loop, uint32_t slot,
                         uint32_t status) {
    struct ars__snapshot *s = slot_at(host, worker, slot);
    struct ars_wire_failure *failure = &worker->snapshot_failure;
    struct ars_wire_loop l = loop_at(r, loop);
    ars__why why;
    if (status == ARS__SLOT_DONE) host_methods_compare(host, &l, &s->estimate);
    ars__estimate_put(&s->estimate, &l);
    l.forks = s->forks;
    memcpy(r->loops + loop * sizeof l, &l, sizeof l);
    /* Its continuation may have died with a question in the mailbox, which must not pass for one of the next trace. */
    if (status == ARS__SLOT_FAILED) host_relay_forget(host, (uint32_t)(worker - host->workers), slot);
    if (status == ARS__SLOT_FAILED && !failure->kind) {
        *failure = s->failure;
        if (!ars__check_failure(failure, host_sites_known(host), &why)) {
            failure->kind = ARS_FAIL_PROTOCOL;
            failure->detail = 0;
            failure->loop_id = failure->site_id = ARS_NO_SITE;
            snprintf(failure->text, sizeof failure->text, "a continuation failed in an unknown way: %s", why.text);
        }
    } else if (status == ARS__SLOT_DONE && !host_wanted_is_met(host, &l)) {
        *failure = (struct ars_wire_failure){.kind = ARS_FAIL_PROTOCOL, .loop_id = l.site_id, .site_id = ARS_NO_SITE};
        host_wanted_say_missed(host, &l, failure->text, sizeof failure->text);
    }
    uint32_t none = ARS__NO_SLOT;
    memcpy(r->slots + loop * sizeof none, &none, sizeof none);
    worker->at_work--;
    atomic_store(&s->order, ARS__WAIT);
    atomic_store(&s->status, ARS__SLOT_FREE);
    ars__futex_wake(&s->status, INT_MAX);
}

/* Looks at the snapshots of the record at worker->parsed. True: all are in and the trace is accounted for. */
static bool collect(struct host *host, struct worker *worker) {
    struct record r;
    struct ars__record header;
    ars__why why;
    unsigned char *bytes = worker->bytes.data + worker->parsed;
    memcpy(&header, bytes, sizeof header);
    if (!open_record(bytes, header.size, &r, &why)) return condemn_ring(host, worker, why.text); /* checked before */
    for (uint32_t i = 0; i < r.view.trace.n_loops && worker->at_work; i++) {
        uint32_t slot = slot_of(&r, i);
        if (slot == ARS__NO_SLOT) continue;
        uint32_t status = atomic_load_explicit(&slot_at(host, worker, slot)->status, memory_order_acquire);
        if (status == ARS__SLOT_DONE || status == ARS__SLOT_FAILED) collect_slot(host, worker, &r, i, slot, status);
    }
    if (worker->at_work) return false;
    if (!worker->snapshot_failure.kind && !ars__check_trace(&r.view, host_sites_known(host), &why)) {
        worker->snapshot_failure =
            (struct ars_wire_failure){.kind = ARS_FAIL_PROTOCOL, .loop_id = ARS_NO_SITE, .site_id = ARS_NO_SITE};
        snprintf(worker->snapshot_failure.text, sizeof worker->snapshot_failure.text,
                 "the results of a continuation make no sense: %s", why.text);
    }
    account(host, worker, &r, worker->snapshot_failure.kind ? &worker->snapshot_failure : NULL);
    worker->snapshot_failure.kind = 0;
    return true;
}

/* The complete record at worker->parsed. True: go on with the next, or with its snapshots. */
static bool begin(struct host *host, struct worker *worker, uint32_t size, bool last) {
    struct record r;
    struct ars_wire_failure failure;
    ars__why why;
    if (!open_record(worker->bytes.data + worker->parsed, size, &r, &why)) return condemn_ring(host, worker, why.text);
    if (!worker->has_order || worker->finished == worker->count || r.view.trace.trace != host_current_trace(worker))
        return condemn_ring(host, worker, "it is not of the trace in progress");
    if (!ars__check_trace(&r.view, host_sites_known(host), &why)) return condemn_ring(host, worker, why.text);
    if (r.view.trace.failure) {
        memcpy(&failure, r.failure, sizeof failure);
        failure.kind = r.view.trace.failure;
        if (!ars__check_failure(&failure, host_sites_known(host), &why)) return condemn_ring(host, worker, why.text);
        account(host, worker, &r, &failure);
        return true;
    }
    if (r.view.trace.n_tries && !(host->run.config.flags & ARS_RUN_RECORD_REJECTED))
        return condemn_ring(host, worker, "rejected tries that nobody asked for");
    if (!check_slots(host, worker, &r, &why) || !check_estimates(host, &r, &why))
        return condemn_ring(host, worker, why.text);
    for (uint32_t i = 0; i < r.view.trace.n_loops; i++)
        if (slot_of(&r, i) != ARS__NO_SLOT) {
            if (last) return false; /* its snapshots are dead with the rest of the family */
            send_snapshots(host, worker, &r);
            return true;
        }
    account(host, worker, &r, NULL);
    return true;
}

static bool record_is_whole(struct host *host, struct worker *worker, uint32_t *size) {
    size_t left = worker->bytes.size - worker->parsed;
    struct ars__record header;
    if (left < sizeof header) return false;
    memcpy(&header, worker->bytes.data + worker->parsed, sizeof header);
    if (header.size % 8 || header.size < sizeof header + sizeof(struct ars_wire_trace) || header.size > ARS__MAX_RECORD)
        return condemn_ring(host, worker, "its size is out of range");
    *size = header.size;
    return left >= header.size;
}

static void forget_parsed(struct worker *worker) {
    if (!worker->parsed) return;
    worker->bytes.size -= worker->parsed;
    memmove(worker->bytes.data, worker->bytes.data + worker->parsed, worker->bytes.size);
    worker->parsed = 0;
}

bool host_records_read(struct host *host, uint32_t w, bool last) {
    struct worker *worker = &host->workers[w];
    int fills = 0;
    uint32_t size;
    bool complete = true;
    while (!worker->broken) {
        if (worker->at_work) {
            if (!collect(host, worker)) break;
        } else if (record_is_whole(host, worker, &size)) {
            if (!begin(host, worker, size, last)) break;
        } else if (worker->broken) {
            break;
        } else {
            forget_parsed(worker);
            if (fills == FILLS_PER_TURN && !last) {
                host->look_at_all = true;
                complete = false;
                break;
            }
            if (!fill(host, worker)) break;
            fills++;
        }
        if (host_columns_due(host) && host->n_traces_out) host_link_flush(host, false);
        if (host->blocked && !last) {
            host->look_at_all = true;
            complete = false;
            break;
        }
    }
    return complete;
}

uint32_t host_records_at_work(struct host *host, uint32_t w, uint32_t *slots) {
    struct worker *worker = &host->workers[w];
    struct record r;
    struct ars__record header;
    ars__why why;
    if (!worker->at_work) return 0;
    memcpy(&header, worker->bytes.data + worker->parsed, sizeof header);
    if (!open_record(worker->bytes.data + worker->parsed, header.size, &r, &why)) return 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r.view.trace.n_loops && n < host->per_worker; i++)
        if ((slots[n] = slot_of(&r, i)) != ARS__NO_SLOT) n++;
    return n;
}

/* wire_run.c: the check of RUN: see wire_check.h. As in wire.c, fields are copied out with memcpy. */
#include <math.h>

#include "wire_says.h"

enum { MOST_WANTED = (1 << 30) - 1 }; /* continuations are numbered with 30 bits in the names of their streams */

static bool check_wanted(const struct ars_wire_wanted *w, ars__why *why) {
    const uint32_t m = w->runs_p, n = w->tries_q, r = w->accepted_q;
    if (n && r) return bad(why, "RUN wants both N = %u and R = %u; one of them must be 0", n, r);
    if (!m && (n || r)) return bad(why, "RUN wants M = 0 with N = %u and R = %u; all three must be 0", n, r);
    if (m > MOST_WANTED || n > MOST_WANTED || r > MOST_WANTED)
        return bad(why, "RUN wants M = %u, N = %u and R = %u; at most %d", m, n, r, MOST_WANTED);
    return true;
}

static bool check_flags(const struct ars_wire_run *run, ars__why *why) {
    const uint32_t known = ARS_RUN_POSTERIOR | ARS_RUN_PROPOSE_PRIOR | ARS_RUN_LOOPS_PRIOR | ARS_RUN_ESTIMATE |
                           ARS_RUN_RECORD_PRIORS | ARS_RUN_RECORD_REJECTED | ARS_RUN_ASK_AHEAD | ARS_RUN_REWIND |
                           ARS_RUN_CHECK | ARS_RUN_PILOT;
    if (run->flags & ~known) return bad(why, "RUN has unknown flags 0x%x", run->flags & ~known);
    if ((run->flags & ARS_RUN_REWIND) && !(run->flags & ARS_RUN_ESTIMATE))
        return bad(why, "RUN has the flag REWIND but not ESTIMATE");
    if ((run->flags & ARS_RUN_CHECK) && !(run->flags & ARS_RUN_REWIND))
        return bad(why, "RUN has the flag CHECK but not REWIND");
    if ((run->flags & ARS_RUN_PILOT) && !(run->flags & ARS_RUN_ESTIMATE))
        return bad(why, "RUN has the flag PILOT but not ESTIMATE");
    if (!(run->flags & ARS_RUN_RECORD_REJECTED) != !run->max_rejected)
        return bad(why, "RUN has max_rejected %u with flags 0x%x", run->max_rejected, run->flags);
    return true;
}

static bool check_settings(const struct ars_wire_run *run, ars__why *why) {
    if (run->header.run == 0) return bad(why, "RUN has run number 0");
    if (!check_flags(run, why)) return false;
    if (run->n_traces == 0) return bad(why, "RUN asks for 0 traces");
    if (run->first_trace + run->n_traces < run->first_trace) return bad(why, "RUN's trace numbers overflow");
    if (run->max_tries == 0) return bad(why, "RUN allows 0 tries per loop (max_tries)");
    if ((run->flags & ARS_RUN_ESTIMATE) && run->wanted.runs_p == 0) return bad(why, "RUN estimates with M = 0");
    if (!check_wanted(&run->wanted, why)) return false;
    if (!finite_number(run->trace_timeout) || run->trace_timeout < 0)
        return bad(why, "RUN's trace_timeout is negative or not finite");
    if (!finite_number(run->try_timeout) || run->try_timeout < 0)
        return bad(why, "RUN's try_timeout is negative or not finite");
    if (run->header.count && !(run->flags & ARS_RUN_POSTERIOR))
        return bad(why, "RUN has data but not the flag POSTERIOR");
    if (run->n_budgets > ARS_WIRE_MAX_SITES)
        return bad(why, "RUN has %u budgets; at most %d", run->n_budgets, ARS_WIRE_MAX_SITES);
    if (run->n_listed && run->n_listed != run->n_traces)
        return bad(why, "RUN lists %u of %llu traces", run->n_listed, (unsigned long long)run->n_traces);
    return true;
}

/* The three parts after the settings, each from frame + *at, which is moved behind it. */

static bool check_observed(const unsigned char *frame, const struct ars_wire_header *h, size_t *at, ars__why *why) {
    const size_t first = *at;
    if (h->count > (h->size - first) / sizeof(struct ars_wire_observed))
        return bad(why, "RUN counts %u observed names, more than fit", h->count);
    *at += (size_t)h->count * sizeof(struct ars_wire_observed);
    uint64_t values = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        struct ars_wire_observed o;
        memcpy(&o, frame + first + i * sizeof o, sizeof o);
        if (!ars__check_name(frame + *at, o.name_size, h->size - *at, why)) return false;
        *at += ARS_WIRE_PAD(o.name_size);
        values += o.n_values;
    }
    if (values > (h->size - *at) / sizeof(double))
        return bad(why, "RUN announces %llu observed values and has %zu bytes left", (unsigned long long)values,
                   h->size - *at);
    for (uint64_t i = 0; i < values; i++, *at += sizeof(double))
        if (isinf(double_at(frame + *at, 0))) return bad(why, "RUN has an observed value that is infinite");
    return true;
}

static bool ascends(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size) {
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order < 0 || (order == 0 && a_size < b_size);
}

static bool check_budgets(const unsigned char *frame, size_t size, uint32_t n, size_t *at, ars__why *why) {
    size_t before = 0, before_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct ars_wire_budget b;
        if (sizeof b > size - *at) return bad(why, "RUN counts %u budgets, more than fit", n);
        memcpy(&b, frame + *at, sizeof b);
        *at += sizeof b;
        if (!ars__check_name(frame + *at, b.name_size, size - *at, why)) return false;
        if (!check_wanted(&b.wanted, why)) return false;
        if (i && !ascends(frame + before, before_size, frame + *at, b.name_size))
            return bad(why, "RUN's budgets are not in the order of their addresses, or one comes twice");
        before = *at;
        before_size = b.name_size;
        *at += ARS_WIRE_PAD(b.name_size);
    }
    return true;
}

static bool check_listed(const unsigned char *frame, size_t size, const struct ars_wire_run *run, size_t *at,
                         ars__why *why) {
    uint64_t least = run->first_trace;
    for (uint32_t i = 0; i < run->n_listed; i++) {
        struct ars_wire_listed l;
        if (sizeof l > size - *at) return bad(why, "RUN counts %u listed traces, more than fit", run->n_listed);
        memcpy(&l, frame + *at, sizeof l);
        *at += sizeof l;
        if (l.reserved) return bad(why, "a listed trace's reserved field is not 0");
        if (i == 0 ? l.trace != least : l.trace < least)
            return bad(why, "RUN's listed traces do not ascend from first_trace");
        if (l.trace == UINT64_MAX) return bad(why, "RUN's trace numbers overflow");
        least = l.trace + 1;
        if (l.n_tries > (size - *at) / sizeof(uint32_t) || ARS_WIRE_PAD(l.n_tries * sizeof(uint32_t)) > size - *at)
            return bad(why, "the %u tries of a listed trace do not fit", l.n_tries);
        uint32_t padding = 0;
        const size_t end = *at + l.n_tries * sizeof padding;
        if (l.n_tries % 2) memcpy(&padding, frame + end, sizeof padding);
        if (padding) return bad(why, "a listed trace is padded with other than zeros");
        *at += ARS_WIRE_PAD(l.n_tries * sizeof padding);
    }
    return true;
}

bool ars__check_run(const unsigned char *frame, const struct ars_wire_header *h, ars__why *why) {
    struct ars_wire_run run;
    if (h->size < sizeof run) return bad(why, "RUN has %u bytes, fewer than %zu", h->size, sizeof run);
    memcpy(&run, frame, sizeof run);
    size_t at = sizeof run;
    if (!check_settings(&run, why) || !check_observed(frame, h, &at, why) ||
        !check_budgets(frame, h->size, run.n_budgets, &at, why) || !check_listed(frame, h->size, &run, &at, why))
        return false;
    if (at != h->size) return bad(why, "RUN has %zu bytes after its last part", h->size - at);
    return true;
}

ars__run_parts ars__parts_of_run(const unsigned char *frame) {
    struct ars_wire_run run;
    memcpy(&run, frame, sizeof run);
    size_t at = sizeof run + (size_t)run.header.count * sizeof(struct ars_wire_observed);
    for (uint32_t i = 0; i < run.header.count; i++) {
        struct ars_wire_observed o;
        memcpy(&o, frame + sizeof run + i * sizeof o, sizeof o);
        at += ARS_WIRE_PAD(o.name_size) + o.n_values * sizeof(double);
    }
    const size_t budgets = at;
    for (uint32_t i = 0; i < run.n_budgets; i++) {
        struct ars_wire_budget b;
        memcpy(&b, frame + at, sizeof b);
        at += sizeof b + ARS_WIRE_PAD(b.name_size);
    }
    return (ars__run_parts){budgets, at};
}

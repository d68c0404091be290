/* wire_traces.c: checks of traces and of whole TRACES messages: see wire_check.h. As in wire.c, fields are copied out with
 * memcpy. */
#include "wire_says.h"

bool ars__check_failure(const void *bytes, ars__known_sites sites, ars__why *why) {
    struct ars_wire_failure f;
    memcpy(&f, bytes, sizeof f);
    if (f.kind < ARS_FAIL_CRASH || f.kind > ARS_FAIL_LAST) return bad(why, "unknown kind of failure %u", f.kind);
    if (f.loop_id != ARS_NO_SITE && !is_site(sites, f.loop_id, ARS_SITE_LOOP))
        return bad(why, "a failure in the loop %u, which is no loop site", f.loop_id);
    if (f.site_id != ARS_NO_SITE && (f.site_id >= sites.n || is_site(sites, f.site_id, ARS_SITE_LOOP)))
        return bad(why, "a failure at %u, which is no site of a value", f.site_id);
    if (f.text[sizeof f.text - 1]) return bad(why, "a failure's text does not end");
    return true;
}

static bool check_samples(const unsigned char *at, uint32_t n_samples, ars__known_sites sites, uint64_t *values,
                          ars__why *why) {
    for (uint32_t i = 0; i < n_samples; i++) {
        struct ars_wire_sample s;
        memcpy(&s, at + (size_t)i * sizeof s, sizeof s);
        if (!is_site(sites, s.site_id, ARS_SITE_SAMPLE))
            return bad(why, "sample %u is of %u, which is no sample site", i, s.site_id);
        if (!ars__dist_is_prior(s.prior)) return bad(why, "sample %u has distribution kind %u", i, (unsigned)s.prior);
        if (sites.dists && sites.dists[s.site_id] != s.prior)
            return bad(why, "sample %u is not of the distribution that its site was announced with", i);
        if (!finite_number(s.value) || !finite_number(s.log_q) || !log_number(s.log_p))
            return bad(why, "sample %u has value %g, log p %g, log q %g", i, s.value, s.log_p, s.log_q);
        int n = ars__dist_parameters(s.prior);
        if (s.n_params && (n >= 0 ? s.n_params != n : s.n_params > ARS_WIRE_MAX_CATEGORIES))
            return bad(why, "sample %u has %u parameters", i, (unsigned)s.n_params);
        *values += s.n_params;
    }
    return true;
}

static int32_t loop_of(const unsigned char *samples, uint32_t i) {
    struct ars_wire_sample s;
    memcpy(&s, samples + (size_t)i * sizeof s, sizeof s);
    return s.loop;
}

static bool check_loop_indices(const ars__trace_view *view, ars__why *why) {
    for (uint32_t i = 0; i < view->trace.n_samples; i++) {
        int32_t loop = loop_of(view->samples, i);
        if (loop < -1 || (loop >= 0 && (uint32_t)loop >= view->trace.n_loops))
            return bad(why, "sample %u is in loop %d of %u", i, loop, view->trace.n_loops);
    }
    return true;
}

static bool check_observes(const unsigned char *at, uint32_t n, ars__known_sites sites, uint64_t *values,
                           ars__why *why) {
    for (uint32_t i = 0; i < n; i++) {
        struct ars_wire_values v;
        memcpy(&v, at + (size_t)i * sizeof v, sizeof v);
        if (!is_site(sites, v.site_id, ARS_SITE_OBSERVE))
            return bad(why, "observe %u is of site %u, which is none", i, v.site_id);
        if (!log_number(v.log_p)) return bad(why, "item %u of site %u has log p %g", i, v.site_id, v.log_p);
        *values += v.n;
    }
    return true;
}

static bool check_results(const unsigned char *at, uint32_t n, ars__known_sites sites, uint64_t *values,
                          ars__why *why) {
    for (uint32_t i = 0; i < n; i++) {
        struct ars_wire_result r;
        memcpy(&r, at + (size_t)i * sizeof r, sizeof r);
        if (!is_site(sites, r.site_id, ARS_SITE_RESULT))
            return bad(why, "result %u is of site %u, which is none", i, r.site_id);
        if (r.n_dims > ARS_WIRE_MAX_DIMS || r.n_dims > r.n || r.reserved)
            return bad(why, "result %u has %u numbers and %u axes", i, r.n, r.n_dims);
        *values += r.n;
    }
    return true;
}

/* The axes of the results, whose numbers begin at number `at` of the trace's and are all there. */
static bool check_shapes(const ars__trace_view *view, uint64_t at, ars__why *why) {
    for (uint32_t i = 0; i < view->trace.n_results; i++) {
        struct ars_wire_result r;
        memcpy(&r, view->results + (size_t)i * sizeof r, sizeof r);
        double product = 1;
        for (uint32_t k = 0; k < r.n_dims; k++) {
            double length = double_at(view->values, (uint32_t)(at + k));
            if (!(length >= 0 && length <= UINT32_MAX && length == (double)(uint32_t)length))
                return bad(why, "axis %u of result %u has the length %g", k, i, length);
            product *= length;
        }
        if (r.n_dims && product != r.n - r.n_dims)
            return bad(why, "result %u has %u numbers for a shape of %g", i, r.n - r.n_dims, product);
        at += r.n;
    }
    return true;
}

static bool check_loops(const ars__trace_view *view, ars__known_sites sites, ars__why *why) {
    for (uint32_t i = 0; i < view->trace.n_loops; i++) {
        struct ars_wire_loop l;
        memcpy(&l, view->loops + (size_t)i * sizeof l, sizeof l);
        if (!is_site(sites, l.site_id, ARS_SITE_LOOP))
            return bad(why, "loop %u is of %u, which is no loop site", i, l.site_id);
        if (l.parent < -1 || (l.parent >= 0 && ((uint32_t)l.parent >= view->trace.n_loops || (uint32_t)l.parent == i)))
            return bad(why, "loop %u has parent %d of %u", i, l.parent, view->trace.n_loops);
        if (!log_number(l.log_ratio_rejected) || !(l.s_pq_sum >= 0) || !(l.s_pq_main >= 0))
            return bad(why, "loop %u has log ratio %g, s_pq_sum %g and s_pq_main %g", i, l.log_ratio_rejected,
                       l.s_pq_sum, l.s_pq_main);
        if (l.tries == 0) return bad(why, "loop %u was accepted after 0 tries", i);
        if (l.accepted_q > l.tries_q || l.runs_p > l.tries_p)
            return bad(why, "loop %u accepted more tries than it made", i);
        if (!l.runs_p && (l.tries_q || l.tries_p)) return bad(why, "loop %u has tries of no continuation", i);
        if (l.abandoned > 1 || (l.abandoned && l.runs_p))
            return bad(why, "loop %u was abandoned %u times, with %llu runs under p", i, l.abandoned,
                       (unsigned long long)l.runs_p);
        if (l.abandoned_p > l.runs_p) return bad(why, "loop %u abandoned more runs under p than it made", i);
        if ((l.abandoned_q && !l.runs_p) || l.abandoned_tries < (l.abandoned_q > 0) ||
            (l.abandoned_tries && !l.abandoned_q))
            return bad(why, "loop %u has %llu tries in %llu abandoned runs under q", i,
                       (unsigned long long)l.abandoned_tries, (unsigned long long)l.abandoned_q);
        if (l.method > ARS_METHOD_LAST || l.reason > ARS_REASON_LAST)
            return bad(why, "loop %u has method %u and reason %u", i, (unsigned)l.method, (unsigned)l.reason);
    }
    return true;
}

static struct ars_wire_try try_at(const unsigned char *tries, uint32_t i) {
    struct ars_wire_try t;
    memcpy(&t, tries + (size_t)i * sizeof t, sizeof t);
    return t;
}

bool ars__count_rejected(const unsigned char *tries, uint32_t n, size_t room, uint32_t *n_rejected, ars__why *why) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) total += try_at(tries, i).n_samples;
    if (total > room || total > UINT32_MAX)
        return bad(why, "rejected tries have %llu samples, more than there are", (unsigned long long)total);
    *n_rejected = (uint32_t)total;
    return true;
}

static bool check_tries(const ars__trace_view *view, ars__known_sites sites, ars__why *why) {
    uint32_t n = view->trace.n_tries, sample = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct ars_wire_try t = try_at(view->tries, i);
        if (!is_site(sites, t.site_id, ARS_SITE_LOOP))
            return bad(why, "rejected try %u is of %u, which is no loop site", i, t.site_id);
        /* A try is over before the one around it, so a parent comes later: no cycles. */
        if (t.parent < -1 || (t.parent >= 0 && ((uint32_t)t.parent <= i || (uint32_t)t.parent >= n)))
            return bad(why, "rejected try %u has parent %d of %u", i, t.parent, n);
        uint32_t has = t.parent < 0 ? view->trace.n_samples : try_at(view->tries, (uint32_t)t.parent).n_samples;
        if (t.prefix > has) return bad(why, "rejected try %u comes after %u samples of %u", i, t.prefix, has);
        if (t.recorded == 0 || t.rejected < t.recorded)
            return bad(why, "rejected try %u is one of %u recorded of %llu", i, t.recorded,
                       (unsigned long long)t.rejected);
        for (uint32_t j = 0; j < t.n_samples; j++, sample++)
            if (loop_of(view->rejected, sample) != (int32_t)i)
                return bad(why, "rejected sample %u is of try %d, not %u", sample, loop_of(view->rejected, sample), i);
    }
    return true;
}

bool ars__check_trace(const ars__trace_view *view, ars__known_sites sites, ars__why *why) {
    const struct ars_wire_trace *t = &view->trace;
    if (t->failure > ARS_FAIL_LAST) return bad(why, "unknown kind of failure %u", t->failure);
    if (t->failure) {
        if (t->n_samples || t->n_observes || t->n_results || t->n_loops || t->n_values || t->n_tries)
            return bad(why, "a failed trace has counts that are not 0");
        return true;
    }
    if (!log_number(t->log_likelihood) || !log_number(t->log_ratio_accepted) || !log_number(t->log_ratio_all))
        return bad(why, "a trace has log likelihood %g, log ratios %g and %g", t->log_likelihood, t->log_ratio_accepted,
                   t->log_ratio_all);
    uint64_t values = 0;
    if (!check_samples(view->samples, t->n_samples, sites, &values, why)) return false;
    if (!check_loop_indices(view, why)) return false;
    if (t->n_tries) {
        if (!check_samples(view->rejected, view->n_rejected, sites, &values, why)) return false;
        if (!check_tries(view, sites, why)) return false;
    }
    uint64_t observed = 0;
    if (!check_observes(view->observes, t->n_observes, sites, &observed, why)) return false;
    values += observed;
    if (!check_results(view->results, t->n_results, sites, &values, why)) return false;
    if (!check_loops(view, sites, why)) return false;
    if (values != t->n_values)
        return bad(why, "a trace announces %u values and its items need %llu", t->n_values, (unsigned long long)values);
    for (uint32_t i = 0; i < t->n_values; i++)
        if (double_at(view->values, i) != double_at(view->values, i)) return bad(why, "value %u of a trace is NaN", i);
    return check_shapes(view, observed, why);
}

/* Moves *at over n items of `item` bytes, or says that the column is too short. */
static bool skip_items(ars__bytes column, size_t *at, uint32_t n, size_t item, const char *name, ars__why *why) {
    if (n > (column.size - *at) / item) return bad(why, "the column of %s is too short for its traces", name);
    *at += (size_t)n * item;
    return true;
}

/* Trace i of a TRACES message, whose items begin at these bytes of the columns. */
static bool view_at(const ars__bytes columns[ARS__COLUMNS], const size_t at[ARS__COLUMNS], uint32_t i,
                    ars__trace_view *v, ars__why *why) {
    const unsigned char *begin[ARS__COLUMNS];
    for (int c = 0; c < ARS__COLUMNS; c++) begin[c] = (const unsigned char *)columns[c].data + at[c];
    memcpy(&v->trace, (const unsigned char *)columns[0].data + (size_t)i * sizeof v->trace, sizeof v->trace);
    v->samples = begin[ARS__COLUMN_SAMPLES];
    v->observes = begin[ARS__COLUMN_OBSERVES];
    v->results = begin[ARS__COLUMN_RESULTS];
    v->loops = begin[ARS__COLUMN_LOOPS];
    v->values = begin[ARS__COLUMN_VALUES];
    v->tries = begin[ARS__COLUMN_TRIES];
    v->rejected = begin[ARS__COLUMN_REJECTED];
    size_t tries = (columns[ARS__COLUMN_TRIES].size - at[ARS__COLUMN_TRIES]) / sizeof(struct ars_wire_try);
    if (v->trace.n_tries > tries) return bad(why, "the column of tries is too short for its traces");
    size_t room = (columns[ARS__COLUMN_REJECTED].size - at[ARS__COLUMN_REJECTED]) / sizeof(struct ars_wire_sample);
    return ars__count_rejected(v->tries, v->trace.n_tries, room, &v->n_rejected, why);
}

bool ars__check_traces(ars__bytes frame, const ars__bytes columns[ARS__COLUMNS], ars__known_sites sites,
                       ars__why *why) {
    static const char *const names[ARS__COLUMNS] = {"traces", "samples",  "observes", "results", "loops",
                                                    "values", "failures", "tries",    "rejected"};
    struct ars_wire_header h;
    if (!ars__check_header(frame.data, frame.size, &h, why)) return false;
    if (h.type != ARS_MSG_TRACES) return bad(why, "message type %u is not TRACES", (unsigned)h.type);
    if (!h.count) return bad(why, "TRACES of 0 traces");
    if (h.size != sizeof h) return bad(why, "TRACES' header frame has %u bytes", h.size);
    if (columns[0].size / sizeof(struct ars_wire_trace) != h.count || columns[0].size % sizeof(struct ars_wire_trace))
        return bad(why, "TRACES counts %u traces and has %zu bytes of them", h.count, columns[0].size);
    size_t at[ARS__COLUMNS] = {0};
    for (uint32_t i = 0; i < h.count; i++) {
        ars__trace_view v;
        if (!view_at(columns, at, i, &v, why)) return false;
        const uint32_t n[ARS__COLUMNS] = {1,
                                          v.trace.n_samples,
                                          v.trace.n_observes,
                                          v.trace.n_results,
                                          v.trace.n_loops,
                                          v.trace.n_values,
                                          v.trace.failure != 0,
                                          v.trace.n_tries,
                                          v.n_rejected};
        static const size_t item[ARS__COLUMNS] = {
            sizeof(struct ars_wire_trace),   sizeof(struct ars_wire_sample), sizeof(struct ars_wire_values),
            sizeof(struct ars_wire_result),  sizeof(struct ars_wire_loop),   sizeof(double),
            sizeof(struct ars_wire_failure), sizeof(struct ars_wire_try),    sizeof(struct ars_wire_sample)};
        size_t failure_at = at[ARS__COLUMN_FAILURES];
        for (int c = 0; c < ARS__COLUMNS; c++)
            if (!skip_items(columns[c], &at[c], n[c], item[c], names[c], why)) return false;
        if (!ars__check_trace(&v, sites, why)) return false;
        if (v.trace.failure) {
            struct ars_wire_failure f;
            const unsigned char *bytes = (const unsigned char *)columns[ARS__COLUMN_FAILURES].data + failure_at;
            if (!ars__check_failure(bytes, sites, why)) return false;
            memcpy(&f, bytes, sizeof f);
            if (f.trace != v.trace.trace || f.kind != v.trace.failure)
                return bad(why, "a failure does not belong to its trace");
        }
    }
    for (int c = 0; c < ARS__COLUMNS; c++)
        if (at[c] != columns[c].size)
            return bad(why, "%zu bytes too many in the column of %s", columns[c].size - at[c], names[c]);
    return true;
}

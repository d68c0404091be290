/* observe.c: data: given by the controller, held by the program, or simulated; and factors.
 *
 * In a posterior run a number that is given is scored. A given NaN means "not observed": the value is then simulated from the
 * trace's own stream and adds nothing to the likelihood. A draw from its distribution with weight 1 integrates it out, also
 * where the program goes on to use it. In all other runs, and in the plain simulator, data are simulated: also those that the
 * program holds, or training would see the same data in every trace. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api.h"
#include "data.h"
#include "dist_vector.h"
#include "fail.h"
#include "loops.h"
#include "sites.h"
#include "trace.h"

/* One call: n numbers under one name. */
struct observed {
    const char *what; /* the call */
    const char *name;
    const double *data; /* given; NULL: simulate */
    size_t n;
    bool held; /* the data are the program's own */
};

/* -inf is a likelihood of 0; a sum that is too large for a double is a mistake, and says so where it happens. */
static void add_log_likelihood(const char *what, const char *name, double log_p) {
    double before = ars__me.trace.log_likelihood, sum = before + log_p;
    if (sum == INFINITY)
        ars__fail(
            ARS_FAIL_NAN, 0,
            "%s(\"%.80s\"): the trace's log likelihood overflowed: it was %g, and %g was added. Check the units of "
            "the terms, and that each is the log of a likelihood",
            what, name, before, log_p);
    ars__me.trace.log_likelihood = sum;
}

/* A value that no parameters could give is a mistake in the data. One that these parameters cannot give, such as one above
 * the upper end of a Uniform, has likelihood 0: the end may be a latent. */
static void check_given(const struct observed *o, size_t at, const ars_dist *d) {
    const char *must;
    const int wrong = ars__vector_support(d, o->data + at, &must);
    if (wrong < 0) return;
    const size_t i = at + (size_t)wrong;
    char where[60] = "", *of = "given";
    if (o->held && o->n > 1) snprintf(where, sizeof where, " (element %zu of %zu)", i, o->n);
    if (o->held)
        of = "that the program holds";
    else
        ars__data_place(o->name, o->n - i, where, sizeof where);
    ars__fail(ARS_FAIL_OBSERVATION, 0,
              "the value %.12g%s %s for \"%.80s\" is impossible: the simulator observes it from a %s, whose values are "
              "%s. Correct %s",
              o->data[i], where, of, o->name, ars__dist_name(d->kind), must,
              o->held ? "the program, or give other data in observe=" : "observe=");
}

static void record_observed(const struct observed *o, unsigned kind, const double *values, double log_p) {
    struct ars__trace *t = &ars__me.trace;
    const bool given = o->data != NULL;
    if (isnan(log_p) || (given && log_p == INFINITY))
        ars__fail(ARS_FAIL_NAN, 0, "the log likelihood of \"%.80s\" is %g", o->name, log_p);
    struct ars_wire_values record = {ars__site_id(o->name, ARS_SITE_OBSERVE, kind), given ? 0 : (uint32_t)o->n, log_p};
    ars__buffer_add(&t->observes, &record, sizeof record);
    if (given)
        add_log_likelihood(o->what, o->name, log_p);
    else
        ars__buffer_add(&t->observed, values, o->n * sizeof *values);
}

/* ---- one number ------------------------------------------------------------------------------------------------------ */

/* `literal`: the program's own value; NULL: it has none. */
static __attribute__((noinline)) double observe(const char *caller, enum ars__call call, const char *name,
                                                const ars_dist *d, const double *literal) {
    const char *what = ars__call_name(call);
    ars__check_call(caller, call, name);
    ars__check_parameters(d, what, name);
    bool alone = ars__me.role == ARS__ALONE;
    if (!alone) ars__check_no_loop(what, name);
    int kept = errno;
    struct observed o = {what, name, NULL, 1, false};
    if (!alone) o.data = ars__data_take(name, 1, literal, &o.held);
    const bool observed = o.data && !isnan(*o.data);
    if (observed) check_given(&o, 0, d);
    double value = observed ? *o.data : ars__dist_sample(d, &ars__me.rng);
    if (!alone) {
        double log_p = o.data && !observed ? 0 : ars__dist_log_density(d, value);
        record_observed(&o, d->kind, &value, log_p);
    }
    errno = kept;
    return value;
}

double ars_observe(const char *name, ars_dist d) {
    double drawn = ars__quick(name, &d);
    return isnan(drawn) ? observe(ARS__CALLER(sizeof d), ARS__CALL_OBSERVE, name, &d, NULL) : drawn;
}

double ars_observe_value(const char *name, ars_dist d, double value) {
    double drawn = ars__quick(name, &d);
    return isnan(drawn) ? observe(ARS__CALLER(sizeof d), ARS__CALL_OBSERVE_VALUE, name, &d, &value) : drawn;
}

/* ---- many ------------------------------------------------------------------------------------------------------------ */

/* Where the numbers go that were observed or drawn: to the caller, or, if they have to be sent, to memory that
 * `forget` frees; NULL: nobody looks at them. */
static double *make_room(const struct observed *o, double *value) {
    if (o->data || value) return value;
    double *room = malloc((o->n ? o->n : 1) * sizeof *room);
    if (!room) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for %zu observations of \"%.80s\"", o->n, o->name);
    return room;
}

/* Element `d`, whose numbers begin at `at`: the log density that counts. */
static double observe_element(const struct observed *o, const ars_dist *d, size_t at, double *values) {
    const size_t width = ars__dist_width(d);
    size_t missing = 0;
    for (size_t i = 0; o->data && i < width; i++) missing += isnan(o->data[at + i]) != 0;
    if (missing && missing < width)
        ars__fail(ARS_FAIL_OBSERVATION, 0,
                  "%s(\"%.80s\"): %zu of the %zu numbers of a %s were not observed (NaN): observe all of them, or none",
                  o->what, o->name, missing, width, ars__dist_name(d->kind));
    if (o->data && !missing) {
        check_given(o, at, d);
        if (values)
            for (size_t i = 0; i < width; i++) values[at + i] = o->data[at + i];
        return ars__dist_log_density_at(d, o->data + at);
    }
    if (!values) return 0;
    ars__dist_draw(d, &ars__me.rng, values + at);
    return o->data ? 0 : ars__dist_log_density_at(d, values + at);
}

/* The kind that the site is announced with: 0, if there are several. */
static unsigned common_kind(const ars_dist *d, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (d[i].kind != d[0].kind) return 0;
    return d[0].kind;
}

static void observe_many(const char *caller, enum ars__call call, const char *name, const ars_dist *d, size_t n,
                         const double *literal, double *value) {
    struct observed o = {ars__call_name(call), name, NULL, 0, false};
    ars__check_call(caller, call, name);
    if (n && (!d || (call == ARS__CALL_OBSERVE_VALUES && !literal)))
        ars__fail(ARS_FAIL_MISUSE, 0, "%s(\"%.80s\"): %s is NULL, must point to %zu of them", o.what, name,
                  d ? "given" : "d", n);
    for (size_t i = 0; i < n; i++) {
        ars__check_element(d, i, o.what, name);
        o.n += ars__dist_width(&d[i]);
    }
    bool alone = ars__me.role == ARS__ALONE;
    if (!alone) ars__check_no_loop(o.what, name);
    if (!n) return; /* nothing is observed, from no kind: nothing to give or to record */
    int kept = errno;
    if (!alone) o.data = ars__data_take(name, o.n, literal, &o.held);
    double *values = make_room(&o, value), log_p = 0;
    for (size_t i = 0, at = 0; i < n; at += ars__dist_width(&d[i++])) log_p += observe_element(&o, &d[i], at, values);
    if (!alone) record_observed(&o, common_kind(d, n), values, log_p);
    if (values != value) free(values);
    errno = kept;
}

void ars_observe_vector(const char *name, const ars_dist *d, size_t n, double *value) {
    observe_many(ARS__CALLER(0), ARS__CALL_OBSERVE_VECTOR, name, d, n, NULL, value);
}

void ars_observe_values(const char *name, const ars_dist *d, size_t n, const double *given, double *value) {
    observe_many(ARS__CALLER(0), ARS__CALL_OBSERVE_VALUES, name, d, n, given, value);
}

void ars_observe_normals(const char *name, const double *mean, const double *std, size_t n, double *value) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_OBSERVE_NORMALS, name);
    bool alone = ars__me.role == ARS__ALONE;
    if (!alone) ars__check_no_loop("ars_observe_normals", name);
    int kept = errno;
    struct observed o = {"ars_observe_normals", name, NULL, n, false};
    if (!alone) o.data = ars__data_take(name, n, NULL, &o.held);
    double *drawn = make_room(&o, value), log_p = 0;
    for (size_t i = 0; i < n; i++) {
        ars_dist d = ars_normal(mean[i], std[i]);
        ars__check_parameters(&d, "ars_observe_normals", name);
        const bool observed = o.data && !isnan(o.data[i]);
        if (o.data && !observed && !drawn) continue; /* nobody looks at it */
        double x = observed ? o.data[i] : ars__dist_sample(&d, &ars__me.rng);
        if (drawn) drawn[i] = x;
        if (observed || !o.data) log_p += ars__dist_log_density(&d, x);
    }
    if (!alone) record_observed(&o, ARS_DIST_NORMAL, drawn, log_p);
    if (drawn != value) free(drawn);
    errno = kept;
}

const double *ars_given(const char *name, size_t *n) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_GIVEN, name);
    if (!n) ars__fail(ARS_FAIL_MISUSE, 0, "ars_given(\"%.80s\"): n is NULL", name);
    *n = 0;
    return ars__me.role == ARS__ALONE ? NULL : ars__data_look(name, n);
}

/* ---- factors ---------------------------------------------------------------------------------------------------------- */

void ars_factor(const char *name, double log_likelihood) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_FACTOR, name);
    if (isnan(log_likelihood) || log_likelihood == INFINITY)
        ars__fail(ARS_FAIL_NAN, 0, "ars_factor(\"%.80s\"): the log likelihood is %g", name, log_likelihood);
    if (ars__me.role == ARS__ALONE) return;
    ars__check_no_loop("ars_factor", name);
    add_log_likelihood("ars_factor", name, log_likelihood);
}

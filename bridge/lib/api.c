/* api.c: the calls of ars.h, but for data (observe.c) and loops. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api.h"
#include "ask.h"
#include "continuation.h"
#include "fail.h"
#include "family.h"
#include "given.h"
#include "loops.h"
#include "policy.h"
#include "process.h"
#include "scopes.h"
#include "sites.h"
#include "thread_owner.h"
#include "trace.h"
#include "unnamed.h"

/* ---- traces ------------------------------------------------------------------------------------------------------------ */

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    if (!text || !*text) return otherwise;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || *text == '-') {
        fprintf(stderr, "libars: %s is \"%s\", must be a whole number of at least 0\n", variable, text);
        exit(2);
    }
    return value;
}

static void decide(void) {
    if (ars__controlled()) {
        ars__policy_from_outside();
        ars__me.ignores_names = number_from("ARS_CALL_PATHS", 0) != 0;
        ars__split();
        return;
    }
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) random = (uint64_t)(uintptr_t)&random;
    ars__me.seed = number_from("ARS_SEED", random);
    ars__me.traces_left = number_from("ARS_TRACES", 1);
    ars__me.trace_number = UINT64_MAX;
    ars__me.role = ARS__ALONE;
}

static bool next_alone(void) {
    if (!(ars__me.in_trace = ars__me.traces_left > 0)) return false;
    ars__me.traces_left--;
    ars__me.trace_number++;
    ars__scopes_reset();
    ars__rng_init(&ars__me.rng, ars__me.seed, ars__me.trace_number, 0);
    return true;
}

static bool next_trace(struct ars__origin origin) {
    int kept = errno;
    if (ars__me.role != ARS__FOREIGN) ars__thread_claim();
    if (ars__me.role == ARS__UNDECIDED) decide();
    if (ars__me.role == ARS__FOREIGN) ars__fail(ARS_FAIL_MISUSE, 0, "ars_next_trace was called");
    if (ars__continuing()) ars__loops_reset();
    bool alone = ars__me.role == ARS__ALONE;
    bool more = alone ? next_alone() : ars__worker_next();
    if (alone) ars__thread = more ? ARS__PLAIN : ARS__OWNER;
    if (!alone) ars__path_root(&ars__me.kept->paths, &origin);
    errno = kept;
    return more;
}

bool ars_next_trace(void) {
    return next_trace(ars__origin_here(__builtin_frame_address(0), __builtin_return_address(0), 0));
}

int ars_main(int argc, char **argv, void (*model)(void *), void *user) {
    (void)argc;
    (void)argv;
    const struct ars__origin here = ars__origin_here(__builtin_frame_address(0), NULL, (uintptr_t)model);
    while (next_trace(here)) model(user);
    return 0;
}

bool ars_in_trace(void) {
    return ars__me.in_trace;
}

bool ars_in_continuation(void) {
    return ars__continuing();
}

bool ars_in_loop(void) {
    return ars__me.loops.depth > 0;
}

bool ars_standalone(void) {
    return ars__me.role == ARS__ALONE || (ars__me.role == ARS__UNDECIDED && !ars__controlled());
}

#define TEXT_OF(number) #number
#define VERSION(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *ars_version(void) {
    return VERSION(ARS_VERSION_MAJOR, ARS_VERSION_MINOR, ARS_VERSION_PATCH);
}

/* ---- checks ------------------------------------------------------------------------------------------------------------- */

#define CALLER(bytes_on_stack) ARS__CALLER(bytes_on_stack)

void ars__check_call(const char *caller, enum ars__call call, const char *name) {
    const char *what = ars__call_name(call);
    ars__thread_check(call);
    if (!ars__me.in_trace)
        ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
                  "%s(\"%.80s\") was called outside a trace: call it from the model that ars_main runs, or after "
                  "ars_next_trace has returned true",
                  what, name ? name : "");
    if (!name || !*name) ars__fail(ARS_FAIL_MISUSE, 0, "%s needs a name that is not empty", what);
    if (ars__me.loops.depth) ars__loops_check(caller, what, name);
}

void ars__check_parameters(const ars_dist *d, const char *what, const char *name) {
    char why[256];
    if (ars__dist_check(d, why, sizeof why) != 0)
        ars__fail(ARS_FAIL_PARAMETER, 0, "%s(\"%.80s\"): %s", what, name, why);
}

void ars__check_no_loop(const char *what, const char *name) {
    struct ars__loop *top = ars__top(&ars__me.loops);
    if (!top) return;
    char loop[200];
    ars__loop_name(top->mark, loop, sizeof loop);
    ars__fail(ARS_FAIL_OBSERVE_IN_LOOP, 0,
              "%s(\"%.80s\") was called inside the loop %s. Observe after the loop; if the loop was over, it was left "
              "without rs_end or ars_loop_accept",
              what, name, loop);
}

/* ---- random choices ------------------------------------------------------------------------------------------------------ */

static void record_params(struct ars_wire_sample *record, const ars_dist *prior) {
    unsigned char encoded[8 + 8 * ARS_WIRE_MAX_CATEGORIES];
    size_t size = ars__dist_encode(prior, encoded, sizeof encoded) - sizeof(struct ars_wire_dist);
    ars__buffer_add(&ars__me.trace.params, encoded + sizeof(struct ars_wire_dist), size);
    record->n_params = (uint16_t)(size / 8);
}

_Noreturn static void fail_draw(uint32_t site_id, double value, double log_p, double log_q) {
    int n;
    const char *address = ars__site_address(site_id, &n);
    ars__fail(ARS_FAIL_NAN, 0, "ars_sample(\"%.*s\"): the draw is %g with log p = %g and log q = %g", n > 200 ? 200 : n,
              address, value, log_p, log_q);
}

double ars__sample_at(uint32_t site_id, const ars_dist *prior, bool inside) {
    struct ars__trace *t = &ars__me.trace;
    uint32_t instance = ars__instance_take(site_id);
    ars_dist proposal = *prior;
    if (!ars__prior_proposes(site_id)) ars__propose(site_id, instance, prior, &proposal);
    bool given = proposal.kind == ARS_DIST_GIVEN && ars__given_take(prior, &proposal);
    double value = given ? proposal.a[0] : ars__dist_sample(&proposal, &ars__me.rng);
    /* Rounded to the edge: the densities are those of the neighbour that is used. Beyond the edge: p is 0 there. */
    const double edge = value < 0.5 ? nextafter(0, 1) : nextafter(1, 0);
    if (inside && (value == 0 || value == 1)) value = edge;
    bool is_prior = proposal.kind == prior->kind && memcmp(&proposal, prior, sizeof proposal) == 0;
    /* A continuation keeps the ratio only, and where the prior proposes that is 1 whatever the density. */
    double log_p = is_prior && ars__continuing() ? 0 : ars__dist_log_density(prior, value);
    double log_q = is_prior ? log_p : given ? 0 : ars__dist_log_density(&proposal, value);
    if (!isfinite(value) || !isfinite(log_q) || isnan(log_p)) fail_draw(site_id, value, log_p, log_q);
    const struct ars__loop *top = ars__top(&ars__me.loops);
    struct ars_wire_sample record = {.site_id = site_id,
                                     .instance = instance,
                                     .loop = top ? top->record : -1,
                                     .prior = (uint16_t)prior->kind,
                                     .value = value,
                                     .log_p = log_p,
                                     .log_q = log_q};
    if (ars__me.flags & ARS_RUN_RECORD_PRIORS) record_params(&record, prior);
    ars__buffer_add(&t->samples, &record, sizeof record);
    t->log_ratio_all += log_p - log_q;
    /* A continuation's draws are none of the loops around the one that it estimates. */
    for (size_t i = ars__me.root ? ars__me.root - 1 : 0; i < ars__me.loops.depth; i++)
        ars__me.loops.at[i].try_ratio += log_p - log_q;
    return inside && !(value > 0 && value < 1) ? edge : value;
}

double ars__sample_latent(const char *name, const ars_dist *prior) {
    return ars__sample_at(ars__site_id(name, ARS_SITE_SAMPLE, prior->kind), prior, false);
}

static __attribute__((noinline)) double sample(const char *caller, const char *name, const ars_dist *d) {
    ars__check_call(caller, ARS__CALL_SAMPLE, name);
    ars__check_parameters(d, "ars_sample", name);
    int kept = errno;
    bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    double value = plain ? ars__dist_sample(d, &ars__me.rng) : ars__sample_latent(name, d);
    errno = kept;
    return value;
}

double ars_sample(const char *name, ars_dist d) {
    double drawn = ars__quick(name ? name : "unnamed", &d);
    if (!isnan(drawn)) return drawn;
    if (name && !ars__me.ignores_names) return sample(CALLER(sizeof d), name, &d);
    drawn = ars__sample_unnamed(ARS__CALL_HERE(), CALLER(sizeof d), &d);
    ARS__KEEP_FRAME();
    return drawn;
}

static __attribute__((noinline)) double draw_nuisance(const char *caller, const ars_dist *d) {
    ars__check_call(caller, ARS__CALL_DRAW, "nuisance");
    ars__check_parameters(d, "ars_draw", "nuisance");
    int kept = errno;
    double value = ars__dist_sample(d, &ars__me.rng);
    errno = kept;
    return value;
}

double ars_draw(ars_dist d) {
    double drawn = ars__quick("nuisance", &d);
    return isnan(drawn) ? draw_nuisance(CALLER(sizeof d), &d) : drawn;
}

/* A generator that initialises itself draws before the first trace, where there is nothing to record. The seed is fixed: every
 * process of every run, whatever its own seed, then has a generator in the same state. */
double ars__outside_flat(void) {
    if (!ars__me.has_outside) ars__rng_init(&ars__me.outside, 0, UINT64_MAX, UINT64_MAX);
    ars__me.has_outside = true;
    return ars__rng_uniform(&ars__me.outside);
}

/* Only the thread that runs a trace can fail it. */
double ars_log_density(ars_dist d, double x) {
    char why[256];
    if (ars__dist_check(&d, why, sizeof why) != 0) {
        if (ars__thread == ARS__STRANGER || !ars__me.in_trace) return NAN;
        ars__fail(ARS_FAIL_PARAMETER, 0, "ars_log_density: %s", why);
    }
    int kept = errno;
    double log_p = ars__dist_log_density(&d, x);
    errno = kept;
    return log_p;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

/* `axes`: the lengths of n_dims axes, as doubles, which come before the n values. */
static void add_results(const char *name, const double *value, size_t n, const double *axes, size_t n_dims) {
    if (ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P) return;
    for (size_t i = 0; i < n; i++)
        if (isnan(value[i])) ars__fail(ARS_FAIL_NAN, 0, "the result \"%.80s\" is NaN (element %zu of %zu)", name, i, n);
    int kept = errno;
    struct ars_wire_result record = {ars__site_id(name, ARS_SITE_RESULT, 0), (uint32_t)(n + n_dims), (uint32_t)n_dims,
                                     0};
    ars__buffer_add(&ars__me.trace.results, &record, sizeof record);
    if (n_dims) ars__buffer_add(&ars__me.trace.resulted, axes, n_dims * sizeof *axes);
    ars__buffer_add(&ars__me.trace.resulted, value, n * sizeof *value);
    errno = kept;
}

void ars_result(const char *name, double value) {
    ars__check_call(CALLER(0), ARS__CALL_RESULT, name);
    add_results(name, &value, 1, NULL, 0);
}

void ars_results(const char *name, const double *value, size_t n) {
    ars__check_call(CALLER(0), ARS__CALL_RESULTS, name);
    add_results(name, value, n, NULL, 0);
}

void ars_results_shaped(const char *name, const double *value, const size_t *shape, size_t n_dims) {
    ars__check_call(CALLER(0), ARS__CALL_RESULTS_SHAPED, name);
    double axes[ARS_WIRE_MAX_DIMS], product = 1;
    if (n_dims > ARS_WIRE_MAX_DIMS)
        ars__fail(ARS_FAIL_LIMIT, 0, "ars_results_shaped(\"%.80s\"): %zu axes, at most %d are allowed", name, n_dims,
                  (int)ARS_WIRE_MAX_DIMS);
    if (n_dims && !shape)
        ars__fail(ARS_FAIL_MISUSE, 0, "ars_results_shaped(\"%.80s\"): shape is NULL, must point to %zu lengths", name,
                  n_dims);
    for (size_t i = 0; i < n_dims; i++) product *= axes[i] = (double)shape[i];
    if (product > ARS__MAX_RECORD)
        ars__fail(ARS_FAIL_LIMIT, 0,
                  "ars_results_shaped(\"%.80s\"): the shape has %g elements, a trace has room for %d", name, product,
                  (int)(ARS__MAX_RECORD / sizeof(double)));
    add_results(name, value, (size_t)product, axes, n_dims);
}

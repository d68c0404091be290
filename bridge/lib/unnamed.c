/* unnamed.c: draws that are named by their call path. */
#define _GNU_SOURCE
#include "unnamed.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "loops.h"
#include "policy.h"
#include "process.h"
#include "scopes.h"
#include "sites.h"
#include "thread_owner.h"

static double sample(enum ars__call call, struct ars__caller caller, const char *pointer, const ars_dist *d) {
    const char *what = ars__call_name(call);
    ars__thread_check(call);
    if (!ars__me.in_trace)
        ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
                  "%s was called outside a trace: call it from the model that ars_main runs, or after ars_next_trace "
                  "has returned true",
                  what);
    if (ars__me.loops.depth) ars__loops_check(pointer, what, NULL);
    char why[256];
    if (ars__dist_check(d, why, sizeof why) != 0) ars__fail(ARS_FAIL_PARAMETER, 0, "%s(NULL): %s", what, why);
    int kept = errno;
    double value;
    if (ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P) {
        value = ars__dist_sample(d, &ars__me.rng);
    } else {
        char name[ARS_WIRE_MAX_NAME + 1];
        size_t used = ars__scopes_write(name, sizeof name);
        Dl_info info = {0};
        const char *symbol = dladdr(caller.result, &info) && info.dli_sname ? info.dli_sname : "?";
        snprintf(name + used, sizeof name - used, "%s%s%s", symbol, call == ARS__CALL_FLAT ? "" : ":",
                 call == ARS__CALL_FLAT ? "" : ars__dist_name(d->kind));
        value = ars__policy_is_nuisance(name) ? ars__dist_sample(d, &ars__me.rng)
                                              : ars__sample_at(ars__site_id(name, ARS_SITE_SAMPLE, d->kind), name, d,
                                                               call == ARS__CALL_FLAT);
    }
    errno = kept;
    return value;
}

static __attribute__((noinline)) double flat(struct ars__caller caller) {
    const ars_dist unit = {.kind = ARS_DIST_UNIFORM, .a = {0, 1}};
    return sample(ARS__CALL_FLAT, caller, caller.frame + 16, &unit);
}

double ars_flat(void) {
    return ars__thread == ARS__PLAIN ? ars__rng_uniform(&ars__me.rng) : flat(ARS__CALLER_HERE());
}

double ars__sample_unnamed(struct ars__caller caller, size_t on_stack, const ars_dist *d) {
    return sample(ARS__CALL_SAMPLE, caller, caller.frame + 16 + on_stack, d);
}

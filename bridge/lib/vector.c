/* vector.c: the calls of ars.h that draw several values at once. */
#include <errno.h>

#include "api.h"
#include "fail.h"
#include "loops.h"
#include "process.h"

static void check_element(const ars_dist *d, size_t i, const char *what, const char *name) {
    char why[256];
    if (ars__dist_check(d, why, sizeof why) != 0)
        ars__fail(ARS_FAIL_PARAMETER, 0, "%s(\"%.80s\"), element %zu: %s", what, name, i, why);
}

void ars_sample_vector(const char *name, const ars_dist *d, size_t n, double *values) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_SAMPLE_VECTOR, name);
    for (size_t i = 0; i < n; i++) check_element(&d[i], i, "ars_sample_vector", name);
    const bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    int kept = errno;
    for (size_t i = 0; i < n; i++)
        values[i] = plain ? ars__dist_sample(&d[i], &ars__me.rng) : ars__sample_latent(name, &d[i]);
    errno = kept;
}

void ars_draw_vector(const ars_dist *d, size_t n, double *values) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_DRAW_VECTOR, "nuisance");
    for (size_t i = 0; i < n; i++) check_element(&d[i], i, "ars_draw_vector", "nuisance");
    int kept = errno;
    for (size_t i = 0; i < n; i++) values[i] = ars__dist_sample(&d[i], &ars__me.rng);
    errno = kept;
}

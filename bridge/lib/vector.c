/* vector.c: the calls of ars.h that draw several values at once. */
#include <errno.h>

#include "api.h"
#include "dist_vector.h"
#include "fail.h"
#include "loops.h"
#include "process.h"
#include "unnamed.h"
#include "where.h"

void ars__check_element(const ars_dist *d, size_t i, const char *what, const char *name) {
    char why[256];
    if (ars__vector_check(&d[i], why, sizeof why) != 0)
        ars__fail(ARS_FAIL_PARAMETER, 0, "%s(\"%.80s\"), element %zu: %s", what, name, i, why);
}

static void check_elements(const ars_dist *d, size_t n, const double *values, const char *what, const char *name) {
    if (n && (!d || !values))
        ars__fail(ARS_FAIL_MISUSE, 0, "%s(\"%.80s\"): %s is NULL, with n = %zu", what, name, d ? "values" : "d", n);
    for (size_t i = 0; i < n; i++) ars__check_element(d, i, what, name);
}

/* Coordinate by coordinate, each a latent. Returns where the next element's values go. */
static double *sample_coordinates(const char *name, const ars_dist *d, double *values) {
    ars__drawing drawing;
    ars_dist coordinate;
    ars__drawing_begin(&drawing, d);
    for (; drawing.at < d->n && ars__drawing_next(&drawing, &coordinate, values); values++) {
        *values = ars__sample_latent(name, &coordinate);
        ars__drawing_take(&drawing, &coordinate, *values);
    }
    return drawing.at < d->n ? values + 1 : values;
}

/* Without a name: one path, so one site, as with n calls of ars_sample(NULL, d[i]) from the same place. */
static void sample_unnamed(struct ars__call_at at, const char *caller, const ars_dist *d, size_t n, double *values) {
    check_elements(d, n, values, "ars_sample_vector", "NULL");
    for (size_t i = 0; i < n; i++) {
        if (ars__is_vector(&d[i]))
            ars__fail(ARS_FAIL_MISUSE, 0, "ars_sample_vector(NULL): a draw from a %s needs a name",
                      ars__dist_name(d[i].kind));
        values[i] = ars__sample_unnamed(at, caller, &d[i]);
    }
}

void ars_sample_vector(const char *name, const ars_dist *d, size_t n, double *values) {
    if (!name) {
        sample_unnamed(ARS__CALL_HERE(), ARS__CALLER(0), d, n, values);
        ARS__KEEP_FRAME();
        return;
    }
    ars__check_call(ARS__CALLER(0), ARS__CALL_SAMPLE_VECTOR, name);
    check_elements(d, n, values, "ars_sample_vector", name);
    const bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    int kept = errno;
    for (size_t i = 0; i < n; i++) {
        if (plain) {
            ars__dist_draw(&d[i], &ars__me.rng, values);
            values += ars__dist_width(&d[i]);
        } else if (ars__is_vector(&d[i])) {
            values = sample_coordinates(name, &d[i], values);
        } else {
            *values++ = ars__sample_latent(name, &d[i]);
        }
    }
    errno = kept;
}

void ars_draw_vector(const ars_dist *d, size_t n, double *values) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_DRAW_VECTOR, "nuisance");
    check_elements(d, n, values, "ars_draw_vector", "nuisance");
    int kept = errno;
    for (size_t i = 0; i < n; i++) {
        ars__dist_draw(&d[i], &ars__me.rng, values);
        values += ars__dist_width(&d[i]);
    }
    errno = kept;
}

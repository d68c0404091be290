/* vector.c: the calls of ars.h that draw several values at once. */
#include <errno.h>

#include "api.h"
#include "ask.h"
#include "dist_vector.h"
#include "fail.h"
#include "loops.h"
#include "process.h"
#include "sites.h"
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

static void check_one_kind(const ars_dist *d, size_t n, const char *name) {
    for (size_t i = 1; i < n; i++)
        if (d[i].kind != d->kind)
            ars__fail(ARS_FAIL_SITE_CHANGED, 0,
                      "ars_sample_vector(\"%.80s\"): element 0 is %s and element %zu is %s; a name keeps one kind of "
                      "distribution",
                      name, ars__dist_name(d->kind), i, ars__dist_name(d[i].kind));
}

static void draw_all(const ars_dist *d, size_t n, double *values) {
    for (size_t i = 0; i < n; i++) {
        ars__dist_draw(&d[i], &ars__me.rng, values);
        values += ars__dist_width(&d[i]);
    }
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

static void sample_scalars(uint32_t site_id, const ars_dist *d, size_t n, double *values) {
    for (size_t i = 0; i < n; i++) {
        if (!ars__me.waiting.n && i + 1 < n) {
            uint32_t instance = ars__instance_take(site_id);
            ars__instance_give_back(site_id);
            ars__propose_together(site_id, instance, &d[i], n - i);
        }
        values[i] = ars__sample_at(site_id, &d[i], false);
    }
    ars__forget_waiting();
}

/* Without a name: one path, so one site, as with n calls of ars_sample(NULL, d[i]) from the same place. */
static void sample_unnamed(struct ars__call_at at, const char *caller, const ars_dist *d, size_t n, double *values) {
    if (!n) return;
    check_elements(d, n, values, "ars_sample_vector", "NULL");
    check_one_kind(d, n, "NULL");
    if (ars__is_vector(d))
        ars__fail(ARS_FAIL_MISUSE, 0, "ars_sample_vector(NULL): a draw from a %s needs a name",
                  ars__dist_name(d->kind));
    const int kept = errno;
    const uint32_t site_id = ars__unnamed_site(at, caller, d);
    if (site_id == ARS_NO_SITE)
        draw_all(d, n, values);
    else
        sample_scalars(site_id, d, n, values);
    errno = kept;
}

void ars_sample_vector(const char *name, const ars_dist *d, size_t n, double *values) {
    if (!name) {
        sample_unnamed(ARS__CALL_HERE(), ARS__CALLER(0), d, n, values);
        ARS__KEEP_FRAME();
        return;
    }
    ars__check_call(ARS__CALLER(0), ARS__CALL_SAMPLE_VECTOR, name);
    check_elements(d, n, values, "ars_sample_vector", name);
    check_one_kind(d, n, name);
    const bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    int kept = errno;
    if (plain)
        draw_all(d, n, values);
    else if (n && ars__is_vector(d))
        for (size_t i = 0; i < n; i++) values = sample_coordinates(name, &d[i], values);
    else
        sample_scalars(n ? ars__site_id(name, ARS_SITE_SAMPLE, d->kind) : ARS_NO_SITE, d, n, values);
    errno = kept;
}

void ars_draw_vector(const ars_dist *d, size_t n, double *values) {
    ars__check_call(ARS__CALLER(0), ARS__CALL_DRAW_VECTOR, "nuisance");
    check_elements(d, n, values, "ars_draw_vector", "nuisance");
    int kept = errno;
    draw_all(d, n, values);
    errno = kept;
}

/* batch.c: see batch.h. */
#include "batch.h"

#include <stdio.h>
#include <string.h>

#include "dist.h"

int ars__batch_check(const void *bytes, size_t size, size_t count, char *text, size_t text_size) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) {
        ars_dist d;
        char why[256];
        size_t used = ars__dist_decode(&d, at, size, why, sizeof why);
        if (!used) {
            if (count == 1) {
                snprintf(text, text_size, "%s", why);
            } else {
                snprintf(text, text_size, "row %zu: %s", i, why);
            }
            return -1;
        }
        at += used;
        size -= used;
    }
    if (size) {
        snprintf(text, text_size, "%zu bytes are left over after the last distribution", size);
        return -1;
    }
    return 0;
}

/* What every call below starts with: counts that fit, and distributions that decode. */
static int check_call(const void *bytes, size_t size, size_t count, size_t n, char *text, size_t text_size) {
    if (count != 1 && count != n) {
        snprintf(text, text_size, "%zu distributions for %zu values; give one, or one per value", count, n);
        return -1;
    }
    return ars__batch_check(bytes, size, count, text, text_size);
}

/* The bytes were checked by check_call, so this succeeds. */
static size_t next(ars_dist *d, const unsigned char *at, const unsigned char *end) {
    char why[256];
    return ars__dist_decode(d, at, (size_t)(end - at), why, sizeof why);
}

/* Whether this is one to compute with. A Prior stands for another distribution. */
static bool is_whole(const ars_dist *d, const char *if_prior, char *text, size_t text_size) {
    if (d->kind == ARS_DIST_PRIOR) snprintf(text, text_size, "%s", if_prior);
    return d->kind != ARS_DIST_PRIOR;
}

int ars__batch_log_density(const void *bytes, size_t size, size_t count, const double *x, size_t n, double *out,
                           char *text, size_t text_size) {
    if (check_call(bytes, size, count, n, text, text_size)) return -1;
    const unsigned char *at = bytes, *end = at + size;
    ars_dist d;
    for (size_t i = 0; i < n; i++) {
        if (i < count) at += next(&d, at, end);
        if (!is_whole(&d, "Prior has no density of its own", text, text_size)) return -1;
        out[i] = ars__dist_log_density(&d, x[i]);
    }
    return 0;
}

int ars__batch_sample(const void *bytes, size_t size, size_t count, uint64_t seed, uint64_t trace, uint64_t stream,
                      size_t n, double *out, char *text, size_t text_size) {
    if (check_call(bytes, size, count, n, text, text_size)) return -1;
    const unsigned char *at = bytes, *end = at + size;
    ars__rng rng;
    ars__rng_init(&rng, seed, trace, stream);
    ars_dist d;
    for (size_t i = 0; i < n; i++) {
        if (i < count) at += next(&d, at, end);
        if (!is_whole(&d, "Prior cannot be sampled on its own", text, text_size)) return -1;
        out[i] = ars__dist_sample(&d, &rng);
    }
    return 0;
}

void ars__named_uniforms(uint64_t seed, const uint64_t *traces, size_t n, uint64_t stream, double *out) {
    ars__rng rng;
    for (size_t i = 0; i < n; i++) {
        ars__rng_init(&rng, seed, traces[i], stream);
        out[i] = ars__rng_uniform(&rng);
    }
}

void ars__component_densities(unsigned kind, size_t rows, size_t components, const double *params, const double *x,
                              double *out) {
    ars_dist d = {.kind = kind};
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < components; j++, params += 4) {
            memcpy(d.a, params, sizeof d.a);
            *out++ = ars__dist_log_density(&d, x[i]);
        }
    }
}

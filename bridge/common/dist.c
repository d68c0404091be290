/* dist.c: the table of distributions, their constructors, their checks, and their form on the wire. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dist_kinds.h"
#include "dist_vector.h"

#define ROW(CODE, function, label, role, drawn, order, count, ...)                                                     \
    [ARS_DIST_##CODE] = {.name = label,                                                                                \
                         .n = count,                                                                                   \
                         .use = ARS__USE_##role,                                                                       \
                         .values = ARS__##drawn,                                                                       \
                         .ordered = order,                                                                             \
                         .param = {__VA_ARGS__},                                                                       \
                         .log_density = ars__log_##function,                                                           \
                         .sample = ars__draw_##function},

const struct ars__kind ars__kinds[ARS__DIST_LAST + 1] = {
    [0] = {.name = "unknown", .ordered = -1},
    [ARS_DIST_CATEGORICAL] = {.name = "Categorical", .use = ARS__USE_PRIOR, .values = ARS__COUNTS, .ordered = -1},
    [ARS_DIST_MIXTURE] = {.name = "Mixture", .ordered = -1},
    [ARS_DIST_PRIOR] = {.name = "Prior", .ordered = -1},
    [ARS_DIST_GIVEN] = {.name = "Given", .n = 1, .ordered = -1, .param = {{"value", ARS__REAL}}},
    ARS__DIST_LIST(ROW) /* each ends with a comma */
};

/* Kinds whose parameters are a list of any length, kept by the caller. */
static bool listed(unsigned kind) {
    return kind == ARS_DIST_CATEGORICAL || kind == ARS_DIST_MIXTURE;
}

static bool known(double kind) {
    return kind >= 1 && kind <= ARS__DIST_LAST && ars__kinds[(unsigned)kind].name;
}

int ars__dist_parameters(unsigned kind) {
    return !known(kind) ? 0 : listed(kind) ? -1 : (int)ars__kinds[kind].n;
}

bool ars__dist_is_component(unsigned kind) {
    return known(kind) && ars__kinds[kind].sample;
}

bool ars__dist_is_prior(unsigned kind) {
    return known(kind) && ars__kinds[kind].use != ARS__USE_PROPOSAL;
}

bool ars__dist_is_discrete(unsigned kind) {
    return known(kind) && (ars__kinds[kind].values == ARS__BITS || ars__kinds[kind].values == ARS__COUNTS);
}

/* ---- constructors ------------------------------------------------------------------------------------------------- */

ars_dist ars_uniform(double low, double high) {
    return ars__made(ARS_DIST_UNIFORM, 2, low, high, 0, 0);
}
ars_dist ars_normal(double mean, double std) {
    return ars__made(ARS_DIST_NORMAL, 2, mean, std, 0, 0);
}
ars_dist ars_bernoulli(double p) {
    return ars__made(ARS_DIST_BERNOULLI, 1, p, 0, 0, 0);
}
ars_dist ars_poisson(double rate) {
    return ars__made(ARS_DIST_POISSON, 1, rate, 0, 0, 0);
}
ars_dist ars_binomial(unsigned n, double p) {
    return ars__made(ARS_DIST_BINOMIAL, 2, n, p, 0, 0);
}
ars_dist ars_beta(double a, double b) {
    return ars__made(ARS_DIST_BETA, 2, a, b, 0, 0);
}
ars_dist ars_gamma(double shape, double rate) {
    return ars__made(ARS_DIST_GAMMA, 2, shape, rate, 0, 0);
}
ars_dist ars_exponential(double rate) {
    return ars__made(ARS_DIST_EXPONENTIAL, 1, rate, 0, 0, 0);
}
ars_dist ars_weibull(double scale, double shape) {
    return ars__made(ARS_DIST_WEIBULL, 2, scale, shape, 0, 0);
}
ars_dist ars_lognormal(double mu, double sigma) {
    return ars__made(ARS_DIST_LOGNORMAL, 2, mu, sigma, 0, 0);
}

ars_dist ars_truncated_normal(double mean, double std, double low, double high) {
    return ars__made(ARS_DIST_TRUNCATED_NORMAL, 4, mean, std, low, high);
}

ars_dist ars_categorical(const double *p, size_t k) {
    return (ars_dist){ARS_DIST_CATEGORICAL, k < UINT_MAX ? (unsigned)k : UINT_MAX, p, {0}};
}

const char *ars__dist_name(unsigned kind) {
    return ars__kinds[known(kind) ? kind : 0].name;
}

ars_dist ars__component(const double *p) {
    unsigned kind = (unsigned)p[1];
    ars_dist d = {kind, ars__kinds[kind].n, NULL, {p[2], p[3], p[4], p[5]}};
    return d;
}

/* ---- checks ------------------------------------------------------------------------------------------------------- */

static int __attribute__((format(printf, 3, 4))) wrong(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (size) vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return -1;
}

/* What a value breaks, or NULL. */
static const char *broken_rule(enum ars__rule rule, double x) {
    switch (rule) {
    case ARS__REAL:
        return isfinite(x) ? NULL : "a finite number";
    case ARS__POSITIVE:
        return isfinite(x) && x > 0 ? NULL : "a positive finite number";
    case ARS__SHAPE:
        return x >= 1e-100 && x <= 1e100 ? NULL : "a positive number from 1e-100 to 1e100";
    case ARS__RATE:
        return x >= 0 && x <= 1e15 ? NULL : "a number from 0 to 1e15";
    case ARS__COUNT:
        return x >= 0 && x <= 4294967295. && x == floor(x) ? NULL : "a whole number from 0 to 4294967295";
    case ARS__PROBABILITY:
        return x >= 0 && x <= 1 ? NULL : "a probability from 0 to 1";
    case ARS__BOUND:
        return isnan(x) ? "a number" : NULL;
    }
    return "known";
}

static int check_scalars(const ars_dist *d, char *text, size_t size) {
    const struct ars__kind *kind = &ars__kinds[d->kind];
    for (unsigned i = 0; i < kind->n; i++) {
        const char *rule = broken_rule(kind->param[i].rule, d->a[i]);
        if (rule)
            return wrong(text, size, "%s: %s is %.12g, must be %s", kind->name, kind->param[i].name, d->a[i], rule);
    }
    if (kind->ordered < 0) return 0;
    double low = d->a[kind->ordered], high = d->a[kind->ordered + 1];
    if (!(low < high))
        return wrong(text, size, "%s: low is %.12g, must be below high, which is %.12g", kind->name, low, high);
    if (isfinite(low) && isfinite(high) && isinf(high - low))
        return wrong(text, size, "%s: low is %.12g and high is %.12g, too far apart for a double", kind->name, low,
                     high);
    return 0;
}

/* Beyond this the density's exponent overflows; nothing that far away is a meant truncation. */
static int check_truncation(const ars_dist *d, char *text, size_t size) {
    if (ars__truncate(d->a).a <= 1e100) return 0;
    return wrong(
        text, size,
        "TruncatedNormal: low is %.12g and high is %.12g, more than 1e100 times std from the mean, which is %.12g",
        d->a[2], d->a[3], d->a[0]);
}

/* The mean is a rate, with its limit. A p of 0 would never succeed. */
static int check_negative_binomial(const ars_dist *d, char *text, size_t size) {
    double r = d->a[0], p = d->a[1];
    if (r * (1 - p) <= 1e15 * p) return 0;
    return wrong(text, size, "NegativeBinomial: r is %.12g and p is %.12g, so the mean r (1 - p) / p is above 1e15", r,
                 p);
}

static int check_sum(const char *name, const char *what, double sum, char *text, size_t size) {
    if (fabs(sum - 1) <= 1e-9) return 0;
    return wrong(text, size, "%s: the %s sum to %.12g, must sum to 1", name, what, sum);
}

static int check_categorical(const ars_dist *d, char *text, size_t size) {
    if (d->n < 1 || d->n > ARS_WIRE_MAX_CATEGORIES)
        return wrong(text, size, "Categorical: k is %u, must be from 1 to %d", d->n, ARS_WIRE_MAX_CATEGORIES);
    if (!d->p) return wrong(text, size, "Categorical: p is NULL, must point to %u probabilities", d->n);
    double sum = 0;
    for (unsigned i = 0; i < d->n; i++) {
        if (!(d->p[i] >= 0 && d->p[i] <= 1 + 1e-9))
            return wrong(text, size, "Categorical: p[%u] is %.12g, must be a probability from 0 to 1", i, d->p[i]);
        sum += d->p[i];
    }
    return check_sum("Categorical", "probabilities", sum, text, size);
}

static int check_component(const double *p, unsigned i, bool discrete, char *text, size_t size) {
    if (!(p[0] >= 0 && p[0] <= 1 + 1e-9))
        return wrong(text, size, "Mixture: the weight of component %u is %.12g, must be from 0 to 1", i, p[0]);
    if (!known(p[1]) || p[1] != floor(p[1]) || !ars__dist_is_component((unsigned)p[1]))
        return wrong(text, size, "Mixture: component %u is of kind %.12g, which cannot be a component", i, p[1]);
    ars_dist d = ars__component(p);
    const struct ars__kind *kind = &ars__kinds[d.kind];
    for (unsigned j = kind->n; j < 4; j++) {
        if (d.a[j] != 0)
            return wrong(text, size, "Mixture: component %u (%s) has an unused parameter that is not 0", i, kind->name);
    }
    if (ars__dist_is_discrete(d.kind) != discrete)
        return wrong(text, size, "Mixture: component %u (%s) is %s, component 0 is not", i, kind->name,
                     discrete ? "continuous" : "discrete");
    char why[256];
    if (ars__dist_check(&d, why, sizeof why)) return wrong(text, size, "Mixture: component %u: %s", i, why);
    return 0;
}

static int check_mixture(const ars_dist *d, char *text, size_t size) {
    unsigned components = d->n / ARS__COMPONENT;
    if (d->n % ARS__COMPONENT || components < 1 || components > ARS_WIRE_MAX_COMPONENTS)
        return wrong(text, size, "Mixture: n is %u, must be %d per component, for 1 to %d components", d->n,
                     ARS__COMPONENT, ARS_WIRE_MAX_COMPONENTS);
    if (!d->p) return wrong(text, size, "Mixture: p is NULL, must point to the components");
    double sum = 0;
    for (unsigned i = 0; i < components; i++) {
        double kind = d->p[1];
        bool discrete = known(kind) && ars__dist_is_discrete((unsigned)kind);
        if (check_component(d->p + i * ARS__COMPONENT, i, discrete, text, size)) return -1;
        sum += d->p[i * ARS__COMPONENT];
    }
    return check_sum("Mixture", "weights", sum, text, size);
}

int ars__dist_check(const ars_dist *d, char *text, size_t size) {
    if (d->kind == ARS_DIST_CATEGORICAL) return check_categorical(d, text, size);
    if (d->kind == ARS_DIST_MIXTURE) return check_mixture(d, text, size);
    if (d->kind == ARS_DIST_PRIOR)
        return wrong(text, size, "Prior: stands for another distribution, which must be put in its place");
    if (!known(d->kind))
        return wrong(text, size, "distribution of unknown kind %u; make it with ars_normal() and the like", d->kind);
    if (ars__is_vector(d))
        return wrong(text, size,
                     "%s: draws have %u coordinates. Draw them with ars_sample_vector or ars_draw_vector, and observe "
                     "them with ars_observe_vector",
                     ars__kinds[d->kind].name, d->n);
    if (check_scalars(d, text, size)) return -1;
    if (d->kind == ARS_DIST_NEGATIVE_BINOMIAL) return check_negative_binomial(d, text, size);
    return d->kind == ARS_DIST_TRUNCATED_NORMAL ? check_truncation(d, text, size) : 0;
}

/* ---- the wire ----------------------------------------------------------------------------------------------------- */

size_t ars__dist_encode(const ars_dist *d, void *bytes, size_t capacity) {
    if (!known(d->kind)) return 0;
    size_t n = listed(d->kind) ? d->n : ars__kinds[d->kind].n;
    struct ars_wire_dist header = {.kind = (uint16_t)d->kind, .n = (uint32_t)n};
    size_t size = sizeof header + n * sizeof(double);
    if (size > capacity || (listed(d->kind) && n && !d->p)) return 0;
    memcpy(bytes, &header, sizeof header);
    if (n) memcpy((unsigned char *)bytes + sizeof header, listed(d->kind) ? d->p : d->a, n * sizeof(double));
    return size;
}

static int decode(ars_dist *d, const void *bytes, size_t size, char *text, size_t text_size) {
    struct ars_wire_dist header;
    if (size < sizeof header) return wrong(text, text_size, "a distribution of %zu bytes is too short", size);
    memcpy(&header, bytes, sizeof header);
    if (!known(header.kind)) return wrong(text, text_size, "distribution of unknown kind %u", header.kind);
    const struct ars__kind *kind = &ars__kinds[header.kind];
    if (header.reserved) return wrong(text, text_size, "%s: reserved is %u, must be 0", kind->name, header.reserved);
    if (header.n > (size - sizeof header) / sizeof(double))
        return wrong(text, text_size, "%s: n is %u, but only %zu bytes follow", kind->name, header.n,
                     size - sizeof header);
    const double *p = (const double *)((const unsigned char *)bytes + sizeof header);
    *d = (ars_dist){.kind = header.kind, .n = header.n};
    if (listed(header.kind)) {
        d->p = p;
    } else if (header.n == kind->n) {
        memcpy(d->a, p, header.n * sizeof(double));
    } else {
        return wrong(text, text_size, "%s: n is %u, must be %u", kind->name, header.n, kind->n);
    }
    return header.kind == ARS_DIST_PRIOR ? 0 : ars__dist_check(d, text, text_size);
}

size_t ars__dist_decode(ars_dist *d, const void *bytes, size_t size, char *text, size_t text_size) {
    if (decode(d, bytes, size, text, text_size)) return 0;
    return sizeof(struct ars_wire_dist) + d->n * sizeof(double);
}

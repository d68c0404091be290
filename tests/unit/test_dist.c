/* test_dist.c: checks, the wire, densities at known points, and samplers at the edges. The statistics of the samplers
 * and the grids of densities are in tests/unit/test_distributions.py, through the same code. */
#include <float.h>
#include <stdlib.h>

#include "check.h"
#include "dist.h"

static const double thirds[3] = {0.25, 0.5, 0.25};
static const double components[12] = {0.25, ARS_DIST_NORMAL, 0, 1, 0, 0, 0.75, ARS_DIST_SCALED_BETA, 2, 3, -1, 4};

static ars_dist made(unsigned kind, unsigned n, const double *p) {
    ars_dist d = {.kind = kind, .n = n, .p = p};
    return d;
}

static ars_dist scaled_beta(double a, double b, double low, double high) {
    ars_dist d = {.kind = ARS_DIST_SCALED_BETA, .n = 4, .a = {a, b, low, high}};
    return d;
}

enum { N_GOOD = 24 };
static void good(ars_dist d[N_GOOD]) {
    ars_dist all[N_GOOD] = {
        ars_uniform(-1, 2),
        ars_normal(3, 0.5),
        ars_bernoulli(0.25),
        ars_categorical(thirds, 3),
        ars_poisson(3),
        ars_poisson(1e6),
        ars_binomial(10, 0.25),
        ars_binomial(4000000000u, 0.75),
        ars_beta(2, 3),
        ars_beta(1e-3, 1e-3),
        ars_gamma(2, 3),
        ars_gamma(1e-3, 1e-300),
        ars_exponential(2),
        ars_weibull(2, 0.1),
        ars_lognormal(0, 1),
        ars_lognormal(0, 1000),
        ars_truncated_normal(0, 1, 8, 9),
        ars_truncated_normal(0, 1, -INFINITY, 0),
        ars_truncated_normal(0, 1, -INFINITY, INFINITY),
        ars_truncated_normal(0, 1, -1e9, -1e8),
        scaled_beta(2, 3, -1, 4),
        scaled_beta(1e-3, 1e-3, 1e8, 1e8 + 1),
        made(ARS_DIST_MIXTURE, 12, components),
        ars_normal(0, DBL_MAX),
    };
    memcpy(d, all, sizeof all);
}

static void wrong_parameters(void) {
    static const double negative[2] = {1.5, -0.5}, short_of_one[2] = {0.5, 0.4}, nan[2] = {0.5, NAN};
    static const double bad_weights[12] = {0.5, 2, 0, 1, 0, 0, 0.6, 2, 0, 1, 0, 0};
    static const double mixed[12] = {0.5, ARS_DIST_NORMAL, 0, 1, 0, 0, 0.5, ARS_DIST_POISSON, 1, 0, 0, 0};
    static const double nested[6] = {1, ARS_DIST_MIXTURE, 0, 0, 0, 0}, inner[6] = {1, ARS_DIST_NORMAL, 0, -1, 0, 0};
    static const double unused[6] = {1, ARS_DIST_NORMAL, 0, 1, 7, 0}, fraction[6] = {1, 2.5, 0, 1, 0, 0};
    static const double nan_kind[6] = {1, NAN, 0, 1, 0, 0}, prior[6] = {1, ARS_DIST_PRIOR, 0, 0, 0, 0};
    double many[600];
    for (int i = 0; i < 600; i++) many[i] = 1 / 600.;
    ars_dist fractional = ars_binomial(3, 0.5);
    fractional.a[0] = 2.5;
    const struct {
        ars_dist d;
        const char *text;
    } bad[] = {
        {ars_uniform(1, 1), "Uniform: low is 1, must be below high, which is 1"},
        {ars_uniform(2, 1), "Uniform: low is 2, must be below high, which is 1"},
        {ars_uniform(NAN, 1), "Uniform: low is nan, must be a finite number"},
        {ars_uniform(0, NAN), "Uniform: high is nan, must be a finite number"},
        {ars_uniform(-INFINITY, 1), "Uniform: low is -inf, must be a finite number"},
        {ars_uniform(0, INFINITY), "Uniform: high is inf, must be a finite number"},
        {ars_uniform(INFINITY, INFINITY), "Uniform: low is inf, must be a finite number"},
        {ars_uniform(-1.5e308, 1e308), "Uniform: low is -1.5e+308 and high is 1e+308, too far apart for a double"},
        {ars_normal(0, -1), "Normal: std is -1, must be a positive finite number"},
        {ars_normal(0, 0), "Normal: std is 0, must be a positive finite number"},
        {ars_normal(INFINITY, 1), "Normal: mean is inf, must be a finite number"},
        {ars_normal(NAN, 1), "Normal: mean is nan, must be a finite number"},
        {ars_normal(0, INFINITY), "Normal: std is inf, must be a positive finite number"},
        {ars_normal(0, NAN), "Normal: std is nan, must be a positive finite number"},
        {ars_bernoulli(1.5), "Bernoulli: p is 1.5, must be a probability from 0 to 1"},
        {ars_bernoulli(-0.5), "Bernoulli: p is -0.5, must be a probability from 0 to 1"},
        {ars_bernoulli(NAN), "Bernoulli: p is nan, must be a probability from 0 to 1"},
        {ars_categorical(negative, 2), "Categorical: p[0] is 1.5, must be a probability from 0 to 1"},
        {ars_categorical(nan, 2), "Categorical: p[1] is nan, must be a probability from 0 to 1"},
        {ars_categorical(short_of_one, 2), "Categorical: the probabilities sum to 0.9, must sum to 1"},
        {ars_categorical(thirds, 0), "Categorical: k is 0, must be from 1 to 512"},
        {ars_categorical(many, 600), "Categorical: k is 600, must be from 1 to 512"},
        {ars_categorical(many, (size_t)1 << 40), "Categorical: k is 4294967295, must be from 1 to 512"},
        {ars_categorical(NULL, 2), "Categorical: p is NULL, must point to 2 probabilities"},
        {ars_poisson(-1), "Poisson: rate is -1, must be a number from 0 to 1e15"},
        {ars_poisson(INFINITY), "Poisson: rate is inf, must be a number from 0 to 1e15"},
        {ars_binomial(3, -0.5), "Binomial: p is -0.5, must be a probability from 0 to 1"},
        {fractional, "Binomial: n is 2.5, must be a whole number from 0 to 4294967295"},
        {ars_beta(0, 1), "Beta: a is 0, must be a positive number from 1e-100 to 1e100"},
        {ars_beta(1, INFINITY), "Beta: b is inf, must be a positive number from 1e-100 to 1e100"},
        {ars_gamma(-2, 1), "Gamma: shape is -2, must be a positive number from 1e-100 to 1e100"},
        {ars_gamma(1, 0), "Gamma: rate is 0, must be a positive finite number"},
        {ars_exponential(-3), "Exponential: rate is -3, must be a positive finite number"},
        {ars_exponential(INFINITY), "Exponential: rate is inf, must be a positive finite number"},
        {ars_exponential(NAN), "Exponential: rate is nan, must be a positive finite number"},
        {ars_weibull(0, 1), "Weibull: scale is 0, must be a positive finite number"},
        {ars_weibull(1, NAN), "Weibull: shape is nan, must be a positive number from 1e-100 to 1e100"},
        {ars_lognormal(NAN, 1), "LogNormal: mu is nan, must be a finite number"},
        {ars_lognormal(0, -1), "LogNormal: sigma is -1, must be a positive finite number"},
        {ars_truncated_normal(0, 1, 2, 1), "TruncatedNormal: low is 2, must be below high, which is 1"},
        {ars_truncated_normal(0, 1, INFINITY, INFINITY),
         "TruncatedNormal: low is inf, must be below high, which is inf"},
        {ars_truncated_normal(0, 1, NAN, 1), "TruncatedNormal: low is nan, must be a number"},
        {ars_truncated_normal(0, -1, 0, 1), "TruncatedNormal: std is -1, must be a positive finite number"},
        {ars_truncated_normal(0, 1e-200, 1, 2),
         "TruncatedNormal: low is 1 and high is 2, more than 1e100 times std from the mean, which is 0"},
        {scaled_beta(1, 1, 0, 0), "ScaledBeta: low is 0, must be below high, which is 0"},
        {made(ARS_DIST_MIXTURE, 12, bad_weights), "Mixture: the weights sum to 1.1, must sum to 1"},
        {made(ARS_DIST_MIXTURE, 12, mixed), "Mixture: component 1 (Poisson) is discrete, component 0 is not"},
        {made(ARS_DIST_MIXTURE, 6, nested), "Mixture: component 0 is of kind 14, which cannot be a component"},
        {made(ARS_DIST_MIXTURE, 6, prior), "Mixture: component 0 is of kind 15, which cannot be a component"},
        {made(ARS_DIST_MIXTURE, 6, fraction), "Mixture: component 0 is of kind 2.5, which cannot be a component"},
        {made(ARS_DIST_MIXTURE, 6, nan_kind), "Mixture: component 0 is of kind nan, which cannot be a component"},
        {made(ARS_DIST_MIXTURE, 6, unused), "Mixture: component 0 (Normal) has an unused parameter that is not 0"},
        {made(ARS_DIST_MIXTURE, 6, inner), "Mixture: component 0: Normal: std is -1, must be a positive finite number"},
        {made(ARS_DIST_MIXTURE, 5, inner), "Mixture: n is 5, must be 6 per component, for 1 to 64 components"},
        {made(ARS_DIST_MIXTURE, 0, inner), "Mixture: n is 0, must be 6 per component, for 1 to 64 components"},
        {made(0, 0, NULL), "distribution of unknown kind 0; make it with ars_normal() and the like"},
        {made(99, 0, NULL), "distribution of unknown kind 99; make it with ars_normal() and the like"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256] = "";
        CHECK(ars__dist_check(&bad[i].d, text, sizeof text) == -1);
        /* printf may write a negative NaN as -nan. */
        char *sign = strstr(text, "-nan");
        if (sign) memmove(sign, sign + 1, strlen(sign));
        CHECK_TEXT(text, bad[i].text);
        char tiny[8];
        CHECK(ars__dist_check(&bad[i].d, tiny, sizeof tiny) == -1 && strlen(tiny) < sizeof tiny);
        CHECK(ars__dist_check(&bad[i].d, NULL, 0) == -1);
        ars__rng rng;
        ars__rng_init(&rng, 5, 0, 0);
        CHECK(isnan(ars__dist_quick(&bad[i].d, &rng)));
    }
}

static void there_and_back(void) {
    ars_dist all[N_GOOD];
    good(all);
    for (int i = 0; i < N_GOOD; i++) {
        _Alignas(8) unsigned char bytes[256];
        char text[256] = "";
        CHECK(ars__dist_check(&all[i], text, sizeof text) == 0);
        CHECK_TEXT(text, "");
        size_t size = ars__dist_encode(&all[i], bytes, sizeof bytes);
        CHECK(size == 8 + 8 * all[i].n);
        CHECK(ars__dist_encode(&all[i], bytes, size - 1) == 0);
        ars_dist back;
        CHECK(ars__dist_decode(&back, bytes, sizeof bytes, text, sizeof text) == size);
        CHECK(back.kind == all[i].kind && back.n == all[i].n && memcmp(back.a, all[i].a, sizeof back.a) == 0);
        if (all[i].p) CHECK(back.p == (const double *)(bytes + 8) && memcmp(back.p, all[i].p, 8 * back.n) == 0);
        for (size_t shorter = 0; shorter < size; shorter++) {
            /* A copy of exactly this size, so that AddressSanitizer sees a read too far. */
            unsigned char *exact = malloc(shorter ? shorter : 1);
            memcpy(exact, bytes, shorter);
            CHECK(ars__dist_decode(&back, exact, shorter, text, sizeof text) == 0 && text[0]);
            free(exact);
        }
    }
    ars_dist prior = made(ARS_DIST_PRIOR, 0, NULL), back;
    _Alignas(8) unsigned char bytes[8];
    char text[256];
    CHECK(ars__dist_encode(&prior, bytes, 8) == 8);
    CHECK(ars__dist_decode(&back, bytes, 8, text, sizeof text) == 8 && back.kind == ARS_DIST_PRIOR);
}

static void bad_bytes(void) {
    static const struct {
        struct ars_wire_dist header;
        double p[2];
        const char *text;
    } bad[] = {
        {{0, 0, 2}, {0, 1}, "distribution of unknown kind 0"},
        {{999, 0, 2}, {0, 1}, "distribution of unknown kind 999"},
        {{ARS_DIST_NORMAL, 1, 2}, {0, 1}, "Normal: reserved is 1, must be 0"},
        {{ARS_DIST_NORMAL, 0, 1}, {0, 1}, "Normal: n is 1, must be 2"},
        {{ARS_DIST_NORMAL, 0, 3}, {0, 1}, "Normal: n is 3, but only 16 bytes follow"},
        {{ARS_DIST_NORMAL, 0, 0xffffffffu}, {0, 1}, "Normal: n is 4294967295, but only 16 bytes follow"},
        {{ARS_DIST_NORMAL, 0, 2}, {0, -1}, "Normal: std is -1, must be a positive finite number"},
        {{ARS_DIST_CATEGORICAL, 0, 0}, {0, 1}, "Categorical: k is 0, must be from 1 to 512"},
        {{ARS_DIST_PRIOR, 0, 1}, {0, 1}, "Prior: n is 1, must be 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        _Alignas(8) unsigned char bytes[24];
        char text[256] = "";
        ars_dist d;
        memcpy(bytes, &bad[i].header, 8);
        memcpy(bytes + 8, bad[i].p, 16);
        CHECK(ars__dist_decode(&d, bytes, sizeof bytes, text, sizeof text) == 0);
        CHECK_TEXT(text, bad[i].text);
    }
}

/* Known in closed form, or computed with 50 digits. */
static void densities(void) {
    static const double gap[4] = {0.5, 0, 0.5, 0};
    const struct {
        ars_dist d;
        double x, log_density;
    } known[] = {
        {ars_uniform(0, 4), 0, -1.3862943611198906},
        {ars_uniform(0, 4), 4, -1.3862943611198906},
        {ars_uniform(0, 4), 4.000001, -INFINITY},
        {ars_normal(0, 1), 0, -0.91893853320467274},
        {ars_normal(0, 1), 40, -800.91893853320467},
        {ars_bernoulli(0), 1, -INFINITY},
        {ars_bernoulli(0), 0, 0},
        {ars_bernoulli(1), 0, -INFINITY},
        {ars_bernoulli(0.25), 0.5, -INFINITY},
        {ars_categorical(gap, 4), 2, -0.69314718055994531},
        {ars_categorical(gap, 4), 1, -INFINITY},
        {ars_categorical(gap, 4), 4, -INFINITY},
        {ars_categorical(gap, 4), -1, -INFINITY},
        {ars_categorical(gap, 4), 1e300, -INFINITY},
        {ars_poisson(0), 0, 0},
        {ars_poisson(0), 1, -INFINITY},
        {ars_poisson(2), 0, -2},
        {ars_poisson(2), 1.5, -INFINITY},
        {ars_binomial(0, 0.5), 0, 0},
        {ars_binomial(3, 1), 3, 0},
        {ars_binomial(3, 1), 2, -INFINITY},
        {ars_binomial(3, 0), 0, 0},
        {ars_binomial(3, 0.5), 4, -INFINITY},
        {ars_binomial(2, 0.5), 1, -0.69314718055994531},
        {ars_beta(1, 1), 0, 0},
        {ars_beta(1, 1), 1, 0},
        {ars_beta(1, 4), 0, 1.3862943611198906},
        {ars_beta(2, 1), 1, 0.69314718055994531},
        {ars_beta(2, 1), 0, -INFINITY},
        {ars_beta(0.5, 1), 0, -INFINITY}, /* a pole: never +inf */
        {ars_beta(1, 0.5), 1, -INFINITY},
        {ars_beta(2, 2), 1.5, -INFINITY},
        {ars_gamma(1, 2), 0, 0.69314718055994531},
        {ars_gamma(0.5, 2), 0, -INFINITY},
        {ars_gamma(2, 2), -1, -INFINITY},
        {ars_exponential(2), 0, 0.69314718055994531},
        {ars_exponential(2), -1e-300, -INFINITY},
        {ars_weibull(0.5, 1), 0, 0.69314718055994531},
        {ars_weibull(0.5, 0.5), 0, -INFINITY},
        {ars_lognormal(0, 1), 0, -INFINITY},
        {ars_lognormal(0, 1), 1, -0.91893853320467274},
        {ars_truncated_normal(0, 1, -INFINITY, 0), 0, -0.22579135264472744},
        {ars_truncated_normal(0, 1, 8, 9), 8, 2.0946800602324754},
        {ars_truncated_normal(0, 1, 8, 9), 9.0000001, -INFINITY},
        {scaled_beta(1, 1, 0, 4), 0, -1.3862943611198906},
        {ars_normal(0, 1), INFINITY, -INFINITY},
        {ars_gamma(2, 1), INFINITY, -INFINITY},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        CHECK_NEAR(ars__dist_log_density(&known[i].d, known[i].x), known[i].log_density,
                   1e-14 * fmax(1, fabs(known[i].log_density)));
    }
    ars_dist all[N_GOOD];
    good(all);
    for (int i = 0; i < N_GOOD; i++) CHECK(isnan(ars__dist_log_density(&all[i], NAN)));
    ars_dist mixture = made(ARS_DIST_MIXTURE, 12, components), first = ars_normal(0, 1),
             second = scaled_beta(2, 3, -1, 4);
    double wanted = log(0.25 * exp(ars__dist_log_density(&first, 1)) + 0.75 * exp(ars__dist_log_density(&second, 1)));
    CHECK_NEAR(ars__dist_log_density(&mixture, 1), wanted, 1e-14);
    CHECK_NEAR(ars__dist_log_density(&mixture, -60), log(0.25) - 1800 - 0.91893853320467274, 1e-12);
}

/* What is drawn can be scored: a value of its own distribution, finite, with a finite log density. */
static void draws_can_be_scored(void) {
    ars_dist all[N_GOOD];
    good(all);
    for (int i = 0; i < N_GOOD; i++) {
        ars__rng rng;
        ars__rng_init(&rng, 5, 0, (uint64_t)i);
        for (int j = 0; j < 20000; j++) {
            double x = ars__dist_sample(&all[i], &rng);
            CHECK(isfinite(x) && isfinite(ars__dist_log_density(&all[i], x)));
        }
    }
}

/* A quick draw is the one that ars__dist_sample makes, or none, and then it has taken nothing from the stream. */
static void quick_draws(void) {
    ars_dist all[N_GOOD];
    good(all);
    int drawn = 0;
    for (int i = 0; i < N_GOOD; i++) {
        ars__rng quick, plain;
        ars__rng_init(&quick, 5, 0, (uint64_t)i);
        ars__rng_init(&plain, 5, 0, (uint64_t)i);
        for (int j = 0; j < 100; j++) {
            double x = ars__dist_quick(&all[i], &quick);
            if (!isnan(x)) {
                CHECK(x == ars__dist_sample(&all[i], &plain));
                drawn++;
            }
            CHECK(quick.block == plain.block && quick.used == plain.used);
        }
    }
    CHECK(drawn == 5 * 100); /* Uniform, Bernoulli, Exponential, two Normals */
}

static void certain_draws(void) {
    static const double only[3] = {0, 1, 0};
    ars__rng rng;
    ars__rng_init(&rng, 1, 1, 1);
    ars_dist zero = ars_bernoulli(0), one = ars_bernoulli(1), none = ars_poisson(0), all = ars_binomial(7, 1);
    ars_dist category = ars_categorical(only, 3);
    for (int i = 0; i < 1000; i++) {
        CHECK(ars__dist_sample(&zero, &rng) == 0);
        CHECK(ars__dist_sample(&one, &rng) == 1);
        CHECK(ars__dist_sample(&none, &rng) == 0);
        CHECK(ars__dist_sample(&all, &rng) == 7);
        CHECK(ars__dist_sample(&category, &rng) == 1);
    }
}

static void names(void) {
    CHECK_TEXT(ars__dist_name(ARS_DIST_NORMAL), "Normal");
    CHECK_TEXT(ars__dist_name(ARS_DIST_PRIOR), "Prior");
    CHECK_TEXT(ars__dist_name(0), "unknown");
    CHECK_TEXT(ars__dist_name(4000000000u), "unknown");
}

/* Of every row of dist_list.h that simulators can draw from: the constructor keeps its parameters in their order. */
#define MAKE_1(name) ars_##name(1)
#define MAKE_2(name) ars_##name(1, 2)
#define MAKE_3(name) ars_##name(1, 2, 3)
#define MAKE_4(name) ars_##name(1, 2, 3, 4)
#define CHECK_PRIOR(CODE, name, count) check_made(MAKE_##count(name), ARS_DIST_##CODE, count);
#define CHECK_PROPOSAL(CODE, name, count)   /* has no constructor */
#define CHECK_COORDINATE(CODE, name, count) /* test_dist_vector.c */
#define CHECK_ROW(CODE, name, label, use, values, ordered, count, ...) CHECK_##use(CODE, name, count)

static void check_made(ars_dist d, unsigned kind, unsigned n) {
    CHECK(d.kind == kind && d.n == n && !d.p);
    for (unsigned i = 0; i < 4; i++) CHECK(d.a[i] == (i < n ? i + 1 : 0));
}

static void constructors(void) {
    ARS__DIST_LIST(CHECK_ROW)
}

int main(void) {
    constructors();
    wrong_parameters();
    there_and_back();
    bad_bytes();
    densities();
    draws_can_be_scored();
    quick_draws();
    certain_draws();
    names();
    return check_failures != 0;
}

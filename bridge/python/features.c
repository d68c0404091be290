/* features.c: see serve.h. tests/unit/value_features.py says the same in torch. */
#include <math.h>
#include <string.h>

#include "serve.h"
#include "wire.h"

/* A value measured by its prior: its distance from the middle in units of the spread, and its place in (0, 1). */
struct place {
    double z, u;
};

static double normal_cdf(double z) {
    return 0.5 * erfc(-z * M_SQRT1_2);
}

static double polynomial(const double *c, double x) { /* of degree 7 */
    double y = c[7];
    for (int i = 6; i >= 0; i--) y = y * x + c[i];
    return y;
}

/* Wichura's algorithm AS 241 (PPND16). */
double ars__normal_quantile(double u) {
    static const double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                               1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                               3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[] = {1.0,
                               4.2313330701600911252e+1,
                               6.8718700749205790830e+2,
                               5.3941960214247511077e+3,
                               2.1213794301586595867e+4,
                               3.9307895800092710610e+4,
                               2.8729085735721942674e+4,
                               5.2264952788528545610e+3};
    static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                               3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                               2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    double q = u - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    double r = sqrt(-log(q < 0 ? u : 1 - u));
    double z = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -z : z;
}

void ars__truncated_quantiles(const double *p, size_t n, const double *u, double *out) {
    double mean = p[0], std = p[1], alpha = (p[2] - mean) / std, beta = (p[3] - mean) / std;
    int flip = alpha + beta < 0; /* work on the side where the interval lies, or reaches further */
    double a = flip ? -beta : alpha, b = flip ? -alpha : beta;
    double tail_a = normal_cdf(-a), tail_b = normal_cdf(-b); /* upper tails: what is far out keeps its digits */
    double far = fmax(a, 0), gap = expm1(-0.5 * (b - far) * (b + far));
    for (size_t i = 0; i < n; i++) {
        double v = flip ? 1 - u[i] : u[i];
        double t = fmin(fmax(tail_a + v * (tail_b - tail_a), 1e-300), 1.0);
        double z = a > 4 ? sqrt(far * far - 2 * log1p(v * gap)) : t < 1 ? -ars__normal_quantile(t) : -INFINITY;
        z = fmin(fmax(z, a), b);
        out[i] = mean + std * (flip ? -z : z);
    }
}

static struct place gauss(double z) {
    return (struct place){z, normal_cdf(z)};
}

static struct place place(int64_t kind, const double *p, double v) {
    switch (kind) {
    case ARS_DIST_UNIFORM: {
        double u = (v - p[0]) / (p[1] - p[0]);
        return (struct place){(u - 0.5) * sqrt(12), u};
    }
    case ARS_DIST_NORMAL:
    case ARS_DIST_MULTIVARIATE_NORMAL:
        return gauss((v - p[0]) / p[1]);
    case ARS_DIST_BERNOULLI:
        return (struct place){2 * v - 1, v};
    case ARS_DIST_POISSON:
        return gauss((v - p[0]) / sqrt(p[0] + 0.25));
    case ARS_DIST_BINOMIAL: {
        double n = p[0], q = p[1];
        return (struct place){(v - n * q) / sqrt(n * q * (1 - q) + 0.25), (v + 0.5) / (n + 1)};
    }
    case ARS_DIST_BETA: {
        double total = p[0] + p[1], mean = p[0] / total;
        return (struct place){(v - mean) / sqrt(mean * (1 - mean) / (total + 1)), v};
    }
    case ARS_DIST_DIRICHLET: {
        double total = p[0] + p[1], mean = p[0] / total, u = (v - p[2]) / (p[3] - p[2]);
        return (struct place){(u - mean) / sqrt(mean * (1 - mean) / (total + 1)), u};
    }
    case ARS_DIST_GAMMA: {
        double shape = p[0], x = v * p[1];
        return (struct place){(x - shape) / sqrt(shape), x / (x + shape)};
    }
    case ARS_DIST_EXPONENTIAL: {
        double x = v * p[0];
        return (struct place){x - 1, -expm1(-x)};
    }
    case ARS_DIST_WEIBULL: {
        double log_x = p[1] * log(fmax(v / p[0], 1e-300));
        return (struct place){log_x, -expm1(-exp(fmin(log_x, 50.0)))};
    }
    case ARS_DIST_LOGNORMAL:
        return gauss((log(fmax(v, 1e-300)) - p[0]) / p[1]);
    case ARS_DIST_NEGATIVE_BINOMIAL: {
        double mean = p[0] * (1 - p[1]) / p[1];
        return gauss((v - mean) / sqrt(mean / p[1] + 0.25));
    }
    case ARS_DIST_STUDENT_T: {
        double z = (v - p[1]) / p[2];
        return (struct place){z, 0.5 + atan(z) / M_PI};
    }
    case ARS_DIST_TRUNCATED_NORMAL: {
        static const double u[] = {0.15865, 0.5, 0.84135};
        double q[3];
        ars__truncated_quantiles(p, 3, u, q);
        return gauss(2 * (v - q[1]) / (q[2] - q[0]));
    }
    default: /* a category has no size */
        return (struct place){0, 0.5};
    }
}

enum { WAVES = 6 };
static const double frequencies[WAVES] = {1, 2, 3, 4, 6, 8}; /* half periods over (0, 1) */

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

int ars__is_angle(unsigned kind, const double *p) {
    const double tolerance = 1e-5; /* of programs that write 3.1416 */
    return kind == ARS_DIST_UNIFORM && fabs((p[1] - p[0]) / (2 * M_PI) - 1) < tolerance;
}

/* Of a place on a circle: nothing that jumps where it closes. Waves of whole periods; the other columns are 0. */
static void angle_features(double u, float *out) {
    if (!isfinite(u)) u = 0.5;
    memset(out, 0, ARS__VALUE_FEATURES * sizeof *out);
    for (int i = 0; i < WAVES; i++) {
        out[ARS__VALUE_FEATURES - 2 * WAVES + 2 * i] = (float)sin(2 * M_PI * frequencies[i] * u);
        out[ARS__VALUE_FEATURES - 2 * WAVES + 2 * i + 1] = (float)cos(2 * M_PI * frequencies[i] * u);
    }
}

static void scalar_features(double v, struct place p, float *out) {
    double z = isnan(p.z) ? 0 : clamp(p.z, -1e6, 1e6), u = isnan(p.u) ? 0.5 : clamp(p.u, 0, 1);
    double near = clamp(z, -10, 10);
    const double columns[] = {near,
                              0.25 * fmin(near * near, 16.0) - 0.5,
                              asinh(z),
                              0.25 * log(fabs(z) + 1e-3) + 0.5,
                              2 * u - 1,
                              0.25 * log(u + 1e-4) + 0.5,
                              0.25 * log(1 - u + 1e-4) + 0.5,
                              4 * sqrt(u * (1 - u)) - 1.5,
                              0.2 * asinh(v),
                              v / (1 + fabs(v))};
    const size_t n = sizeof columns / sizeof columns[0];
    _Static_assert(sizeof columns / sizeof columns[0] + 2 * WAVES == ARS__VALUE_FEATURES, "features");
    for (size_t i = 0; i < n; i++) out[i] = (float)columns[i];
    for (size_t i = 0; i < WAVES; i++) {
        out[n + 2 * i] = (float)sin(M_PI * frequencies[i] * u);
        out[n + 2 * i + 1] = (float)cos(M_PI * frequencies[i] * u);
    }
}

void ars__value_features(size_t n, int wrap, const struct ars__drawn *drawn, float *out) {
    for (size_t i = 0; i < n; i++, out += ARS__VALUE_FEATURES) {
        const double *prior = drawn->prior + 4 * i, value = drawn->value[i];
        int64_t kind = drawn->kind[i];
        if (wrap && ars__is_angle((unsigned)kind, prior))
            angle_features((value - prior[0]) / (prior[1] - prior[0]), out);
        else if (kind)
            scalar_features(value, place(kind, prior, value), out);
        else
            memset(out, 0, ARS__VALUE_FEATURES * sizeof *out);
    }
}

/* The standard deviation, about, of a prior of a component of a vector; 0 for other priors, those of angles among them. */
static double spread(int64_t kind, const double *p, int wrap) {
    if (wrap && ars__is_angle((unsigned)kind, p)) return 0;
    switch (kind) {
    case ARS_DIST_UNIFORM:
        return (p[1] - p[0]) / sqrt(12);
    case ARS_DIST_NORMAL:
        return p[1];
    case ARS_DIST_TRUNCATED_NORMAL:
        return fmin(p[1], (p[3] - p[2]) / sqrt(12));
    default:
        return 0;
    }
}

void ars__pair_features(size_t n, int wrap, const struct ars__drawn *first, const struct ars__drawn *second,
                        float *out) {
    const double factor = 4;
    for (size_t i = 0; i < n; i++, out += ARS__PAIR_FEATURES) {
        double a = spread(first->kind[i], first->prior + 4 * i, wrap);
        double b = spread(second->kind[i], second->prior + 4 * i, wrap);
        double x = first->value[i], y = second->value[i];
        memset(out, 0, ARS__PAIR_FEATURES * sizeof *out);
        if (!(a > 0 && b > 0 && a <= factor * b && b <= factor * a && isfinite(x) && isfinite(y) && isfinite(a)))
            continue;
        double angle = atan2(y, x), r = clamp(hypot(x, y) / hypot(a, b), 0, 1e6);
        const double columns[ARS__PAIR_FEATURES] = {
            cos(angle),
            sin(angle),
            cos(2 * angle),
            sin(2 * angle),
            angle / M_PI, /* two branches: each jumps where the other does not */
            angle < 0 ? angle / M_PI + 1 : angle / M_PI - 1,
            0.25 * log(r + 1e-3) + 0.5,
            tanh(r),
        };
        for (size_t k = 0; k < ARS__PAIR_FEATURES; k++) out[k] = (float)columns[k];
    }
}

/* heads.c: see serve.h; the same as pyside/ars/network/model/heads.py, which says why each head is what it is. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "dist_kinds.h"
#include "serve.h"

#define K_MAX ARS_WIRE_MAX_COMPONENTS
#define MOST_WRAPPED ((K_MAX - 1) / 3) /* components: each is three on the wire */

/* A mixture in the making: components, then the prior. */
struct mixture {
    double *at;               /* the next component on the wire */
    double logits[2 * K_MAX]; /* of the components so far */
    size_t n;
};

static double softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}

static double upper_tail(double z) { /* of a standard Normal */
    return 0.5 * erfc(z * M_SQRT1_2);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double logit(double p) {
    return log(p) - log1p(-p);
}

static double bounded(double x, double low, double high) {
    return high - softplus(high - low - softplus(x - low));
}

static double in_middle(size_t i, size_t n) { /* of the i-th of n equal shares */
    return ((double)i + 0.5) / (double)n;
}

static double on_grid(size_t i, size_t n) { /* from 0 to 1 */
    return n > 1 ? (double)i / (double)(n - 1) : 0.5;
}

static void add_component(struct mixture *m, double logit, unsigned kind, double a, double b, double c, double d) {
    const double component[ARS__COMPONENT] = {0, kind, a, b, c, d};
    memcpy(m->at + m->n * ARS__COMPONENT, component, sizeof component);
    m->logits[m->n++] = logit;
}

/* The weights, and the prior with its share. */
static size_t finish(struct mixture *m, unsigned kind, const double *prior, double share) {
    double top = -INFINITY, total = 0;
    for (size_t i = 0; i < m->n; i++) top = fmax(top, m->logits[i]);
    for (size_t i = 0; i < m->n; i++) total += exp(m->logits[i] - top);
    for (size_t i = 0; i < m->n; i++) m->at[i * ARS__COMPONENT] = (1 - share) * exp(m->logits[i] - top) / total;
    double *last = m->at + m->n * ARS__COMPONENT;
    memset(last, 0, ARS__COMPONENT * sizeof *last);
    last[0] = share;
    last[1] = kind;
    memcpy(last + 2, prior, ars__kinds[kind].n * sizeof *prior);
    return (m->n + 1) * ARS__COMPONENT;
}

/* ---- location and scale ------------------------------------------------------------------------------------------ */

static double scale(double raw, double unit, double width) {
    return unit * width * exp(bounded(raw, -16, 4));
}

/* The width with which k components at the quantiles of a standard Normal make up its variance. */
static double normal_width(size_t k) {
    double sum = 0;
    for (size_t i = 0; i < k; i++) {
        double z = ars__normal_quantile(in_middle(i, k));
        sum += z * z;
    }
    return sqrt(1 - sum / (double)k);
}

static void normal(struct mixture *m, const float *raw, size_t k, unsigned kind, const double *p) {
    double width = normal_width(k), mean = p[0], std = p[1];
    unsigned component = kind == ARS_DIST_LOGNORMAL ? kind : ARS_DIST_NORMAL;
    for (size_t i = 0; i < k; i++) {
        double start = mean + std * ars__normal_quantile(in_middle(i, k));
        add_component(m, raw[i], component, start + std * raw[k + i], scale(raw[2 * k + i], std, width), 0, 0);
    }
}

static void student_t(struct mixture *m, const float *raw, size_t k, const double *p) {
    const double spread = 0.6;
    double normal = normal_width(k), width = sqrt(1 - spread * spread * (1 - normal * normal));
    double df = p[0], loc = p[1], unit = p[2];
    for (size_t i = 0; i < k; i++) {
        double start = loc + spread * unit * ars__normal_quantile(in_middle(i, k));
        add_component(m, raw[i], ARS_DIST_STUDENT_T, df, start + unit * raw[k + i], scale(raw[2 * k + i], unit, width),
                      0);
    }
}

static void weibull(struct mixture *m, const float *raw, size_t k, const double *p) {
    double g[K_MAX], mean = 0, variance = 0, spread = M_PI / sqrt(6);
    for (size_t i = 0; i < k; i++) mean += (g[i] = log(-log1p(-in_middle(i, k)))) / (double)k;
    for (size_t i = 0; i < k; i++) variance += (g[i] - mean) * (g[i] - mean) / (double)k;
    double width = sqrt(fmax(0.1, 1 - variance / (spread * spread))), unit = spread / p[1];
    for (size_t i = 0; i < k; i++) {
        double mu = log(p[0]) + g[i] / p[1] + unit * raw[k + i];
        add_component(m, raw[i], ARS_DIST_LOGNORMAL, mu, scale(raw[2 * k + i], unit, width), 0, 0);
    }
}

static void truncated_normal(struct mixture *m, const float *raw, size_t k, const double *p) {
    double u[K_MAX + 2], start[K_MAX + 2], width = normal_width(k);
    for (size_t i = 0; i < k; i++) u[i] = in_middle(i, k);
    u[k] = 0.15865;
    u[k + 1] = 0.84135;
    ars__truncated_quantiles(p, k + 2, u, start);
    double unit = 0.5 * (start[k + 1] - start[k]), low = p[2], high = p[3], reach = 30 * unit;
    for (size_t i = 0; i < k; i++) {
        double location = fmin(fmax(start[i] + unit * raw[k + i], low - reach), high + reach);
        add_component(m, raw[i], ARS_DIST_TRUNCATED_NORMAL, location, scale(raw[2 * k + i], unit, width), low, high);
    }
}

/* ---- Beta and Uniform, Gamma and Exponential --------------------------------------------------------------------- */

static const double edge = 0.05; /* of a count */

static double log_sharpest(void) {
    return log(1e7);
}

static double ln_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

static void beta(struct mixture *m, const float *raw, size_t k, unsigned kind, const double *p) {
    int uniform = kind == ARS_DIST_UNIFORM;
    const double *ends = uniform ? p : kind == ARS_DIST_DIRICHLET ? p + 2 : NULL;
    double a = uniform ? 1 : p[0], b = uniform ? 1 : p[1], total = a + b;
    double n = fmax((double)k - 1, 0.5) * total / 2, mean = n * a / total;
    double spread = 2.5 * sqrt(mean * b / total * (total + n) / (total + 1));
    double low = fmax(mean - spread, 0), high = fmin(mean + spread, n), end = edge * fmin(n, 1);
    double limit = log(fmax(total, 2) / 2);
    for (size_t i = 0; i < k; i++) {
        double j = low + on_grid(i, k) * (high - low);
        double log_start = ln_gamma(a + j) + ln_gamma(b + n - j) - ln_gamma(j + 1) - ln_gamma(n - j + 1);
        j = fmin(fmax(j, end), n - end);
        double share = sigmoid(log(j) - log(n - j) + raw[k + i]);
        double count = exp(limit + bounded(log(n) - limit - 2 * (double)raw[2 * k + i], -8, log_sharpest()));
        double c = a + count * share, d = b + count * (1 - share), logit = raw[i] + log_start;
        if (ends)
            add_component(m, logit, ARS_DIST_SCALED_BETA, c, d, ends[0], ends[1]);
        else
            add_component(m, logit, ARS_DIST_BETA, c, d, 0, 0);
    }
}

/* Normals around a circle, each as Normals in the turn before, the turn itself and the turn after it, truncated to the turn.
 * Of `all` components the first k are used. */
static void wrapped(struct mixture *m, const float *raw, size_t all, const double *p) {
    const double widest = 1.0 / 3, far = 8; /* in turns; in standard deviations */
    size_t k = all < MOST_WRAPPED ? all : MOST_WRAPPED;
    double low = p[0], high = p[1], turn = high - low, width = 0.7 / (double)k;
    for (size_t i = 0; i < k; i++) {
        double start = 2 * M_PI * in_middle(i, k), x = cos(start) + raw[all + i], y = sin(start) + raw[3 * all + i];
        if (x * x + y * y < 1e-6) x = 1, y = 0;
        double share = atan2(y, x) / (2 * M_PI), mean = low + turn * (share - floor(share));
        double std = turn * width * exp(bounded(raw[2 * all + i], -16, log(widest / width)));
        double below = (mean - low) / std, above = (high - mean) / std, a_turn = turn / std;
        const double mass[] = {above <= far ? upper_tail(above) - upper_tail(above + a_turn) : 0,
                               1 - upper_tail(below) - upper_tail(above),
                               below <= far ? upper_tail(below) - upper_tail(below + a_turn) : 0};
        double total = mass[0] + mass[1] + mass[2];
        for (int j = 0; j < 3; j++)
            if (j == 1 || mass[j] > 0)
                add_component(m, raw[i] + log(mass[j] / total), ARS_DIST_TRUNCATED_NORMAL, mean + (j - 1) * turn, std,
                              low, high);
    }
}

static void gamma_like(struct mixture *m, const float *raw, size_t k, unsigned kind, const double *p) {
    const double weight = 3;
    int exponential = kind == ARS_DIST_EXPONENTIAL;
    double shape = exponential ? 1 : p[0], rate = exponential ? p[0] : p[1];
    double mean = weight * shape, spread = 2.5 * sqrt(mean * (1 + weight));
    double low = fmax(mean - spread, 0), high = mean + spread, log_unit = log(fmax(shape, 1));
    for (size_t i = 0; i < k; i++) {
        double j = low + on_grid(i, k) * (high - low);
        double log_start = ln_gamma(shape + j) - ln_gamma(j + 1) + j * log(weight / (1 + weight));
        double log_j = log(fmax(j, edge));
        double more = exp(log_unit + bounded(log_j - log_unit - 2 * (double)raw[2 * k + i], -8, log_sharpest()));
        double c = shape + more;
        double middle = (shape + j) / (1 + weight) * exp(bounded(raw[k + i], -40, 40)) / rate;
        add_component(m, raw[i] + log_start, ARS_DIST_GAMMA, c, c / middle, 0, 0);
    }
}

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */

/* Poisson and Binomial: k components like the prior, then k Binomials, each with a weight and one parameter. */
static void count(struct mixture *m, const float *raw, size_t k, unsigned kind, const double *p) {
    int poisson = kind == ARS_DIST_POISSON;
    int single = poisson ? p[0] <= 0 : p[0] <= 0 || p[1] <= 0 || p[1] >= 1;
    double unit = sqrt(fmax(poisson ? p[0] : p[0] * p[1] * (1 - p[1]), 1));
    for (size_t i = 0; i < k; i++) {
        double moved = bounded(raw[k + i] / unit, -40, 40);
        if (poisson)
            add_component(m, raw[i], kind, fmin(p[0] * exp(moved), 1e15), 0, 0, 0);
        else
            add_component(m, raw[i], kind, p[0], sigmoid(logit(p[1]) + moved), 0, 0);
    }
    for (size_t i = 0; i < k; i++) {
        double step = (double)(i + 1), n = ceil(p[0] * step / (double)k);
        if (poisson) n = step * ceil((p[0] + 6 * sqrt(p[0]) + 6) / (double)k);
        double weight = single ? -INFINITY : raw[2 * k + i];
        add_component(m, weight, ARS_DIST_BINOMIAL, fmin(n, 4294967295.0), sigmoid(raw[3 * k + i]), 0, 0);
    }
}

/* The same: k with other means, then k Binomials. */
static void negative_binomial(struct mixture *m, const float *raw, size_t k, const double *p) {
    double r = p[0], mean = r * (1 - p[1]) / p[1], spread = sqrt(mean / p[1]);
    double unit = sqrt(fmax(r * (1 - p[1]), 1)), lowest = log(r) - log(9e14);
    for (size_t i = 0; i < k; i++) {
        double moved = fmax(logit(p[1]) - bounded(raw[k + i] / unit, -40, 40), lowest);
        add_component(m, raw[i], ARS_DIST_NEGATIVE_BINOMIAL, r, sigmoid(moved), 0, 0);
    }
    for (size_t i = 0; i < k; i++) {
        double n = (double)(i + 1) * ceil((mean + 6 * spread + 6) / (double)k);
        double weight = p[1] >= 1 ? -INFINITY : raw[2 * k + i];
        add_component(m, weight, ARS_DIST_BINOMIAL, fmin(n, 4294967295.0), sigmoid(raw[3 * k + i]), 0, 0);
    }
}

static size_t categorical(const float *raw, size_t known, const double *probabilities, size_t k, double share,
                          double *out) {
    double sum = 0, top = -INFINITY, total = 0;
    for (size_t i = 0; i < k; i++) sum += probabilities[i];
    for (size_t i = 0; i < k; i++) {
        out[i] = log(probabilities[i] / sum) + (i < known ? raw[i] : 0);
        top = fmax(top, out[i]);
    }
    for (size_t i = 0; i < k; i++) total += exp(out[i] - top);
    for (size_t i = 0; i < k; i++) out[i] = (1 - share) * exp(out[i] - top) / total + share * probabilities[i] / sum;
    return k;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Of two sorts of components. */
static bool is_count(unsigned kind) {
    return kind == ARS_DIST_POISSON || kind == ARS_DIST_BINOMIAL || kind == ARS_DIST_NEGATIVE_BINOMIAL;
}

static size_t mixture_parts(const struct ars__head *head) {
    int counts = is_count(head->kind);
    size_t most = (ARS_WIRE_MAX_COMPONENTS - 1) / 2;
    return counts && head->components > most ? most : head->components;
}

/* Whether it may be an angle's, to be wrapped. */
static bool may_wrap(const struct ars__head *head) {
    return head->wrap && head->kind == ARS_DIST_UNIFORM;
}

/* Raw numbers per row; any number will do for a Categorical prior. */
static size_t raw_width_of(const struct ars__head *head) {
    if (head->kind == ARS_DIST_BERNOULLI) return 1;
    return (is_count(head->kind) || may_wrap(head) ? 4 : 3) * mixture_parts(head);
}

size_t ars__proposal_width(const struct ars__head *head, size_t categories) {
    if (!ars__dist_is_prior(head->kind)) return 0;
    if (head->kind == ARS_DIST_CATEGORICAL) return categories;
    if (head->kind == ARS_DIST_BERNOULLI) return 1;
    if (head->components < 1 || head->components >= K_MAX) return 0;
    size_t parts = (is_count(head->kind) ? 2 : 1) * mixture_parts(head);
    if (may_wrap(head)) parts = 3 * parts < K_MAX ? 3 * parts : K_MAX - 1;
    return (parts + 1) * ARS__COMPONENT;
}

/* One mixture; returns its doubles. */
static size_t mixture(const struct ars__head *head, const float *raw, const double *prior, double *out) {
    struct mixture m = {.at = out};
    size_t k = mixture_parts(head);
    switch (head->kind) {
    case ARS_DIST_UNIFORM:
    case ARS_DIST_BETA:
    case ARS_DIST_DIRICHLET:
        if (head->wrap && ars__is_angle(head->kind, prior))
            wrapped(&m, raw, k, prior);
        else
            beta(&m, raw, k, head->kind, prior);
        break;
    case ARS_DIST_GAMMA:
    case ARS_DIST_EXPONENTIAL:
        gamma_like(&m, raw, k, head->kind, prior);
        break;
    case ARS_DIST_POISSON:
    case ARS_DIST_BINOMIAL:
        count(&m, raw, k, head->kind, prior);
        break;
    case ARS_DIST_NEGATIVE_BINOMIAL:
        negative_binomial(&m, raw, k, prior);
        break;
    case ARS_DIST_STUDENT_T:
        student_t(&m, raw, k, prior);
        break;
    case ARS_DIST_WEIBULL:
        weibull(&m, raw, k, prior);
        break;
    case ARS_DIST_TRUNCATED_NORMAL:
        truncated_normal(&m, raw, k, prior);
        break;
    default: /* Normal, LogNormal */
        normal(&m, raw, k, head->kind, prior);
    }
    return finish(&m, head->kind, prior, head->defensive);
}

int ars__propose_encoded(const struct ars__head *head, size_t n, const float *raw, size_t raw_width,
                         const double *prior, const double *probabilities, size_t categories,
                         const int64_t *n_categories, uint64_t *out, size_t stride, int64_t *sizes) {
    size_t width = ars__proposal_width(head, categories);
    int is_categorical = head->kind == ARS_DIST_CATEGORICAL, is_bernoulli = head->kind == ARS_DIST_BERNOULLI;
    if (!width || stride < width + 1 || (!is_categorical && raw_width != raw_width_of(head))) return -2;
    for (size_t i = 0; i < n; i++, raw += raw_width, prior += 4, out += stride) {
        struct ars_wire_dist header = {.kind =
                                           is_categorical || is_bernoulli ? (uint16_t)head->kind : ARS_DIST_MIXTURE};
        double *numbers = (double *)(void *)(out + 1), share = head->defensive;
        size_t used = 1;
        if (is_categorical) {
            if (n_categories[i] < 1 || (size_t)n_categories[i] > categories) return -2;
            used = categorical(raw, raw_width, probabilities + i * categories, (size_t)n_categories[i], share, numbers);
        } else if (is_bernoulli) {
            numbers[0] = (1 - share) * sigmoid(logit(prior[0]) + raw[0]) + share * prior[0];
        } else {
            used = mixture(head, raw, prior, numbers);
        }
        for (size_t j = 0; j < used; j++)
            if (isnan(numbers[j])) return -1;
        header.n = (uint32_t)used;
        memcpy(out, &header, sizeof header);
        sizes[i] = (int64_t)(sizeof header + used * sizeof(double));
    }
    return 0;
}

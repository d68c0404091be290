/* vectors.c: see vectors.h. */
#include "vectors.h"

#include <math.h>
#include <string.h>

#include "dist_vector.h"

static ars_dist vector_of(unsigned kind, const double *first, const double *second, size_t dimension) {
    return kind == ARS_DIST_DIRICHLET ? ars_dirichlet(first, dimension)
                                      : ars_multivariate_normal(first, second, dimension);
}

int ars__vectors_check(unsigned kind, const double *first, const double *second, size_t dimension, char *text,
                       size_t text_size) {
    ars_dist d = vector_of(kind, first, second, dimension);
    return ars__vector_check(&d, text, text_size);
}

int ars__vectors_log_density(unsigned kind, const double *first, const double *second, size_t dimension,
                             const double *x, size_t n, double *out, char *text, size_t text_size) {
    ars_dist d = vector_of(kind, first, second, dimension);
    if (ars__vector_check(&d, text, text_size)) return -1;
    for (size_t i = 0; i < n; i++) out[i] = ars__dist_log_density_at(&d, x + i * dimension);
    return 0;
}

int ars__vectors_sample(unsigned kind, const double *first, const double *second, size_t dimension, uint64_t seed,
                        size_t n, double *out, char *text, size_t text_size) {
    ars_dist d = vector_of(kind, first, second, dimension);
    ars__rng rng;
    if (ars__vector_check(&d, text, text_size)) return -1;
    ars__rng_init(&rng, seed, 0, 0);
    for (size_t i = 0; i < n; i++) ars__dist_draw(&d, &rng, out + i * dimension);
    return 0;
}

size_t ars__stream_size(void) {
    return sizeof(ars__rng);
}

void ars__streams_begin(size_t n, const void *places, void *streams) {
    for (size_t i = 0; i < n; i++) {
        struct ars_wire_stream place;
        memcpy(&place, (const unsigned char *)places + i * sizeof place, sizeof place);
        ars__rng_resume((ars__rng *)streams + i, &place);
    }
}

static double draw_from(ars__rng *rng, const ars_dist *proposal, const ars_dist *prior) {
    if (proposal->kind == ARS_DIST_GIVEN)
        return ars__dist_log_density(prior, proposal->a[0]) == -INFINITY ? NAN : proposal->a[0];
    double value = ars__dist_sample(proposal->kind == ARS_DIST_PRIOR ? prior : proposal, rng);
    return isfinite(value) ? value : NAN;
}

void ars__streams_draw(size_t n, void *streams, const int64_t *rows, const void *proposals, const void *priors,
                       double *values) {
    const unsigned char *q_at = proposals, *p_at = priors;
    for (size_t i = 0; i < n; i++) {
        struct ars_wire_dist q, p;
        ars_dist proposal, prior;
        char why[256];
        memcpy(&q, q_at, sizeof q);
        memcpy(&p, p_at, sizeof p);
        const size_t q_size = sizeof q + q.n * sizeof(double), p_size = sizeof p + p.n * sizeof(double);
        const bool good = ars__dist_decode(&proposal, q_at, q_size, why, sizeof why) &&
                          ars__dist_decode(&prior, p_at, p_size, why, sizeof why);
        values[i] = good ? draw_from((ars__rng *)streams + rows[i], &proposal, &prior) : NAN;
        q_at += q_size;
        p_at += p_size;
    }
}

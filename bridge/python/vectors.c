/* vectors.c: see vectors.h. */
#include "vectors.h"

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

int ars__vectors_log_density(unsigned kind, const double *first, const double *second, size_t dimension, const double *x,
                             size_t n, double *out, char *text, size_t text_size) {
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

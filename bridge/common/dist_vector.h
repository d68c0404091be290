/* dist_vector.h: distributions of vectors.
 *
 * A MultivariateNormal or a Dirichlet is drawn coordinate by coordinate, each given those before it. Their densities multiply
 * to the joint density. So a coordinate is proposed, recorded and weighted like any other latent, and a network that proposes
 * one coordinate after the other can follow every correlation.
 *
 *     MultivariateNormal   x[i] is Normal(mean[i] + sum over j < i of L[i][j] z[j], L[i][i]), z[j] = (x[j] - its mean) / L[j][j]
 *     Dirichlet            x[i] is ScaledBeta(a[i], sum over j > i of a[j], 0, 1 - sum over j < i of x[j]); the last follows
 *
 * An ars_dist of these kinds has two forms. As the simulator makes it, it points to its parameters: a vector. On the wire, as
 * the prior of one latent, it has the two or four numbers of a coordinate. */
#ifndef ARS_COMMON_DIST_VECTOR_H
#define ARS_COMMON_DIST_VECTOR_H

#include "dist.h"

enum { ARS__MAX_DIMENSION = 512 };

static inline bool ars__is_vector(const ars_dist *d) {
    return (d->kind == ARS_DIST_MULTIVARIATE_NORMAL || d->kind == ARS_DIST_DIRICHLET) && d->p;
}

/* 0 if the parameters are right; else -1 and a sentence about the wrong one in `text`. Scalar kinds too. */
int ars__vector_check(const ars_dist *d, char *text, size_t size);

/* A vector that is being drawn. */
typedef struct ars__drawing {
    const ars_dist *d;
    unsigned at;                  /* the next coordinate */
    double left;                  /* Dirichlet: of 1 */
    double z[ARS__MAX_DIMENSION]; /* MultivariateNormal: of the coordinates so far */
} ars__drawing;

void ars__drawing_begin(ars__drawing *drawing, const ars_dist *d);
/* The distribution of the next coordinate; false if its value follows from the others, and is `*value`. */
bool ars__drawing_next(const ars__drawing *drawing, ars_dist *coordinate, double *value);
void ars__drawing_take(ars__drawing *drawing, const ars_dist *coordinate, double value);

/* A draw and the joint log density of so many values. Scalar kinds too. */
static inline size_t ars__dist_width(const ars_dist *d) {
    return ars__is_vector(d) ? d->n : 1;
}
void ars__dist_draw(const ars_dist *d, ars__rng *rng, double *values);
double ars__dist_log_density_at(const ars_dist *d, const double *x);

/* The index of a value that d cannot have whatever its parameters, and in *must what values are; -1: none. That of a
 * Dirichlet whose values do not sum to 1 is that of the last one. */
int ars__vector_support(const ars_dist *d, const double *x, const char **must);

#endif /* ARS_COMMON_DIST_VECTOR_H */

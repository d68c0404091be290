/* vectors.h: what Python calls for distributions of vectors. Not part of libars. */
#ifndef ARS_CFFI_VECTORS_H
#define ARS_CFFI_VECTORS_H

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
/* A MultivariateNormal (first: its mean, second: its Cholesky factor) or a Dirichlet (first: its concentrations) of this
 * dimension. The functions return 0, or -1 with a sentence in `text`, and then have written nothing else. */
int ars__vectors_check(unsigned kind, const double *first, const double *second, size_t dimension, char *text,
                       size_t text_size);

/* Of n rows of x, each with so many numbers. */
int ars__vectors_log_density(unsigned kind, const double *first, const double *second, size_t dimension, const double *x,
                             size_t n, double *out, char *text, size_t text_size);

/* n draws from the one stream (seed, 0, 0), row by row. */
int ars__vectors_sample(unsigned kind, const double *first, const double *second, size_t dimension, uint64_t seed,
                        size_t n, double *out, char *text, size_t text_size);
/* cffi: end */

#endif /* ARS_CFFI_VECTORS_H */

/* vectors.h: what Python calls for distributions of vectors, and for requests for several draws. Not part of libars. */
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
int ars__vectors_log_density(unsigned kind, const double *first, const double *second, size_t dimension,
                             const double *x, size_t n, double *out, char *text, size_t text_size);

/* n draws from the one stream (seed, 0, 0), row by row. */
int ars__vectors_sample(unsigned kind, const double *first, const double *second, size_t dimension, uint64_t seed,
                        size_t n, double *out, char *text, size_t text_size);

/* Requests for several draws are answered one draw after the other; the values between are drawn here, as libars will.
 * `streams` has ars__stream_size() bytes for each. */
size_t ars__stream_size(void);
void ars__streams_begin(size_t n, const void *places, void *streams); /* places: n checked ars_wire_stream */

/* For i < n: the value that stream rows[i] gives with the i-th proposal and prior, both encoded, one after another and 8-byte
 * aligned. NaN: libars will not draw from this proposal, and the vector ends here. */
void ars__streams_draw(size_t n, void *streams, const int64_t *rows, const void *proposals, const void *priors,
                       double *values);
/* cffi: end */

#endif /* ARS_CFFI_VECTORS_H */

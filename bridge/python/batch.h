/* batch.h: what Python calls: many distributions in one call. Not part of libars. */
#ifndef ARS_CFFI_BATCH_H
#define ARS_CFFI_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* `bytes` holds `count` encoded distributions (ars_wire_dist), one after another, 8-byte aligned, and nothing else.
 * Every function decodes and checks them all first; it returns 0, or -1 with a sentence in `text`, and then has written
 * nothing else. With count = 1 the one distribution serves all n values; else n = count. */

/* cffi: begin */
int ars__batch_check(const void *bytes, size_t size, size_t count, char *text, size_t text_size);

int ars__batch_log_density(const void *bytes, size_t size, size_t count, const double *x, size_t n, double *out,
                           char *text, size_t text_size);

/* Draws all n values from the one stream (seed, trace, stream). */
int ars__batch_sample(const void *bytes, size_t size, size_t count, uint64_t seed, uint64_t trace, uint64_t stream,
                      size_t n, double *out, char *text, size_t text_size);

/* The first uniform of each stream (seed, traces[i], stream). */
void ars__named_uniforms(uint64_t seed, const uint64_t *traces, size_t n, uint64_t stream, double *out);

/* The log density of x[i] under each of the row's components, params[i][j][4], which are of one kind that has such
 * parameters. They are not checked, and none is an error. */
void ars__component_densities(unsigned kind, size_t rows, size_t components, const double *params, const double *x,
                              double *out);
/* cffi: end */

#endif /* ARS_CFFI_BATCH_H */

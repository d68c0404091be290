/* ars/flat.h: libars as the random number generator of a third-party program.
 *
 * Many generators accept a function that returns uniform random numbers. Pass one of these:
 *
 *     ncrystal_setrandgen(ars_flat_function);                   // double (*)(void)
 *
 * In a trace, each call is ars_flat(): a latent named by its call path, or a nuisance if ars_flat_policy says so. Outside a
 * trace, for instance while the generator initialises itself, numbers come from a stream with a fixed seed: they are the same
 * in every process, and nothing is recorded.
 *
 * All numbers lie strictly inside (0, 1). */
#ifndef ARS_FLAT_H
#define ARS_FLAT_H

#include <stdint.h>

#include <ars.h>

#ifdef __cplusplus
extern "C" {
#endif

/* double (*)(void) */
static inline double ars_flat_function(void) {
    return ars_in_trace() ? ars_flat() : ars__outside_flat();
}

/* float (*)(void). A double close to 1 would round to 1.0f: it becomes the float below. */
static inline float ars_flat_function_float(void) {
    const float u = (float)ars_flat_function();
    return u < 1.0f ? u : 1.0f - 1.0f / 16777216.0f;
}

/* unsigned (*)(void): 32 random bits. */
static inline uint32_t ars_flat_function_bits(void) {
    return (uint32_t)(ars_flat_function() * 4294967296.0);
}

/* The same for generators that pass a pointer to their state, which these functions ignore: double (*)(void *) and so on. */
static inline double ars_flat_function_state(void *state) {
    (void)state;
    return ars_flat_function();
}
static inline float ars_flat_function_float_state(void *state) {
    (void)state;
    return ars_flat_function_float();
}
static inline uint32_t ars_flat_function_bits_state(void *state) {
    (void)state;
    return ars_flat_function_bits();
}

/* void (*)(double *, int): fills an array. A negative n counts as 0. Fortran passes references, so define a function with the
 * name that the program calls:   void ranlux_(float *values, const int *n) { ars_flat_array_float(values, *n); } */
static inline void ars_flat_array(double *values, int n) {
    for (int i = 0; i < n; i++) values[i] = ars_flat_function();
}
static inline void ars_flat_array_float(float *values, int n) {
    for (int i = 0; i < n; i++) values[i] = ars_flat_function_float();
}

#ifdef __cplusplus
}
#endif

#endif /* ARS_FLAT_H */

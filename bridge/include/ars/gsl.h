/* ars/gsl.h: libars as a random number generator of the GNU Scientific Library.
 *
 *     gsl_rng *r = gsl_rng_alloc(ars_gsl_rng);
 *     double x = gsl_ran_flat(r, 0, 10);                         // one latent, named by its call path
 *
 * It works with every function that accepts a gsl_rng. Seeds are ignored: in a trace the controller determines the draws, and
 * outside a trace the numbers are the same in every process. The generator has no state, so gsl_rng_clone and gsl_rng_memcpy
 * give the same generator again.
 *
 * Some GSL functions contain rejection loops: gsl_ran_gaussian, gsl_ran_gamma, gsl_ran_poisson and others. These loops are not
 * marked, so the rejected draws are also latents, and a network has to learn them. For a latent, use ars_sample with the
 * distribution instead: ars_sample("x", ars_normal(0, 1)). docs/adapters.md lists how many draws each function makes.
 *
 * ars_gsl_rng is a single object per program, however many files include this header, because the linker keeps one of the weak
 * definitions. */
#ifndef ARS_GSL_H
#define ARS_GSL_H

#include <gsl/gsl_rng.h>

#include <ars/flat.h>

#ifdef __cplusplus
extern "C" {
#endif

static void ars__gsl_set(void *state, unsigned long seed) {
    (void)state;
    (void)seed;
}

static unsigned long ars__gsl_get(void *state) {
    return ars_flat_function_bits_state(state);
}

static double ars__gsl_get_double(void *state) {
    return ars_flat_function_state(state);
}

/* GSL allocates the state, of which there is none, and takes a null pointer for a lack of memory: so one byte. */
static const gsl_rng_type ars__gsl_type = {"ars", 0xffffffffUL, 0, 1, ars__gsl_set, ars__gsl_get, ars__gsl_get_double};

extern const gsl_rng_type *ars_gsl_rng;
__attribute__((weak)) const gsl_rng_type *ars_gsl_rng = &ars__gsl_type;

#ifdef __cplusplus
}
#endif

#endif /* ARS_GSL_H */

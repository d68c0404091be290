/* The other file of one_type.c. */
#include <ars/gsl.h>

extern "C" const gsl_rng_type *type_elsewhere(void);

const gsl_rng_type *type_elsewhere(void) {
    return ars_gsl_rng;
}

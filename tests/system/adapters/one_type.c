/* Two files that include ars/gsl.h, in C and in C++, share one generator type. Prints "ok" if GSL thinks so too. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_randist.h>
#include <stdio.h>
#include <string.h>

#include <ars/gsl.h>

const gsl_rng_type *type_elsewhere(void);

int main(void) {
    gsl_rng *here = gsl_rng_alloc(ars_gsl_rng), *there = gsl_rng_alloc(type_elsewhere()), *clone = gsl_rng_clone(here);
    if (here->type != there->type || clone->type != here->type) return puts("types differ"), 1;
    if (gsl_rng_memcpy(here, there) != GSL_SUCCESS) return puts("memcpy refused"), 1;
    if (strcmp(gsl_rng_name(here), "ars") || gsl_rng_min(here) != 0 || gsl_rng_max(here) != 0xffffffff)
        return puts("name or range"), 1;
    /* All generators are one, and seeds change nothing: the numbers go on. */
    double first = gsl_rng_uniform(here);
    gsl_rng_set(here, 7);
    if (gsl_rng_uniform(clone) == first) return puts("the stream began again"), 1;
    unsigned counts[6] = {0};
    for (int i = 0; i < 60000; i++) counts[gsl_rng_uniform_int(there, 6)]++;
    for (int i = 0; i < 6; i++)
        if (counts[i] < 9600 || counts[i] > 10400) return printf("uniform_int: %u\n", counts[i]), 1; /* 4.4 sigma */
    gsl_rng_free(here);
    gsl_rng_free(there);
    gsl_rng_free(clone);
    puts("ok");
    return 0;
}

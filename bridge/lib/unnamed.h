/* unnamed.h: draws that are named by their call path. */
#ifndef ARS_LIB_UNNAMED_H
#define ARS_LIB_UNNAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "ars.h"
#include "paths.h"

/* ars_sample without a name. `caller`: the stack pointer of whoever called it. */
double ars__sample_unnamed(struct ars__call_at call, const char *caller, const ars_dist *d);

/* The site of an unnamed draw from d and of all that follow it in the same call; ARS_NO_SITE: draw from the prior. */
uint32_t ars__unnamed_site(struct ars__call_at call, const char *caller, const ars_dist *d);

/* A latent whose site is known. `inside`: the program must get a value strictly inside (0, 1), even if a proposal puts one at
 * the edge or beyond. */
double ars__sample_at(uint32_t site_id, const ars_dist *prior, bool inside);

#endif /* ARS_LIB_UNNAMED_H */

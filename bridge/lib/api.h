/* api.h: what the calls of ars.h share. */
#ifndef ARS_LIB_API_H
#define ARS_LIB_API_H

#include <math.h>

#include "dist.h"
#include "process.h"
#include "thread_owner.h"

/* Fails unless this thread may make the call, in a trace, with a name, and no loop around it was left. `caller`: ARS__CALLER. */
void ars__check_call(const char *caller, enum ars__call call, const char *name);
void ars__check_parameters(const ars_dist *d, const char *what, const char *name);
void ars__check_element(const ars_dist *d, size_t i, const char *what, const char *name); /* of a vector */
void ars__check_no_loop(const char *what, const char *name);

/* Draws a latent from its proposal and records it. The parameters of the prior have been checked. */
double ars__sample_latent(const char *name, const ars_dist *prior);

/* The plain simulator pays for a look at its thread and its parameters, not more: the rest of a call is out of its way. NAN:
 * make the whole call. */
static inline double ars__quick(const char *name, const ars_dist *d) {
    return ars__thread == ARS__PLAIN && name && *name ? ars__dist_quick(d, &ars__me.rng) : NAN;
}

#endif /* ARS_LIB_API_H */

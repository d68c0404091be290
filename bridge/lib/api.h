/* api.h: what the calls of ars.h share. */
#ifndef ARS_LIB_API_H
#define ARS_LIB_API_H

#include "dist.h"
#include "stray.h"

/* Fails the trace if this call may not be made here, or has no name. */
void ars__check_call(const char *caller, enum ars__call call, const char *name);
/* Draws a latent from its proposal and records it. The parameters of the prior have been checked. */
double ars__sample_latent(const char *name, const ars_dist *prior);

#endif /* ARS_LIB_API_H */

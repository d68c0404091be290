/* given.h: values that the controller gives instead of proposals, so that a trace can be repeated with some of its latents changed
 * (MCMC).
 *
 * A latent whose reply is a Given takes that value; it is recorded with its log p under the present prior, and log q = 0. Two things
 * can make the values that were given impossible: the present prior cannot draw one, or a try that used one is rejected. That try
 * cannot be repeated: it would be given the same value for ever. The trace then goes on as one of the prior, asks nothing more, and
 * ends with a log ratio of -inf. It is no failure, and the simulator never sees a value that its prior could not have drawn. */
#ifndef ARS_LIB_GIVEN_H
#define ARS_LIB_GIVEN_H

#include <stdbool.h>

#include "dist.h"
#include "loops.h"

/* Whether the latent takes the given value, a `proposal` of kind Given. If not, the proposal has become the prior. */
bool ars__given_take(const ars_dist *prior, ars_dist *proposal);

/* The present try of the loop was rejected. */
void ars__given_rejected(struct ars__loop *loop);

#endif /* ARS_LIB_GIVEN_H */

/* unnamed.h: draws that are named by their call path. */
#ifndef ARS_LIB_UNNAMED_H
#define ARS_LIB_UNNAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "ars.h"

/* The call into libars that draws. */
struct ars__caller {
    const char *frame;  /* __builtin_frame_address(0) in it */
    const void *result; /* __builtin_return_address(0) in it: where its caller goes on */
};
#define ARS__CALLER_HERE() ((struct ars__caller){__builtin_frame_address(0), __builtin_return_address(0)})

/* ars_sample without a name. `on_stack`: the bytes of arguments between the caller's frame and ours. */
double ars__sample_unnamed(struct ars__caller caller, size_t on_stack, const ars_dist *d);

/* A latent whose site is known; `name` is for messages. `inside`: the program must get a value strictly inside (0, 1), even
 * if a proposal puts one at the edge or beyond. */
double ars__sample_at(uint32_t site_id, const char *name, const ars_dist *prior, bool inside);

#endif /* ARS_LIB_UNNAMED_H */

/* steps.h: what Python calls for STEPS and REPLIES: a whole message in one call. Not part of libars. */
#ifndef ARS_CFFI_STEPS_H
#define ARS_CFFI_STEPS_H

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
/* The requests of a STEPS message as arrays, one entry per request. `begin` is where its item begins in the frame; what
 * it tells and its prior's numbers are entries told_begin[i] .. told_begin[i + 1] - 1 of told_*, and likewise of `prior`.
 * `begin`, `told_begin` and `prior_begin` have one entry more than there are requests. The caller owns the arrays; they
 * have room for every frame of that size and count. */
struct ars__steps {
    int64_t *begin;
    uint32_t *ticket;
    uint64_t *trace;
    uint64_t *state;
    uint32_t *site;
    uint32_t *instance;
    int64_t *told_begin;
    uint32_t *told_site;
    uint32_t *told_instance;
    double *told_value;
    uint16_t *prior_kind; /* 0 where a request only tells */
    int64_t *prior_begin;
    double *prior;    /* of the first draw */
    uint32_t *n_more; /* draws asked for besides the first; their priors and the stream end the item */
};

/* Checks the `count` items of a frame whose header has been checked, and fills the arrays. `kinds` and `dists` are those
 * of the n_sites sites that have been announced. Returns 0; or -1 with a sentence in `text`, and in *item the item that
 * is wrong (`count` if it is what follows the last one). */
int ars__steps_decode(const void *frame, size_t size, uint32_t count, const uint8_t *kinds, const uint8_t *dists,
                      uint32_t n_sites, struct ars__steps *out, uint32_t *item, char *text, size_t text_size);

/* Writes the n items of REPLIES to `out`. Proposals, encoded, follow each other in `proposals`; sizes[i] is the length of
 * one, 0 for a request that only told; it holds n_more[i] others behind the first. `out` has room for 24 n bytes and the
 * proposals. */
void ars__replies_encode(size_t n, const uint32_t *ticket, const uint64_t *state, const uint32_t *flags,
                         const uint32_t *n_more, const int64_t *sizes, const void *proposals, void *out);
/* cffi: end */

#endif /* ARS_CFFI_STEPS_H */

/* steps.c: see steps.h. The checks are the host's own (wire.c). */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include "wire_check.h"

/* A checked item as entry i of the arrays. */
static void unpack_step(struct ars__steps *out, uint32_t i, const unsigned char *bytes) {
    struct ars_wire_step step;
    memcpy(&step, bytes, sizeof step);
    out->ticket[i] = step.ticket;
    out->trace[i] = step.trace;
    out->state[i] = step.state;
    out->site[i] = step.site_id;
    out->instance[i] = step.instance;
    size_t at = sizeof step;
    int64_t to = out->told_begin[i];
    for (uint32_t k = 0; k < step.n_told; k++, to++, at += sizeof(struct ars_wire_told)) {
        struct ars_wire_told told;
        memcpy(&told, bytes + at, sizeof told);
        out->told_site[to] = told.site_id;
        out->told_instance[to] = told.instance;
        out->told_value[to] = told.value;
    }
    out->told_begin[i + 1] = to;
    out->prior_kind[i] = 0;
    out->n_more[i] = step.n_more;
    out->prior_begin[i + 1] = out->prior_begin[i];
    if (step.site_id == ARS_NO_SITE) return;
    struct ars_wire_dist prior;
    memcpy(&prior, bytes + at, sizeof prior);
    out->prior_kind[i] = prior.kind;
    out->prior_begin[i + 1] += prior.n;
    memcpy(out->prior + out->prior_begin[i], bytes + at + sizeof prior, prior.n * sizeof(double));
}

int ars__steps_decode(const void *frame, size_t size, uint32_t count, const uint8_t *kinds, const uint8_t *dists,
                      uint32_t n_sites, struct ars__steps *out, uint32_t *item, char *text, size_t text_size) {
    const ars__known_sites sites = {n_sites, kinds, dists};
    size_t at = sizeof(struct ars_wire_header), used = 0;
    out->told_begin[0] = out->prior_begin[0] = 0;
    for (uint32_t i = 0; i < count; i++, at += used) {
        ars__why why;
        const unsigned char *bytes = (const unsigned char *)frame + at;
        if (!ars__check_step(bytes, size - at, sites, &used, &why)) {
            *item = i;
            snprintf(text, text_size, "%s", why.text);
            return -1;
        }
        out->begin[i] = (int64_t)at;
        unpack_step(out, i, bytes);
    }
    out->begin[count] = (int64_t)at;
    if (at == size) return 0;
    *item = count;
    snprintf(text, text_size, "%zu bytes after the last item", size - at);
    return -1;
}

void ars__replies_encode(size_t n, const uint32_t *ticket, const uint64_t *state, const uint32_t *flags,
                         const uint32_t *n_more, const int64_t *sizes, const void *proposals, void *out) {
    const unsigned char *from = proposals;
    unsigned char *to = out;
    for (size_t i = 0; i < n; i++) {
        size_t size = (size_t)sizes[i];
        struct ars_wire_reply reply = {.size = (uint32_t)(sizeof reply + size),
                                       .ticket = ticket[i],
                                       .state = state[i],
                                       .flags = flags[i],
                                       .n_more = n_more[i]};
        memcpy(to, &reply, sizeof reply);
        memcpy(to + sizeof reply, from, size);
        to += sizeof reply + size;
        from += size;
    }
}

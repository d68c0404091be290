/* ask.c: questions to the host, through this process's mailbox. */
#include <errno.h>
#include <string.h>

#include "futex.h"
#include "process.h"

void ars__raise_attention(uint32_t channel) {
    struct ars__shm *shm = ars__me.shm;
    atomic_fetch_or(&shm->attention[channel / 64], (uint64_t)1 << (channel % 64));
    atomic_fetch_add(&shm->doorbell, 1);
    if (atomic_load(&shm->host_asleep)) ars__futex_wake(&shm->doorbell, 1);
}

void ars__ask(enum ars__question kind, const void *request, size_t size, void *reply, size_t *reply_size) {
    struct ars__channel *c = ars__me.channel;
    c->kind = kind;
    c->size = (uint32_t)size;
    memcpy(c->body, request, size);
    atomic_store(&c->state, ARS__ASKED);
    ars__raise_attention(ars__me.channel_number);
    /* No deadline of our own: the host ends this process when its trace takes too long, the kernel when the host dies. */
    for (uint32_t seen; (seen = atomic_load(&c->state)) != ARS__ANSWERED;) ars__futex_wait(&c->state, seen, 1000000000);
    size_t n = c->size;
    if (n > *reply_size)
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the host answered with %zu bytes, at most %zu fit", n, *reply_size);
    memcpy(reply, c->body, n);
    *reply_size = n;
    atomic_store(&c->state, ARS__IDLE);
}

/* Writes a request that tells the latents [told, told + n) and, if `prior` is given, asks for its site's proposal. */
static size_t build_step(unsigned char *out, uint32_t site, uint32_t instance, size_t n, const ars_dist *prior) {
    const struct ars_wire_sample *s = (void *)ars__me.trace.samples.bytes;
    struct ars_wire_step step = {.trace = ars__me.trace_number,
                                 .state = ars__me.state,
                                 .site = site,
                                 .instance = instance,
                                 .n_told = (uint32_t)n};
    size_t size = sizeof step;
    for (size_t i = 0; i < n; i++) {
        const struct ars_wire_sample *from = &s[ars__me.told + i];
        struct ars_wire_told told = {from->site, from->instance, from->value};
        memcpy(out + size, &told, sizeof told);
        size += sizeof told;
    }
    if (prior) size += ars__dist_encode(prior, out + size, ARS_WIRE_MAX_STEP - size);
    step.size = (uint32_t)size;
    memcpy(out, &step, sizeof step);
    return size;
}

/* Asks, and takes the new state. Returns the bytes of the reply. */
static size_t step(const unsigned char *request, size_t size, size_t told, void *reply) {
    size_t reply_size = ARS_WIRE_MAX_STEP;
    ars__ask(ARS__ASK_STEP, request, size, reply, &reply_size);
    if (reply_size < sizeof(struct ars_wire_reply))
        ars__fail(ARS_FAIL_PROTOCOL, 0, "a reply of %zu bytes is too short", reply_size);
    ars__me.state = ((struct ars_wire_reply *)reply)->state;
    ars__me.told += told;
    return reply_size;
}

/* Equal questions have equal answers, so a loop keeps the first one for its retries and continuations. */
static size_t recall(const unsigned char *request, size_t size, void *reply) {
    for (size_t i = ars__me.loops.depth; i-- > 0;) {
        const struct ars__first *f = ars__me.loops.at[i].first;
        if (!f || f->request_size != size || memcmp(f->request, request, size) != 0) continue;
        memcpy(reply, f->reply, f->reply_size);
        return f->reply_size;
    }
    return 0;
}

static void remember(uint64_t asked_from, const unsigned char *request, size_t size, const void *reply,
                     size_t reply_size) {
    for (size_t i = ars__me.loops.depth; i-- > 0;) {
        struct ars__loop *loop = &ars__me.loops.at[i];
        if (loop->entry_state != asked_from) break;
        struct ars__first *f = loop->first;
        if (!f || f->request_size) continue;
        memcpy(f->request, request, size);
        memcpy(f->reply, reply, reply_size);
        f->reply_size = (uint32_t)reply_size;
        f->request_size = (uint32_t)size;
    }
}

static bool prior_proposes(uint32_t site) {
    if (ars__me.flags & ARS_RUN_PROPOSE_PRIOR) return true;
    if ((ars__me.flags & ARS_RUN_LOOPS_PRIOR) && ars__me.loops.depth) return true;
    return atomic_load_explicit(&ars__me.shm->sites[site].always_prior, memory_order_relaxed) ==
           (uint32_t)ars__me.run_number;
}

void ars__propose(uint32_t site, uint32_t instance, const ars_dist *prior, ars_dist *proposal, void *storage) {
    *proposal = *prior;
    if (prior_proposes(site)) return;

    _Alignas(8) unsigned char request[ARS_WIRE_MAX_STEP];
    size_t untold;
    while ((untold = ars__n_samples(&ars__me.trace) - ars__me.told) > ARS_WIRE_MAX_TOLD) {
        size_t size = build_step(request, ARS_NO_SITE, 0, ARS_WIRE_MAX_TOLD, NULL);
        step(request, size, ARS_WIRE_MAX_TOLD, storage);
    }
    size_t size = build_step(request, site, instance, untold, prior);
    size_t reply_size = recall(request, size, storage);
    if (reply_size) {
        ars__me.state = ((struct ars_wire_reply *)storage)->state;
        ars__me.told += untold;
    } else {
        uint64_t asked_from = ars__me.state;
        reply_size = step(request, size, untold, storage);
        remember(asked_from, request, size, storage, reply_size);
    }

    char why[256];
    unsigned char *at = (unsigned char *)storage + sizeof(struct ars_wire_reply);
    if (!ars__dist_decode(proposal, at, reply_size - sizeof(struct ars_wire_reply), why, sizeof why)) {
        int n;
        const char *address = ars__site_address(site, &n);
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the proposal for %.*s is not valid: %s", n, address, why);
    }
    if (proposal->kind == ARS_DIST_PRIOR) *proposal = *prior;
}

/* ask.c: questions to the host, through this process's mailbox. */
#include <errno.h>
#include <string.h>

#include "ahead.h"
#include "ask.h"
#include "fail.h"
#include "futex.h"
#include "process.h"
#include "rewind.h"
#include "sites.h"
#include "trace.h"

void ars__raise_attention(uint32_t channel) {
    struct ars__bell *bell = ars__bell_at(ars__me.shm);
    atomic_fetch_or(&bell->attention[channel / 64], (uint64_t)1 << (channel % 64));
    atomic_fetch_add(&bell->doorbell, 1);
    if (atomic_load(&bell->host_asleep)) ars__futex_wake(&bell->doorbell, 1);
}

size_t ars__ask_in_place(enum ars__question kind, size_t size) {
    struct ars__channel *c = ars__me.channel;
    c->kind = kind;
    c->size = (uint32_t)size;
    ars__rewind_pause();
    atomic_store(&c->state, ARS__ASKED);
    ars__raise_attention(ars__me.channel_number);
    /* No deadline of our own: the host ends this process when its trace takes too long, the kernel when the host dies. */
    for (uint32_t seen; (seen = atomic_load(&c->state)) != ARS__ANSWERED;) ars__futex_wait(&c->state, seen, 1000000000);
    ars__rewind_resume();
    size_t n = c->size;
    if (n > sizeof c->body)
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the host answered with %zu bytes, at most %zu fit", n, sizeof c->body);
    atomic_store(&c->state, ARS__IDLE);
    return n;
}

void ars__ask(enum ars__question kind, const void *request, size_t size, void *reply, size_t *reply_size) {
    memcpy(ars__me.channel->body, request, size);
    size_t n = ars__ask_in_place(kind, size);
    if (n > *reply_size)
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the host answered with %zu bytes, at most %zu fit", n, *reply_size);
    memcpy(reply, ars__me.channel->body, n);
    *reply_size = n;
}

/* Writes a request that tells the latents [told, told + n) and, if `prior` is given, asks for its site's proposal. */
static size_t build_step(unsigned char *out, uint32_t site_id, uint32_t instance, size_t n, const ars_dist *prior) {
    const struct ars_wire_sample *s = (void *)ars__me.trace.samples.bytes;
    struct ars_wire_step step = {.trace = ars__me.trace_number,
                                 .state = ars__me.state,
                                 .site_id = site_id,
                                 .instance = instance,
                                 .n_told = (uint32_t)n};
    size_t size = sizeof step;
    for (size_t i = 0; i < n; i++) {
        const struct ars_wire_sample *from = &s[ars__me.told + i];
        struct ars_wire_told told = {from->site_id, from->instance, from->value};
        memcpy(out + size, &told, sizeof told);
        size += sizeof told;
    }
    if (prior) size += ars__dist_encode(prior, out + size, ARS_WIRE_MAX_STEP - size);
    step.size = (uint32_t)size;
    memcpy(out, &step, sizeof step);
    return size;
}

/* Takes the new state that a reply brings. */
static void take_state(const unsigned char *reply, size_t reply_size, size_t told) {
    if (reply_size < sizeof(struct ars_wire_reply))
        ars__fail(ARS_FAIL_PROTOCOL, 0, "a reply of %zu bytes is too short", reply_size);
    ars__me.state = ((const struct ars_wire_reply *)(const void *)reply)->state;
    ars__me.told += told;
}

/* Equal questions have equal answers, so a loop keeps the first one for its retries and continuations. */
static const struct ars__first *recall(const unsigned char *request, size_t size) {
    for (size_t i = ars__me.loops.depth; i-- > 0;) {
        const struct ars__first *f = ars__me.loops.at[i].first;
        if (f && f->request_size == size && memcmp(f->request, request, size) == 0) return f;
    }
    return NULL;
}

/* Asks the question in the mailbox. Loops whose first one it is keep question and answer. */
static size_t ask_and_remember(const unsigned char *body, size_t size) {
    const uint64_t asked_from = ars__me.state;
    size_t from = ars__me.loops.depth;
    while (from > 0 && ars__me.loops.at[from - 1].entry_state == asked_from) from--;
    for (size_t i = from; i < ars__me.loops.depth; i++) {
        struct ars__first *f = ars__me.loops.at[i].first;
        if (f && !f->request_size) memcpy(f->request, body, size);
    }
    size_t reply_size = ars__ask_in_place(ARS__ASK_STEP, size);
    for (size_t i = from; i < ars__me.loops.depth; i++) {
        struct ars__first *f = ars__me.loops.at[i].first;
        if (!f || f->request_size) continue;
        memcpy(f->reply, body, reply_size);
        f->reply_size = (uint32_t)reply_size;
        f->request_size = (uint32_t)size;
    }
    return reply_size;
}

bool ars__prior_proposes(uint32_t site_id) {
    if ((ars__me.flags & ARS_RUN_PROPOSE_PRIOR) || ars__me.trace.impossible) return true;
    if ((ars__me.flags & ARS_RUN_LOOPS_PRIOR) && ars__me.loops.depth) return true;
    return atomic_load_explicit(&ars__me.shm->sites[site_id].always_prior, memory_order_relaxed) == ars__me.run_number;
}

/* Question and answer stay in the mailbox, or in the memory of the loop that knows the answer: no copy on the stack,
 * whose pages a forked process would have to copy first. */
void ars__propose(uint32_t site_id, uint32_t instance, const ars_dist *prior, ars_dist *proposal) {
    unsigned char *body = ars__me.channel->body;
    size_t untold;
    while ((untold = ars__n_samples(&ars__me.trace) - ars__me.told) > ARS_WIRE_MAX_TOLD) {
        size_t size = build_step(body, ARS_NO_SITE, 0, ARS_WIRE_MAX_TOLD, NULL);
        take_state(body, ars__ask_in_place(ARS__ASK_STEP, size), ARS_WIRE_MAX_TOLD);
    }
    size_t size = build_step(body, site_id, instance, untold, prior);
    const struct ars__first *known = recall(body, size);
    ars__script_asks(body, size);
    const unsigned char *reply = NULL;
    size_t reply_size;
    if (known) {
        reply = known->reply;
        reply_size = known->reply_size;
    } else if (ars__me.ahead) {
        reply = ars__ahead_find(body, size, &reply_size);
    }
    if (!reply) {
        reply = body;
        reply_size = ask_and_remember(body, size);
    }
    ars__script_answered(reply_size);
    take_state(reply, reply_size, untold);

    char why[256];
    const unsigned char *at = reply + sizeof(struct ars_wire_reply);
    if (!ars__dist_decode(proposal, at, reply_size - sizeof(struct ars_wire_reply), why, sizeof why)) {
        int n;
        const char *address = ars__site_address(site_id, &n);
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the proposal for %.*s is not valid: %s", n, address, why);
    }
    if (proposal->kind == ARS_DIST_PRIOR) *proposal = *prior;
}

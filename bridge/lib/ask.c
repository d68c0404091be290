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

/* Tells of latents until one message holds the rest. Returns how many these are. */
static size_t tell_most(void) {
    unsigned char *body = ars__me.channel->body;
    size_t untold;
    while ((untold = ars__n_samples(&ars__me.trace) - ars__me.told) > ARS_WIRE_MAX_TOLD) {
        size_t size = build_step(body, ARS_NO_SITE, 0, ARS_WIRE_MAX_TOLD, NULL);
        take_state(body, ars__ask_in_place(ARS__ASK_STEP, size), ARS_WIRE_MAX_TOLD);
    }
    return untold;
}

/* Returns the bytes read. */
static size_t take_proposal(uint32_t site_id, const unsigned char *at, size_t size, const ars_dist *prior,
                            ars_dist *proposal) {
    char why[256];
    size_t used = ars__dist_decode(proposal, at, size, why, sizeof why);
    if (!used) {
        int n;
        const char *address = ars__site_address(site_id, &n);
        ars__fail(ARS_FAIL_PROTOCOL, 0, "the proposal for %.*s is not valid: %s", n, address, why);
    }
    if (proposal->kind == ARS_DIST_PRIOR) *proposal = *prior;
    return used;
}

/* Question and answer stay in the mailbox, or in the memory of the loop that knows the answer: no copy on the stack,
 * whose pages a forked process would have to copy first. */
void ars__propose(uint32_t site_id, uint32_t instance, const ars_dist *prior, ars_dist *proposal) {
    unsigned char *body = ars__me.channel->body;
    struct ars__waiting *w = &ars__me.waiting;
    if (w->n) {
        w->at += (uint32_t)take_proposal(site_id, body + w->at, w->end - w->at, prior, proposal);
        w->n--;
        return;
    }
    size_t untold = tell_most();
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

    const size_t header = sizeof(struct ars_wire_reply);
    take_proposal(site_id, reply + header, reply_size - header, prior, proposal);
}

/* ---- several draws in one question -------------------------------------------------------------------------------------- */

/* In a loop whose continuations get their answers ahead (ahead.c), one message asks a question for all of them. So many
 * draws it can take on. */
enum { FEW_IN_A_LOOP = 16 };

static bool worth_it(size_t n) {
    const struct ars__loop *loop = ars__top(&ars__me.loops);
    if (n < 2) return false;
    if (!loop) return true;
    /* The first draw of a loop has one answer for all tries and continuations; it is asked for alone, and kept. */
    if (loop->entry_state == ars__me.state) return false;
    return n > FEW_IN_A_LOOP || !(ars__me.flags & ARS_RUN_ASK_AHEAD);
}

/* Adds more priors to the request for the first draw, as many as there is room for, and the stream. Returns its size, 0 if
 * there was room for none. */
static size_t add_priors(unsigned char *body, size_t size, const ars_dist *priors, size_t n, uint32_t *n_more) {
    const struct ars_wire_stream stream = ars__rng_place(&ars__me.rng);
    const size_t end = ARS_WIRE_MAX_STEP - sizeof stream;
    size_t added;
    for (*n_more = 0; *n_more < n && *n_more < ARS_WIRE_MAX_MORE; ++*n_more, size += added)
        if (!(added = ars__dist_encode(&priors[*n_more], body + size, end > size ? end - size : 0))) break;
    if (!*n_more) return 0;
    memcpy(body + size, &stream, sizeof stream);
    size += sizeof stream;
    struct ars_wire_step step;
    memcpy(&step, body, sizeof step);
    step.size = (uint32_t)size;
    step.n_more = *n_more;
    memcpy(body, &step, sizeof step);
    return size;
}

/* The controller draws the values too, from the same stream, and asks its proposer about one after the other: the answers
 * are those that would come if they were asked for one by one. */
void ars__propose_together(uint32_t site_id, uint32_t instance, const ars_dist *priors, size_t n) {
    if (ars__me.waiting.n || !worth_it(n) || ars__prior_proposes(site_id)) return;
    unsigned char *body = ars__me.channel->body;
    size_t untold = tell_most();
    uint32_t asked;
    size_t size = add_priors(body, build_step(body, site_id, instance, untold, priors), priors + 1, n - 1, &asked);
    if (!size) return;
    ars__script_close(ars__top(&ars__me.loops));
    ars__me.ahead = 0;
    size_t reply_size = ars__ask_in_place(ARS__ASK_STEP, size);
    struct ars_wire_reply reply = {0};
    memcpy(&reply, body, reply_size < sizeof reply ? reply_size : sizeof reply);
    if (reply.n_more > asked)
        ars__fail(ARS_FAIL_PROTOCOL, 0, "%u proposals came for %u draws", reply.n_more + 1, asked + 1);
    take_state(body, reply_size,
               untold + reply.n_more); /* all but the last are known there by the time they are drawn */
    ars__me.waiting = (struct ars__waiting){reply.n_more + 1, sizeof reply, (uint32_t)reply_size};
}

void ars__forget_waiting(void) {
    ars__me.waiting.n = 0;
}

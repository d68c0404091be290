/* relay.c: questions from mailboxes to the controller, and its answers back.
 *
 * A ticket names the channel in its low bits and counts that channel's questions in the others, so an answer to a
 * question that nobody asks any more (its process is dead) is recognised and dropped. */
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "futex.h"
#include "host.h"
#include "link.h"
#include "path_names.h"
#include "records.h"
#include "relay.h"
#include "sites.h"
#include "start.h"
#include "states.h"
#include "timing.h"

static uint32_t worker_of(const struct host *host, uint32_t channel) {
    return channel < host->n_workers ? channel : (channel - host->n_workers) / host->per_worker;
}

static struct ars__channel *mailbox(const struct host *host, uint32_t channel) {
    if (channel < host->n_workers) return &ars__worker_at(host->shm, host->per_worker, channel)->channel;
    uint32_t i = channel - host->n_workers;
    return &ars__snapshot_at(host->shm, host->per_worker, i / host->per_worker, i % host->per_worker)->channel;
}

static void announce(struct ars__channel *box, uint32_t size) {
    box->size = size;
    atomic_store_explicit(&box->state, ARS__ANSWERED, memory_order_release);
    ars__futex_wake(&box->state, 1);
}

static void answer(struct ars__channel *box, const void *body, uint32_t size) {
    memcpy(box->body, body, size);
    announce(box, size);
}

static bool answer_site(struct host *host, struct ars__channel *box, unsigned char *body, uint32_t size,
                        ars__why *why) {
    struct ars_wire_site site;
    size_t used;
    if (size < sizeof site) return snprintf(why->text, sizeof why->text, "a site question of %u bytes", size), false;
    memcpy(&site, body, sizeof site);
    uint32_t path_size = site.reserved;
    site.id = 0;       /* the question has none yet */
    site.reserved = 0; /* as on the wire */
    memcpy(body, &site, sizeof site);
    /* The address may come with or without its padding; the body has been zeroed beyond `size`. */
    if (!ars__check_site(body, ARS_WIRE_PAD(size), &used, why)) return false;
    if (size != used && size != sizeof site + site.name_size)
        return snprintf(why->text, sizeof why->text, "a site question of %u bytes has content for %zu", size, used),
               false;
    if (path_size >= site.name_size)
        return snprintf(why->text, sizeof why->text, "a site without a name of its own"), false;
    site.reserved = path_size;
    host_site_identify(host, &site, body + sizeof site);
    answer(box, &site, sizeof site);
    return true;
}

static bool answer_path(struct host *host, struct ars__channel *box, const unsigned char *body, uint32_t size,
                        ars__why *why) {
    char name[ARS_WIRE_MAX_NAME + 1];
    if (!host_path_name(host, body, size, name, sizeof name, why)) return false;
    answer(box, name, (uint32_t)strlen(name));
    return true;
}

/* Checks the requests in `body` and gives them tickets. Returns how many they are; 0: something is wrong. */
static uint32_t ticket_steps(struct host *host, uint32_t channel, unsigned char *body, uint32_t size, ars__why *why) {
    const struct worker *worker = &host->workers[worker_of(host, channel)];
    struct channel *c = &host->channels[channel];
    uint32_t n = 0;
    for (size_t at = 0, used; at < size; at += used, n++) {
        struct ars_wire_step step;
        if (!ars__check_step(body + at, size - at, host_sites_known(host), &used, why)) return 0;
        memcpy(&step, body + at, sizeof step);
        if (!worker->has_order || step.trace != host_current_trace(worker))
            return snprintf(why->text, sizeof why->text, "a step request that is not of the trace in progress"), 0;
        if (channel >= host->n_workers && !worker->at_work)
            return snprintf(why->text, sizeof why->text, "a step request of a snapshot that was not told to go"), 0;
        if (!host_states_know(&worker->states, step.state))
            return snprintf(why->text, sizeof why->text, "a step request from a state that its trace was not given"), 0;
        step.ticket = ++c->sequence << host->ticket_bits | channel;
        memcpy(body + at, &step, sizeof step);
        if (n == 0) {
            c->ticket = step.ticket;
            c->site_id = step.site_id;
        } else if (step.site_id != c->site_id) {
            return snprintf(why->text, sizeof why->text, "step requests about several sites in one question"), 0;
        }
    }
    if (!n) snprintf(why->text, sizeof why->text, "a question without a step request");
    return n;
}

static bool take_steps(struct host *host, uint32_t channel, struct ars__channel *box, unsigned char *body,
                       uint32_t size, bool several, ars__why *why) {
    struct worker *worker = &host->workers[worker_of(host, channel)];
    struct channel *c = &host->channels[channel];
    c->asked = ticket_steps(host, channel, body, size, why);
    if (!c->asked) return false;
    if (c->asked > (several ? ARS__MOST_STEPS : 1))
        return snprintf(why->text, sizeof why->text, "%u step requests in one question", c->asked), false;
    c->waiting = true;
    c->several = several;
    c->answered = c->filled = 0;
    c->full = false;
    memset(c->came, 0, sizeof c->came);
    host_clock(host, worker);
    worker->waiting++;
    atomic_store_explicit(&box->state, ARS__TAKEN, memory_order_release);
    if (!host->n_steps_out) {
        host_buffer_zeros(&host->steps_out, sizeof(struct ars_wire_header));
        host->steps_since = host->now;
        host->n_askers_out = 0;
    }
    host_buffer_add(&host->steps_out, body, size);
    host->n_steps_out += c->asked;
    host->n_askers_out++;
    if (host_steps_crowded(host)) host_link_flush(host, false);
    return true;
}

void host_relay_question(struct host *host, uint32_t channel) {
    uint32_t w = worker_of(host, channel);
    struct ars__channel *box = mailbox(host, channel);
    if (host->workers[w].state != WORKER_ALIVE || host->channels[channel].waiting) return;
    if (atomic_load_explicit(&box->state, memory_order_acquire) != ARS__ASKED) return;
    _Alignas(8) unsigned char body[ARS_WIRE_MAX_STEP];
    ars__why why = {"an unknown question"};
    uint32_t kind = *(volatile uint32_t *)&box->kind, size = *(volatile uint32_t *)&box->size;
    bool good = false;
    if (size > sizeof body) {
        snprintf(why.text, sizeof why.text, "a question of %u bytes", size);
    } else {
        memcpy(body, box->body, size);
        memset(body + size, 0, sizeof body - size);
        if (kind == ARS__ASK_PATH) good = answer_path(host, box, body, size, &why);
        if (kind == ARS__ASK_SITE) good = answer_site(host, box, body, size, &why);
        if (kind == ARS__ASK_STEP || kind == ARS__ASK_STEPS)
            good = take_steps(host, channel, box, body, size, kind == ARS__ASK_STEPS, &why);
    }
    if (!good)
        host_family_condemn(host, w, ARS_FAIL_PROTOCOL, "the simulator's process sent what it must not: %s", why.text);
}

void host_relay_missed(struct host *host, uint32_t w) {
    uint32_t slots[ARS__MAX_SNAPSHOTS], n = host_records_at_work(host, w, slots);
    host_relay_question(host, w);
    for (uint32_t i = 0; i < n && !host->blocked; i++)
        host_relay_question(host, ars__snapshot_channel(host->n_workers, host->per_worker, w, slots[i]));
}

/* One of several is put behind those that came before it. A process asks again for what there was no room for. */
static void hand_over(struct channel *c, struct ars__channel *box, const unsigned char *item, uint32_t place) {
    struct ars_wire_reply reply;
    memcpy(&reply, item, sizeof reply);
    if (!c->several) {
        answer(box, item, reply.size);
        return;
    }
    c->full |= reply.size > sizeof box->body - c->filled;
    if (!c->full) {
        reply.ticket = place;
        memcpy(box->body + c->filled, item, reply.size);
        memcpy(box->body + c->filled, &reply, sizeof reply);
        c->filled += reply.size;
    }
    if (c->answered == c->asked) announce(box, c->filled);
}

/* The channel that waits for the answer to this request, and the request's place in its question; NULL: nobody does. */
static struct channel *waits_for(const struct host *host, uint32_t ticket, uint32_t *place) {
    uint32_t channel = ticket & ((1u << host->ticket_bits) - 1);
    if (channel >= host->n_channels) return NULL; /* made up */
    struct channel *c = &host->channels[channel];
    *place = (ticket - c->ticket) >> host->ticket_bits;
    return c->waiting && *place < c->asked ? c : NULL;
}

/* A process may have died since it asked, and its trace been reported: the controller no longer knows of it then. */
void host_relay_clean(struct host *host) {
    struct buffer *out = &host->steps_out;
    size_t to = sizeof(struct ars_wire_header);
    for (size_t at = to; at < out->size;) {
        struct ars_wire_step step;
        uint32_t place;
        memcpy(&step, out->data + at, sizeof step);
        if (waits_for(host, step.ticket, &place)) {
            memmove(out->data + to, out->data + at, step.size);
            to += step.size;
        } else {
            host->n_steps_out--;
        }
        at += step.size;
    }
    out->size = host->n_steps_out ? to : 0;
}

bool host_relay_reply(struct host *host, const unsigned char *item) {
    struct ars_wire_reply reply;
    uint32_t place;
    memcpy(&reply, item, sizeof reply);
    if (host->unanswered) host->unanswered--;
    struct channel *c = waits_for(host, reply.ticket, &place);
    if (!c) return true; /* stale */
    const uint32_t channel = (uint32_t)(c - host->channels);
    uint64_t bit = 1ull << place % 64;
    if (c->came[place / 64] & bit) return true; /* a second time */
    if ((c->site_id == ARS_NO_SITE) != (reply.size == sizeof reply)) {
        host_give_up(host, "a reply %s a proposal to a request that %s",
                     reply.size == sizeof reply ? "without" : "with",
                     c->site_id == ARS_NO_SITE ? "only tells" : "asks for one");
        return false;
    }
    if (reply.flags & ARS_REPLY_ALWAYS_PRIOR)
        atomic_store_explicit(&host->shm->sites[c->site_id].always_prior, host->run.config.header.run,
                              memory_order_relaxed);
    struct worker *worker = &host->workers[worker_of(host, channel)];
    host_states_add(&worker->states, reply.state);
    c->came[place / 64] |= bit;
    c->answered++;
    /* A process on its way out no longer cares. */
    if (worker->state == WORKER_ALIVE) hand_over(c, mailbox(host, channel), item, place);
    if (c->answered < c->asked) return true;
    c->waiting = false;
    host_clock(host, worker);
    worker->waiting--;
    return true;
}

static void reset_channel(struct host *host, uint32_t channel) {
    struct ars__channel *box = mailbox(host, channel);
    host->channels[channel].waiting = false;
    atomic_store(&box->state, ARS__IDLE);
    box->kind = box->size = 0;
}

void host_relay_forget(struct host *host, uint32_t w, uint32_t slot) {
    struct worker *worker = &host->workers[w];
    uint32_t channel = ars__snapshot_channel(host->n_workers, host->per_worker, w, slot);
    if (host->channels[channel].waiting) {
        host_clock(host, worker);
        worker->waiting--;
    }
    reset_channel(host, channel);
}

void host_relay_drop(struct host *host, uint32_t w) {
    struct worker *worker = &host->workers[w];
    host_states_clear(&worker->states);
    if (!worker->waiting) return;
    if (host->channels[w].waiting) reset_channel(host, w);
    for (uint32_t s = 0; s < host->per_worker; s++) {
        uint32_t channel = ars__snapshot_channel(host->n_workers, host->per_worker, w, s);
        if (host->channels[channel].waiting) reset_channel(host, channel);
    }
    worker->waiting = 0;
}

void host_relay_reset(struct host *host, uint32_t worker) {
    reset_channel(host, worker);
    for (uint32_t s = 0; s < host->per_worker; s++)
        reset_channel(host, ars__snapshot_channel(host->n_workers, host->per_worker, worker, s));
    host->workers[worker].waiting = 0;
    host_states_clear(&host->workers[worker].states);
}

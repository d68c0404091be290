/* played_host.h: a host for one worker of libars, played by the test program: real forks, real shared memory, no ZeroMQ. */
#ifndef ARS_TESTS_PLAYED_HOST_H
#define ARS_TESTS_PLAYED_HOST_H

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "futex.h"
#include "process.h"

enum { WORKERS = 1, SLOTS = 8 };

static struct ars__shm *shm;
static ars_dist played_proposal; /* the answer to every question about a latent */
static unsigned played_ahead;    /* questions that came several at a time */
static unsigned played_asked;    /* questions about latents */

static inline struct ars__worker *played_worker(void) {
    return ars__worker_at(shm, SLOTS, 0);
}

/* False: no memory. */
static inline bool play_host(void) {
    shm = mmap(NULL, ars__shm_size(WORKERS, SLOTS), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shm == MAP_FAILED) return false;
    shm->n_workers = WORKERS;
    shm->snapshots_per_worker = SLOTS;
    return true;
}

static inline void play_no_more(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(shm, ars__shm_size(WORKERS, SLOTS));
}

/* In the child: from now on a worker. */
static inline void become_played_worker(void) {
    ars__me.role = ARS__WORKER;
    ars__me.shm = shm;
    ars__me.n_workers = WORKERS;
    ars__me.per_worker = SLOTS;
    ars__me.mine = played_worker();
    ars__me.channel = &ars__me.mine->channel;
    ars__me.where = &ars__me.mine->where;
    ars__me.max_processes = 1000;
    ars__kept_make();
}

static inline uint32_t played_site(const struct ars_wire_site *site, const char *name) {
    const uint32_t n = atomic_load(&shm->n_sites);
    uint32_t id = 0;
    while (id < n && !(shm->sites[id].kind == site->kind && shm->sites[id].name_size == site->name_size &&
                       memcmp(shm->names + shm->sites[id].name_at, name, site->name_size) == 0))
        id++;
    if (id < n) return id;
    memcpy(shm->names + n * 64, name, site->name_size);
    shm->sites[n].kind = site->kind;
    shm->sites[n].dist = site->dist;
    shm->sites[n].name_size = site->name_size;
    shm->sites[n].name_at = n * 64;
    atomic_store(&shm->n_sites, n + 1);
    return n;
}

static inline size_t played_reply(unsigned char *out, uint64_t state, uint32_t ticket) {
    struct ars_wire_reply reply = {.ticket = ticket, .state = state + 1};
    reply.size = (uint32_t)(sizeof reply + ars__dist_encode(&played_proposal, out + sizeof reply, 1000));
    memcpy(out, &reply, sizeof reply);
    return reply.size;
}

static inline void answer(struct ars__channel *c) {
    if (atomic_load(&c->state) != ARS__ASKED) return;
    if (c->kind == ARS__ASK_SITE) {
        struct ars_wire_site site;
        memcpy(&site, c->body, sizeof site);
        site.id = played_site(&site, (const char *)c->body + sizeof site);
        memcpy(c->body, &site, sizeof site);
        c->size = sizeof site;
    } else {
        static _Alignas(8) unsigned char asked[ARS_WIRE_MAX_STEP];
        memcpy(asked, c->body, c->size);
        const size_t size = c->size;
        c->size = 0;
        struct ars_wire_step step;
        for (size_t at = 0, place = 0; at < size; at += step.size, place++) {
            memcpy(&step, asked + at, sizeof step);
            c->size += (uint32_t)played_reply(c->body + c->size, step.state, (uint32_t)place);
            played_ahead += c->kind == ARS__ASK_STEPS;
            played_asked++;
        }
    }
    atomic_store(&c->state, ARS__ANSWERED);
    ars__futex_wake(&c->state, 1);
}

/* Appends what has come; a record comes in pieces. */
static inline size_t read_ring(unsigned char *out, size_t have) {
    struct ars__worker *w = played_worker();
    uint64_t from = atomic_load(&w->ring_read), to = atomic_load(&w->ring_written);
    for (uint64_t i = from; i < to; i++) out[have + i - from] = w->ring[i % ARS__RING_BYTES];
    atomic_store(&w->ring_read, to);
    return have + (size_t)(to - from);
}

/* The next record, 8-byte aligned, valid until the next call; NULL if the worker has died. It answers meanwhile. */
static inline const unsigned char *await_record(pid_t child, size_t *size) {
    static _Alignas(8) unsigned char record[ARS__RING_BYTES];
    for (*size = 0;;) {
        answer(&played_worker()->channel);
        *size = read_ring(record, *size);
        if (*size >= sizeof(struct ars__record) && *size >= ((struct ars__record *)(void *)record)->size) return record;
        if (waitpid(child, NULL, WNOHANG) == child) {
            CHECK(!"the worker has died");
            return NULL;
        }
        usleep(100);
    }
}

/* Lets a snapshot go, and answers it until it is done. Its slot is not free yet. */
static inline struct ars__snapshot *go_and_await(uint32_t slot, struct ars_wire_wanted wanted) {
    struct ars__snapshot *s = ars__snapshot_at(shm, SLOTS, 0, slot);
    s->wanted = wanted;
    atomic_store(&s->order, ARS__GO);
    ars__futex_wake(&s->order, 1);
    uint32_t status;
    while ((status = atomic_load(&s->status)) == ARS__SLOT_PARKED || status == ARS__SLOT_RUNNING) {
        answer(&s->channel);
        usleep(200);
    }
    CHECK(status == ARS__SLOT_DONE);
    return s;
}

static inline void free_slot(struct ars__snapshot *s) {
    atomic_store(&s->status, ARS__SLOT_FREE);
    ars__futex_wake(&s->status, 1);
}

static inline const char *name_of(uint32_t site) {
    static char text[100];
    snprintf(text, sizeof text, "%.*s", (int)shm->sites[site].name_size, shm->names + shm->sites[site].name_at);
    return text;
}

static inline void await_order_done(uint32_t number) {
    for (int i = 0; i < 30000 && atomic_load(&played_worker()->order_done) != number; i++) usleep(1000);
    CHECK(atomic_load(&played_worker()->order_done) == number);
}

#endif /* ARS_TESTS_PLAYED_HOST_H */

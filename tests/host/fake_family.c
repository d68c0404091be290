/* fake_family.c: a zygote and workers that do what a test tells them to, so that ars-host can be tested without libars.
 *
 * It starts as a simulator does: makes the segment, forks the zygote, and becomes ars-host (its first argument). From the
 * environment: FAKE_WORKERS, FAKE_SNAPSHOTS; FAKE_STEPS, requests per trace, FAKE_SEVERAL, all in one question; FAKE_PLAN, "3=crash,5=hang": what trace 3 and
 * trace 5 do ("7=kill2": only the first two times); FAKE_FORKS, "-1" or an errno: what the first FAKE_FORK_TIMES spawns fail
 * with; FAKE_PID, the process that the zygote says it has forked; FAKE_SILENT: nobody rings the doorbell; FAKE_BELL, a number: all that
 * every part of the doorbell says when a trace begins; FAKE_APART: each loop has an address of its own, "loop0" to "loop2"; FAKE_KNOWN:
 * the tries that came with its order are values of a trace. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "futex.h"
#include "record.h"
#include "shm.h"

static struct ars__shm *shm;
static uint32_t n_workers, per_worker;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static bool planned(uint64_t trace, const char *what) {
    char entry[64];
    const char *plan = getenv("FAKE_PLAN");
    snprintf(entry, sizeof entry, ",%llu=%s,", (unsigned long long)trace, what);
    return plan && strstr(plan, entry);
}

enum { ATTEMPTS = 1024 };
static uint32_t *attempts; /* shared: how often a trace was begun */

static bool planned_times(uint64_t trace, const char *what) {
    for (uint32_t times = 1; times < 10; times++) {
        char numbered[32];
        snprintf(numbered, sizeof numbered, "%s%u", what, times);
        if (planned(trace, numbered)) return attempts[trace % ATTEMPTS] <= times;
    }
    return false;
}

/* ---- the family's side of the segment ----------------------------------------------------------------------------- */

static void ring_bell(uint32_t channel) {
    struct ars__bell *bell = ars__bell_at(shm);
    if (getenv("FAKE_SILENT")) return;
    atomic_fetch_or(&bell->attention[channel / 64], 1ull << channel % 64);
    atomic_fetch_add(&bell->doorbell, 1);
    if (atomic_load(&bell->host_asleep)) ars__futex_wake(&bell->doorbell, 1);
}

static void ask(uint32_t channel, struct ars__channel *box, uint32_t kind, const void *body, uint32_t size) {
    memcpy(box->body, body, size);
    box->kind = kind;
    box->size = size;
    atomic_store(&box->state, ARS__ASKED);
    ring_bell(channel);
    for (uint32_t state; (state = atomic_load(&box->state)) != ARS__ANSWERED;) ars__futex_wait(&box->state, state, -1);
    atomic_store(&box->state, ARS__IDLE);
}

static uint32_t ask_site(uint32_t channel, struct ars__channel *box, const char *name, uint16_t kind, uint16_t dist) {
    _Alignas(8) unsigned char body[64] = {0};
    struct ars_wire_site site = {.kind = kind, .dist = dist, .name_size = (uint32_t)strlen(name)};
    memcpy(body, &site, sizeof site);
    memcpy(body + sizeof site, name, site.name_size);
    ask(channel, box, ARS__ASK_SITE, body, (uint32_t)sizeof site + site.name_size);
    memcpy(&site, box->body, sizeof site);
    return site.id;
}

struct request {
    struct ars_wire_step step;
    struct ars_wire_dist prior;
    double p[2];
};

static struct request request(uint64_t trace, uint32_t site, uint32_t instance) {
    return (struct request){
        {sizeof(struct request), 0, trace, 0, site, instance, 0, 0}, {ARS_DIST_NORMAL, 0, 2}, {0, 1}};
}

/* The first number of the proposal, or -1 for the prior. */
static double first_number(const unsigned char *reply) {
    struct {
        struct ars_wire_reply reply;
        struct ars_wire_dist d;
        double p[2];
    } a;
    memcpy(&a, reply, sizeof a);
    return a.d.kind == ARS_DIST_PRIOR ? -1 : a.p[0];
}

/* Asks with prior Normal(0, 1). */
static void put_question(struct ars__channel *box, const struct request *q) {
    memcpy(box->body, q, sizeof *q);
    box->kind = ARS__ASK_STEP;
    box->size = sizeof *q;
    atomic_store(&box->state, ARS__ASKED);
}

static double ask_step(uint32_t channel, struct ars__channel *box, uint64_t trace, uint32_t site, uint32_t instance) {
    struct request q = request(trace, site, instance);
    if (planned(trace, "badstep") || planned_times(trace, "badstep")) q.step.n_told = 5000;
    if (planned(trace, "badstate")) q.step.state = 77;
    if (planned(trace, "askdie")) { /* dies when the host has its question */
        put_question(box, &q);
        ring_bell(channel);
        while (atomic_load(&box->state) != ARS__TAKEN) usleep(1000);
        raise(SIGSEGV);
    }
    ask(channel, box, ARS__ASK_STEP, &q, sizeof q);
    return first_number(box->body);
}

enum { SEVERAL = sizeof((struct ars__channel *)0)->body / sizeof(struct request) };

/* Asks n times at once; -9 where there is no answer. */
static void ask_steps(uint32_t channel, struct ars__channel *box, uint64_t trace, uint32_t site, uint32_t n,
                      double *values) {
    struct request q[SEVERAL];
    for (uint32_t i = 0; i < n; i++) {
        q[i] = request(trace, site, i);
        values[i] = -9;
    }
    if (planned(trace, "twosites")) q[1].step.site_id = ask_site(channel, box, "z", ARS_SITE_SAMPLE, ARS_DIST_NORMAL);
    if (planned(trace, "nostep")) n = 0;
    ask(channel, box, planned(trace, "asone") ? ARS__ASK_STEP : ARS__ASK_STEPS, q, n * (uint32_t)sizeof *q);
    struct ars_wire_reply reply;
    for (uint32_t at = 0; at < box->size; at += reply.size) {
        memcpy(&reply, box->body + at, sizeof reply);
        values[reply.ticket] = first_number(box->body + at);
    }
}

static void write_ring(struct ars__worker *w, uint32_t channel, const unsigned char *bytes, size_t size) {
    while (size) {
        uint32_t space = atomic_load(&w->ring_space);
        uint64_t written = atomic_load(&w->ring_written),
                 room = ARS__RING_BYTES - (written - atomic_load(&w->ring_read));
        if (!room) {
            atomic_store(&w->ring_full, 1);
            if (written - atomic_load(&w->ring_read) < ARS__RING_BYTES) continue;
            ring_bell(channel);
            ars__futex_wait(&w->ring_space, space, -1);
            continue;
        }
        size_t at = written % ARS__RING_BYTES, n = ARS__RING_BYTES - at;
        if (n > room) n = room;
        if (n > size) n = size;
        memcpy(w->ring + at, bytes, n);
        bytes += n;
        size -= n;
        atomic_store(&w->ring_written, written + n);
        ring_bell(channel);
    }
}

/* ---- a worker ------------------------------------------------------------------------------------------------------ */

static void snapshot(uint32_t w, uint32_t slot, uint64_t trace, uint32_t site) {
    struct ars__snapshot *s = ars__snapshot_at(shm, per_worker, w, slot);
    uint32_t channel = ars__snapshot_channel(n_workers, per_worker, w, slot), order;
    while ((order = atomic_load(&s->order)) == ARS__WAIT) ars__futex_wait(&s->order, ARS__WAIT, -1);
    if (order == ARS__QUIT) _exit(0);
    atomic_store(&s->status, ARS__SLOT_RUNNING);
    if (planned(trace, "snapdie") || (slot == 0 && planned_times(trace, "snapdie"))) raise(SIGSEGV);
    if (slot == 0 && planned_times(trace, "snapkill")) raise(SIGKILL);
    if (slot == 0 &&
        planned_times(trace, "snapask")) { /* dies with a question in its mailbox that nobody has seen yet */
        struct request q = request(trace, site, 0);
        put_question(&s->channel, &q);
        raise(SIGKILL);
    }
    if (planned(trace, "snapfail")) {
        s->failure = (struct ars_wire_failure){
            .kind = ARS_FAIL_NAN, .loop_id = ARS_NO_SITE, .site_id = ARS_NO_SITE, .text = "a NaN in a continuation"};
        atomic_store(&s->status, ARS__SLOT_FAILED);
        ring_bell(channel);
        _exit(ARS__EXIT_FAILED);
    }
    s->estimate.s_pq_sum = ask_step(channel, &s->channel, trace, site, 1000 + slot);
    s->estimate.runs_p = s->wanted.runs_p + planned(trace, "wrongruns");
    s->estimate.tries_p = 2 * s->estimate.runs_p;
    s->estimate.accepted_q = s->wanted.tries_q ? slot : s->wanted.accepted_q - planned(trace, "wrongaccepted");
    s->estimate.tries_q =
        s->wanted.tries_q ? s->wanted.tries_q + planned(trace, "wrongtries") : 2 * s->wanted.accepted_q;
    s->forks = 3;
    atomic_store(&s->status, ARS__SLOT_DONE);
    ring_bell(channel);
    _exit(0);
}

static void fail_slot(uint32_t w, uint32_t slot, int status) {
    struct ars__snapshot *s = ars__snapshot_at(shm, per_worker, w, slot);
    uint32_t now = atomic_load(&s->status);
    if (now != ARS__SLOT_PARKED && now != ARS__SLOT_RUNNING) return;
    uint32_t channel = ars__snapshot_channel(n_workers, per_worker, w, slot);
    s->failure = (struct ars_wire_failure){.kind = ARS_FAIL_CRASH,
                                           .detail = WTERMSIG(status),
                                           .loop_id = ARS_NO_SITE,
                                           .site_id = ARS_NO_SITE,
                                           .text = "a continuation crashed"};
    atomic_store(&s->status, ARS__SLOT_FAILED);
    ring_bell(channel);
}

enum { LOOPS = 3, BIG = 150000 };

static uint32_t loop_site(uint32_t w, struct ars__channel *box, uint32_t i) {
    char name[16] = "loop";
    if (getenv("FAKE_APART")) snprintf(name, sizeof name, "loop%u", i);
    return ask_site(w, box, name, ARS_SITE_LOOP, 0);
}

/* A loop as its worker leaves it, for a snapshot to complete unless it is estimated in place, or not at all. */
static struct ars_wire_loop loop_of(uint64_t trace, uint32_t i, uint32_t site) {
    struct ars_wire_loop loop = {
        .site_id = site, .instance = i, .parent = (int32_t)i - 1, .tries = i + 1, .method = ARS_METHOD_FORK};
    const struct ars_wire_wanted w = ars__wanted_of(shm, site);
    const bool wrong = planned(trace, "wronginplace");
    if (!wrong && !planned(trace, "inplace")) return loop;
    loop.method = ARS_METHOD_IN_PLACE;
    loop.runs_p = loop.tries_p = w.runs_p;
    loop.tries_q = w.tries_q ? w.tries_q : 2 * w.accepted_q;
    loop.accepted_q = w.accepted_q + (wrong && !w.tries_q);
    loop.tries_q += wrong && w.tries_q;
    return loop;
}

static void run_trace(uint32_t w, uint64_t trace) {
    struct ars__worker *me = ars__worker_at(shm, per_worker, w);
    uint32_t flags = shm->run.flags, n_steps = (uint32_t)setting("FAKE_STEPS", 1);
    uint32_t n_loops = flags & ARS_RUN_ESTIMATE ? LOOPS : 0, n_values = planned(trace, "big") ? BIG : 1;
    if (getenv("FAKE_KNOWN")) n_values += me->order_n_known;
    uint32_t x = ask_site(w, &me->channel, "x", ARS_SITE_SAMPLE, ARS_DIST_NORMAL);
    uint32_t r = ask_site(w, &me->channel, "result", ARS_SITE_RESULT, 0);
    uint32_t n_tries = planned(trace, "tries") || planned(trace, "badtry") || planned(trace, "fewtries") ? 2 : 0;
    uint32_t sites[LOOPS] = {0}, slots[LOOPS + 1] = {0};
    for (uint32_t i = 0; (n_loops || n_tries) && i < LOOPS; i++) sites[i] = loop_site(w, &me->channel, i);
    const uint32_t l = sites[0];
    attempts[trace % ATTEMPTS]++;
    if (getenv("FAKE_BELL")) memset(ars__bell_at(shm), (int)setting("FAKE_BELL", 0), sizeof(struct ars__bell));
    atomic_store(&me->where.site_id, x);
    atomic_store(&me->where.loop_id, n_loops ? l : ARS_NO_SITE);
    if (planned(trace, "crash") || planned_times(trace, "crash")) raise(SIGSEGV);
    if (planned_times(trace, "kill")) raise(SIGKILL);
    if (planned(trace, "hangtry")) atomic_fetch_add(&me->where.beat, 3 - atomic_load(&me->where.beat) % 2);
    while (planned(trace, "hangtry")) usleep(1000);
    if (planned(trace, "exit")) _exit(3);
    if (planned(trace, "slow")) usleep(300000);
    if (planned(trace, "slower")) usleep(2000000);
    while (planned(trace, "hang")) usleep(1000);
    if (planned(trace, "killzygote")) kill(getppid(), SIGKILL);
    if (planned(trace, "stopzygote")) kill(getppid(), SIGSTOP);

    size_t size = sizeof(struct ars__record) + sizeof(struct ars_wire_trace) +
                  n_steps * sizeof(struct ars_wire_sample) + sizeof(struct ars_wire_result) +
                  n_loops * (sizeof(struct ars_wire_loop) + 4) + n_loops % 2 * 4 + n_values * sizeof(double) +
                  n_tries * sizeof(struct ars_wire_try) + (n_tries > 0) * sizeof(struct ars_wire_sample);
    unsigned char *record = calloc(1, size + sizeof(struct ars_wire_failure)), *at = record;
    struct ars_wire_trace t = {.trace = trace,
                               .snapshots = n_loops,
                               .n_samples = n_steps,
                               .n_results = 1,
                               .n_loops = n_loops,
                               .n_values = n_values,
                               .n_tries = n_tries,
                               .log_likelihood = (double)trace};
    bool refused = planned_times(trace, "fork");
    if (refused || planned(trace, "fail")) {
        struct ars_wire_failure f = {.trace = trace,
                                     .kind = refused ? ARS_FAIL_FORK : ARS_FAIL_MISUSE,
                                     .detail = refused ? EAGAIN : 0,
                                     .loop_id = ARS_NO_SITE,
                                     .site_id = x,
                                     .text = "misused"};
        t = (struct ars_wire_trace){.trace = trace, .failure = f.kind};
        size = sizeof(struct ars__record) + sizeof t + sizeof f;
        memcpy(record + sizeof(struct ars__record) + sizeof t, &f, sizeof f);
    }
    struct ars__record header = {(uint32_t)size, 0};
    memcpy(at, &header, sizeof header);
    memcpy(at += sizeof header, &t, sizeof t);
    at += sizeof t;
    if (t.failure) {
        write_ring(me, w, record, size);
        _exit(ARS__EXIT_FAILED);
    }
    double values[SEVERAL];
    bool several = getenv("FAKE_SEVERAL") != NULL;
    if (several) ask_steps(w, &me->channel, trace, x, n_steps, values);
    for (uint32_t i = 0; i < n_steps; i++) {
        struct ars_wire_sample s = {.site_id = x, .instance = i, .loop = -1, .prior = ARS_DIST_NORMAL};
        bool asks = !(flags & ARS_RUN_PROPOSE_PRIOR) && atomic_load(&shm->sites[x].always_prior) != shm->run.number;
        s.value = several ? values[i] : asks ? ask_step(w, &me->channel, trace, x, i) : -2;
        if (planned(trace, "badsite") || planned_times(trace, "badsite")) s.site_id = 77;
        memcpy(at, &s, sizeof s);
        at += sizeof s;
    }
    struct ars_wire_result v = {.site_id = r, .n = n_values};
    memcpy(at, &v, sizeof v);
    at += sizeof v;
    pid_t children[LOOPS];
    for (uint32_t i = 0; i < n_loops; i++) {
        const struct ars_wire_loop loop = loop_of(trace, i, sites[i]);
        memcpy(at, &loop, sizeof loop);
        at += sizeof loop;
        const bool wanted = ars__wanted_of(shm, sites[i]).runs_p || planned(trace, "unwanted");
        slots[i] = wanted && loop.method == ARS_METHOD_FORK ? i : ARS__NO_SLOT;
        children[i] = 0;
        if (slots[i] == ARS__NO_SLOT) continue;
        struct ars__snapshot *s = ars__snapshot_at(shm, per_worker, w, i);
        for (uint32_t status; (status = atomic_load(&s->status)) != ARS__SLOT_FREE;)
            ars__futex_wait(&s->status, status, -1);
        atomic_store(&s->order, ARS__WAIT);
        atomic_store(&s->status, ARS__SLOT_PARKED);
        children[i] = fork();
        if (!children[i]) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            snapshot(w, i, trace, x);
        }
    }
    memcpy(at, slots, 4 * n_loops);
    at += 4 * n_loops + n_loops % 2 * 4;
    for (uint32_t i = 0; i < n_values; i++) {
        double value = getenv("FAKE_KNOWN") && i ? me->order_known[i - 1] : (double)trace + i;
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
    at += n_values * sizeof(double);
    for (uint32_t i = 0; i < n_tries; i++) {
        struct ars_wire_try one = {.site_id = l, .parent = -1, .n_samples = !i, .recorded = 2, .rejected = 3};
        if (planned(trace, "badtry")) one.parent = 0;
        if (planned(trace, "fewtries")) one.n_samples = 2;
        memcpy(at, &one, sizeof one);
        at += sizeof one;
    }
    if (n_tries) {
        struct ars_wire_sample s = {.site_id = x, .prior = ARS_DIST_NORMAL, .value = (double)trace};
        memcpy(at, &s, sizeof s);
    }
    if (planned(trace, "partial")) {
        write_ring(me, w, record, size - 8);
        raise(SIGABRT);
    }
    write_ring(me, w, record, size);
    free(record);
    for (uint32_t i = 0; i < n_loops; i++) {
        int status;
        if (!children[i]) continue;
        waitpid(children[i], &status, 0);
        fail_slot(w, i, status);
    }
}

static void work(uint32_t w) {
    struct ars__worker *me = ars__worker_at(shm, per_worker, w);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t done = 0, number;;) {
        while ((number = atomic_load(&me->order_number)) == done) ars__futex_wait(&me->order_number, done, -1);
        uint64_t first = me->order_first, count = me->order_count;
        atomic_store(&me->order_taken, number);
        for (uint64_t i = 0; i < count; i++) {
            atomic_store(&me->current_trace, first + i);
            atomic_fetch_add(&me->traces_begun, 1);
            run_trace(w, first + i);
        }
        atomic_store(&me->order_done, done = number);
        ring_bell(w);
    }
}

/* ---- the zygote ---------------------------------------------------------------------------------------------------- */

static void say(int fd, uint32_t op, uint32_t worker, int pid, int status) {
    struct ars__zygote_message m = {op, worker, pid, status};
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0) _exit(1);
}

static void spawn(int fd, uint32_t w, pid_t *pids) {
    static long spawned;
    if (spawned++ < setting("FAKE_FORK_TIMES", 0)) {
        say(fd, ARS__FORK_FAILED, w, 0, (int)setting("FAKE_FORKS", EAGAIN));
        return;
    }
    pids[w] = fork();
    if (!pids[w]) {
        close(fd);
        setpgid(0, 0);
        work(w);
    }
    setpgid(pids[w], pids[w]);
    say(fd, ARS__STARTED, w, (int)setting("FAKE_PID", pids[w]), 0);
}

static void reap(int fd, pid_t *pids) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (uint32_t w = 0; w < n_workers; w++)
            if (pids[w] == pid) {
                kill(-pid, SIGKILL);
                pids[w] = 0;
                say(fd, ARS__DIED, w, pid, status);
            }
}

static int zygote(int fd) {
    pid_t pids[ARS__MAX_WORKERS] = {0};
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        struct ars__zygote_message m;
        int ready = poll(&p, 1, 5);
        if (ready > 0 && recv(fd, &m, sizeof m, 0) != (ssize_t)sizeof m) m.op = ARS__STOP;
        if (ready > 0 && m.op == ARS__SPAWN) spawn(fd, m.worker, pids);
        if (ready > 0 && m.op == ARS__KILL && pids[m.worker]) kill(-pids[m.worker], SIGKILL);
        if (ready > 0 && m.op == ARS__STOP) {
            for (uint32_t w = 0; w < n_workers; w++)
                if (pids[w]) kill(-pids[w], SIGKILL);
            while (wait(NULL) > 0) {
            }
            return 0;
        }
        reap(fd, pids);
    }
}

int main(int argc, char **argv) {
    n_workers = (uint32_t)setting("FAKE_WORKERS", 2);
    per_worker = (uint32_t)setting("FAKE_SNAPSHOTS", 4);
    uint64_t size = ars__shm_size(n_workers, per_worker);
    int memory = memfd_create("fake", MFD_ALLOW_SEALING), pair[2];
    if (argc != 2 || memory < 0 || ftruncate(memory, (off_t)size) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
        return 2;
    if (!getenv("FAKE_UNSEALED") && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK)) return 2;
    shm = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (shm == MAP_FAILED) return 2;
    attempts = mmap(NULL, ATTEMPTS * sizeof *attempts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (attempts == MAP_FAILED) return 2;
    shm->magic = ARS__SHM_MAGIC;
    shm->version = (uint32_t)setting("FAKE_SHM_VERSION", ARS__SHM_VERSION);
    shm->n_workers = n_workers;
    shm->snapshots_per_worker = per_worker;
    shm->size = size;
    pid_t pid = fork();
    if (!pid) {
        close(pair[0]);
        return zygote(pair[1]);
    }
    close(pair[1]);
    char text[5][16];
    snprintf(text[0], sizeof text[0], "%d", memory);
    snprintf(text[1], sizeof text[1], "%d", pair[0]);
    snprintf(text[2], sizeof text[2], "%d", (int)pid);
    snprintf(text[3], sizeof text[3], "%u", n_workers);
    snprintf(text[4], sizeof text[4], "%u", per_worker);
    execl(argv[1], "ars-host", "--shm", text[0], "--zygote", text[1], "--zygote-pid", text[2], "--workers", text[3],
          "--snapshots", text[4], (char *)NULL);
    return 2;
}

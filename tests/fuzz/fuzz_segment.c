/* fuzz_segment.c: ars-host under a family that lies. The real main loop runs over a real segment; where it would sleep, the
 * next piece of the input is written into the segment, or comes as a message from the controller or the zygote.
 *
 * Promises: every message that the host sends is one that PROTOCOL.md allows, each trace of a run comes once, nothing in the
 * segment ends the host, and when the lies stop, or go on as rings and heartbeats alone, the run ends.
 *
 * Linked with --wrap for what would wait, send or kill (see CMakeLists.txt). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <zmq.h>

#include "columns.h"
#include "event_loop.h"
#include "fuzz.h"
#include "host.h"
#include "names.h"
#include "session.h"
#include "sites.h"
#include "states.h"

enum {
    WORKERS = 2,
    SLOTS = 3,
    CHANNELS = WORKERS * (1 + SLOTS),
    MOST_TRACES = 64,
    MOST_TICKETS = 32768,
    PATIENCE = 4000
};

static struct host host;
static struct script script;
static uint64_t clock_now;

/* What the family and the controller of the harness do by themselves. */
static struct ars__zygote_message zygote_says[4 * WORKERS];
static size_t n_zygote_says;
static bool lives[WORKERS]; /* in the zygote's eyes */
static uint32_t tickets[MOST_TICKETS];
static bool only_tells[MOST_TICKETS];
static size_t n_tickets;
static bool trusted;   /* controller and zygote have kept to the rules */
static bool full;      /* the socket takes nothing */
static bool restless;  /* after the script, the family goes on ringing and beating */
static unsigned after; /* rounds since the end of the script */
static bool done;      /* DONE has come */
static uint64_t came;  /* traces, as bits */
static const void *incoming;
static size_t incoming_size;

/* ---- time, signals: nothing real --------------------------------------------------------------------------------- */

uint64_t __wrap_host_now(void);
uint64_t __wrap_host_now(void) {
    return clock_now;
}
/* A process with an odd number never gets a core; of the others nothing is known. */
bool __wrap_host_cpu_read(pid_t pid, struct cpu_reading *now);
bool __wrap_host_cpu_read(pid_t pid, struct cpu_reading *now) {
    *now = (struct cpu_reading){.pid = pid, .waited = clock_now};
    return pid % 2 != 0;
}
int __wrap_usleep(unsigned useconds);
int __wrap_usleep(unsigned useconds) {
    (void)useconds;
    return 0;
}
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number) {
    (void)pid;
    (void)number;
    return 0;
}
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options) {
    (void)pid;
    (void)status;
    (void)options;
    errno = ECHILD;
    return -1;
}

/* ---- the zygote: does what it is told ---------------------------------------------------------------------------- */

static void zygote_say(enum ars__zygote_op op, uint32_t worker, int status) {
    PROMISE(n_zygote_says < sizeof zygote_says / sizeof *zygote_says);
    zygote_says[n_zygote_says++] = (struct ars__zygote_message){op, worker, 1000000, status};
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags) {
    struct ars__zygote_message m;
    (void)fd;
    (void)flags;
    PROMISE(size == sizeof m);
    memcpy(&m, data, sizeof m);
    PROMISE(m.worker < WORKERS && (m.op == ARS__SPAWN || m.op == ARS__KILL));
    bool spawn = m.op == ARS__SPAWN;
    if (lives[m.worker] != spawn) zygote_say(spawn ? ARS__STARTED : ARS__DIED, m.worker, SIGKILL);
    lives[m.worker] = spawn;
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags) {
    (void)fd;
    (void)flags;
    if (!n_zygote_says) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(data, zygote_says, size);
    memmove(zygote_says, zygote_says + 1, --n_zygote_says * sizeof *zygote_says);
    return (ssize_t)size;
}

/* ---- the controller: looks at all that is sent ------------------------------------------------------------------- */

static unsigned char *frames[1 + ARS__COLUMNS];
static size_t frame_sizes[1 + ARS__COLUMNS];
static int n_frames;

static void take_steps(const unsigned char *frame, const struct ars_wire_header *h) {
    size_t at = sizeof *h;
    for (uint32_t i = 0; i < h->count; i++) {
        struct ars_wire_step step;
        memcpy(&step, frame + at, sizeof step);
        at += step.size;
        for (size_t k = 0; k < n_tickets; k++) PROMISE(tickets[k] != step.ticket);
        PROMISE(n_tickets < MOST_TICKETS);
        PROMISE(!trusted || step.state <= 1); /* answer_all gives no other */
        only_tells[n_tickets] = step.site_id == ARS_NO_SITE;
        tickets[n_tickets++] = step.ticket;
    }
}

/* A trace's place in the run; UINT64_MAX if it is not part of it. */
static uint64_t place_of(uint64_t trace) {
    const struct run *run = &host.run;
    if (!run->config.n_listed) return trace - run->config.first_trace; /* one before the first wraps around */
    for (uint64_t i = 0; i < run->config.n_listed; i++)
        if (run->listed[i].trace == trace) return i;
    return UINT64_MAX;
}

static void take_traces(const struct ars_wire_header *h) {
    const struct ars_wire_run *run = &host.run.config;
    for (uint32_t i = 0; i < h->count; i++) {
        struct ars_wire_trace t;
        memcpy(&t, frames[1] + i * sizeof t, sizeof t);
        const uint64_t place = place_of(t.trace);
        PROMISE(place < run->n_traces);
        if (run->n_traces > MOST_TRACES) continue;
        uint64_t bit = 1ull << place;
        PROMISE(!(came & bit));
        came |= bit;
    }
}

static void take_message(void) {
    struct ars_wire_header h;
    ars__why why = {""};
    bool good;
    PROMISE(ars__check_header(frames[0], frame_sizes[0], &h, &why));
    if (h.type == ARS_MSG_TRACES) {
        ars__bytes parts[1 + ARS__COLUMNS];
        PROMISE(n_frames == 1 + ARS__COLUMNS);
        for (int i = 0; i < n_frames; i++) parts[i] = (ars__bytes){frames[i], frame_sizes[i]};
        good = ars__check_traces(parts[0], parts + 1, host_sites_known(&host), &why);
    } else {
        PROMISE(n_frames == 1);
        good = ars__check_message(frames[0], frame_sizes[0], host_sites_known(&host), &why);
    }
    if (!good) fprintf(stderr, "message type %u: %s\n", (unsigned)h.type, why.text);
    PROMISE(good);
    if (h.type == ARS_MSG_STEPS) take_steps(frames[0], &h);
    if (h.type == ARS_MSG_TRACES) take_traces(&h);
    if (h.type == ARS_MSG_DONE) {
        struct ars_wire_done d;
        memcpy(&d, frames[0], sizeof d);
        uint64_t n = host.run.config.n_traces;
        if (n <= MOST_TRACES) PROMISE(d.traces == (uint64_t)__builtin_popcountll(came));
        if (n <= MOST_TRACES) PROMISE(d.cancelled || d.traces == n);
        done = true;
    }
}

int __wrap_zmq_send(void *socket, const void *data, size_t size, int flags);
int __wrap_zmq_send(void *socket, const void *data, size_t size, int flags) {
    PROMISE(socket == &host);
    if (full && !n_frames) return -1;
    PROMISE(n_frames <= ARS__COLUMNS);
    unsigned char *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    frames[n_frames] = copy;
    frame_sizes[n_frames++] = size;
    if (flags & ZMQ_SNDMORE) return (int)size;
    take_message();
    while (n_frames) free(frames[--n_frames]);
    return (int)size;
}
int __wrap_zmq_errno(void);
int __wrap_zmq_errno(void) {
    return EAGAIN;
}

int __wrap_zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *message, void *socket, int flags) {
    (void)flags;
    (void)message;
    if (socket != &host || !incoming) return -1;
    return (int)incoming_size;
}
void *__wrap_zmq_msg_data(zmq_msg_t *message);
void *__wrap_zmq_msg_data(zmq_msg_t *message) {
    (void)message;
    void *data = (void *)(uintptr_t)incoming;
    incoming = NULL; /* read once */
    return data;
}
int __wrap_zmq_msg_more(const zmq_msg_t *message);
int __wrap_zmq_msg_more(const zmq_msg_t *message) {
    (void)message;
    return 0;
}

static void hear(const void *frame, size_t size) {
    unsigned char *exact = malloc(size ? size : 1);
    if (!exact) abort();
    if (size) memcpy(exact, frame, size);
    incoming = exact;
    incoming_size = size;
    host_session_receive(&host);
    incoming = NULL;
    free(exact);
}

/* From a controller that need not keep to the rules; it may begin a run. */
static void hear_anything(struct script message) {
    uint64_t number = host.run.last_number;
    hear(message.at, message.left);
    if (host.run.last_number == number) return;
    came = 0;
    n_tickets = 0;
}

static void answer_all(void) {
    struct {
        struct ars_wire_header h;
        struct ars_wire_reply r;
        struct ars_wire_dist d;
    } m;
    while (n_tickets && !host.error[0]) {
        uint32_t size = only_tells[--n_tickets] ? sizeof m.r : sizeof m.r + sizeof m.d;
        m.h = (struct ars_wire_header){ARS_WIRE_MAGIC,
                                       ARS_WIRE_VERSION,
                                       ARS_MSG_REPLIES,
                                       (uint32_t)sizeof m.h + size,
                                       1,
                                       host.run.config.header.run};
        m.r = (struct ars_wire_reply){.size = size, .ticket = tickets[n_tickets], .state = 1};
        m.d = (struct ars_wire_dist){.kind = ARS_DIST_PRIOR};
        hear(&m, m.h.size);
    }
}

/* Bit 4 of the flags: tries under q are made until some are accepted. */
static void begin_run(uint64_t number, uint32_t flags, uint64_t first, uint64_t n) {
    const bool until = flags & 4;
    struct ars_wire_run run = {
        .header = {ARS_WIRE_MAGIC, ARS_WIRE_VERSION, ARS_MSG_RUN, sizeof run, 0, number},
        .seed = 1,
        .first_trace = first,
        .n_traces = n,
        .flags = flags & (ARS_RUN_PROPOSE_PRIOR | ARS_RUN_ESTIMATE | ARS_RUN_RECORD_PRIORS | ARS_RUN_RECORD_REJECTED),
        .wanted = {.runs_p = 2, .tries_q = until ? 0 : 4, .accepted_q = until ? 3 : 0},
        .max_tries = 100,
        .trace_timeout = 0.2,
        .max_rejected = flags & ARS_RUN_RECORD_REJECTED ? 3 : 0};
    if (host.run.active) return;
    came = 0;
    done = false;
    n_tickets = 0;
    hear(&run, sizeof run);
}

/* ---- the lies ---------------------------------------------------------------------------------------------------- */

static void ring(uint32_t channel) {
    atomic_fetch_or(&ars__bell_at(host.shm)->attention[channel / 64], 1ull << channel % 64);
}

static void lie_in_ring(uint32_t w) {
    struct ars__worker *shared = ars__worker_at(host.shm, SLOTS, w);
    struct script bytes = script_part(&script);
    uint64_t written = atomic_load(&shared->ring_written);
    for (; bytes.left; written++) shared->ring[written % ARS__RING_BYTES] = script_byte(&bytes);
    atomic_store(&shared->ring_written, written);
    ring(w);
}

/* The record of a failure, or of a trace without anything, of the trace that is due: so that runs come to their end. */
static void tell_truth_in_ring(uint32_t w) {
    struct {
        struct ars__record r;
        struct ars_wire_trace t;
    } record = {{sizeof record, 0}, {.trace = host.workers[w].first + host.workers[w].finished}};
    struct ars__worker *shared = ars__worker_at(host.shm, SLOTS, w);
    uint64_t written = atomic_load(&shared->ring_written);
    for (size_t i = 0; i < sizeof record; i++)
        shared->ring[(written + i) % ARS__RING_BYTES] = ((unsigned char *)&record)[i];
    atomic_store(&shared->ring_written, written + sizeof record);
    ring(w);
}

static struct ars__channel *mailbox(uint32_t channel) {
    if (channel < WORKERS) return &ars__worker_at(host.shm, SLOTS, channel)->channel;
    return &ars__snapshot_at(host.shm, SLOTS, (channel - WORKERS) / SLOTS, (channel - WORKERS) % SLOTS)->channel;
}

static void lie_in_mailbox(uint32_t channel) {
    struct ars__channel *box = mailbox(channel);
    struct script bytes = script_part(&script);
    box->kind = script_byte(&script) % (ARS__ASK_PATH + 1);
    box->size = (uint32_t)bytes.left;
    if (script_byte(&script) == 0xff) script_take(&script, &box->size, sizeof box->size);
    script_take(&bytes, box->body, bytes.left < sizeof box->body ? bytes.left : sizeof box->body);
    bool steps = box->kind == ARS__ASK_STEP || box->kind == ARS__ASK_STEPS;
    if (steps && script_byte(&script) & 1) { /* of the trace in progress, or it goes no further */
        const struct worker *worker = &host.workers[channel < WORKERS ? channel : (channel - WORKERS) / SLOTS];
        uint64_t trace = worker->first + worker->finished;
        for (size_t at = 0; at + sizeof(struct ars_wire_step) <= sizeof box->body;) {
            uint32_t size;
            memcpy(&size, box->body + at, sizeof size);
            memcpy(box->body + at + offsetof(struct ars_wire_step, trace), &trace, sizeof trace);
            at += size < sizeof(struct ars_wire_step) ? sizeof box->body : size;
        }
    }
    atomic_store(&box->state, ARS__ASKED);
    ring(channel);
}

static void lie_in_slot(uint32_t w, uint32_t slot) {
    struct ars__snapshot *s = ars__snapshot_at(host.shm, SLOTS, w, slot);
    uint8_t status = script_byte(&script);
    if (status & 0x80) { /* all that a snapshot reports */
        size_t at = offsetof(struct ars__snapshot, estimate), end = offsetof(struct ars__snapshot, first);
        struct script bytes = script_part(&script);
        script_take(&bytes, (unsigned char *)s + at, bytes.left < end - at ? bytes.left : end - at);
    }
    if (status & 0x40) { /* what is expected of it */
        const bool until = host.run.config.wanted.accepted_q;
        const uint8_t other = script_byte(&script) % 6;
        s->estimate.tries_q = until ? other : 4;
        s->estimate.accepted_q = until ? 3 : other;
        s->estimate.runs_p = 2;
        s->estimate.tries_p = script_byte(&script);
        s->estimate.s_pq_sum = 1;
    }
    if (status & 0x20) atomic_store(&s->order, script_byte(&script));
    atomic_store(&s->status, status & 0x1f);
    ring(WORKERS + w * SLOTS + slot);
}

static void lie_in_words(uint32_t w) {
    struct ars__worker *shared = ars__worker_at(host.shm, SLOTS, w);
    uint64_t word;
    uint8_t which = script_byte(&script);
    script_take(&script, &word, sizeof word);
    if (which & 1) atomic_store(&shared->order_done, which & 2 ? host.workers[w].order_number : (uint32_t)word);
    if (which & 4) atomic_store(&shared->traces_begun, word);
    if (which & 8) atomic_store(&shared->ring_written, word);
    if (which & 16) atomic_store(&shared->ring_read, word);
    if (which & 32) atomic_store(&shared->order_number, (uint32_t)word);
    if (which & 64) atomic_store(&ars__bell_at(host.shm)->host_asleep, (uint32_t)word);
    if (which & 128) atomic_store(&shared->ring_full, (uint32_t)word);
    ring(w);
}

static void lie_anywhere(void) {
    uint8_t which = script_byte(&script);
    struct script bytes = script_part(&script);
    unsigned char *at = which & 1   ? (unsigned char *)ars__worker_at(host.shm, SLOTS, 0)
                        : which & 2 ? (unsigned char *)ars__bell_at(host.shm)
                                    : (unsigned char *)host.shm;
    size_t room = which & 1   ? sizeof(struct ars__channel) + 512
                  : which & 2 ? sizeof(struct ars__bell)
                              : offsetof(struct ars__shm, names);
    uint32_t from;
    script_take(&script, &from, sizeof from);
    from %= (uint32_t)room;
    script_take(&bytes, at + from, bytes.left < room - from ? bytes.left : room - from);
}

/* One piece of the script. */
static void act(void) {
    uint8_t code = script_byte(&script), who = script_byte(&script);
    struct script message;
    switch (code % 16) {
    case 0:
    case 1:
        lie_in_ring(who % WORKERS);
        break;
    case 2:
    case 3:
        lie_in_mailbox(who % CHANNELS);
        break;
    case 4:
    case 5:
        lie_in_slot(who % WORKERS, who / WORKERS % SLOTS);
        break;
    case 6:
        lie_in_words(who % WORKERS);
        break;
    case 7:
        lie_anywhere();
        break;
    case 8:
        tell_truth_in_ring(who % WORKERS);
        break;
    case 9:
        answer_all();
        break;
    case 10:
        clock_now += who * 10 * HOST_MS;
        break;
    case 11:
        full = who & 1;
        break;
    case 12:
        begin_run(host.run.last_number + 1, who, 0, 1 + who % 8);
        break;
    case 13: /* a worker dies */
        if (lives[who % WORKERS]) zygote_say(ARS__DIED, who % WORKERS, who);
        lives[who % WORKERS] = false;
        break;
    case 14:
        message = script_part(&script);
        trusted = false;
        hear_anything(message);
        break;
    default:
        trusted = false;
        if (n_zygote_says < WORKERS) script_take(&script, &zygote_says[n_zygote_says++], sizeof *zygote_says);
    }
}

/* Once the script is over the controller answers and time passes. */
static void settle(void) {
    full = false;
    if (++after > (trusted ? PATIENCE : 3) || !host.run.active) host.quit = true;
    clock_now += 240 * HOST_MS;
    answer_all();
    if (!restless) return;
    for (uint32_t w = 0; w < WORKERS; w++) atomic_fetch_add(&ars__worker_at(host.shm, SLOTS, w)->traces_begun, 1);
    for (uint32_t c = 0; c < CHANNELS; c++) ring(c);
}

int __wrap_zmq_poll(zmq_pollitem_t *items, int n, long timeout);
int __wrap_zmq_poll(zmq_pollitem_t *items, int n, long timeout) {
    (void)timeout;
    for (int i = 0; i < n; i++) items[i].revents = 0;
    clock_now += HOST_MS;
    if (host.zygote_lost && host.run.config.n_traces > MOST_TRACES) host.quit = true; /* they all fail: seen that */
    if (script.left)
        act();
    else
        settle();
    if (!full) items[0].revents = items[0].events & ZMQ_POLLOUT;
    items[4].revents = n > 4 && n_zygote_says ? ZMQ_POLLIN : 0;
    return 1;
}

/* ---- a host, made once, and made as new for every input ---------------------------------------------------------- */

static void begin(void) {
    size_t size = ars__shm_size(WORKERS, SLOTS);
    host.shm = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host.shm == MAP_FAILED) abort();
    host.workers = calloc(WORKERS, sizeof *host.workers);
    host.channels = calloc(CHANNELS, sizeof *host.channels);
    if (!host.workers || !host.channels) abort();
    host_sites_open(&host);
}

/* The sites of fuzz.h, and no others. */
static void renew_sites(void) {
    static const char *const names[] = {"x", "u", "y", "r", "loop"};
    static uint32_t *as_new;
    static size_t names_size;
    size_t size = 2 * ARS_WIRE_MAX_SITES * sizeof *host.site_table;
    for (size_t i = 0; !as_new && i < sizeof fuzz_kinds; i++) {
        struct ars_wire_site site = {.kind = fuzz_kinds[i], .dist = fuzz_dists[i]};
        site.name_size = (uint32_t)strlen(names[i]);
        host_site_identify(&host, &site, names[i]);
        PROMISE(site.id == i);
    }
    if (!as_new) {
        if (!(as_new = malloc(size))) abort();
        memcpy(as_new, host.site_table, size);
        names_size = host.names.size;
    }
    if (host.n_sites != sizeof fuzz_kinds) memcpy(host.site_table, as_new, size);
    host.n_sites = sizeof fuzz_kinds;
    host.names.size = names_size;
    host.sites_out.size = 0;
    host.n_sites_out = 0;
}

static void renew(void) {
    struct host was = host;
    memset(host.shm, 0, offsetof(struct ars__shm, sites));
    memset(ars__bell_at(host.shm), 0, sizeof(struct ars__bell));
    for (uint32_t w = 0; w < WORKERS; w++) {
        memset(ars__worker_at(host.shm, SLOTS, w), 0, offsetof(struct ars__worker, ring) + 8192);
        for (uint32_t i = 0; i < SLOTS; i++)
            memset(ars__snapshot_at(host.shm, SLOTS, w, i), 0, offsetof(struct ars__snapshot, first));
    }
    host = (struct host){.shm = was.shm,
                         .n_workers = WORKERS,
                         .per_worker = SLOTS,
                         .n_channels = CHANNELS,
                         .ticket_bits = 3,
                         .zygote_fd = -1,
                         .bell_fd = -1,
                         .signal_fd = -1,
                         .controller_fd = -1,
                         .socket = &host,
                         .sites_out = was.sites_out,
                         .steps_out = was.steps_out,
                         .sites = was.sites,
                         .site_kinds = was.site_kinds,
                         .site_dists = was.site_dists,
                         .n_sites = was.n_sites,
                         .site_table = was.site_table,
                         .names = was.names,
                         .loops_wanted = was.loops_wanted,
                         .workers = was.workers,
                         .channels = was.channels};
    host.steps_out.size = 0;
    memcpy(host.columns, was.columns, sizeof host.columns);
    host_columns_clear(&host);
    host.run.queue = was.run.queue;
    host.run.queue_capacity = was.run.queue_capacity;
    host.run.replays = was.run.replays;
    host.run.replays_capacity = was.run.replays_capacity;
    host.run.budgets = was.run.budgets;
    host.run.budget_at = was.run.budget_at;
    host.run.listed = was.run.listed;
    host.run.known = was.run.known;
    memset(host.loops_wanted, 0, ARS_WIRE_MAX_SITES * sizeof *host.loops_wanted);
    memset(host.shm->wanted, 0, sizeof host.shm->wanted);
    for (uint32_t w = 0; w < WORKERS; w++) {
        struct buffer bytes = host.workers[w].bytes;
        bytes.size = 0;
        host_states_free(&host.workers[w].states);
        host.workers[w] = (struct worker){.bytes = bytes};
    }
    memset(host.channels, 0, CHANNELS * sizeof *host.channels);
    renew_sites();
    n_zygote_says = n_tickets = 0;
    trusted = true;
    full = done = false;
    memset(lives, 0, sizeof lives);
    after = 0;
    came = 0;
    clock_now = host.now = HOST_S;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned inputs;
    if (!host.shm) begin();
    if (++inputs % 1024 == 0) host_names_forget(); /* modules whose paths were lies; reading our own takes long */
    renew();
    script = (struct script){data, size};
    uint8_t how = script_byte(&script);
    restless = how & 1;
    begin_run(1, how, how & 32 ? 1000 : 0, 1 + (how >> 6));
    host_event_loop(&host);
    if (!trusted) return 0;
    if (host.error[0]) fprintf(stderr, "the host gave up: %s\n", host.error);
    PROMISE(!host.error[0]);
    PROMISE(after <= PATIENCE);
    PROMISE(done && !host.run.active);
    return 0;
}

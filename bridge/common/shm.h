/* shm.h: the shared-memory segment between one ars-host and its family of simulator processes.
 *
 * It is split by writer, so that a stray store of simulator code can reach its own trace and no other:
 *
 *   | guard | what ars-host alone writes | guard | doorbell | guard | worker 0 | guard | worker 1 | ... | guard |
 *
 * In a process that runs simulator code the first part (run, sites, observed data) is read-only, the doorbell and the
 * area of its own worker (struct ars__worker and its snapshots' slots) can be written, and everything else cannot be
 * touched at all: an array that is overrun ends its own process. segment.c sets this up; ars-host maps all of it to write.
 * The first guard is no part of the file.
 *
 * Private to one build of libars and ars-host (ARS__SHM_VERSION must match); never written to disk or sent. The
 * processes of the family need nothing but this mapping: no descriptor, no lock. Every word that two processes write is
 * atomic; everything else has one writer at a time, and the comment on it says who. A process may be killed between any
 * two instructions, so nothing here is a lock, and the host may reset whatever belongs to a dead worker's family.
 *
 * The host trusts no index, size or offset in here: it takes the geometry from its own command line and checks the
 * rest. */
#ifndef ARS_SHM_H
#define ARS_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits_table.h"
#include "record.h"
#include "wire.h"

#define ARS__SHM_MAGIC 0x6d68737372610a00ull
#define ARS__SHM_VERSION 11u

enum {
    ARS__MAX_CHANNELS = 65536,
    ARS__RING_BYTES = 1 << 20,  /* per worker; a power of two */
    ARS__NAME_BYTES = 8 << 20,  /* all site addresses together */
    ARS__DATA_BYTES = 64 << 20, /* the observed data of a run; pages exist once touched */
    ARS__MAX_RECORD = 64 << 20, /* one trace */
    ARS__SCRIPT_BYTES = 1024,
    ARS__MOST_STEPS = 128,   /* in one question */
    ARS__MOST_MISSED = 4096, /* pages that workers take when they begin */
    ARS__MOST_MISSED_AT_ONCE = 64,
    ARS__MOST_KNOWN = 1024, /* loop entries of a trace whose tries are known before it runs */
    ARS__GUARD = 64 << 10,  /* between two parts: whole pages on every machine, wider than most strides */
    ARS__EXIT_FAILED = 86   /* a process of ours that has reported its failure */
};

/* ---- mailboxes --------------------------------------------------------------------------------------------------- */

/* One question at a time to the host: a worker's own, or that of a snapshot's current continuation.
 * IDLE -(process fills kind, size, body)-> ASKED -(host)-> TAKEN -(host fills size, body)-> ANSWERED -(process)-> IDLE.
 * The process raises its attention bit and rings the doorbell after ASKED, and sleeps on `state`. */
enum ars__channel_state { ARS__IDLE = 0, ARS__ASKED = 1, ARS__TAKEN = 2, ARS__ANSWERED = 3 };

enum ars__question {
    ARS__ASK_STEP = 1, /* body: ars_wire_step item -> ars_wire_reply item */
    ARS__ASK_SITE = 2, /* body: ars_wire_site + address -> ars_wire_site with its id, or ARS_NO_SITE if there is no room
                          (answered by the host alone; a known address gets the id it has). Here `reserved` says how many
                          bytes of the address are the loops around the site: asked, and as it was when first met */
    ARS__ASK_PATH =
        4, /* body: ars__path_question, its ars__path_frames, innermost first, and the paths of modules, each with
                          its final zero -> the name of that call path, without a zero (answered by the host alone) */
    ARS__ASK_STEPS = 3 /* body: up to ARS__MOST_STEPS ars_wire_step items, all about one site -> ars_wire_reply items in
                          any order, as many as there is room for; the ticket of each is the place of its question */
};

struct ars__path_question {
    uint32_t n_frames;
    uint32_t has_model; /* 1: the last of them is no return address, but the function that ars_main calls */
};
struct ars__path_frame {
    uint64_t offset;    /* of a return address in its module, as the linker gave it */
    uint32_t module_at; /* where the path of the module begins in the body; empty: the program itself */
    uint32_t reserved;
};

struct ars__channel {
    _Atomic uint32_t state; /* futex */
    uint32_t kind;
    uint32_t size;
    uint32_t reserved;
    _Alignas(8) unsigned char body[ARS_WIRE_MAX_STEP];
};

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Where a process is, so that its end can be described and a try that takes too long be seen. Written by the process alone;
 * the host believes nothing of it. */
struct ars__where {
    _Atomic uint32_t loop_id; /* the innermost open loop, or ARS_NO_SITE */
    _Atomic uint32_t site_id; /* the last one reached in this trace, or ARS_NO_SITE */
    _Atomic uint32_t beat;    /* changes with every try of the outermost loop; odd: inside one */
    _Atomic uint32_t pid;     /* of the process that is at work: this one, or the child it waits for. 0: not known */
    _Atomic uint32_t stray;   /* the call that a second thread made before it ended the process (stray.h); 0: none */
    _Atomic uint32_t rewind;  /* enum ars__rewind_state */
    _Atomic uint32_t rewound_loop; /* the one whose continuations are run and undone, if any are */
};

/* What a worker was about when it ended, as far as continuations in place are concerned. */
enum ars__rewind_state {
    ARS__REWIND_NOT = 0,
    ARS__REWIND_OPENING = 1, /* finding out whether the system allows it */
    ARS__REWIND_RUNNING = 2, /* a continuation ran, of the loop rewound_loop */
    ARS__REWIND_LOST = 3     /* it could not be undone: the trace has to be begun again */
};

/* Orders go host -> worker: first and count, then order_number is increased (futex). The worker runs the traces one
 * after another and, per trace, writes one record into its ring. A trace with surviving snapshots is over when the worker
 * has reaped them all; only then does the worker go on. */
struct ars__worker {
    struct ars__channel channel;
    _Alignas(64) _Atomic uint32_t order_number; /* futex; host */
    uint32_t reserved;
    uint64_t order_first; /* host */
    uint64_t order_count; /* host */
    /* host: of an order of one trace, how many tries its loop entries take, by index of the record; 0: not known */
    uint32_t order_n_known;
    uint32_t order_known[ARS__MOST_KNOWN];
    _Alignas(64) _Atomic uint32_t order_taken; /* worker: the last order begun */
    _Atomic uint32_t order_done;               /* worker: the last order finished; the host gives the next one then */
    _Atomic uint64_t current_trace;            /* worker */
    _Atomic uint64_t traces_begun;             /* worker: a heartbeat, counts up over its life */
    struct ars__where where;                   /* worker */
    _Atomic uint32_t snapshots_alive;          /* worker; the host passes it on to the others */
    /* Pages that a continuation wrote though they were shared with the zygote: filled by the worker while n_missed is 0, which the
     * host sets again when it has passed them on. */
    _Atomic uint32_t n_missed;
    uint64_t missed[ARS__MOST_MISSED_AT_ONCE];
    /* A byte stream of records (record.h). Positions count up for ever; index = position % ARS__RING_BYTES. */
    _Alignas(64) _Atomic uint64_t ring_written; /* worker */
    _Alignas(64) _Atomic uint64_t ring_read;    /* host */
    _Atomic uint32_t ring_space;                /* futex; the host increases it after reading if ring_full is set */
    _Atomic uint32_t ring_full;                 /* worker sets it before it sleeps on ring_space; host clears it */
    _Alignas(64) unsigned char ring[ARS__RING_BYTES];
};

/* ---- snapshots --------------------------------------------------------------------------------------------------- */

/* FREE -(worker, before fork)-> PARKED -(order: host GO)-> RUNNING -(snapshot)-> DONE | FAILED -(host, after it has
 * copied the results)-> FREE. A snapshot told to QUIT (by its worker, when an outer try is rejected) exits, and the worker
 * sets FREE after reaping it. If a snapshot dies without a word, its worker sets FAILED with the failure filled in.
 * DONE and FAILED raise the snapshot's attention bit. */
enum ars__snapshot_status {
    ARS__SLOT_FREE = 0,
    ARS__SLOT_PARKED = 1,
    ARS__SLOT_RUNNING = 2,
    ARS__SLOT_DONE = 3,
    ARS__SLOT_FAILED = 4
};
enum ars__snapshot_order { ARS__WAIT = 0, ARS__GO = 1, ARS__QUIT = 2 };

/* The first draw inside a loop: question and answer, kept by the main run for all tries and continuations. And what it asked
 * about after that, from which ahead.c guesses what the others will ask. */
struct ars__first {
    uint32_t request_size; /* 0: none yet */
    uint32_t reply_size;
    struct ars__script {
        uint32_t used;   /* bytes of struct ars__scripted, each with its prior */
        uint16_t begun;  /* this try has asked the first question, and no other before it */
        uint16_t closed; /* what came next cannot be guessed */
        _Alignas(8) unsigned char bytes[ARS__SCRIPT_BYTES];
    } script;
    _Alignas(8) unsigned char request[ARS_WIRE_MAX_STEP];
    _Alignas(8) unsigned char reply[ARS_WIRE_MAX_STEP];
};

/* What the continuations of a loop's entry have counted; copied into its ars_wire_loop. */
struct ars__estimate {
    uint64_t tries_q;
    uint64_t accepted_q;
    uint64_t runs_p;
    uint64_t tries_p;
    double s_pq_sum;
    uint64_t abandoned_p;
    uint64_t abandoned_q;
    uint64_t abandoned_tries;
    uint64_t whole_tries; /* so far, of whole runs under q; not in the record, nor is the next */
    uint64_t whole_accepted;
};

static inline void ars__estimate_put(const struct ars__estimate *estimate, struct ars_wire_loop *loop) {
    loop->tries_q = estimate->tries_q;
    loop->accepted_q = estimate->accepted_q;
    loop->runs_p = estimate->runs_p;
    loop->tries_p = estimate->tries_p;
    loop->s_pq_sum = estimate->s_pq_sum;
    loop->abandoned_p = (uint32_t)estimate->abandoned_p;
    loop->abandoned_q = estimate->abandoned_q;
    loop->abandoned_tries = estimate->abandoned_tries;
}

struct ars__snapshot {
    struct ars__channel channel;         /* of its current continuation */
    _Alignas(64) _Atomic uint32_t order; /* futex */
    _Atomic uint32_t status;             /* futex: a worker in want of a free slot sleeps on it */
    struct ars_wire_wanted wanted;       /* host, before GO */
    /* Results: written by the snapshot and its continuations, which run one after another. */
    struct ars__estimate estimate;
    uint32_t forks;
    uint32_t asked_ahead, used_ahead; /* answers that it got before they were asked for; those that were wanted then */
    uint32_t left; /* the present continuation has ended as it should: its exit code alone could be the simulator's */
    struct ars__where where; /* of the present continuation */
    struct ars_wire_failure failure;
    struct ars__first first;
};

/* ---- sites ------------------------------------------------------------------------------------------------------- */

/* Written by the host alone; the processes read entries below n_sites. */
struct ars__site_entry {
    uint16_t kind;
    uint16_t dist;
    uint32_t name_size;
    uint32_t name_at;              /* in the names area */
    _Atomic uint64_t always_prior; /* the number of the run in which the controller said so */
};

/* What the host knows about estimating a loop, from all workers. */
struct ars__loop_method {
    _Atomic uint32_t reason;  /* enum ars_fork_reason: not 0, if every worker is to fork it */
    _Atomic uint32_t checked; /* entries that were estimated both ways, with equal numbers */
    int32_t detail;           /* of the reason */
};

/* What the run wants of a loop, if it is not what it wants of all of them. */
struct ars__loop_wanted {
    _Atomic uint64_t run; /* the number of the run that it holds for; stored last */
    struct ars_wire_wanted wanted;
};

/* ---- the segment ------------------------------------------------------------------------------------------------- */

/* Written by the host between runs, when no worker has an order. The observed names and values follow in the data area
 * as they came in the RUN message: ars_wire_observed[n_observed], padded names, values (NaN: not observed). */
struct ars__run {
    uint64_t number; /* 0: none yet */
    uint64_t seed;
    uint64_t max_tries;
    uint32_t flags;
    uint32_t n_observed;
    uint32_t max_rejected;
    uint32_t reserved;
    uint64_t data_size;
    struct ars_wire_wanted wanted; /* of loops that have no entry of their own in `wanted` */
    uint32_t reserved2;
};

/* The part that ars-host alone writes, and the start of the segment. */
struct ars__shm {
    uint64_t magic;
    uint32_t version;
    uint32_t n_workers;
    uint32_t snapshots_per_worker;
    uint32_t reserved;
    uint64_t size;
    _Alignas(64) struct ars__run run;
    /* Per worker, its snapshots_alive as the host has last seen it: a worker cannot read the others' areas. */
    _Alignas(64) _Atomic uint32_t snapshots_alive[ARS__MAX_WORKERS];
    _Alignas(64) _Atomic uint32_t n_sites;
    _Alignas(64) struct ars__site_entry sites[ARS_WIRE_MAX_SITES];
    struct ars__loop_method methods[ARS_WIRE_MAX_SITES]; /* by the loop's id */
    struct ars__loop_wanted wanted[ARS_WIRE_MAX_SITES];  /* by the loop's id; host */
    _Atomic int32_t cannot_rewind; /* not 0, if a process ended when it tried whether the system allows it: an errno */
    _Atomic uint32_t n_missed;
    uint64_t missed[ARS__MOST_MISSED];
    char names[ARS__NAME_BYTES];
    _Alignas(64) unsigned char data[ARS__DATA_BYTES];
};

/* What the present run wants of a loop's entries. */
static inline struct ars_wire_wanted ars__wanted_of(const struct ars__shm *shm, uint32_t loop_id) {
    const struct ars__loop_wanted *own = &shm->wanted[loop_id];
    const bool holds = atomic_load_explicit(&own->run, memory_order_acquire) == shm->run.number;
    return holds ? own->wanted : shm->run.wanted;
}

/* The part that every process writes: ars-host sleeps on one word, so whoever wants it must be able to change that word.
 * Therefore nothing here is more than a hint. A bit too many costs ars-host a look at a channel that has nothing to say; a
 * bit, ring or host_asleep that was lost costs the time until its next tick, when it looks at every mailbox, ring and slot
 * from which something may come (host_tick in ars-host). No value that a trace depends on is here. */
struct ars__bell {
    /* Any process -> host: increase, then wake if the host sleeps. */
    _Alignas(64) _Atomic uint32_t doorbell; /* futex */
    _Atomic uint32_t host_asleep;
    /* One bit per channel: channel i < n_workers is worker i's; then the snapshots', worker by worker. A bit means: look
     * at this channel (a question), at this worker's ring, orders and status, or at this snapshot's status. */
    _Alignas(64) _Atomic uint64_t attention[ARS__MAX_CHANNELS / 64];
};

/* ---- where things are: parts begin and end at multiples of ARS__GUARD, so at whole pages ---------------------------- */

#define ARS__ROUND_UP(size) (((uint64_t)(size) + ARS__GUARD - 1) / ARS__GUARD * ARS__GUARD)
#define ARS__HEAD_SIZE ARS__ROUND_UP(sizeof(struct ars__shm))
#define ARS__BELL_SIZE ARS__ROUND_UP(sizeof(struct ars__bell))
#define ARS__BELL_AT (ARS__HEAD_SIZE + ARS__GUARD)
#define ARS__AREAS_AT (ARS__BELL_AT + ARS__BELL_SIZE + ARS__GUARD)

static inline uint64_t ars__area_size(uint32_t per_worker) {
    return ARS__ROUND_UP(sizeof(struct ars__worker) + (uint64_t)per_worker * sizeof(struct ars__snapshot));
}

static inline uint64_t ars__area_at(uint32_t per_worker, uint32_t w) {
    return ARS__AREAS_AT + w * (ars__area_size(per_worker) + ARS__GUARD);
}

static inline uint64_t ars__shm_size(uint32_t n_workers, uint32_t per_worker) {
    return ars__area_at(per_worker, n_workers);
}

static inline struct ars__bell *ars__bell_at(const struct ars__shm *shm) {
    return (struct ars__bell *)((uintptr_t)shm + ARS__BELL_AT);
}

static inline struct ars__worker *ars__worker_at(const struct ars__shm *shm, uint32_t per_worker, uint32_t w) {
    return (struct ars__worker *)((uintptr_t)shm + ars__area_at(per_worker, w));
}

static inline struct ars__snapshot *ars__snapshot_at(const struct ars__shm *shm, uint32_t per_worker, uint32_t w,
                                                     uint32_t slot) {
    return (struct ars__snapshot *)(void *)(ars__worker_at(shm, per_worker, w) + 1) + slot;
}

static inline uint32_t ars__snapshot_channel(uint32_t n_workers, uint32_t per_worker, uint32_t w, uint32_t slot) {
    return n_workers + w * per_worker + slot;
}

/* ---- host <-> zygote: a SOCK_SEQPACKET pair, one struct per packet --------------------------------------------------- */

enum ars__zygote_op {
    ARS__SPAWN = 1,       /* host: fork worker w */
    ARS__KILL = 2,        /* host: kill worker w's family; answered by DIED */
    ARS__STOP = 3,        /* host: kill every family, exit 0 */
    ARS__STARTED = 4,     /* zygote: worker w is process pid */
    ARS__DIED = 5,        /* zygote: worker w has ended with this wait status, and its whole family is gone */
    ARS__FORK_FAILED = 6, /* zygote: SPAWN failed; status is an errno, or -1 for a process with threads */
    ARS__AREA_FAILED = 7  /* zygote: SPAWN failed, because the worker's area could not be opened; status is an errno */
};

struct ars__zygote_message {
    uint32_t op;
    uint32_t worker;
    int32_t pid;
    int32_t status;
};

/* ---- environment ------------------------------------------------------------------------------------------------- */
/* Numbers that are not given have the defaults of limits_table.h.
 *
 * ARS_ENDPOINT   ipc://... or tcp://...: makes the program a simulator under a controller
 * ARS_KEY        (read by ars-host) for tcp: the file simulator.key that ars keygen made
 * ARS_INSECURE_LOOPBACK  (read by ars-host) if set: tcp on a loopback address goes without keys
 * ARS_TOKEN      32 hex digits, repeated in HELLO; default: the key file's, or zeros
 * ARS_HOST       path of ars-host; default: near libars, where it was installed, beside the program, on the PATH (host_path.h)
 * ARS_WORKERS    how many workers, at most ARS__MAX_WORKERS (default: ARS__DEFAULT_WORKERS_PER_CORE per core)
 * ARS_SNAPSHOTS  snapshots alive per worker, so loops per trace
 * ARS_MAX_PROCESSES  workers, snapshots and continuations alive at once
 * ARS_MAX_MEMORY bytes that a worker, and all it forks, may allocate each on top of what the zygote has (default: no limit)
 * ARS_PREFORK    (read by ars-host) if set: workers are forked at once, not when the first run begins
 * ARS_FLAT_POLICY  rules for unnamed draws after those of the program: "nuisance:PATTERN;latent:PATTERN" (policy.h)
 * ARS_ALIVE_FD   a descriptor the launcher reads: libars writes "A" when it is loaded, "S" at the split, and "E" and a text
 *                if the program cannot become a simulator (threads, no ars-host, no memory); closed at the split
 * ARS_CONTROLLER_PID  (read by ars-host) exit when this process is gone
 *
 * ars-host is started as: ars-host --shm FD --zygote FD --zygote-pid PID --workers W --snapshots S */

#endif /* ARS_SHM_H */

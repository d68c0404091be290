/* process.h: what one process of the simulator's family knows. Internal to libars.
 *
 * The C interface has no handle, so there is one object per process, ars__me. A fork copies it, which is the point: a
 * snapshot's copy is the state at loop entry. */
#ifndef ARS_LIB_PROCESS_H
#define ARS_LIB_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ars.h"
#include "dist.h"
#include "shm.h"
#include "threads.h"
#include "wire.h"

enum ars__role {
    ARS__UNDECIDED = 0, /* before ars_main or the first ars_next_trace */
    ARS__ALONE,         /* the plain simulator */
    ARS__ZYGOTE,        /* initialised, parked, forks workers */
    ARS__WORKER,        /* runs traces */
    ARS__SNAPSHOT,      /* parked at the entry of a loop */
    ARS__TRY_Q,         /* a continuation of that loop under the proposal */
    ARS__RUN_P,         /* a continuation under the prior */
    ARS__FOREIGN        /* forked by the simulator itself: takes no part */
};

/* ---- the trace under construction (trace.c) ---------------------------------------------------------------------- */

/* A growing array of bytes; `used` is truncated when a loop's try is rejected. */
struct ars__buffer {
    unsigned char *bytes;
    size_t used, room;
};

struct ars__trace {
    struct ars__buffer samples;            /* ars_wire_sample */
    struct ars__buffer params;             /* double: parameters of the samples' priors, if the run records them */
    struct ars__buffer observes, observed; /* ars_wire_values, and their doubles */
    struct ars__buffer results, resulted;  /* ars_wire_values, and their doubles */
    struct ars__buffer loops;              /* ars_wire_loop */
    struct ars__buffer slots;              /* uint32_t per loop */
    struct ars__buffer tries, rejected;    /* ars_wire_try, and their ars_wire_sample (rejected_log.c) */
    struct ars__buffer rejected_params;    /* double: of the rejected samples' priors */
    double log_likelihood;
    double log_ratio_all;
    uint32_t snapshots;
    uint32_t entries; /* loops entered, rejected ones included: names the random streams of their continuations */
};

/* Where the trace stood: everything a rejected try adds lies behind it. */
struct ars__mark {
    size_t samples, params, results, resulted, loops;
};

void *ars__buffer_add(struct ars__buffer *b, const void *bytes, size_t size);
void ars__trace_reset(struct ars__trace *t);
struct ars__mark ars__trace_mark(const struct ars__trace *t);
void ars__trace_rewind(struct ars__trace *t, const struct ars__mark *to); /* also gives instance numbers back */
void ars__trace_send(struct ars__trace *t);                               /* writes the record into the worker's ring */
void ars__trace_send_failure(const struct ars_wire_failure *failure);

/* Where the record of rejected tries stood. */
struct ars__rejected_mark {
    size_t tries, samples, params;
};

static inline size_t ars__n_samples(const struct ars__trace *t) {
    return t->samples.used / sizeof(struct ars_wire_sample);
}
static inline size_t ars__n_loops(const struct ars__trace *t) {
    return t->loops.used / sizeof(struct ars_wire_loop);
}

/* ---- loops (loops.c) --------------------------------------------------------------------------------------------- */

/* Memory in the frame of the function that holds a loop, with a number that no other activation has. */
struct ars__mark_of_activation {
    const uint64_t *at; /* NULL: none */
    uint64_t number;
    const char *below;   /* making it has moved the stack pointer here or further down */
    const char *settled; /* where the stack pointer was then */
};

struct ars__loop {
    ars__site *site;
    const char *frame;
    const void *pin; /* which inlined copy of the loop */
    struct ars__mark_of_activation mark;
    uint32_t address; /* site id; under p that of the loop around it */
    int32_t record;   /* index among the trace's loops */
    uint64_t tries;
    struct ars__mark entry;
    uint64_t entry_state;
    size_t entry_told;
    struct ars__rejected_mark entry_rejected, try_rejected; /* at the entry, and when the present try began */
    uint32_t recorded;                                      /* rejected tries that are in the record */
    double try_ratio; /* sum of log p/q of all that the present try has drawn; -inf is possible, so no differences */
    struct ars__first *first;
    bool owns_first;
    bool in_place; /* ars_reject: repeated by us, never by rs_start */
};

/* A stack of the loops that are open. */
struct ars__loops {
    struct ars__loop *at;
    size_t depth, room;
};

/* Activations that carry a mark already, so that a loop in a long-lived function makes one only once. */
struct ars__marked {
    const ars__site *site;
    const char *frame;
    struct ars__mark_of_activation mark;
};
struct ars__marks {
    struct ars__marked *at;
    size_t n, room;
    uint64_t last_number;
};

static inline struct ars__loop *ars__top(struct ars__loops *l) {
    return l->depth ? &l->at[l->depth - 1] : NULL;
}

/* Fails if the innermost open loop's function is no longer on the stack. `caller` is the stack pointer of whoever called
 * into libars. */
void ars__loops_check(const char *caller, const char *what, const char *name);
void ars__loops_reset(void);

/* Opens a loop and records it; a continuation under p records nothing. */
struct ars__loop *ars__loop_open(ars__site *site, const char *frame);
/* Memory for the first draw's proposal, for a loop without a snapshot. */
void ars__loop_cache(struct ars__loop *loop);
/* The try was rejected: everything that it drew vanishes. */
void ars__loop_again(struct ars__loop *loop);
void ars__try_begins(void); /* for the clock of tries */
void ars__try_ends(void);   /* what comes next belongs to none */
void ars__loop_close(void);
_Noreturn void ars__loop_left(const struct ars__loop *loop, const char *how);
/* Fails unless a trace is being run. */
void ars__loop_needs_trace(ars__site *site, const char *what);
void ars__loop_name(ars__site *site, char *text, size_t size);

/* ---- rejected tries (rejected_log.c) ----------------------------------------------------------------------------- */

static inline struct ars__rejected_mark ars__rejected_now(const struct ars__trace *t) {
    struct ars__rejected_mark m = {t->tries.used, t->rejected.used, t->rejected_params.used};
    return m;
}
void ars__rejected_keep(struct ars__loop *loop);  /* the present try is rejected: call before the trace is rewound */
void ars__rejected_close(struct ars__loop *loop); /* the loop is accepted */

/* ---- sites (sites.c) --------------------------------------------------------------------------------------------- */

/* The id of `name` below the innermost open loop; asks the host the first time anybody meets it. */
uint32_t ars__site_id(const char *name, enum ars_site_kind kind, unsigned dist);
const char *ars__site_address(uint32_t id, int *size); /* for messages: "%.*s" */
/* A name for messages, with the bytes that are not UTF-8 as \xNN, cut to fit. Returns text. */
const char *ars__shown(const char *name, char *text, size_t size);
/* Per id: how often it was met in the trace with this serial number. */
struct ars__met {
    uint64_t trace;
    uint32_t count;
};
struct ars__instances {
    struct ars__met *at;
    size_t room;
    uint64_t trace;
};
uint32_t ars__instance_take(uint32_t site);
void ars__instance_give_back(uint32_t site);
void ars__instances_reset(void);

/* ---- data (data.c) ----------------------------------------------------------------------------------------------- */

void ars__data_begin_run(void);
void ars__data_begin_trace(void);
/* The next n given values for `name`; NULL if this run simulates its observations. Fails if they do not fit. */
const double *ars__data_take(const char *name, size_t n);
/* Which of several values the one taken last is, for messages: " (element 2 of 10)", from 0; nothing if there is one. */
void ars__data_place(const char *name, char *text, size_t size);
void ars__data_end_trace(void);

/* ---- asking the host (ask.c) ------------------------------------------------------------------------------------- */

void ars__raise_attention(uint32_t channel);
void ars__ask(enum ars__question kind, const void *request, size_t size, void *reply, size_t *reply_size);
/* Whether the prior proposes at this site, so that nobody need be asked. */
bool ars__prior_proposes(uint32_t site);
/* The controller's proposal for a latent. It may point into memory that lasts until the next question. */
void ars__propose(uint32_t site, uint32_t instance, const ars_dist *prior, ars_dist *proposal);

/* Asks the question in the mailbox; the answer comes there too. Returns its size. */
size_t ars__ask_in_place(enum ars__question kind, size_t size);

/* ---- asking ahead (ahead.c) ---------------------------------------------------------------------------------------- */

void ars__script_begin(struct ars__loop *loop); /* a try begins */
void ars__script_close(struct ars__loop *loop); /* what comes next in this try cannot be guessed */
void ars__script_asks(const unsigned char *request, size_t size);
void ars__script_answered(size_t reply_size);
/* Asks what n continuations under q, from this number on, will want to know. Returns how many answers it got. */
uint32_t ars__ask_ahead(const struct ars__loop *loop, uint32_t from, uint32_t n);
void ars__ahead_learn(uint32_t loop, uint32_t asked, uint32_t used);
uint32_t ars__ahead_used_in_place(void); /* since the last call */
/* In a continuation: which one it is; and the answer to its next question, NULL if it was not guessed. */
void ars__ahead_begin(uint32_t number);
const unsigned char *ars__ahead_find(const unsigned char *request, size_t size, size_t *reply_size);

/* ---- processes (fork.c, family.c, snapshot.c) -------------------------------------------------------------------- */

#define ARS__EXIT_LEFT 87 /* a continuation that ended as it should */

void ars__watch_forks(void);          /* from now on a process that the simulator forks is ARS__FOREIGN */
pid_t ars__fork(enum ars__role role); /* -1: errno, or ARS__HAS_THREADS in errno */
#define ARS__HAS_THREADS (-1)
/* The same for a snapshot or a continuation; tries again for a while if the system, or the limit of processes, refuses. Ends
 * the trace with a failure if it stays so. */
pid_t ars__fork_patiently(enum ars__role role, const char *what);
void ars__reap(pid_t pid, int *status); /* waits for one child of ours; *status is -1 if someone else reaped it */

bool ars__controlled(void);
void ars__split(void);       /* returns in a worker */
bool ars__worker_next(void); /* ends the trace in progress, waits for the next */
void ars__alive_error(const char *text);
_Noreturn void ars__cannot_start(const char *what, int error);

/* segment.c: the segment as the family maps it; then what the zygote does around the fork of worker w. */
const struct ars__shm *ars__segment_make(int fd);
bool ars__area_open(uint32_t w);  /* false: errno */
void ars__area_close(uint32_t w); /* ends the zygote if it cannot */

/* limits.c: a number from the environment, at least 1; the memory that this process and its children may allocate; whether
 * there are as many processes as there may be. */
uint64_t ars__setting(const char *name, uint64_t standard, uint64_t most);
void ars__limit_memory(void);
bool ars__crowded(void);
uint32_t ars__notice_every(void); /* at how many snapshots more or less a worker tells the host */

/* The random stream of a continuation of the loop that was entered last. */
ars__rng ars__stream(enum ars__role role, uint32_t number);

void ars__snapshot_at_entry(struct ars__loop *loop);
void ars__snapshots_dismiss_after(size_t record); /* those of the loops behind this one */
void ars__snapshots_await(void);
void ars__continuation_rejected(struct ars__loop *root);
_Noreturn void ars__continuation_accepted(struct ars__loop *root);

/* ---- failures (fail.c) ------------------------------------------------------------------------------------------- */

/* Ends the trace with a named failure; alone, writes to stderr and aborts. Asserts are for our bugs, this is for the
 * world's. */
void ars__where_read(const struct ars__where *where, struct ars_wire_failure *failure);
_Noreturn void ars__fail(enum ars_failure_kind kind, int detail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* The first memory of the tables that a continuation writes to. */
enum { ARS__FEW_LOOPS = 4, ARS__FEW_MARKS = 8, ARS__FEW_SITES = 60, ARS__FEW_SAMPLES = 20, ARS__FEW_RECORDS = 4 };
struct ars__few {
    struct ars__loop loops[ARS__FEW_LOOPS];
    struct ars__marked marks[ARS__FEW_MARKS];
    struct ars__met met[ARS__FEW_SITES];
    struct ars_wire_sample samples[ARS__FEW_SAMPLES];
    struct ars_wire_loop records[ARS__FEW_RECORDS];
};
/* Enlarges a table: `old` may be NULL, memory of struct ars__few, or of a former call. NULL: no memory. */
void *ars__enlarge(void *old, size_t old_size, size_t size);

/* All that a continuation of a small loop writes to is on one page: every page that a forked process writes to is first
 * copied by the kernel, and that costs more than the continuation does. */
#define ARS__PAGE 4096

struct ars__process {
    enum ars__role role;
    bool in_trace;
    bool forking; /* by us */
    ars__rng rng;
    uint64_t seed;
    uint64_t trace_number;
    uint64_t traces_left; /* alone: traces to come; worker: of the present order */

    const struct ars__shm *shm;
    uint32_t n_workers, per_worker, worker;
    uint32_t max_processes;
    struct ars__worker *mine;
    struct ars__channel *channel;
    struct ars__where *where;
    uint32_t channel_number;
    uint32_t order_number;
    uint64_t run_number;
    uint64_t max_tries;
    uint32_t max_rejected;
    uint32_t flags;
    uint32_t want_tries_q, want_runs_p; /* for loops that are estimated in place */
    uint32_t ahead;                     /* in a continuation: its next answer that is there already; 0: none */

    /* The proposer's state: a number, and how many of the trace's latents it knows. */
    uint64_t state;
    size_t told;
    struct ars__trace trace;
    struct ars__loops loops;

    struct ars__snapshot *snapshot; /* in a snapshot and its continuations; NULL in a continuation in place */
    size_t root;                    /* depth of the loop that is being estimated; 0: none */

    struct ars__marks marks;
    struct ars__instances instances;
    struct ars__few few;
};
_Static_assert(sizeof(struct ars__process) <= ARS__PAGE, "what a continuation writes to must fit a page");

extern struct ars__process ars__me;

static inline void ars__at_loop(uint32_t loop) {
    atomic_store_explicit(&ars__me.where->loop, loop, memory_order_relaxed);
}
static inline void ars__at_site(uint32_t site) {
    atomic_store_explicit(&ars__me.where->site, site, memory_order_relaxed);
}
/* The trace goes on in this process now: in the child that this one waits for, or in this one again. */
static inline void ars__at_work(pid_t pid) {
    atomic_store_explicit(&ars__me.where->pid, (uint32_t)pid, memory_order_relaxed);
}
/* A try begins, or (inside: false) the last one is over. */
static inline void ars__beat(bool inside) {
    uint32_t beat = atomic_load_explicit(&ars__me.where->beat, memory_order_relaxed);
    atomic_store_explicit(&ars__me.where->beat, (beat | 1) + 1 + inside, memory_order_relaxed);
}

static inline bool ars__continuing(void) {
    return ars__me.role == ARS__TRY_Q || ars__me.role == ARS__RUN_P;
}

/* Continuations and their loops belong to no record. */
static inline bool ars__recording_rejected(void) {
    return (ars__me.flags & ARS_RUN_RECORD_REJECTED) && ars__me.role == ARS__WORKER;
}

#endif /* ARS_LIB_PROCESS_H */

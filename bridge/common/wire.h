/* wire.h: the layouts that cross a process boundary: ZeroMQ frames (PROTOCOL.md) and the bodies of mailboxes.
 *
 * Little-endian, fixed width, naturally aligned, no hidden padding. Python reads the part between the cffi marks with
 * cffi, so that part is plain C: enums, structs, no macros. Codes are never renumbered. */
#ifndef ARS_WIRE_H
#define ARS_WIRE_H

#include <stdint.h>

#include "dist_list.h"

/* cffi: begin */
enum ars_wire_limits {
    ARS_WIRE_MAGIC = 0x31535241, /* "ARS1" in memory */
    ARS_WIRE_VERSION = 5,        /* the version we speak */
    ARS_WIRE_VERSION_MIN = 5,    /* the oldest we accept */
    ARS_WIRE_MAX_MESSAGE = 268435456,
    ARS_WIRE_MAX_NAME = 1024, /* bytes of a site's address, without a terminating zero */
    ARS_WIRE_MAX_SITES = 65536,
    ARS_WIRE_MAX_CATEGORIES = 512,
    ARS_WIRE_MAX_COMPONENTS = 64,
    ARS_WIRE_MAX_TOLD = 128,
    ARS_WIRE_MAX_DIMS = 32,   /* axes of a result */
    ARS_WIRE_MAX_MORE = 255,  /* draws that one request asks for besides its first */
    ARS_WIRE_MAX_STEP = 8192, /* bytes of one step request or reply, header included */
    ARS_WIRE_TEXT = 512       /* bytes of a failure's text, terminating zero included */
};

enum ars_message {
    ARS_MSG_HELLO = 1,   /* host -> controller, first */
    ARS_MSG_WELCOME = 2, /* controller -> host */
    ARS_MSG_RUN = 3,     /* controller -> host: a run begins */
    ARS_MSG_SITES = 4,   /* host -> controller: names of new sites */
    ARS_MSG_STEPS = 5,   /* host -> controller: requests for proposals, many at once */
    ARS_MSG_REPLIES = 6, /* controller -> host: the proposals */
    ARS_MSG_TRACES = 7,  /* host -> controller: finished traces, in columns */
    ARS_MSG_DONE = 8,    /* host -> controller: the run is over, with its counters */
    ARS_MSG_CANCEL = 9,  /* controller -> host: stop the run; answered by DONE */
    ARS_MSG_QUIT = 10,   /* controller -> host: end the family and exit */
    ARS_MSG_ERROR = 11   /* either way: the sender gives up, with the reason as text */
};

/* Every message is one ZeroMQ frame that starts with this header, except TRACES, whose header frame is followed by its
 * columns, one frame each. */
struct ars_wire_header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t size;  /* bytes of this frame, header included */
    uint32_t count; /* items that follow */
    uint64_t run;   /* 0 outside a run */
};

struct ars_wire_hello {
    struct ars_wire_header header;
    uint16_t version_min;
    uint16_t version_max;
    uint32_t workers;
    uint32_t host_pid;
    uint32_t zygote_pid;
    uint8_t token[32]; /* ARS_TOKEN, hex digits as given to the simulator: shows that this host is the one launched */
};

struct ars_wire_welcome {
    struct ars_wire_header header;
    uint16_t version; /* the one chosen */
    uint16_t reserved0;
    uint32_t reserved1;
};

enum ars_run_flags {
    ARS_RUN_POSTERIOR = 1,        /* data is given; without it observations are simulated */
    ARS_RUN_PROPOSE_PRIOR = 2,    /* never ask: the prior proposes everywhere */
    ARS_RUN_LOOPS_PRIOR = 4,      /* inside loops the prior proposes */
    ARS_RUN_ESTIMATE = 8,         /* snapshots and continuations */
    ARS_RUN_RECORD_PRIORS = 16,   /* send the parameters of every prior with the samples */
    ARS_RUN_RECORD_REJECTED = 32, /* send what rejected tries drew, too */
    ARS_RUN_ASK_AHEAD = 64,       /* requests that continuations will probably make may come before them */
    ARS_RUN_REWIND = 128,         /* continuations may run in place and be undone, instead of in a fork */
    ARS_RUN_CHECK = 256,          /* every loop entry is estimated both ways, and the numbers are compared */
    ARS_RUN_PILOT = 512           /* with ESTIMATE: continuations draw from streams that no other run uses */
};

/* What is wanted of the continuations of a loop's entry: runs under p until accepted, and under q either so many tries, or
 * tries until so many were accepted. All 0: the loop is not estimated. */
struct ars_wire_wanted {
    uint32_t runs_p;     /* M */
    uint32_t tries_q;    /* N; 0: see accepted_q */
    uint32_t accepted_q; /* R, possibly 0; it is 0 where tries_q is not */
};

/* RUN: the header's count is the number of observed names; that many ars_wire_observed follow, then their names (one
 * after another, each padded with zeros to a multiple of 8 bytes), then their values; a NaN was not observed. After these
 * come n_budgets ars_wire_budget, each followed by its loop's address, padded likewise; then n_listed ars_wire_listed. */
struct ars_wire_run {
    struct ars_wire_header header;
    uint64_t seed;
    uint64_t first_trace; /* the lowest number */
    uint64_t n_traces;
    uint32_t flags;
    struct ars_wire_wanted wanted; /* of loops without an ars_wire_budget; with ESTIMATE, runs_p is at least 1 */
    uint64_t max_tries;            /* per loop entry and per continuation */
    double trace_timeout;          /* seconds of its own time; 0: none */
    double try_timeout;            /* seconds of one try of an outermost loop; 0: none */
    uint32_t max_workers;          /* use at most this many; 0: all */
    uint32_t max_rejected;         /* rejected tries sent per loop entry; 0 without ARS_RUN_RECORD_REJECTED */
    uint32_t n_budgets;
    uint32_t n_listed; /* 0: the traces are first_trace to first_trace + n_traces - 1; else it equals n_traces */
};

struct ars_wire_observed {
    uint32_t name_size; /* unpadded */
    uint32_t n_values;
};

/* The budget of one loop, known by its address. They come in ascending order of the addresses' bytes, none twice. */
struct ars_wire_budget {
    uint32_t name_size; /* unpadded */
    struct ars_wire_wanted wanted;
};

/* A trace of the run, in ascending order of numbers. It is followed by n_tries uint32, padded with zeros to a multiple of
 * 8 bytes: how many tries each loop entry of this trace takes (in the order of its record), if it is known from an earlier
 * run; 0: not known. With them, loops inside a try that will be rejected are not estimated. */
struct ars_wire_listed {
    uint64_t trace;
    uint32_t n_tries;
    uint32_t reserved;
};

enum ars_site_kind { ARS_SITE_SAMPLE = 1, ARS_SITE_OBSERVE = 2, ARS_SITE_RESULT = 3, ARS_SITE_LOOP = 4 };

/* SITES: the header's count is the number of these; each is followed by its address, padded with zeros to a multiple
 * of 8 bytes. Ids count up from 0 and are never reused while the host lives. */
struct ars_wire_site {
    uint32_t id;
    uint16_t kind;
    uint16_t dist; /* enum ars_dist_kind of a sample or observe site; else 0 */
    uint32_t name_size;
    uint32_t reserved;
};

/* A distribution on the wire: this header, then n doubles. Mixture: n = 6 * components, and a component is its weight,
 * its kind (as a double), and four parameters, unused ones 0. */
struct ars_wire_dist {
    uint16_t kind;
    uint16_t reserved;
    uint32_t n;
};

struct ars_wire_told {
    uint32_t site_id;
    uint32_t instance;
    double value;
};

/* STEPS: the header's count is the number of these. Each is followed by n_told ars_wire_told (the latents drawn since
 * `state` was made, oldest first), then by the prior as an ars_wire_dist. A request with site_id ARS_NO_SITE only tells:
 * it has no prior, and its reply has only a new state. With n_more > 0 it asks for the next n_more draws of the site as well:
 * their priors follow, all of one kind, and an ars_wire_stream. */
enum ars_no_site { ARS_NO_SITE = 0x7fffffff };
struct ars_wire_step {
    uint32_t size;   /* bytes of this item, a multiple of 8 */
    uint32_t ticket; /* filled in by the host; the reply repeats it */
    uint64_t trace;
    uint64_t state; /* 0: the start of the trace */
    uint32_t site_id;
    uint32_t instance;
    uint32_t n_told;
    uint32_t n_more; /* draws asked for besides the first */
};

/* Follows the priors of a request with n_more > 0: the random stream that its values will be drawn from, so that the
 * controller can draw them too (ars__rng in dist.h). */
struct ars_wire_stream {
    uint32_t key[2];
    uint64_t trace;
    uint64_t block; /* the next one to be made */
    uint32_t used;  /* words given away of the blocks made last */
    uint32_t reserved;
};

enum ars_reply_flags {
    ARS_REPLY_ALWAYS_PRIOR = 1 /* with a PRIOR proposal: do not ask for this site again in this run */
};

/* REPLIES: the header's count is the number of these; each is followed by the proposal as an ars_wire_dist, and by n_more
 * others, no more than the request asked for. `state` is that after the last draw that has a proposal. */
struct ars_wire_reply {
    uint32_t size; /* bytes of this item, a multiple of 8 */
    uint32_t ticket;
    uint64_t state; /* the new state */
    uint32_t flags;
    uint32_t n_more;
};

/* TRACES: the header frame's count is the number of traces; then these frames, each an array, in this order:
 * traces, samples, observes, results, loops, values (double), failures, tries, rejected. The items of one trace are consecutive in
 * every array and in the order of the traces; counts in ars_wire_trace say how many are whose. */
struct ars_wire_trace {
    uint64_t trace;
    uint32_t failure;   /* enum ars_failure_kind; 0: complete */
    uint32_t snapshots; /* forked at loop entries, rejected ones included */
    uint32_t n_samples;
    uint32_t n_observes;
    uint32_t n_results;
    uint32_t n_loops;
    uint32_t n_values;         /* doubles in the values column */
    uint32_t n_tries;          /* rejected tries, if ARS_RUN_RECORD_REJECTED */
    double log_likelihood;     /* observations given, and factors */
    double log_ratio_accepted; /* sum of log p - log q over the accepted latents, and all draws of abandoned loops */
    double log_ratio_all;      /* over all latents drawn, rejected ones included */
};

struct ars_wire_sample {
    uint32_t site_id;
    uint32_t instance;
    int32_t loop;      /* index of the innermost enclosing loop among this trace's loops; -1: none */
    uint16_t prior;    /* enum ars_dist_kind */
    uint16_t n_params; /* doubles in the values column, if ARS_RUN_RECORD_PRIORS; else 0 */
    double value;
    double log_p;
    double log_q;
};

/* Observes: n doubles in the values column (0 in a posterior run: the values are the given ones).
 * The values of one trace come in this order: observes,
 * results, prior parameters of samples, prior parameters of rejected samples. */
struct ars_wire_values {
    uint32_t site_id;
    uint32_t n;
    double log_p; /* of these values */
};

/* A result. One with a shape begins, in the values column, with the lengths of its n_dims axes; their product is the number of
 * doubles that follow. n counts both. */
struct ars_wire_result {
    uint32_t site_id;
    uint32_t n;
    uint32_t n_dims; /* 0: no shape, n numbers in a row */
    uint32_t reserved;
};

/* How the acceptance of a loop's entry was estimated. */
enum ars_loop_method {
    ARS_METHOD_NONE = 0, /* it was not */
    ARS_METHOD_FORK = 1,
    ARS_METHOD_REWIND = 2,   /* in place, and undone */
    ARS_METHOD_CHECKED = 3,  /* both ways, with equal numbers */
    ARS_METHOD_MISMATCH = 4, /* both ways, with different numbers; those of the forks stand */
    ARS_METHOD_IN_PLACE = 5  /* ars_reject */
};

/* Why a loop's entry was estimated by forking in a run that allows REWIND. */
enum ars_fork_reason {
    ARS_REASON_NONE = 0,
    ARS_REASON_SYSTEM = 1,      /* the system does not allow rewinding; detail: errno */
    ARS_REASON_SYSCALL = 2,     /* a continuation made a system call that cannot be undone; detail: its number */
    ARS_REASON_CRASH = 3,       /* a process ended while it ran a continuation in place */
    ARS_REASON_FAILURE = 4,     /* a continuation failed in place; the fork reports the failure; detail: its kind */
    ARS_REASON_MISMATCH = 5,    /* an earlier entry was estimated both ways, and the numbers differed */
    ARS_REASON_COST = 6,        /* measured: forking is cheaper */
    ARS_REASON_PAGES = 7,       /* a continuation wrote to too many pages */
    ARS_REASON_THREADS = 8,     /* the simulator has more than one thread */
    ARS_REASON_SHADOW_STACK = 9 /* the processor guards return addresses with a stack that cannot be put back */
};

struct ars_wire_loop {
    uint32_t site_id;
    uint32_t instance;
    int32_t parent;            /* index of the enclosing loop among this trace's loops; -1: none */
    uint32_t forks;            /* continuations forked */
    uint64_t tries;            /* of the main run, the accepted one included if there is one */
    double log_ratio_rejected; /* sum of log p - log q over everything drawn in rejected tries */
    uint64_t tries_q;          /* made by continuations: N, or as many as R took; 0 with R = 0 */
    uint64_t accepted_q;       /* of them: K, or R */
    uint64_t runs_p;           /* M; 0: nothing was estimated */
    uint64_t tries_p;          /* sum of T_j */
    double s_pq_sum;           /* sum over the rejected tries under q of (p/q)^2 */
    uint32_t rewinds;          /* continuations run in place and undone */
    uint16_t method;           /* enum ars_loop_method */
    uint16_t reason;           /* enum ars_fork_reason */
    int32_t detail;            /* of the reason; else 0 */
    uint32_t pages;            /* memory pages put back per rewind */
    double s_pq_main;          /* sum over the rejected tries of the main run of (p/q)^2 */
    uint32_t abandoned;   /* 1: the main run has given up, and accepted none of its tries; nothing is estimated then */
    uint32_t abandoned_p; /* of the runs under p */
    uint64_t abandoned_q; /* B: whole runs under q that were given up before one was accepted */
    uint64_t abandoned_tries; /* made in the first j of these, with j drawn from 1 to B; 0 if B is 0 */
};

/* A rejected try of a loop. What it drew, and what the loops inside it drew in the tries that they accepted, are its
 * n_samples items of the rejected column (ars_wire_sample, whose `loop` is then the index of this try). Before them came
 * the first `prefix` samples of its parent, and what came before those. */
struct ars_wire_try {
    uint32_t site_id;  /* of the loop */
    uint32_t instance; /* of the loop */
    int32_t parent;    /* index of the rejected try around it among this trace's tries; -1: none, the trace itself */
    uint32_t prefix;   /* samples of the parent, or of the trace, drawn before the loop was entered */
    uint32_t n_samples;
    uint32_t recorded; /* tries of this loop's entry that are here: the first ones */
    uint64_t rejected; /* tries of this loop's entry that were rejected, recorded or not */
};

enum ars_failure_kind {
    ARS_OK = 0,
    ARS_FAIL_CRASH = 1, /* ended by a signal; detail: the signal */
    ARS_FAIL_EXIT = 2,  /* exited in mid-trace; detail: the exit code */
    ARS_FAIL_TIMEOUT = 3,
    ARS_FAIL_TOO_MANY_TRIES = 4,
    ARS_FAIL_NAN = 5,       /* a NaN or infinite value where there must be none */
    ARS_FAIL_MISUSE = 6,    /* the interface was used wrongly */
    ARS_FAIL_LOOP_LEFT = 7, /* a loop was left without rs_end */
    ARS_FAIL_RS_END = 8,    /* rs_end without rs_start */
    ARS_FAIL_OBSERVE_IN_LOOP = 9,
    ARS_FAIL_PARAMETER = 10,    /* a distribution's parameters are wrong */
    ARS_FAIL_SITE_CHANGED = 11, /* a site's distribution kind changed */
    ARS_FAIL_OBSERVATION = 12,  /* observed data do not fit what the simulator observes */
    ARS_FAIL_FORK = 13,         /* fork refused by the system */
    ARS_FAIL_THREADS = 14,      /* more than one thread */
    ARS_FAIL_MEMORY = 15,
    ARS_FAIL_LIMIT = 16,         /* a limit of libars: snapshots alive, sizes, sites */
    ARS_FAIL_PROTOCOL = 17,      /* a peer sent what it must not */
    ARS_FAIL_OUTSIDE_TRACE = 18, /* sampling outside a trace */
    ARS_FAIL_LOST = 19,          /* the process vanished */
    ARS_FAIL_TRY_TIMEOUT = 20    /* one try of a loop took too long */
};

struct ars_wire_failure {
    uint64_t trace;
    uint32_t kind;
    int32_t detail;
    uint32_t loop_id; /* site of the innermost open loop; ARS_NO_SITE: none, or not known */
    uint32_t site_id; /* the last sample, observation or result that was reached; ARS_NO_SITE: none, or not known */
    char text[512];   /* what, where and what to do; zero-terminated */
};

struct ars_wire_done {
    struct ars_wire_header header;
    uint64_t traces; /* complete and failed */
    uint64_t workers_started;
    uint64_t cancelled;      /* 1: ended by CANCEL */
    uint64_t replays;        /* traces begun again: a process of theirs had died, or sent what it must not */
    uint64_t forks_refused;  /* by the system, or by the limit of processes */
    uint64_t fewest_workers; /* that the run went on with, after refused forks */
};
/* cffi: end */

#define ARS_FAIL_LAST ARS_FAIL_TRY_TIMEOUT
#define ARS_METHOD_LAST ARS_METHOD_IN_PLACE
#define ARS_REASON_LAST ARS_REASON_SHADOW_STACK
#define ARS_WIRE_PAD(n) (((n) + 7u) & ~(uint32_t)7u)

_Static_assert(sizeof(struct ars_wire_header) == 24, "header");
_Static_assert(sizeof(struct ars_wire_hello) == 72, "hello");
_Static_assert(sizeof(struct ars_wire_welcome) == 32, "welcome");
_Static_assert(sizeof(struct ars_wire_run) == 104, "run");
_Static_assert(sizeof(struct ars_wire_budget) == 16, "budget");
_Static_assert(sizeof(struct ars_wire_listed) == 16, "listed");
_Static_assert(sizeof(struct ars_wire_site) == 16, "site");
_Static_assert(sizeof(struct ars_wire_step) == 40, "step");
_Static_assert(sizeof(struct ars_wire_stream) == 32, "stream");
_Static_assert(sizeof(struct ars_wire_reply) == 24, "reply");
_Static_assert(sizeof(struct ars_wire_trace) == 64, "trace");
_Static_assert(sizeof(struct ars_wire_sample) == 40, "sample");
_Static_assert(sizeof(struct ars_wire_values) == 16, "values");
_Static_assert(sizeof(struct ars_wire_result) == 16, "result");
_Static_assert(sizeof(struct ars_wire_loop) == 120, "loop");
_Static_assert(sizeof(struct ars_wire_try) == 32, "try");
_Static_assert(sizeof(struct ars_wire_failure) == 536, "failure");
_Static_assert(sizeof(struct ars_wire_done) == 72, "done");

#endif /* ARS_WIRE_H */

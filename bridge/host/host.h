/* host.h: what the parts of ars-host share.
 *
 * One thread does all the work (loop.c); a second one only turns the segment's doorbell into a descriptor that can be
 * polled (wake.c). The parts: link.c speaks ZeroMQ, session.c obeys the controller, relay.c and sites.c answer questions,
 * records.c and columns.c carry traces, schedule.c hands out work, timing.c and cores.c keep the time, family.c talks to the
 * zygote. */
#ifndef ARS_HOST_H
#define ARS_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include "buffer.h"
#include "shm.h"
#include "wire_check.h"

#define ARS__MS 1000000ull /* times are nanoseconds of CLOCK_MONOTONIC */
#define ARS__S 1000000000ull

/* ---- one member of the family ---------------------------------------------------------------------------------- */

enum worker_state {
    WORKER_NONE,     /* no process */
    WORKER_SPAWNING, /* SPAWN sent, STARTED or FORK_FAILED expected */
    WORKER_ALIVE,
    WORKER_DYING,   /* KILL sent, DIED expected */
    WORKER_BACKOFF, /* fork was refused: again at retry_at */
    WORKER_GAVE_UP  /* fork was refused too often in this run */
};

/* What the kernel says of a process: nanoseconds that it ran, and that it was ready to run and waited for a core. */
struct cpu_reading {
    pid_t pid;
    uint64_t ran, waited;
    bool runnable; /* it runs, or waits for a core */
};

/* The readings of one process after another, in turns that follow each other: cores.c. */
struct cpu_clock {
    struct cpu_reading last; /* pid 0: none */
    int64_t credit;          /* left out so far: its own time, or a wait that is not over */
    double share;            /* of its time that was last its own */
    uint64_t at;             /* when it was last read */
};

/* The host's own knowledge of a channel: what is in the segment may be anything. */
struct channel {
    bool waiting;      /* TAKEN: the controller has the question, or several */
    uint32_t sequence; /* of questions, over the channel's life */
    uint32_t ticket;   /* of the question, or the first of several, while waiting */
    uint32_t asked, answered;
    bool several;                               /* their answers are collected, and handed over together */
    uint64_t came[(ARS__MOST_STEPS + 63) / 64]; /* of several, a bit for each that was answered */
    uint32_t filled;                            /* bytes of the mailbox, by answers to several */
    bool full;                                  /* one did not fit: those after it are not handed over either */
    uint32_t site;                              /* that it asks about */
    uint32_t beat;                              /* of the process's tries, when last looked at */
    uint64_t tried, tried_wall;                 /* time since it changed: the process's own, and all */
    struct cpu_clock cpu;
};

struct worker {
    enum worker_state state; /* its process is the zygote's to signal: to us its number may be somebody else's by now */
    pid_t pid;               /* so it is for reading times only */
    unsigned fork_tries;
    uint64_t retry_at;
    uint64_t answer_by; /* SPAWNING, DYING: the zygote is stuck after this */

    /* The order it has. Traces first .. first + finished - 1 are accounted for. */
    bool has_order;
    bool last_failed; /* the last record was that of a failure: the process is about to exit */
    uint32_t order_number;
    uint64_t first, count, finished;

    /* Bytes from its ring: those before `parsed` are done with. While `at_work` is not 0 the record at `parsed` waits for
     * that many snapshots. */
    uint64_t ring_read;
    struct buffer bytes;
    size_t parsed;
    uint32_t at_work;
    struct ars_wire_failure snapshot_failure; /* kind not 0: what the trace will fail with */

    /* Its time in the current trace. The clock stands still while the controller is asked (waiting > 0). `spent` is all of it,
     * `own` leaves out waiting for a core; `counted` is the part of `spent` that `own` knows of. */
    uint64_t begun, spent, since, looked, own, counted;
    uint64_t begun_before; /* heartbeats when it got its order; there is one per trace */
    uint32_t waiting;

    bool broken;                  /* its ring makes no sense: do not read it again */
    struct ars_wire_failure doom; /* why we killed it; kind 0: for no trace's sake */
};

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct range {
    uint64_t first, count;
};

struct run {
    bool active;
    bool cancelled;
    struct ars_wire_run config; /* header.run is the number */
    uint64_t last_number;
    uint32_t use_workers, wanted_workers; /* fewer while forks are refused */
    uint64_t raise_at;                    /* when to try with one more; 0: never */
    uint32_t chunk;
    struct range *queue; /* the last one is next */
    size_t n_queue, queue_capacity;
    uint64_t queued;                      /* traces in the queue */
    uint64_t accounted;                   /* traces in TRACES messages, sent or in the columns */
    struct ars_wire_failure hopeless;     /* kind not 0: what all queued traces fail with */
    struct ars_wire_failure fork_failure; /* the last refused fork */
    struct ars_wire_done counters;
    struct replay *replays; /* replay.c: traces that died, and are not finished yet */
    size_t n_replays, replays_capacity;
};

/* ---- everything -------------------------------------------------------------------------------------------------- */

struct site;
struct replay;

struct host {
    /* command line */
    struct ars__shm *shm;
    uint32_t n_workers, per_worker, n_channels;
    int zygote_fd;
    pid_t zygote_pid;

    /* descriptors to poll */
    int bell_fd;       /* wake.c */
    int signal_fd;     /* SIGTERM, SIGHUP, SIGINT */
    int controller_fd; /* a pidfd, or -1 */

    /* link.c */
    void *context, *socket, *monitor;
    bool blocked;      /* the socket took no more: stop reading rings and questions until it does */
    bool disconnected; /* the controller is gone */
    enum refusal {
        REFUSAL_NONE,
        REFUSAL_CLOSED,    /* it closed the connection */
        REFUSAL_NO_ANSWER, /* nobody took the connection */
        REFUSAL_WRONG_KEY  /* it does not know our key */
    } refusal;             /* what `disconnected` meant, as far as ZeroMQ tells */
    bool has_keys;         /* CURVE */
    struct buffer sites_out, steps_out;
    uint32_t n_sites_out, n_steps_out;
    uint32_t n_askers_out; /* channels that they come from */
    uint32_t unanswered;   /* requests that the controller has */
    uint64_t steps_since;  /* when the first request of steps_out came */

    /* columns.c */
    struct buffer columns[ARS__COLUMNS];
    uint32_t n_traces_out;
    size_t columns_size;
    uint64_t columns_since; /* when the first trace was queued */

    /* sites.c */
    struct site *sites;
    uint8_t *site_kinds, *site_dists;
    uint32_t n_sites, *site_table;
    struct buffer names;

    struct worker *workers;
    struct channel *channels;
    unsigned ticket_bits; /* of a ticket that name the channel */
    struct run run;
    uint64_t now, next_tick;
    bool counts_cores; /* the kernel says how long a process waited for a core */
    bool look_at_all;  /* some rings may hold more than attention bits say */
    bool quit;         /* end in good order */
    bool zygote_lost;
    bool zygote_reaped;
    int zygote_status;
    bool prefork;     /* workers are forked before there is work */
    pid_t *strangers; /* children that the simulator had before it became a host: not ours to end */
    size_t n_strangers;
    char error[ARS_WIRE_TEXT]; /* not empty: end with this reason */
};

/* ---- keys.c ------------------------------------------------------------------------------------------------------ */
struct keys {
    unsigned char secret[32], public[32], peer[32];
    char token[32];
};
bool ars__keys_read(const char *path, struct keys *keys, ars__why *why);

/* ---- start.c ----------------------------------------------------------------------------------------------------- */
uint64_t ars__now(void);
/* Remembers the reason that ends the host; the first one counts. */
void ars__give_up(struct host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Geometry and descriptors are in *host; makes the rest, and greets the controller. */
bool ars__start(struct host *host, int segment_fd);
void ars__release(struct host *host);

/* ---- wake.c ------------------------------------------------------------------------------------------------------ */
bool ars__wake_start(struct host *host);
bool ars__attention_waiting(struct host *host);

/* ---- loop.c ------------------------------------------------------------------------------------------------------ */
void ars__loop(struct host *host);
void ars__signals(struct host *host); /* reads them; all but SIGINT mean quit */

/* ---- link.c ------------------------------------------------------------------------------------------------------ */
/* ipc, tcp with keys, or tcp on loopback if the user says so. */
bool ars__endpoint_allowed(const char *endpoint, bool has_keys, bool insecure_loopback, ars__why *why);
bool ars__link_open(struct host *host, const char *endpoint, const struct keys *keys); /* keys: NULL for none */
bool ars__link_greet(struct host *host, const char *token);
void ars__link_close(struct host *host);
void ars__link_watch(struct host *host); /* reads the monitor */
/* A header for this run. */
struct ars_wire_header ars__header(const struct host *host, enum ars_message type, size_t size, uint32_t count);
/* Sends one frame, or returns false: the socket is full (host->blocked) or the link is gone (host->disconnected). */
bool ars__link_send(struct host *host, const void *frame, size_t size, bool more);
/* Sends what has gathered, in the order that PROTOCOL.md asks for: sites, steps, and traces if they are due. */
void ars__link_flush(struct host *host, bool all_traces);
/* When the requests that have gathered go out, if nothing happens before: UINT64_MAX while the controller is busy. */
uint64_t ars__steps_due_at(const struct host *host);
bool ars__steps_crowded(const struct host *host);
void ars__link_error(struct host *host, const char *text);

/* ---- session.c --------------------------------------------------------------------------------------------------- */
void ars__session_receive(struct host *host); /* all that is there */

/* ---- sites.c ----------------------------------------------------------------------------------------------------- */
bool ars__sites_open(struct host *host);
ars__known_sites ars__sites_known(const struct host *host);
/* Fills in the id (ARS_NO_SITE if there is no room), and what the site was first met with: its kind of distribution, and in
 * `reserved` how many bytes of its address are the loops around it. */
void ars__site_identify(struct host *host, struct ars_wire_site *site, const void *name);
/* Sites that the controller knows from an earlier family, with their ids; before the family has any of its own. */
void ars__sites_adopt(struct host *host, const unsigned char *frame, const struct ars_wire_header *header);
/* The site if it is one of these kinds (a mask of 1 << kind), else ARS_NO_SITE: what a process says of itself may be wrong. */
uint32_t ars__site_or_none(const struct host *host, uint32_t site, unsigned kinds);
const char *ars__site_address(const struct host *host, uint32_t site, int *size);

/* ---- relay.c ----------------------------------------------------------------------------------------------------- */
void ars__relay_question(struct host *host, uint32_t channel);
void ars__relay_clean(struct host *host); /* takes requests that nobody waits for any more out of steps_out */
/* A reply item that ars__check_reply has accepted. False: the controller broke the protocol (host->error). */
bool ars__relay_reply(struct host *host, const unsigned char *item);
void ars__relay_reset(struct host *host, uint32_t worker); /* forgets the questions of a dead family */
/* Looks at the mailboxes that the worker's family may have a question in, for one that the doorbell has not told of. */
void ars__relay_missed(struct host *host, uint32_t worker);
/* The trace is over. Whoever still waits in its name is dead or never waited: its answer must not stop the clock of the
 * next trace, nor be taken for the answer to a question of whoever has the mailbox then. */
void ars__relay_drop(struct host *host, uint32_t worker);
void ars__relay_forget(struct host *host, uint32_t worker, uint32_t slot); /* the question of a snapshot that failed */

/* ---- records.c --------------------------------------------------------------------------------------------------- */
/* Reads the worker's ring and its snapshots' results. `last`: the family is dead, nobody will write any more. False: there
 * is more to read, but the link is full or it is another worker's turn (host->look_at_all). */
bool ars__records_read(struct host *host, uint32_t worker, bool last);
/* The slots of the snapshots that the worker's trace waits for; returns how many (slots has room for all). */
uint32_t ars__records_at_work(struct host *host, uint32_t worker, uint32_t *slots);

/* ---- columns.c --------------------------------------------------------------------------------------------------- */
void ars__columns_add(struct host *host, const ars__trace_view *view);
void ars__columns_fail(struct host *host, const struct ars_wire_failure *failure, uint32_t snapshots);
bool ars__columns_due(const struct host *host); /* enough have gathered, or the first has waited long enough */
uint64_t ars__columns_due_at(const struct host *host);
void ars__columns_send(struct host *host);
void ars__columns_clear(struct host *host);

/* ---- schedule.c -------------------------------------------------------------------------------------------------- */
void ars__run_start(struct host *host, const unsigned char *frame);
void ars__run_cancel(struct host *host);
void ars__requeue(struct host *host, uint64_t first, uint64_t count);
void ars__worker_look(struct host *host, uint32_t worker); /* its records and its order; gives the next one */
void ars__schedule(struct host *host);                     /* spawns, hands out, fails what is hopeless */
void ars__run_finish(struct host *host);                   /* DONE, if it is */

/* ---- timing.c ---------------------------------------------------------------------------------------------------- */
/* The clock of a trace: call before `waiting` changes, and on every tick. */
void ars__clock(struct host *host, struct worker *worker);
void ars__clock_reset(struct host *host, struct worker *worker);
void ars__tick(struct host *host);

/* ---- cores.c ----------------------------------------------------------------------------------------------------- */
/* A trace, or a try, that takes so many times its limit ends, whatever it was waiting for. */
enum { ARS__MOST_WAITING = 100 };
bool ars__cores_counted(void); /* by this kernel */
bool ars__cpu_read(pid_t pid, struct cpu_reading *now);
/* The nanoseconds of `elapsed`, the time since the last reading, that the process had for itself. `now` is NULL if it could
 * not be read: then its share of the last time counts. */
uint64_t ars__own_time(struct cpu_clock *clock, const struct cpu_reading *now, uint64_t elapsed);

/* ---- replay.c ---------------------------------------------------------------------------------------------------- */
/* Whether the trace that ended like this is to be run again. */
bool ars__replay(struct host *host, const struct ars_wire_failure *failure);
void ars__replay_forget(struct host *host, uint64_t trace); /* it is accounted for */
bool ars__replay_wants_fresh(struct host *host, uint64_t trace);
void ars__fork_refused(struct host *host, const char *text, bool halve);
void ars__raise_concurrency(struct host *host);

/* ---- family.c ---------------------------------------------------------------------------------------------------- */
void ars__family_open(struct host *host);
void ars__family_receive(struct host *host);
void ars__family_spawn(struct host *host, uint32_t worker);
void ars__family_kill(struct host *host, uint32_t worker);
/* Kills the family, and its current trace fails with this. */
void ars__family_condemn(struct host *host, uint32_t worker, enum ars_failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ars__family_lost(struct host *host); /* the zygote is gone: nothing can be forked any more */
void ars__family_where(const struct host *host, const struct ars__where *where, struct ars_wire_failure *failure);
void ars__family_reap(struct host *host); /* orphans that have come to us, and the zygote */
void ars__family_end(struct host *host);
void ars__family_count(struct host *host, uint32_t worker); /* tells all workers how many snapshots this one has */
uint64_t ars__current_trace(const struct worker *worker);

#endif /* ARS_HOST_H */

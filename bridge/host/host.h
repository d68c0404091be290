/* host.h: the state that the parts of ars-host share; each has a header of its own for its functions.
 *
 * One thread does all the work (event_loop.c); a second one only turns the segment's doorbell into a descriptor that can be
 * polled (wake.c). The parts: link.c speaks ZeroMQ, session.c obeys the controller, relay.c and sites.c answer questions,
 * records.c and columns.c carry traces, schedule.c hands out work, wanted.c and listed.c know what the run asks for, timing.c and cores.c keep the time, family.c talks to the
 * zygote. */
#ifndef ARS_HOST_H
#define ARS_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include "buffer.h"
#include "shm.h"
#include "wire_check.h"

#define HOST_MS 1000000ull /* times are nanoseconds of CLOCK_MONOTONIC */
#define HOST_S 1000000000ull

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
    uint32_t site_id;                           /* that it asks about */
    uint32_t beat;                              /* of the process's tries, when last looked at */
    uint64_t tried, tried_wall;                 /* time since it changed: the process's own, and all */
    struct cpu_clock cpu;
};

/* A set of numbers other than 0: states.c. */
struct states {
    uint64_t *at; /* 0: empty */
    size_t capacity, count;
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
    struct states states; /* that the controller gave to the current trace */

    bool broken;                  /* its ring makes no sense: do not read it again */
    struct ars_wire_failure doom; /* why we killed it; kind 0: for no trace's sake */
};

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct range {
    uint64_t first, count;
};

/* A trace that the run lists, and where the tries of its loop entries begin. */
struct listed {
    uint64_t trace;
    uint32_t n_tries;
    size_t at;
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

    /* wanted.c: a copy of the budgets, and where each begins; their addresses ascend */
    struct buffer budgets;
    size_t *budget_at;
    /* listed.c: the traces of the list, ascending, and the tries of all their loop entries */
    struct listed *listed;
    uint32_t *known;
};

/* What a run wants of a loop, by its id. It holds for the run of this number. */
struct loop_wanted {
    uint64_t run;
    struct ars_wire_wanted wanted;
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

    struct loop_wanted *loops_wanted; /* wanted.c */

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

#endif /* ARS_HOST_H */

/* process.h: what one process of the simulator's family knows. Internal to libars.
 *
 * The C interface has no handle, so there is one object per process, ars__me. A fork copies it, which is the point: a
 * snapshot's copy is the state at loop entry. All that libars keeps from one call to the next is in it. */
#ifndef ARS_LIB_PROCESS_H
#define ARS_LIB_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ahead.h"
#include "data.h"
#include "dist.h"
#include "family.h"
#include "handles.h"
#include "kept.h"
#include "loops.h"
#include "policy.h"
#include "role.h"
#include "scopes.h"
#include "shm.h"
#include "sites.h"
#include "snapshot.h"
#include "tables.h"
#include "trace.h"

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
    uint32_t ahead; /* in a continuation: its next answer that is there already; 0: none */

    /* The proposer's state: a number, and how many of the trace's latents it knows. */
    uint64_t state;
    size_t told;
    /* Proposals in the mailbox that wait for the next draws of a vector, and where they begin and end. */
    struct ars__waiting {
        uint32_t n, at, end;
    } waiting;
    struct ars__trace trace;
    struct ars__loops loops;
    struct ars__scope scope;

    struct ars__snapshot *snapshot; /* in a snapshot and its continuations; NULL in a continuation in place */
    size_t root;                    /* depth of the loop that is being estimated; 0: none */

    bool is_last_run; /* a snapshot that makes the last run under p itself: nobody needs it any more then */
    bool is_whole;    /* a continuation that runs until the loop ends, one way or the other, to see which */
    struct ars__scripted *latest_scripted; /* the question of the script whose answer is awaited; NULL: none */

    struct ars__tagged_frames tagged;
    struct ars__instances instances;
    struct ars__few few;

    /* From here on: what a continuation of a small loop does not write. */
    atomic_bool is_owned; /* by a thread */
    struct ars__alive alive;
    struct ars__marks marks;
    struct ars__policy policy;
    struct ars__handle_names handle_names;
    struct ars__site_table sites;
    struct ars__data data;
    struct ars__told_host told_host;
    struct ars__snapshots snapshots;
    struct ars__kept *kept; /* memory that a rewind leaves alone */
    ars__rng outside;       /* for draws outside a trace */
    bool ignores_names;     /* of ars_sample: every draw is named by its call path (ARS_CALL_PATHS=1, for ars check) */
    bool has_outside;
};
_Static_assert(offsetof(struct ars__process, is_owned) <= ARS__PAGE, "what a continuation writes to must fit a page");

extern struct ars__process ars__me;

#endif /* ARS_LIB_PROCESS_H */

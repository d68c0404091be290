/* loops.h: the stack of open rejection loops. */
#ifndef ARS_LIB_LOOPS_H
#define ARS_LIB_LOOPS_H

#include <math.h>
#include <stdbool.h>

#include "ars.h"
#include "rejected_log.h"
#include "scopes.h"
#include "shm.h"
#include "trace.h"

/* Memory in the frame of the function that holds a loop, with a number that no other activation has. */
struct ars__frame_tag {
    const uint64_t *at; /* NULL: none */
    uint64_t number;
    const char *below;   /* making it has moved the stack pointer here or further down */
    const char *settled; /* where the stack pointer was then */
};

struct ars__loop {
    ars__loop_mark *mark;
    const char *frame;
    const void *pin; /* which inlined copy of the loop */
    struct ars__frame_tag tag;
    uint32_t site_id; /* under p that of the loop around it */
    int32_t record;   /* index among the trace's loops */
    uint64_t tries;
    struct ars__position entry;
    uint64_t entry_state;
    size_t entry_told;
    struct ars__scope entry_scope;
    struct ars__log_position entry_rejected, try_rejected; /* at the entry, and when the present try began */
    uint32_t recorded;                                     /* rejected tries that are in the record */
    double try_ratio; /* sum of log p/q of all that the present try has drawn; -inf is possible, so no differences */
    struct ars__first *first;
    bool owns_first;
    bool given;             /* the present try has used a value that the controller gave */
    bool in_place;          /* ars_reject: repeated by us, never by rs_start */
    const ars_loop *handle; /* NULL: a loop with a frame. With a handle: no frame, no pin, no tag */
    uint64_t handle_number; /* of this entry: the handle has it too, and no other entry */
};

/* A stack of the loops that are open. */
struct ars__loops {
    struct ars__loop *at;
    size_t depth, room;
    uint64_t last_handle_number;
};

/* Activations that carry a tag already, so that a loop in a long-lived function makes one only once. */
struct ars__tagged_frame {
    const ars__loop_mark *mark;
    const char *frame;
    struct ars__frame_tag tag;
};
struct ars__tagged_frames {
    struct ars__tagged_frame *at;
    size_t n, room;
    uint64_t last_number;
};

static inline struct ars__loop *ars__top(struct ars__loops *l) {
    return l->depth ? &l->at[l->depth - 1] : NULL;
}

/* (p/q)^2 of the present try, for S_pq. */
static inline double ars__try_square(const struct ars__loop *loop) {
    return loop->try_ratio == 0 ? 1 : exp(2 * loop->try_ratio);
}

/* The innermost open loop that is bound to a function on the stack: one without a handle. NULL: none. */
const struct ars__loop *ars__innermost_framed(void);
/* Fails if that loop's function is no longer on the stack. `caller` is the stack pointer of whoever called into libars. */
void ars__loops_check(const char *caller, const char *what, const char *name);
void ars__loops_reset(void);

/* Opens a loop and records it; a continuation under p records nothing. */
struct ars__loop *ars__loop_open(ars__loop_mark *mark, const char *frame);
/* Estimates the loop that was just opened, if that is wanted. Returns in the main run, and in every continuation. */
void ars__loop_entered(struct ars__loop *loop);
/* Memory for the first draw's proposal, for a loop without a snapshot. */
void ars__loop_cache(struct ars__loop *loop);
/* The same, in memory that somebody else owns. */
void ars__loop_keep_first(struct ars__loop *loop, struct ars__first *first);
/* The try was rejected: everything that it drew vanishes. */
void ars__loop_again(struct ars__loop *loop);
void ars__try_begins(void); /* for the clock of tries */
void ars__try_ends(void);   /* what comes next belongs to none */
void ars__loop_close(void);
_Noreturn void ars__loop_left(const struct ars__loop *loop, const char *how);
/* A try of the innermost loop is over: continuations count it, and go no further than they have to. */
void ars__loop_retry(struct ars__loop *loop);
void ars__loop_accepted(struct ars__loop *loop);
void ars__loop_abandoned(struct ars__loop *loop);
/* Whether it may be: only a loop with a handle can, in a program that abandons loops at all. */
bool ars__can_be_abandoned(const struct ars__loop *loop);
/* Fails unless a trace is being run. */
void ars__loop_needs_trace(ars__loop_mark *mark, const char *what);

/* The stack pointer of our caller, which tells whether the innermost loop's function is still there. On x86-64 a
 * distribution is passed on the stack, between the caller's frame and ours. Elsewhere we take our own frame's address,
 * which sees less but is never wrong. */
#if defined(__x86_64__)
#define ARS__CALLER(bytes_on_stack) ((const char *)__builtin_frame_address(0) + 16 + (bytes_on_stack))
#else
#define ARS__CALLER(bytes_on_stack) ((const char *)__builtin_frame_address(0) - 1 + 0 * (bytes_on_stack))
#endif

#endif /* ARS_LIB_LOOPS_H */

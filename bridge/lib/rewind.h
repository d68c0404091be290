/* rewind.h: continuations that run where the loop stands, and are undone.
 *
 *   rs_start ──> save registers and memory ──> go on as a continuation ──> accepted, or tries used up
 *                        ^                                                          |
 *                        └───────────── put everything back <───────────────────────┘
 *
 * It takes microseconds where a fork takes a hundred or more, and gives the same bits. pages.c puts memory back, guard.c stops what
 * cannot be undone, method.c chooses between this and forking, and checks one against the other. */
#ifndef ARS_LIB_REWIND_H
#define ARS_LIB_REWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "guard.h"
#include "machine.h"
#include "pages.h"
#include "role.h"
#include "shm.h"

struct ars__loop;

enum { ARS__KEPT_DEPTH = 16, ARS__UNDO_STACK = 64 << 10 };

/* The estimate in progress; in memory that is never put back (kept.h). */
struct ars__rewind {
    bool opened;                     /* in this process */
    bool running;                    /* an estimate: between the entry and the last continuation */
    int why_not;                     /* an errno: what it needs is not there */
    struct ars__registers registers; /* at the entry */
    struct ars_wire_wanted wanted;
    struct ars__estimate estimate;
    uint32_t number_q, number_whole, number_p, asked; /* continuations begun; answers asked ahead */
    bool has_asked;
    bool rehearsing, rehearsed;  /* the main run, for what comes of it; it may end with nothing to estimate */
    bool is_abandoned;           /* what came of it */
    uint32_t site_id;            /* the last one that the main run had reached */
    bool in_try;                 /* of a loop around this one */
    enum ars_fork_reason reason; /* not 0: it was given up, and why */
    int32_t detail;
    uint32_t clean;                  /* entries in a row without a page that was missed */
    uint32_t n_owned;                /* pages that other processes have found, which this one has taken */
    uint32_t sleepers;               /* made so far */
    uint64_t began, waiting;         /* in ticks of the processor's clock, as are the next */
    uint64_t overhead, waited, cost; /* of this estimate: saving and putting back; the controller; all but that */
    struct ars__guard guard;
    struct ars__pages pages;
    struct ars__first first[ARS__KEPT_DEPTH]; /* by depth: the first draw's proposal outlives every continuation */
    _Alignas(64) unsigned char stack[ARS__UNDO_STACK];
};

/* Why this process cannot rewind at all; ARS_REASON_NONE if it can. */
enum ars_fork_reason ars__rewind_open(int32_t *detail);
/* Estimates the loop that was just entered. Returns in every continuation, and last in the main run; ars__continuing() says which.
 * Not ARS_REASON_NONE: nothing was estimated, everything is as it was, and the loop must be forked. `remember`: the process makes a
 * copy of itself first, so that no page can be missed. */
enum ars_fork_reason ars__rewind_at_entry(struct ars__loop *loop, const struct ars_wire_wanted *wanted, bool remember,
                                          int32_t *detail);
/* In a continuation: a try of its loop has ended. Returns if it goes on. */
void ars__rewind_tried(const struct ars__loop *loop, enum ars__outcome outcome);
bool ars__rewinding(void);  /* this is a continuation that will be undone */
bool ars__rehearsing(void); /* one that makes the main run's own draws in advance */
/* In a continuation: it cannot go on here. It is undone, and the loop forked. */
_Noreturn void ars__rewind_refuse(enum ars_fork_reason reason, int32_t detail);
/* While libars makes system calls of its own. */
void ars__rewind_pause(void);
void ars__rewind_resume(void);
struct ars__guard *ars__rewind_guard(void);

#endif /* ARS_LIB_REWIND_H */

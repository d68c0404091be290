/* paths.h: call paths: from the function that draws up to the model's root.
 *
 * Unwinding a stack takes microseconds, because the tables of the program must be read for every frame. paths.c reads them
 * once: what they say about a return address never changes, so the way from the draw to the root is a fixed sequence of
 * loads, which branches on nothing but the return addresses that it finds. These sequences form a tree:
 *
 *     CALL  load the return address at base + offset; go on at the child for its value
 *     BASE  the frame pointer of the next frame is stored at base + offset: it becomes the base
 *     FROM  the same, stored at the last frame pointer + offset
 *     REAL  the CFA is stored at base + offset, in a function that aligns its stack: it becomes the base
 *     ROOT  the frame whose CFA is base + offset is the root's, if it is in the right place: the path is known
 *     END   the tables know nothing about this return address: the path is known as far as it goes
 *
 * base begins as the CFA of the call into libars. A frame of fixed size, counted from the stack pointer, needs no step of its
 * own: its CFA is the last one plus a constant. One that is counted from the frame pointer (alloca, variable arrays, -O0)
 * has a BASE or FROM step. By induction over the frames, every load in the tree is at the place where unwinding by the tables
 * would have found the same word, so following the tree is unwinding: nothing is guessed, and no two paths are confused. */
#ifndef ARS_LIB_PATHS_H
#define ARS_LIB_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

enum {
    ARS__MOST_STEPS_KNOWN = 1 << 14,
    ARS__MOST_EDGES = 1 << 15, /* never more than half full */
    ARS__MOST_PATHS = 1 << 12,
    ARS__MOST_PLACES = 1 << 14, /* never more than half full */
    ARS__PATH_WORDS = 1 << 18,
    ARS__PATH_FRAMES = 128 /* of a path, when its cycles are folded */
};

/* Where the trace began: the frame that called ars_next_trace, or that of ars_main. */
struct ars__origin {
    uintptr_t sp;            /* the stack pointer in that frame; of ars_main: its CFA */
    uintptr_t return_to;     /* where it goes on; 0: it is ars_main */
    uintptr_t frame_pointer; /* in that frame */
    uintptr_t model;         /* what ars_main calls; 0: it is not ars_main */
};

/* A call of the simulator into libars. */
struct ars__call_at {
    uintptr_t cfa;       /* the caller's stack pointer */
    uintptr_t return_to; /* at cfa - 8; the caller's frame pointer is at cfa - 16, because the callee has one */
};

/* For the function that calls these. x86-64; elsewhere the numbers are not looked at. */
#define ARS__CALL_HERE()                                                                                               \
    ((struct ars__call_at){(uintptr_t)__builtin_frame_address(0) + 16, (uintptr_t)__builtin_return_address(0)})
/* Behind the call that is given ARS__CALL_HERE(): this function's own frame, with its caller's frame pointer, must be there
 * meanwhile, so it must not be a tail call. */
#define ARS__KEEP_FRAME() __asm__ volatile("" ::: "memory")
static inline struct ars__origin ars__origin_here(const void *frame, const void *return_to, uintptr_t model) {
    return (struct ars__origin){(uintptr_t)frame + 16, (uintptr_t)return_to, *(const uintptr_t *)frame, model};
}

struct ars__step {
    enum {
        ARS__STEP_NEW,
        ARS__STEP_CALL,
        ARS__STEP_BASE,
        ARS__STEP_FROM,
        ARS__STEP_REAL,
        ARS__STEP_ROOT,
        ARS__STEP_END
    } kind;
    int32_t offset;
    uint32_t next;  /* BASE, FROM, REAL: the step that follows; ROOT and END: the path; CALL: the child for `value`, */
    uint64_t value; /* the first return address that was found here: most calls have one caller. 0: none yet */
};
struct ars__edge {
    uint64_t value;
    uint32_t from, to; /* to: 0 in an empty edge, since no edge leads to the first step */
};
struct ars__path {
    uint32_t hash, n, at; /* return addresses, innermost first, in `words` */
};
/* A path in its surroundings. */
struct ars__place {
    uint32_t path, scope, loop; /* path: one more; 0: empty */
    uint32_t dist;
    uint32_t site_id; /* ARS_NO_SITE: a nuisance */
};

/* In memory that no rewind reaches (kept.h). All of it can be found out again, so when it is full it is emptied. */
struct ars__paths {
    struct ars__origin origin; /* the one that the next two are of */
    uintptr_t root_cfa;
    uintptr_t root_return; /* the word at root_cfa - 8 when the trace began; it changes when the root has returned */
    uintptr_t from, to;    /* stack that can be read, around the root */
    uint32_t n_steps, n_edges, n_paths, n_places, n_words;
    uint32_t unwound; /* paths that were not found in the tree, for tests */
    struct ars__step steps[ARS__MOST_STEPS_KNOWN];
    struct ars__edge edges[ARS__MOST_EDGES];
    struct ars__path paths[ARS__MOST_PATHS];
    uint16_t path_table[2 * ARS__MOST_PATHS]; /* by hash: one more than the index; 0: empty */
    struct ars__place places[ARS__MOST_PLACES];
    uint64_t words[ARS__PATH_WORDS];
};

/* A trace begins here. */
void ars__path_root(struct ars__paths *p, const struct ars__origin *origin);
/* The path of a call, as an index of `paths` that holds until the next call of this function. */
uint32_t ars__path_of(struct ars__paths *p, struct ars__call_at call);

/* The place of a path in its surroundings. A new one has this for its site. */
#define ARS__PLACE_UNKNOWN 0xfffffffeu
struct ars__place *ars__place_of(struct ars__paths *p, uint32_t path, uint32_t scope, uint32_t loop, uint32_t dist);

#endif /* ARS_LIB_PATHS_H */

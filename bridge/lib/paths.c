/* paths.c: from a draw to the root of its model, by the tree of paths.h. */
#define _GNU_SOURCE
#include "paths.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rewind.h"
#include "unwind.h"

#define PAGE ((uintptr_t)4096)
#define NOT_SANITIZED __attribute__((no_sanitize("address"))) /* it looks at the frames of others */
enum { PAGES_ABOVE = 16 };

/* ---- memory that can be read ------------------------------------------------------------------------------------------------ */

/* The kernel reads the new mask before it finds that -1 is no way to set it: EFAULT if it cannot, else EINVAL. */
static bool can_read(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, -1, address & ~(PAGE - 1), NULL, _NSIG / 8) != 0 && errno != EFAULT;
}

/* Whether everything from here to the root can be read: the simulator may have changed to a stack of its own. */
static bool on_root_stack(struct ars__paths *p, uintptr_t at) {
    if (at >= p->from && at < p->to) return true;
    if (at >= p->to) return false;
    ars__rewind_pause();
    uintptr_t page = p->from;
    while (page > at && can_read(page - PAGE)) page -= PAGE;
    ars__rewind_resume();
    p->from = page;
    return at >= page;
}

/* A word of a stack, looked at with care. */
struct stack {
    uintptr_t page; /* the last that could be read; 1: none */
};

NOT_SANITIZED static bool load(struct stack *s, uintptr_t at, uintptr_t *word) {
    if (at % 8) return false;
    if ((at & ~(PAGE - 1)) != s->page) {
        if (!can_read(at)) return false;
        s->page = at & ~(PAGE - 1);
    }
    *word = *(const uintptr_t *)at;
    return true;
}

/* ---- frames, by the tables ---------------------------------------------------------------------------------------------------- */

struct frame {
    uintptr_t return_to; /* where its function goes on */
    uintptr_t sp;        /* the stack pointer there */
    uintptr_t rbp_at;    /* where its frame pointer is stored */
    struct ars__unwind_rule rule;
    uintptr_t base; /* what its CFA is counted from: sp, or the frame pointer */
    uintptr_t cfa;
};

enum outcome { FOUND, NO_TABLE, NO_FRAME };

/* Fills in the rule and the CFA of the frame that goes on at return_to. */
static enum outcome describe(struct stack *s, struct frame *f) {
    if (!ars__unwind_find(f->return_to, &f->rule) || f->rule.outermost) return NO_TABLE;
    f->base = f->sp;
    if (f->rule.from_rbp && !load(s, f->rbp_at, &f->base)) return NO_FRAME;
    f->cfa = f->base + (uintptr_t)(intptr_t)f->rule.offset;
    if (f->rule.deref && !load(s, f->cfa, &f->cfa)) return NO_FRAME;
    return f->cfa > f->sp && f->cfa % 8 == 0 ? FOUND : NO_FRAME;
}

/* The frame of the caller. */
static bool ascend(struct stack *s, struct frame *f) {
    if (f->rule.rbp == ARS__RBP_AT_CFA) f->rbp_at = f->cfa + (uintptr_t)(intptr_t)f->rule.rbp_offset;
    if (f->rule.rbp == ARS__RBP_AT_RBP) {
        uintptr_t frame_pointer;
        if (!load(s, f->rbp_at, &frame_pointer)) return false;
        f->rbp_at = frame_pointer + (uintptr_t)(intptr_t)f->rule.rbp_offset;
    }
    f->sp = f->cfa;
    return load(s, f->cfa - 8, &f->return_to);
}

/* ---- the root ------------------------------------------------------------------------------------------------------------------ */

static bool same_origin(const struct ars__origin *a, const struct ars__origin *b) {
    return a->sp == b->sp && a->return_to == b->return_to && a->frame_pointer == b->frame_pointer;
}

/* Once per trace; the root's frame seldom moves. */
NOT_SANITIZED void ars__path_root(struct ars__paths *p, const struct ars__origin *origin) {
    if (same_origin(&p->origin, origin)) {
        const uintptr_t above = *(const uintptr_t *)(p->root_cfa - 8);
        if (p->root_return != above) p->root_return = above;
        return;
    }
    struct stack s = {1};
    struct frame f = {.return_to = origin->return_to, .sp = origin->sp, .rbp_at = (uintptr_t)&origin->frame_pointer};
    const bool is_main = !origin->return_to;
    ars__rewind_pause();
    p->origin = *origin;
    p->root_cfa = !is_main && describe(&s, &f) == FOUND ? f.cfa : origin->sp;
    p->root_return = 0;
    load(&s, p->root_cfa - 8, &p->root_return);
    p->from = p->to = p->root_cfa & ~(PAGE - 1);
    /* Also above the root's frame: it may have returned, and then another is the root. */
    for (int i = 0; i < PAGES_ABOVE && can_read(p->to); i++) p->to += PAGE;
    ars__rewind_resume();
}

/* A frame that is shallower than the root's, or is the root's own: not one that took its place when the root had returned. */
static bool is_root(const struct ars__paths *p, uintptr_t cfa, uintptr_t return_address) {
    return cfa > p->root_cfa || (cfa == p->root_cfa && return_address == p->root_return);
}

/* ---- the tree -------------------------------------------------------------------------------------------------------------------- */

static struct ars__edge *edge_of(struct ars__paths *p, uint32_t from, uint64_t value) {
    uint64_t h = (value ^ (uint64_t)from << 40) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(h >> 40) % ARS__MOST_EDGES;; i = (i + 1) % ARS__MOST_EDGES) {
        struct ars__edge *e = &p->edges[i];
        if (!e->to || (e->from == from && e->value == value)) return e;
    }
}

/* Follows the tree. False: it does not know this path. Every load is between the draw and the root. */
NOT_SANITIZED static bool follow(struct ars__paths *p, struct ars__call_at call, uint32_t *path) {
    uintptr_t base = call.cfa, frame_pointer = 0, last = 0, last_return = 0;
    const uintptr_t low = call.cfa - 16, high = p->to - 8;
    const struct ars__edge *first = edge_of(p, 0, call.return_to);
    if (!first->to) return false;
    uint32_t at = first->to;
    for (;;) {
        const struct ars__step *step = &p->steps[at];
        if (step->kind == ARS__STEP_NEW) return false; /* could not be learnt */
        if (step->kind == ARS__STEP_END) {
            *path = step->next;
            return true;
        }
        const uintptr_t from = step->kind == ARS__STEP_FROM ? frame_pointer : base;
        const uintptr_t where = from + (uintptr_t)(intptr_t)step->offset;
        if (where < low || where - 8 > high || where % 8) return false;
        if (step->kind == ARS__STEP_ROOT) { /* where: its CFA */
            *path = step->next;
            return is_root(p, where, *(const uint64_t *)(where - 8)) && !is_root(p, last, last_return);
        }
        if (where > high) return false;
        if (step->kind != ARS__STEP_CALL) {
            base = *(const uint64_t *)where;
            if (step->kind != ARS__STEP_REAL) frame_pointer = base;
            at = step->next;
            continue;
        }
        last = where + 8;
        last_return = *(const uint64_t *)where;
        at = step->value == last_return ? step->next : edge_of(p, at, last_return)->to;
        if (!at) return false;
    }
}

/* ---- learning a path ---------------------------------------------------------------------------------------------------------------- */

#define UNRELATED UINT32_MAX
enum { MOST_FRAMES = 1 << 20, MOST_LEARNT = 1024 /* frames of a path in the tree */ };

static void forget_all(struct ars__paths *p) {
    memset(p->edges, 0, sizeof p->edges);
    memset(p->places, 0, sizeof p->places);
    memset(p->path_table, 0, sizeof p->path_table);
    p->n_steps = 1; /* the first is where all paths begin */
    p->n_edges = p->n_paths = p->n_places = p->n_words = 0;
}

static bool has_room(const struct ars__paths *p) {
    return p->n_steps && p->n_steps + 3 * MOST_LEARNT < ARS__MOST_STEPS_KNOWN &&
           p->n_edges + MOST_LEARNT < ARS__MOST_EDGES / 2 && p->n_paths < ARS__MOST_PATHS &&
           p->n_words + ARS__PATH_FRAMES <= ARS__PATH_WORDS;
}

/* The path being unwound, as the tree will have it. */
struct lesson {
    struct ars__paths *p;
    bool going;                    /* so far it can be learnt */
    uint32_t at;                   /* the step that is reached; to be filled in, or known */
    uintptr_t base, frame_pointer; /* in the tree, here */
    uint32_t n_bases, n_pointers;  /* how often they were changed */
    /* Their numbers when the place of the caller's frame pointer was a constant away from them; UNRELATED: from neither. */
    uint32_t rbp_base, rbp_pointer;
    uint32_t n_frames;
};

/* Goes to the step for this return address. */
static void go_to(struct lesson *l, uintptr_t return_address) {
    if (!l->going || !(l->going = l->n_frames++ < MOST_LEARNT)) return;
    struct ars__paths *p = l->p;
    struct ars__edge *e = edge_of(p, l->at, return_address);
    if (!e->to) {
        *e = (struct ars__edge){return_address, l->at, p->n_steps++};
        p->n_edges++;
        p->steps[e->to].kind = ARS__STEP_NEW;
        struct ars__step *step = &p->steps[l->at];
        if (l->at && !step->value) {
            step->value = return_address;
            step->next = e->to;
        }
    }
    l->at = e->to;
}

/* Fills in the step that is reached. A known step must be the same, or the path cannot be learnt: a recursive root, which is
 * the root in one path and not in another. */
static void put(struct lesson *l, unsigned kind, uintptr_t where, uint32_t next) {
    if (!l->going) return;
    struct ars__step *step = &l->p->steps[l->at];
    const uintptr_t from = kind == ARS__STEP_FROM ? l->frame_pointer : l->base;
    const int64_t offset = kind == ARS__STEP_END ? 0 : (int64_t)(where - from);
    if (offset != (int32_t)offset) {
        l->going = false;
    } else if (step->kind == ARS__STEP_NEW) {
        step->kind = kind;
        step->offset = (int32_t)offset;
        step->next = next;
        step->value = 0;
        if (kind != ARS__STEP_CALL && kind != ARS__STEP_ROOT && kind != ARS__STEP_END) {
            step->next = l->p->n_steps++;
            l->p->steps[step->next].kind = ARS__STEP_NEW;
        }
    } else {
        l->going = step->kind == kind && step->offset == (int32_t)offset;
    }
}

static void put_base(struct lesson *l, unsigned kind, uintptr_t where, uintptr_t base) {
    put(l, kind, where, 0);
    if (!l->going) return;
    if (kind != ARS__STEP_REAL) {
        l->frame_pointer = base;
        l->n_pointers++;
    }
    l->at = l->p->steps[l->at].next;
    l->base = base;
    l->n_bases++;
}

/* What its CFA is counted from. */
static void put_frame(struct lesson *l, const struct frame *f) {
    if (!f->rule.from_rbp) return;
    const bool from_base = l->rbp_base == l->n_bases;
    if (!from_base && l->rbp_pointer != l->n_pointers) l->going = false;
    put_base(l, from_base ? ARS__STEP_BASE : ARS__STEP_FROM, f->rbp_at, f->base);
    if (f->rule.deref) put_base(l, ARS__STEP_REAL, f->base + (uintptr_t)(intptr_t)f->rule.offset, f->cfa);
}

/* Where the caller's frame pointer is: a constant away from the base, or from the frame pointer. */
static void note_frame_pointer(struct lesson *l, const struct ars__unwind_rule *rule) {
    if (rule->rbp == ARS__RBP_SAME) return;
    l->rbp_base = rule->rbp == ARS__RBP_AT_CFA ? l->n_bases : UNRELATED;
    l->rbp_pointer = rule->rbp == ARS__RBP_AT_RBP && rule->from_rbp ? l->n_pointers : UNRELATED;
}

/* The return addresses of a path, innermost first. A cycle in it is recursion, and is left out: a descent of any depth
 * has as many paths as there are ways to go through its calls once. */
struct folded {
    uint32_t n;
    uint64_t at[ARS__PATH_FRAMES];
};

static void fold_in(struct folded *list, uint64_t return_address) {
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->at[i] != return_address) continue;
        list->n = i + 1;
        return;
    }
    if (list->n < ARS__PATH_FRAMES) list->at[list->n++] = return_address;
}

static uint32_t path_with(struct ars__paths *p, const struct folded *list) {
    uint32_t hash = list->n, mask = 2 * ARS__MOST_PATHS - 1;
    for (uint32_t i = 0; i < list->n; i++) hash = (hash ^ (uint32_t)(list->at[i] ^ list->at[i] >> 32)) * 2654435761u;
    uint32_t at = hash & mask;
    for (; p->path_table[at]; at = (at + 1) & mask) {
        const struct ars__path *path = &p->paths[p->path_table[at] - 1];
        if (path->hash == hash && path->n == list->n && !memcmp(p->words + path->at, list->at, 8 * list->n))
            return p->path_table[at] - 1u;
    }
    memcpy(p->words + p->n_words, list->at, 8 * list->n);
    p->paths[p->n_paths] = (struct ars__path){hash, list->n, p->n_words};
    p->n_words += list->n;
    p->path_table[at] = (uint16_t)++p->n_paths;
    return p->n_paths - 1;
}

/* Unwinds up to the root by the tables. Leaves the last step of the lesson to be filled in. */
static unsigned unwind(struct lesson *l, struct ars__call_at call, struct folded *list, uintptr_t *root) {
    struct stack s = {1};
    struct frame f = {.return_to = call.return_to, .sp = call.cfa, .rbp_at = call.cfa - 16};
    const bool is_main = !l->p->origin.return_to;
    for (uint32_t n = 0; n < MOST_FRAMES; n++) {
        uintptr_t above;
        go_to(l, f.return_to);
        const enum outcome outcome = describe(&s, &f);
        fold_in(list, f.return_to);
        if (outcome == NO_TABLE) return ARS__STEP_END;
        if (outcome == NO_FRAME || !load(&s, f.cfa - 8, &above)) break;
        put_frame(l, &f);
        *root = f.cfa;
        if (is_root(l->p, f.cfa, above)) {
            if (is_main) list->n -= list->n > 1; /* ars_main itself is no part of the path */
            return ARS__STEP_ROOT;
        }
        put(l, ARS__STEP_CALL, f.cfa - 8, 0);
        note_frame_pointer(l, &f.rule);
        if (!ascend(&s, &f)) break;
    }
    return ARS__STEP_NEW; /* not to be learnt */
}

static uint32_t learn(struct ars__paths *p, struct ars__call_at call, bool on_stack) {
    if (!has_room(p)) forget_all(p);
    struct lesson lesson = {.p = p, .going = on_stack, .base = call.cfa, .rbp_pointer = UNRELATED};
    struct folded list = {.n = 0};
    uintptr_t root = 0;
    p->unwound++;
    ars__rewind_pause();
    const unsigned end = unwind(&lesson, call, &list, &root);
    ars__rewind_resume();
    const uint32_t path = path_with(p, &list);
    if (end != ARS__STEP_NEW) put(&lesson, end, root, path);
    return path;
}

uint32_t ars__path_of(struct ars__paths *p, struct ars__call_at call) {
    const bool on_stack = on_root_stack(p, call.cfa - 16);
    uint32_t path;
    return on_stack && p->n_steps && follow(p, call, &path) ? path : learn(p, call, on_stack);
}

/* ---- places ---------------------------------------------------------------------------------------------------------------------------- */

struct ars__place *ars__place_of(struct ars__paths *p, uint32_t path, uint32_t scope, uint32_t loop, uint32_t dist) {
    uint64_t h = (path + 1 + ((uint64_t)scope << 20) + ((uint64_t)loop << 40) + dist) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(h >> 40) % ARS__MOST_PLACES;; i = (i + 1) % ARS__MOST_PLACES) {
        struct ars__place *e = &p->places[i];
        if (e->path == path + 1 && e->scope == scope && e->loop == loop && e->dist == dist) return e;
        if (e->path) continue;
        if (p->n_places >= ARS__MOST_PLACES / 2) {
            memset(p->places, 0, sizeof p->places);
            p->n_places = 0;
            return ars__place_of(p, path, scope, loop, dist);
        }
        p->n_places++;
        *e = (struct ars__place){path + 1, scope, loop, dist, ARS__PLACE_UNKNOWN};
        return e;
    }
}

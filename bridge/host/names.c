/* names.c: names of call paths.
 *
 * A path is named by its functions and, for each, by which of its calls it is in: "decay#2>isotropic#1" is in decay, at its
 * second call of isotropic, and there at the first draw. Addresses and line numbers are not in the name, so that it survives a
 * rebuild, other flags and edits elsewhere.
 *
 * "Second" counts the places in the source of decay from which isotropic is called, by line and column; without debug
 * information, by address. Only calls of the same function count: others may be inlined, folded or dropped without a trace.
 * Functions have the same name here if they differ in parameters or template arguments only. All functions of libars that
 * draw (ars_flat, ars_sample) count as one, so that two draws in one function differ. An indirect call is counted among the
 * indirect calls and the calls of virtual functions: one compiler calls through the table, another one knows the target.
 *
 * The calls of a function are those in its machine code, found by decoding it, and those that were inlined, which debug
 * information lists. They are collected from all copies of the function in its compilation unit: out of line, inlined, and
 * clones such as decay.part.0.
 *
 * A tail call leaves no frame. It shows as a call whose target is not the function of the next frame; if the target jumps to
 * that function, or to one that does, it is put back.
 *
 * Functions of libars (and of its pyprob_cpp.h) and all that is outside main are left out: the path ends at the function that draws. Of a chain of functions
 * of the standard library only the first is shown, without a number, because the others differ between its versions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "demangle.h"
#include "module.h"
#include "names.h"
#include "tail.h"

enum { MOST_LEVELS = 256, MOST_INLINED = 64 };

static struct host_module *modules; /* that were asked for: a cache, which can be forgotten at any time */

static struct host_module *module_of(const char *path) {
    for (struct host_module *m = modules; m; m = m->next)
        if (!strcmp(m->path, path)) return m;
    struct host_module *m = host_module_open(path);
    m->next = modules;
    modules = m;
    return m;
}

void host_names_forget(void) {
    while (modules) {
        struct host_module *m = modules;
        modules = m->next;
        host_module_close(m);
    }
}

const char *host_names_quality_word(enum host_names_quality quality) {
    static const char *const words[] = {"unreadable", "stripped", "symbols", "debug"};
    return quality <= HOST_NAMES_DEBUG ? words[quality] : "unreadable";
}

/* ---- the order of a call ------------------------------------------------------------------------------------------------ */

/* What is called from a level. */
struct callee {
    const char *name; /* NULL: nobody knows */
    bool is_virtual, indirect;
};

enum kind { ALL, DIRECT, THROUGH };

/* The places up to and including the level's own from which such a call is made; all of them, if `all`. */
static size_t count(const struct host_level *level, const struct callee *callee, enum kind kind, bool all) {
    const struct host_function *f = level->function;
    size_t n = 0;
    uint64_t line = 0;
    uint32_t column = 0;
    for (size_t i = 0; i < f->n_sites; i++) {
        const struct host_site *site = &f->sites[i];
        if (!all && (site->line > level->line || (site->line == level->line && site->column > level->column))) break;
        bool direct = site->callee && callee->name && host_same_name(site->callee, callee->name);
        bool through = !site->callee || site->is_virtual;
        if ((kind == DIRECT && !direct) || (kind == THROUGH && !through)) continue;
        if (n && site->line == line && site->column == column) continue;
        line = site->line;
        column = site->column;
        n++;
    }
    return n;
}

static size_t order(const struct host_level *level, const struct callee *callee, bool nameless) {
    size_t n = 0;
    if (!level->line) return 0; /* one instruction for several calls */
    if (nameless)
        n = count(level, callee, ALL, false);
    else if (callee->is_virtual)
        n = count(level, callee, THROUGH, false);
    else if (callee->indirect)
        n = count(level, callee, DIRECT, true) + count(level, callee, THROUGH, false);
    else if (callee->name)
        n = count(level, callee, DIRECT, false);
    return n ? n : 1;
}

/* ---- the path --------------------------------------------------------------------------------------------------------------- */

struct step {
    struct host_level level;
    struct callee callee;
};

struct path {
    struct step steps[MOST_LEVELS]; /* innermost first */
    size_t n;
    bool in_part;  /* the last function is a part of one, cut off by the compiler */
    bool nameless; /* it calls some function of libars, which a stripped program has inside */
};

static void add_levels(struct path *path, const struct host_level *levels, size_t n, struct callee callee) {
    for (size_t i = 0; i < n && path->n < MOST_LEVELS; i++) {
        path->steps[path->n++] = (struct step){levels[i], callee};
        callee = (struct callee){.name = levels[i].function->name, .is_virtual = levels[i].is_virtual};
    }
}

/* The levels at an instruction. The part of a function that a compiler cut off is called, or jumped to, by the rest of that
 * function, which is no level of its own. Returns the outermost one. */
static const struct host_level *add_place(struct path *path, const struct host_module *m, uint64_t at,
                                          const struct host_level *levels, size_t n, struct callee callee) {
    const bool rest = path->in_part && callee.name == levels[0].function->name;
    if (rest) callee.indirect = false;
    add_levels(path, levels + rest, n - rest, callee);
    const struct host_symbol *here = m->readable ? host_elf_symbol(&m->elf, at) : NULL;
    path->in_part = here && strstr(here->name, ".part.");
    return &levels[n - 1];
}

/* The functions between the one that a frame calls and the next inner one: they ended with a jump. */
static void add_tails(struct path *path, struct host_module *m, const char *symbol, struct callee *callee) {
    struct host_tail tails[HOST_MOST_TAILS];
    const char *name = callee->name ? callee->name : "ars_flat";
    struct host_module *inside = path->n ? path->steps[path->n - 1].level.module : m;
    size_t n = host_tails(inside, symbol, name, tails);
    if (!n && inside != m) n = host_tails(inside = m, symbol, name, tails);
    if (n) callee->name = name;
    for (size_t i = n; i-- > 0;) {
        struct host_level levels[MOST_INLINED];
        size_t n_levels = host_module_levels(inside, tails[i].jump.at, levels, MOST_INLINED);
        if (tails[i].ambiguous)
            for (size_t k = 0; k < n_levels; k++) levels[k].line = 0;
        callee->indirect = tails[i].jump.indirect;
        const struct host_level *outer = add_place(path, inside, tails[i].jump.at, levels, n_levels, *callee);
        *callee = (struct callee){.name = outer->function->name, .is_virtual = outer->is_virtual};
    }
}

/* One frame: the functions that it is in, and whom it calls. */
static void add_frame(struct path *path, const struct host_frame *frame) {
    struct host_module *m = module_of(frame->module);
    struct host_call call;
    if (!path->n) path->nameless = false;
    bool known = host_module_call_before(m, frame->offset, &call);
    if (!known) call = (struct host_call){.at = frame->offset ? frame->offset - 1 : 0, .indirect = true};
    const char *symbol = NULL, *target = known ? host_module_callee(m, &call, &symbol) : NULL;
    struct callee callee = {.name = target, .indirect = known && !target};
    if (path->n) {
        const struct host_level *inner = &path->steps[path->n - 1].level;
        callee.name = inner->function->name;
        callee.is_virtual = inner->is_virtual;
    } else if (target && !host_name_is_ours(target)) {
        callee.name = NULL; /* a draw, by way of the target */
    }
    if (symbol && (!callee.name || !host_same_name(target, callee.name))) add_tails(path, m, symbol, &callee);
    if (!callee.name) callee.name = target;

    struct host_level levels[MOST_INLINED];
    size_t n = host_module_levels(m, call.at, levels, MOST_INLINED);
    if (!path->n) path->nameless = levels[0].quality == HOST_NAMES_STRIPPED && target && !host_name_is_draw(target);
    add_place(path, m, call.at, levels, n, callee);
}

/* The C library calls main, and what was given to qsort and the like; how it does so is its own affair. */
static bool in_libc(const struct step *step) {
    static const char *const files[] = {"libc.so", "libc-", "libc.musl", "ld-linux", "ld-musl", "libpthread"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strncmp(step->level.module->base, files[i], strlen(files[i]))) return true;
    return false;
}

/* Recursion shows as the same call of the same function again, deeper or inlined into itself. What is between the two is left
 * out, so that a descent of any depth has few paths. libars does the same with return addresses, innermost first. */
static void fold(struct path *path) {
    size_t n = 0;
    for (size_t i = 0; i < path->n; i++) {
        const struct host_level *level = &path->steps[i].level;
        size_t same = 0;
        while (same < n &&
               (!level->line || path->steps[same].level.function != level->function ||
                path->steps[same].level.line != level->line || path->steps[same].level.column != level->column))
            same++;
        if (same == n)
            path->steps[n++] = path->steps[i];
        else
            n = same + 1;
    }
    path->n = n;
}

/* A model that ends with a call has left no frame, but it is known which function libars has called. */
static void add_model(struct path *path, const struct host_frame *model) {
    struct host_module *m = module_of(model->module);
    const struct host_symbol *symbol = m->readable ? host_elf_symbol(&m->elf, model->offset) : NULL;
    if (!symbol || !path->n) return;
    const struct host_level *outer = &path->steps[path->n - 1].level;
    struct callee callee = {outer->function->name, outer->is_virtual, false};
    if (!host_same_name(symbol->name, callee.name)) add_tails(path, m, symbol->name, &callee);
}

/* The steps that count: up to main, or to the function that the C library started. */
static size_t outermost(const struct path *path) {
    size_t end = path->n;
    for (size_t i = 0; i < path->n; i++) {
        const char *name = path->steps[i].level.function->name;
        if (!strcmp(name, "main")) end = i + 1;
        if (end == path->n && !strncmp(name, "__libc_start_", 13)) end = i;
    }
    return end;
}

/* ---- its text ----------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const unsigned char *text, size_t n) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ text[i]) * 1099511628211u;
    return h;
}

/* Puts a hash in the place of as many outer functions as must go. */
static void shorten(struct buffer *whole, char *text, size_t size) {
    const char *all = (const char *)whole->data;
    size_t room = size - sizeof "~0123456789abcdef>", from = whole->size - 1 - room;
    const char *next = NULL;
    for (const char *mark = strchr(all, '>'); mark; mark = strchr(mark + 1, '>'))
        if ((size_t)(mark - all) + 1 >= from) {
            next = mark + 1;
            break;
        }
    if (!next) next = all + from; /* one long name: its end */
    snprintf(text, size, "~%016llx>%s", (unsigned long long)hash_of(whole->data, (size_t)(next - all)), next);
}

enum host_names_quality host_names_of_path(const struct host_frame *frames, size_t n, char *text, size_t size) {
    return host_names_in_model(NULL, frames, n, text, size);
}

enum host_names_quality host_names_in_model(const struct host_frame *model, const struct host_frame *frames, size_t n,
                                            char *text, size_t size) {
    struct path *path = host_grow(NULL, sizeof *path);
    path->n = 0, path->in_part = false;
    for (size_t i = 0; i < n && path->n < MOST_LEVELS; i++) add_frame(path, &frames[i]);
    if (model) add_model(path, model);
    fold(path);
    enum host_names_quality quality = HOST_NAMES_DEBUG;
    struct buffer whole = {0};
    bool standard = false;
    for (size_t i = outermost(path); i-- > 0;) {
        const struct step *step = &path->steps[i];
        const char *name = step->level.function->name;
        bool inside = standard;
        standard = host_name_is_standard(name);
        if (host_name_is_ours(name) || in_libc(step) || (inside && standard)) continue;
        char number[32] = "";
        if (!standard)
            snprintf(number, sizeof number, "#%zu", order(&step->level, &step->callee, i == 0 && path->nameless));
        if (whole.size) host_buffer_add(&whole, ">", 1);
        host_buffer_add(&whole, name, strlen(name));
        host_buffer_add(&whole, number, strlen(number));
        if (step->level.quality < quality) quality = step->level.quality;
    }
    host_buffer_add(&whole, "", 1);
    if (whole.size <= size)
        memcpy(text, whole.data, whole.size);
    else
        shorten(&whole, text, size);
    host_buffer_free(&whole);
    free(path);
    return n ? quality : HOST_NAMES_UNREADABLE;
}

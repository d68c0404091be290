/* scopes.c: names for the surroundings of unnamed draws. */
#include "scopes.h"

#include <errno.h>
#include <string.h>

#include "ars.h"
#include "fail.h"
#include "process.h"
#include "sites.h"
#include "thread_owner.h"

void ars__scopes_reset(void) {
    ars__me.scope = (struct ars__scope){0, 0};
}

static void check(enum ars__call call, const char *name) {
    ars__thread_check(call);
    if (!ars__me.in_trace)
        ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
                  "%s(%s%.80s%s) was called outside a trace: call it from the model that ars_main runs, or after "
                  "ars_next_trace has returned true",
                  ars__call_name(call), name ? "\"" : "", name ? name : "", name ? "\"" : "");
}

/* The node for `name` below the open scopes. */
static uint32_t find_node(const char *name) {
    struct ars__scopes *s = &ars__me.kept->scopes;
    const uint32_t parent = ars__me.scope.node, mask = 2 * ARS__MOST_CHAINS - 1;
    uint32_t hash = 2166136261u ^ parent * 2654435761u;
    const size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    uint32_t at = hash & mask;
    for (; s->table[at]; at = (at + 1) & mask) {
        const struct ars__scope_node *node = &s->at[s->table[at]];
        if (node->hash == hash && node->parent == parent && node->name_size == size &&
            memcmp(s->names + node->name_at, name, size) == 0)
            return s->table[at];
    }
    if (s->n + 1 == ARS__MOST_CHAINS || size > ARS__SCOPE_BYTES - s->used)
        ars__fail(ARS_FAIL_LIMIT, 0,
                  "ars_scope_push(\"%.80s\"): the program has used more than %u different scopes, or names that are "
                  "too long. Leave numbers that vary out of the names of scopes",
                  name, s->n);
    ars__check_utf8(name);
    memcpy(s->names + s->used, name, size);
    s->at[++s->n] = (struct ars__scope_node){parent, hash, s->used, (uint32_t)size};
    s->used += (uint32_t)size;
    s->table[at] = (uint16_t)s->n;
    return s->n;
}

unsigned ars__scope_open(const char *name) {
    check(ARS__CALL_SCOPE_PUSH, name);
    if (!name || !*name) ars__fail(ARS_FAIL_MISUSE, 0, "ars_scope_push needs a name that is not empty");
    /* The plain simulator sees no retries, so the scopes that a rejected try leaves open stay on its count. */
    if (ars__me.scope.depth >= ARS_MAX_SCOPES && ars__me.role != ARS__ALONE)
        ars__fail(ARS_FAIL_LIMIT, 0,
                  "ars_scope_push(\"%.80s\"): %d scopes are open, and no more are allowed. Call ars_scope_pop for each "
                  "of them, also where the code is left early",
                  name, ARS_MAX_SCOPES);
    if (ars__me.role != ARS__ALONE) ars__me.scope.node = find_node(name);
    return ++ars__me.scope.depth;
}

void ars_scope_push(const char *name) {
    ars__scope_open(name);
}

static void close_innermost(void) {
    if (ars__me.role != ARS__ALONE) ars__me.scope.node = ars__me.kept->scopes.at[ars__me.scope.node].parent;
    ars__me.scope.depth--;
}

/* The scope of an object, and what was opened inside it. A retry may have closed it before its object ends. */
void ars__scope_close(unsigned depth) {
    check(ARS__CALL_SCOPE_POP, NULL);
    while (ars__me.scope.depth >= depth) close_innermost();
}

void ars_scope_pop(void) {
    check(ARS__CALL_SCOPE_POP, NULL);
    if (!ars__me.scope.depth)
        ars__fail(ARS_FAIL_MISUSE, 0,
                  "ars_scope_pop was called, but no scope is open: it was called twice, or without ars_scope_push, or "
                  "a loop was tried again, which closes the scopes that its last try had opened");
    close_innermost();
}

size_t ars__scopes_write(char *text, size_t size) {
    uint32_t chain[ARS_MAX_SCOPES], n = 0;
    const struct ars__scopes *s = &ars__me.kept->scopes;
    for (uint32_t node = ars__me.scope.node; node && n < ARS_MAX_SCOPES; node = s->at[node].parent) chain[n++] = node;
    size_t used = 0;
    while (n-- > 0) {
        const struct ars__scope_node *node = &s->at[chain[n]];
        for (uint32_t i = 0; i <= node->name_size; i++, used++)
            if (used < size) text[used] = i < node->name_size ? s->names[node->name_at + i] : '>';
    }
    return used;
}

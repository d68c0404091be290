/* sites.c: addresses. A site is called by the names of the loops around it and its own, "outer/inner/x"; an unnamed loop
 * by file:function#order. No code address and no line number takes part, so addresses survive recompiling. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "fail.h"
#include "loops.h"
#include "process.h"
#include "sites.h"
#include "tables.h"
#include "where.h"
#include "wire_check.h"

/* ---- loop marks of the program ----------------------------------------------------------------------------------- */

/* Not even the last mark of the list has no successor: one without is not listed yet. */
static ars__loop_mark *first_mark(void) {
    return ars__me.marks.first ? ars__me.marks.first : &ars__me.marks.end;
}

/* Called before main, by every module with loops. */
void ars__register_loop_marks(ars__loop_mark *const *begin, ars__loop_mark *const *end) {
    for (ars__loop_mark *const *s = begin; s < end; s++) {
        if (!*s || (*s)->next) continue; /* every source file of a module registers the whole module */
        if (!(*s)->name) {               /* no loop, but a call of ars_loop_abandon */
            ars__me.marks.abandons = true;
            continue;
        }
        (*s)->next = first_mark();
        ars__me.marks.first = *s;
    }
}

static bool same_scope(const ars__loop_mark *a, const ars__loop_mark *b) {
    return strcmp(a->file, b->file) == 0 && strcmp(a->scope, b->scope) == 0;
}

/* The number of different lines above this one that hold an rs_start of the same function. */
static unsigned order_of(const ars__loop_mark *mark) {
    unsigned order = 0;
    for (const ars__loop_mark *s = first_mark(); s != &ars__me.marks.end; s = s->next) {
        if (s->line >= mark->line || !same_scope(s, mark)) continue;
        bool repeated = false; /* an inline function of a header has one record per source file */
        for (const ars__loop_mark *t = first_mark(); t != s; t = t->next)
            repeated |= t->line == s->line && same_scope(t, s);
        order += !repeated;
    }
    return order;
}

void ars__loop_name(ars__loop_mark *mark, char *text, size_t size) {
    if (mark->name[0]) {
        snprintf(text, size, "%s", mark->name);
        return;
    }
    if (!mark->order) mark->order = order_of(mark) + 1;
    const char *slash = strrchr(mark->file, '/');
    snprintf(text, size, "%s:%s#%u", slash ? slash + 1 : mark->file, mark->func ? mark->func : "?", mark->order - 1);
}

/* ---- names to ids -------------------------------------------------------------------------------------------------- */

#define NO_PATH 0xffffffffu

static uint32_t hash_of(const char *name, uint32_t path, enum ars_site_kind kind) {
    uint32_t h = 2166136261u ^ path * 2654435761u ^ (uint32_t)kind << 24;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static struct ars__named_site *find_entry(const char *name, uint32_t path, enum ars_site_kind kind, uint32_t hash) {
    const struct ars__site_table *t = &ars__me.sites;
    for (size_t i = hash & (t->room - 1);; i = (i + 1) & (t->room - 1)) {
        struct ars__named_site *e = &t->at[i];
        if (!e->name) return e;
        if (e->hash == hash && e->path == path && e->kind == kind && strcmp(e->name, name) == 0) return e;
    }
}

static void grow_table(void) {
    struct ars__site_table *t = &ars__me.sites;
    struct ars__named_site *old = t->at;
    size_t old_room = t->room;
    t->room = old_room ? 2 * old_room : 64;
    t->at = calloc(t->room, sizeof *t->at);
    if (!t->at) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the table of sites");
    for (size_t i = 0; i < old_room; i++)
        if (old[i].name) *find_entry(old[i].name, old[i].path, old[i].kind, old[i].hash) = old[i];
    free(old);
}

const char *ars__shown(const char *name, char *text, size_t size) {
    size_t used = 0, left = strlen(name);
    text[0] = 0;
    while (left && used + 5 < size) { /* \xNN and the zero, or a sequence of four and the zero */
        size_t n = ars__utf8_sequence((const unsigned char *)name, left);
        if (n)
            memcpy(text + used, name, n);
        else
            snprintf(text + used, 5, "\\x%02x", (unsigned char)*name);
        used += n ? n : 4;
        text[used] = 0;
        name += n ? n : 1;
        left -= n ? n : 1;
    }
    return text;
}

void ars__check_utf8(const char *name) {
    const unsigned char *at = (const unsigned char *)name;
    size_t left = strlen(name), n = 1;
    for (; left && (n = ars__utf8_sequence(at, left)); left -= n) at += n;
    if (n) return;
    char shown[200];
    ars__fail(ARS_FAIL_MISUSE, 0, "the name \"%s\" is not UTF-8: byte %zu is 0x%02x. Give the site a name in UTF-8",
              ars__shown(name, shown, sizeof shown), (size_t)(at - (const unsigned char *)name) + 1, *at);
}

/* "x" in the loop "a", or "a/x" outside any loop, of the address "a/x" with a path of 1 byte or none. */
static void describe_site(const char *address, uint32_t path_size, char *text, size_t size) {
    if (path_size)
        snprintf(text, size, "\"%.60s\" in the loop \"%.*s\"", address + path_size + 1,
                 path_size < 100 ? (int)path_size : 100, address);
    else
        snprintf(text, size, "\"%.150s\" outside any loop", address);
}

/* Two sites with one address would be one site to the controller, with the draws of both. */
_Noreturn static void fail_shared(const char *address, uint32_t before, uint32_t now) {
    char first[200], second[200];
    describe_site(address, before, first, sizeof first);
    describe_site(address, now, second, sizeof second);
    ars__fail(ARS_FAIL_MISUSE, 0,
              "%s and %s have the same address. Rename one of them: \"/\" separates a site from the loops around it",
              first, second);
}

static uint32_t ask_host(const char *name, uint32_t path, enum ars_site_kind kind, unsigned dist) {
    _Alignas(8) unsigned char body[sizeof(struct ars_wire_site) + ARS_WIRE_MAX_NAME + 16];
    char *address = (char *)body + sizeof(struct ars_wire_site);
    int n = 0, outer = 0;
    ars__check_utf8(name);
    if (path != NO_PATH) {
        const char *prefix = ars__site_address(path, &outer);
        n = snprintf(address, ARS_WIRE_MAX_NAME + 1, "%.*s/%s", outer, prefix, name);
    } else {
        n = snprintf(address, ARS_WIRE_MAX_NAME + 1, "%s", name);
    }
    if (n > ARS_WIRE_MAX_NAME)
        ars__fail(ARS_FAIL_LIMIT, 0, "the address of \"%.80s\" has %d bytes, at most %d are allowed", name, n,
                  (int)ARS_WIRE_MAX_NAME);
    struct ars_wire_site asked = {ARS_NO_SITE, (uint16_t)kind, (uint16_t)dist, (uint32_t)n, (uint32_t)outer}, site;
    memcpy(body, &asked, sizeof asked);
    memset(address + n, 0, 8);
    _Alignas(8) unsigned char reply[sizeof body];
    size_t reply_size = sizeof reply;
    ars__ask(ARS__ASK_SITE, body, sizeof asked + ARS_WIRE_PAD((uint32_t)n), reply, &reply_size);
    memcpy(&site, reply, sizeof site);
    if (reply_size < sizeof site || site.id >= ARS_WIRE_MAX_SITES)
        ars__fail(ARS_FAIL_LIMIT, 0,
                  "no room for the site \"%.80s\": there are more than %d sites. Give draws of one kind one name", name,
                  (int)ARS_WIRE_MAX_SITES);
    if (site.reserved != asked.reserved && site.reserved < asked.name_size)
        fail_shared(address, site.reserved, asked.reserved);
    return site.id;
}

/* 0 is a vector that is observed from several kinds at once. */
static const char *kind_name(unsigned dist) {
    return dist ? ars__dist_name(dist) : "of several kinds";
}

uint32_t ars__site_id(const char *name, enum ars_site_kind kind, unsigned dist) {
    const struct ars__loop *top = ars__top(&ars__me.loops);
    uint32_t path = top ? top->site_id : NO_PATH;
    uint32_t hash = hash_of(name, path, kind);
    if (ars__me.sites.used * 2 >= ars__me.sites.room) grow_table();
    struct ars__named_site *e = find_entry(name, path, kind, hash);
    if (!e->name) {
        uint32_t id = ask_host(name, path, kind, dist);
        char *copy = strdup(name);
        if (!copy) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the name of a site");
        *e = (struct ars__named_site){copy, hash, path, id, kind, ars__me.shm->sites[id].dist};
        ars__me.sites.used++;
    }
    if (e->dist != dist) {
        int n;
        const char *address = ars__site_address(e->id, &n);
        ars__fail(ARS_FAIL_SITE_CHANGED, 0,
                  "the site \"%.*s\" was %s before and is %s now; a name keeps one kind of distribution",
                  n > 200 ? 200 : n, address, kind_name(e->dist), kind_name(dist));
    }
    if (kind != ARS_SITE_LOOP) ars__at_site(e->id);
    return e->id;
}

const char *ars__site_address(uint32_t id, int *size) {
    const struct ars__site_entry *e = &ars__me.shm->sites[id];
    *size = (int)e->name_size;
    return ars__me.shm->names + e->name_at;
}

/* ---- instances ------------------------------------------------------------------------------------------------------ */

static struct ars__met *met_at(uint32_t id) {
    struct ars__instances *m = &ars__me.instances;
    if (id >= m->room) {
        size_t room = m->room ? m->room : ARS__FEW_SITES;
        while (room <= id) room *= 2;
        struct ars__met *grown = room == ARS__FEW_SITES
                                     ? ars__me.few.met
                                     : ars__enlarge(m->at, m->room * sizeof *m->at, room * sizeof *m->at);
        if (!grown) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the table of instances");
        memset(grown + m->room, 0, (room - m->room) * sizeof *m->at);
        m->at = grown;
        m->room = room;
    }
    if (m->at[id].trace != m->trace) m->at[id] = (struct ars__met){m->trace, 0};
    return &m->at[id];
}

uint32_t ars__instance_take(uint32_t site_id) {
    return met_at(site_id)->count++;
}
void ars__instance_give_back(uint32_t site_id) {
    met_at(site_id)->count--;
}
void ars__instances_reset(void) {
    ars__me.instances.trace++;
}

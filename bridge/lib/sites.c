/* sites.c: addresses. A site is called by the names of the loops around it and its own, "outer/inner/x"; an unnamed loop
 * by file:function#order. No code address and no line number takes part, so addresses survive recompiling. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

/* ---- rs_start records of the program ------------------------------------------------------------------------------ */

static ars__site list_end;
static ars__site *listed = &list_end;

void ars__register_sites(ars__site *const *begin, ars__site *const *end) {
    for (ars__site *const *s = begin; s < end; s++) {
        if (!*s || (*s)->next) continue; /* every source file of a module registers the whole module */
        (*s)->next = listed;
        listed = *s;
    }
}

static bool same_scope(const ars__site *a, const ars__site *b) {
    return strcmp(a->file, b->file) == 0 && strcmp(a->scope, b->scope) == 0;
}

/* The number of different lines above this one that hold an rs_start of the same function. */
static unsigned order_of(const ars__site *site) {
    unsigned order = 0;
    for (const ars__site *s = listed; s != &list_end; s = s->next) {
        if (s->line >= site->line || !same_scope(s, site)) continue;
        bool repeated = false; /* an inline function of a header has one record per source file */
        for (const ars__site *t = listed; t != s; t = t->next) repeated |= t->line == s->line && same_scope(t, s);
        order += !repeated;
    }
    return order;
}

void ars__loop_name(ars__site *site, char *text, size_t size) {
    if (site->name[0]) {
        snprintf(text, size, "%s", site->name);
        return;
    }
    if (!site->order) site->order = order_of(site) + 1;
    const char *slash = strrchr(site->file, '/');
    snprintf(text, size, "%s:%s#%u", slash ? slash + 1 : site->file, site->func ? site->func : "?", site->order - 1);
}

/* ---- names to ids -------------------------------------------------------------------------------------------------- */

#define NO_PATH 0xffffffffu

struct entry {
    char *name; /* NULL: empty */
    uint32_t hash, path, id;
    enum ars_site_kind kind;
    unsigned dist; /* as the host knows it: a copy, because a forked process maps the segment's pages anew */
};

static struct entry *table;
static size_t table_room, table_used;

static uint32_t hash_of(const char *name, uint32_t path, enum ars_site_kind kind) {
    uint32_t h = 2166136261u ^ path * 2654435761u ^ (uint32_t)kind << 24;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static struct entry *find(const char *name, uint32_t path, enum ars_site_kind kind, uint32_t hash) {
    for (size_t i = hash & (table_room - 1);; i = (i + 1) & (table_room - 1)) {
        struct entry *e = &table[i];
        if (!e->name) return e;
        if (e->hash == hash && e->path == path && e->kind == kind && strcmp(e->name, name) == 0) return e;
    }
}

static void grow(void) {
    struct entry *old = table;
    size_t old_room = table_room;
    table_room = old_room ? 2 * old_room : 64;
    table = calloc(table_room, sizeof *table);
    if (!table) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the table of sites");
    for (size_t i = 0; i < old_room; i++)
        if (old[i].name) *find(old[i].name, old[i].path, old[i].kind, old[i].hash) = old[i];
    free(old);
}

static uint32_t ask_host(const char *name, uint32_t path, enum ars_site_kind kind, unsigned dist) {
    _Alignas(8) unsigned char body[sizeof(struct ars_wire_site) + ARS_WIRE_MAX_NAME + 16];
    char *address = (char *)body + sizeof(struct ars_wire_site);
    int n = 0, outer = 0;
    if (path != NO_PATH) {
        const char *prefix = ars__site_address(path, &outer);
        n = snprintf(address, ARS_WIRE_MAX_NAME + 1, "%.*s/%s", outer, prefix, name);
    } else {
        n = snprintf(address, ARS_WIRE_MAX_NAME + 1, "%s", name);
    }
    if (n > ARS_WIRE_MAX_NAME)
        ars__fail(ARS_FAIL_LIMIT, 0, "the address of \"%.80s\" has %d bytes, at most %d are allowed", name, n,
                  (int)ARS_WIRE_MAX_NAME);
    struct ars_wire_site site = {ARS_NO_SITE, (uint16_t)kind, (uint16_t)dist, (uint32_t)n, 0};
    memcpy(body, &site, sizeof site);
    memset(address + n, 0, 8);
    size_t reply_size = sizeof body;
    ars__ask(ARS__ASK_SITE, body, sizeof site + ARS_WIRE_PAD((uint32_t)n), body, &reply_size);
    memcpy(&site, body, sizeof site);
    if (reply_size < sizeof site || site.id >= ARS_WIRE_MAX_SITES)
        ars__fail(ARS_FAIL_LIMIT, 0,
                  "no room for the site \"%.80s\": there are more than %d sites. Give draws of one kind one name", name,
                  (int)ARS_WIRE_MAX_SITES);
    return site.id;
}

uint32_t ars__site_id(const char *name, enum ars_site_kind kind, unsigned dist) {
    const struct ars__loop *top = ars__top(&ars__me.loops);
    uint32_t path = top ? top->address : NO_PATH;
    uint32_t hash = hash_of(name, path, kind);
    if (table_used * 2 >= table_room) grow();
    struct entry *e = find(name, path, kind, hash);
    if (!e->name) {
        uint32_t id = ask_host(name, path, kind, dist);
        char *copy = strdup(name);
        if (!copy) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the name of a site");
        *e = (struct entry){copy, hash, path, id, kind, ars__me.shm->sites[id].dist};
        table_used++;
    }
    if (e->dist != dist) {
        int n;
        const char *address = ars__site_address(e->id, &n);
        ars__fail(ARS_FAIL_SITE_CHANGED, 0,
                  "the site \"%.*s\" was %s before and is %s now; a name keeps one kind of distribution",
                  n > 200 ? 200 : n, address, ars__dist_name(e->dist), ars__dist_name(dist));
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

uint32_t ars__instance_take(uint32_t site) {
    return met_at(site)->count++;
}
void ars__instance_give_back(uint32_t site) {
    met_at(site)->count--;
}
void ars__instances_reset(void) {
    ars__me.instances.trace++;
}

/* dwarf.c: the functions of an address, and the calls of a function, from debug information.
 *
 * A function is known by the offset of its abstract entry, which all its copies in a unit refer to. Its calls are the inlined
 * functions right below any of the copies, and the call instructions whose innermost copy it is. */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "demangle.h"
#include "dwarf.h"
#include "dwarf_unit.h"

enum { LONGEST = 512, MOST_STEPS = 16 }; /* bytes of a name; references and scopes that are followed */

struct host_dwarf {
    struct host_units units;
};

struct host_dwarf *host_dwarf_open(struct host_elf *elf) {
    struct host_dwarf *dwarf = host_grow(NULL, sizeof *dwarf);
    if (host_units_read(&dwarf->units, elf)) return dwarf;
    host_dwarf_close(dwarf);
    return NULL;
}

void host_dwarf_close(struct host_dwarf *dwarf) {
    host_units_free(&dwarf->units);
    free(dwarf);
}

/* ---- names -------------------------------------------------------------------------------------------------------------- */

struct place {
    struct host_unit *unit;
    struct host_entry *entry;
};

static struct place place_of(struct host_dwarf *dwarf, struct host_unit *near, uint64_t offset) {
    bool here = near && offset >= near->head.first && offset < near->head.end;
    struct host_unit *unit = here ? near : host_unit_of_offset(&dwarf->units, offset);
    return (struct place){unit, unit ? host_unit_entry(unit, offset) : NULL};
}

/* The entry that this one refers to: the abstract one of a copy, or the declaration of a definition. */
static struct place next_of(struct host_dwarf *dwarf, struct place at) {
    uint64_t offset = at.entry->origin ? at.entry->origin : at.entry->specification;
    return offset ? place_of(dwarf, at.unit, offset) : (struct place){0};
}

static uint64_t identity(struct host_dwarf *dwarf, struct place at) {
    struct host_entry *asked = at.entry;
    for (unsigned i = 0; !asked->identity && i < MOST_STEPS && at.entry->origin; i++) {
        struct place next = place_of(dwarf, at.unit, at.entry->origin);
        if (!next.entry) return asked->identity = at.entry->origin;
        at = next;
    }
    if (!asked->identity) asked->identity = at.entry->offset;
    return asked->identity;
}

/* Whether this is a part of a function that GCC cut off and then inlined where it was: a call of the function in itself, from
 * the line and column that declare it. Recursion in a function of one line comes from another column. */
static bool is_part(struct host_dwarf *dwarf, struct place at) {
    if (at.entry->kind != HOST_ENTRY_INLINED || at.entry->parent == HOST_NO_ENTRY) return false;
    struct place parent = {at.unit, &at.unit->entries[at.entry->parent]};
    if (identity(dwarf, at) != identity(dwarf, parent)) return false;
    for (unsigned i = 0; i < MOST_STEPS && parent.entry; i++, parent = next_of(dwarf, parent))
        if (parent.entry->declared)
            return parent.entry->declared == at.entry->call_line &&
                   parent.entry->declared_column == at.entry->call_column;
    return false;
}

static void full_name(struct host_dwarf *dwarf, struct place at, unsigned depth, char *text);

/* The scopes of an entry, outermost first. */
static void scopes(struct host_dwarf *dwarf, struct place at, unsigned depth, char *text) {
    uint32_t index = at.entry->parent;
    if (index == HOST_NO_ENTRY || depth > MOST_STEPS) return;
    struct place parent = {at.unit, &at.unit->entries[index]};
    if (parent.entry->kind == HOST_ENTRY_FUNCTION || parent.entry->kind == HOST_ENTRY_INLINED) {
        full_name(dwarf, parent, depth + 1, text);
        return;
    }
    if (parent.entry->specification) {
        struct place declared = place_of(dwarf, parent.unit, parent.entry->specification);
        if (declared.entry) parent = declared;
    }
    scopes(dwarf, parent, depth + 1, text);
    const char *name = parent.entry->name;
    if (parent.entry->kind == HOST_ENTRY_CLASS || name) host_name_add(name ? name : "", text, LONGEST);
}

/* A function of C or Fortran inside another one. Its symbol does not say inside which. */
static bool is_nested(struct place at) {
    if (at.entry->kind != HOST_ENTRY_FUNCTION || at.entry->parent == HOST_NO_ENTRY) return false;
    return at.unit->entries[at.entry->parent].kind == HOST_ENTRY_FUNCTION;
}

/* Adds to `text`, which is empty. */
static void full_name(struct host_dwarf *dwarf, struct place at, unsigned depth, char *text) {
    struct place last = at;
    for (unsigned i = 0; i < MOST_STEPS && at.entry; i++, at = next_of(dwarf, at)) {
        last = at;
        if (at.entry->linkage) {
            host_demangle(at.entry->linkage, text, LONGEST);
            return;
        }
    }
    if (!is_nested(last)) scopes(dwarf, last, depth, text);
    if (last.entry->name) host_name_add(last.entry->name, text, LONGEST);
}

static const char *display(struct host_module *m, struct place at) {
    if (!at.entry->named) {
        char text[LONGEST] = "";
        full_name(m->dwarf, at, 0, text);
        at.entry->display = host_module_intern(m, *text ? text : "unnamed");
        at.entry->named = true;
    }
    return at.entry->display;
}

/* ---- virtual functions ----------------------------------------------------------------------------------------------------- */

static bool says_virtual(struct host_dwarf *dwarf, struct place at) {
    for (unsigned i = 0; i < MOST_STEPS && at.entry; i++, at = next_of(dwarf, at))
        if (at.entry->is_virtual) return true;
    return false;
}

static int by_pointer(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return x < y ? -1 : x > y;
}

/* Whether a function of this name is declared virtual in the unit, which has the classes of all that it calls. */
static bool is_virtual(struct host_module *m, struct host_unit *unit, const char *name) {
    if (!unit->virtuals_known) {
        unit->virtuals_known = true;
        struct buffer names = {0};
        for (size_t i = 0; i < unit->n_entries; i++) {
            if (!unit->entries[i].is_virtual) continue;
            const char *one = display(m, (struct place){unit, &unit->entries[i]});
            host_buffer_add(&names, &one, sizeof one);
        }
        unit->virtuals = (const char **)names.data;
        unit->n_virtuals = names.size / sizeof *unit->virtuals;
        if (unit->n_virtuals) qsort(unit->virtuals, unit->n_virtuals, sizeof *unit->virtuals, by_pointer);
    }
    return name && unit->n_virtuals && bsearch(&name, unit->virtuals, unit->n_virtuals, sizeof name, by_pointer);
}

const char *host_dwarf_callee(struct host_module *m, uint64_t after) {
    struct host_unit *unit = after ? host_unit_of_address(&m->dwarf->units, after - 1) : NULL;
    uint64_t origin = unit ? host_unit_known_call(unit, after) : 0;
    struct place at = origin ? place_of(m->dwarf, unit, origin) : (struct place){0};
    return at.entry ? display(m, at) : NULL;
}

/* ---- the calls of a function --------------------------------------------------------------------------------------------------- */

static void add_call(struct host_unit *unit, struct host_call call, uint32_t entry) {
    if (unit->n_calls == unit->calls_capacity) {
        unit->calls_capacity = unit->calls_capacity ? 2 * unit->calls_capacity : 64;
        unit->calls = host_grow(unit->calls, unit->calls_capacity * sizeof *unit->calls);
    }
    unit->calls[unit->n_calls++] = (struct host_entry_call){call, entry};
}

/* Adds the calls in the machine code of a function to the unit's. */
static void scan(struct host_module *m, struct host_unit *unit, uint32_t index) {
    struct host_entry *root = &unit->entries[index];
    if (root->scanned) return;
    root->scanned = true;
    for (size_t i = 0; i < root->n_ranges; i++) {
        struct host_range range = unit->ranges[root->first_range + i];
        struct host_call call;
        for (uint64_t at = range.low; host_code_next(&m->elf, at, range.high, &call); at = call.after) {
            bool jump = call.transfer == HOST_JUMP;
            bool within = call.indirect ? call.table : !call.slot && host_entry_covers(unit, root, call.target);
            if (jump && within) continue;
            add_call(unit, call, host_unit_innermost(unit, index, call.at));
        }
    }
}

static uint32_t root_of(const struct host_unit *unit, uint32_t index) {
    while (unit->entries[index].kind == HOST_ENTRY_INLINED && unit->entries[index].parent != HOST_NO_ENTRY)
        index = unit->entries[index].parent;
    return index;
}

/* Whether a call is one of a virtual function, although its target is known. */
static bool calls_virtual(struct host_module *m, struct host_unit *unit, const struct host_call *call,
                          const char *name) {
    if (is_virtual(m, unit, name)) return true;
    uint32_t index = call->indirect || call->slot ? HOST_NO_ENTRY : host_unit_function(unit, call->target);
    return index != HOST_NO_ENTRY && says_virtual(m->dwarf, (struct place){unit, &unit->entries[index]});
}

/* The calls in machine code whose innermost function it is. */
static void add_instructions(struct host_module *m, struct host_unit *unit, struct host_function *f) {
    for (size_t i = 0; i < unit->n_calls; i++) {
        const struct host_entry_call *one = &unit->calls[i];
        if (one->entry == HOST_NO_ENTRY) continue;
        struct place at = {unit, &unit->entries[one->entry]};
        if (identity(m->dwarf, at) != f->key) continue;
        const char *symbol, *callee = host_module_callee(m, &one->call, &symbol);
        bool jump = one->call.transfer == HOST_JUMP;
        bool part = symbol && (strstr(symbol, ".part.") || strstr(symbol, ".cold")) && callee == f->name;
        if (part || (jump && symbol && strstr(symbol, ".cold"))) continue; /* the rest of itself */
        if (jump && !symbol && !one->call.indirect) continue;
        const struct host_row *row = host_unit_row(&m->dwarf->units, unit, one->call.at);
        if (row && row->line)
            host_function_add(
                f, (struct host_site){row->line, row->column, callee, calls_virtual(m, unit, &one->call, callee)});
    }
}

/* All calls of the function with this key, in all its copies of the unit. */
static void collect(struct host_module *m, struct host_unit *unit, struct host_function *f) {
    for (uint32_t i = 0; i < unit->n_entries; i++) {
        const struct host_entry *entry = &unit->entries[i];
        struct place at = {unit, &unit->entries[i]};
        if (entry->kind == HOST_ENTRY_INLINED && entry->call_line && entry->parent != HOST_NO_ENTRY &&
            identity(m->dwarf, (struct place){unit, &unit->entries[entry->parent]}) == f->key &&
            !is_part(m->dwarf, at)) {
            const char *name = display(m, at);
            host_function_add(f, (struct host_site){entry->call_line, entry->call_column, name,
                                                    says_virtual(m->dwarf, at) || is_virtual(m, unit, name)});
        }
        bool code = entry->kind == HOST_ENTRY_FUNCTION || entry->kind == HOST_ENTRY_INLINED;
        if (code && entry->n_ranges && identity(m->dwarf, at) == f->key) scan(m, unit, root_of(unit, i));
    }
    add_instructions(m, unit, f);
    host_function_finish(f);
}

/* ---- the functions of an address -------------------------------------------------------------------------------------------------- */

/* The name of a function with machine code: what others call it by. */
static const char *name_of_code(struct host_module *m, struct place at, uint64_t address) {
    const struct host_symbol *symbol = host_elf_symbol(&m->elf, address);
    if (!symbol) return display(m, at);
    char text[LONGEST];
    host_demangle(symbol->name, text, sizeof text);
    return host_module_intern(m, text);
}

size_t host_dwarf_levels(struct host_module *m, uint64_t address, struct host_level *levels, size_t most) {
    struct host_dwarf *dwarf = m->dwarf;
    struct host_unit *unit = host_unit_of_address(&dwarf->units, address);
    if (!unit) return 0;
    uint32_t index = host_unit_function(unit, address);
    const struct host_row *row = host_unit_row(&dwarf->units, unit, address);
    if (index == HOST_NO_ENTRY || !row) return 0;
    index = host_unit_innermost(unit, index, address);
    uint64_t line = row->line;
    uint32_t column = row->column;
    size_t n = 0;
    while (n < most) {
        struct place at = {unit, &unit->entries[index]};
        if (is_part(dwarf, at)) {
            index = at.entry->parent;
            continue;
        }
        bool inlined = at.entry->kind == HOST_ENTRY_INLINED && at.entry->parent != HOST_NO_ENTRY, fresh;
        const char *name = inlined ? display(m, at) : name_of_code(m, at, address);
        struct host_function *f = host_module_function(m, name, identity(dwarf, at), &fresh);
        if (fresh) collect(m, unit, f);
        levels[n++] = (struct host_level){
            m, f, line, column, says_virtual(dwarf, at) || is_virtual(m, unit, name), HOST_NAMES_DEBUG};
        if (!inlined) break;
        line = at.entry->call_line;
        column = at.entry->call_column;
        index = at.entry->parent;
    }
    return n;
}

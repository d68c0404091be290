/* module.c: an executable or a shared library, its functions, and the calls that each makes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "demangle.h"
#include "dwarf.h"
#include "module.h"

enum { LONGEST = 512 }; /* name of a function */

/* ---- texts ------------------------------------------------------------------------------------------------------------ */

static size_t hash_of(const char *text) {
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

static char **place(char **table, size_t capacity, const char *text) {
    size_t i = hash_of(text) & (capacity - 1);
    while (table[i] && strcmp(table[i], text)) i = (i + 1) & (capacity - 1);
    return &table[i];
}

const char *host_module_intern(struct host_module *m, const char *text) {
    if (2 * m->n_texts >= m->texts_capacity) {
        size_t capacity = m->texts_capacity ? 2 * m->texts_capacity : 1024;
        char **table = host_grow(NULL, capacity * sizeof *table);
        memset(table, 0, capacity * sizeof *table);
        for (size_t i = 0; i < m->texts_capacity; i++)
            if (m->texts[i]) *place(table, capacity, m->texts[i]) = m->texts[i];
        free(m->texts);
        m->texts = table;
        m->texts_capacity = capacity;
    }
    char **at = place(m->texts, m->texts_capacity, text);
    if (!*at) {
        size_t size = strlen(text) + 1;
        *at = memcpy(host_grow(NULL, size), text, size);
        m->n_texts++;
    }
    return *at;
}

/* ---- calls -------------------------------------------------------------------------------------------------------------- */

static const char *display(struct host_module *m, const char *symbol) {
    char text[LONGEST];
    host_demangle(symbol, text, sizeof text);
    return host_module_intern(m, text);
}

static const char *number_name(struct host_module *m, uint64_t address) {
    uint64_t start, end;
    char text[64];
    size_t number = host_elf_number(&m->elf, address, &start, &end);
    if (number)
        snprintf(text, sizeof text, "fn%zu", number);
    else
        snprintf(text, sizeof text, "at_0x%llx", (unsigned long long)address);
    return host_module_intern(m, text);
}

const char *host_module_callee(struct host_module *m, const struct host_call *call, const char **symbol) {
    const char *none;
    if (!symbol) symbol = &none;
    *symbol = NULL;
    if (call->indirect) return m->dwarf ? host_dwarf_callee(m, call->after) : NULL;
    uint64_t target = call->target;
    uint64_t slot_at = call->slot ? target : 0;
    if (!slot_at) {
        const struct host_symbol *found = host_elf_symbol(&m->elf, target);
        if (found && found->address == target) return display(m, *symbol = found->name);
        slot_at = host_code_stub(&m->elf, target);
        if (!slot_at) return found ? display(m, found->name) : number_name(m, target);
    }
    const struct host_slot *slot = host_elf_slot(&m->elf, slot_at);
    if (!slot) return NULL;
    if (slot->name) return display(m, *symbol = slot->name);
    const struct host_symbol *found = host_elf_symbol(&m->elf, slot->target);
    return found ? display(m, *symbol = found->name) : number_name(m, slot->target);
}

bool host_module_call_before(struct host_module *m, uint64_t after, struct host_call *call) {
    const struct host_symbol *symbol = m->readable && after ? host_elf_symbol(&m->elf, after - 1) : NULL;
    uint64_t start = 0, end = 0;
    if (symbol)
        start = symbol->address;
    else if (!m->readable || !after || !host_elf_number(&m->elf, after - 1, &start, &end))
        return false;
    for (uint64_t at = start; host_code_next(&m->elf, at, after, call); at = call->after)
        if (call->after == after && call->transfer == HOST_CALL) return true;
    return host_code_before(&m->elf, after, call);
}

/* ---- functions and their calls --------------------------------------------------------------------------------------------- */

struct host_function *host_module_function(struct host_module *m, const char *name, uint64_t key, bool *fresh) {
    for (struct host_function *f = m->functions; f; f = f->next)
        if (f->name == name && f->key == key) {
            *fresh = false;
            return f;
        }
    struct host_function *f = host_grow(NULL, sizeof *f);
    *f = (struct host_function){.name = name, .key = key, .next = m->functions};
    m->functions = f;
    *fresh = true;
    return f;
}

void host_function_add(struct host_function *f, struct host_site site) {
    if (f->n_sites == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 16;
        f->sites = host_grow(f->sites, f->capacity * sizeof *f->sites);
    }
    f->sites[f->n_sites++] = site;
}

static int by_place(const void *a, const void *b) {
    const struct host_site *x = a, *y = b;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    if (x->callee != y->callee) return !x->callee ? -1 : !y->callee ? 1 : strcmp(x->callee, y->callee);
    return (int)x->is_virtual - (int)y->is_virtual;
}

void host_function_finish(struct host_function *f) {
    if (!f->n_sites) return;
    qsort(f->sites, f->n_sites, sizeof *f->sites, by_place);
    size_t kept = 1;
    for (size_t i = 1; i < f->n_sites; i++)
        if (by_place(&f->sites[kept - 1], &f->sites[i])) f->sites[kept++] = f->sites[i];
    f->n_sites = kept;
}

/* Adds the calls, and the tail calls, of [start, end). */
static void scan(struct host_module *m, struct host_function *f, uint64_t start, uint64_t end) {
    struct host_call call;
    for (uint64_t at = start; host_code_next(&m->elf, at, end, &call); at = call.after) {
        bool jump = call.transfer == HOST_JUMP;
        bool within = call.indirect ? call.table : !call.slot && call.target >= start && call.target < end;
        if (jump && within) continue;
        const char *symbol, *callee = host_module_callee(m, &call, &symbol);
        bool part = symbol && (strstr(symbol, ".part.") || strstr(symbol, ".cold")) && callee == f->name;
        if (part || (jump && !symbol && !call.indirect)) continue; /* the rest of itself, or no function */
        host_function_add(f, (struct host_site){.line = call.at, .callee = callee});
    }
}

/* Without debug information: all copies of a function in the table of symbols. */
static struct host_function *by_symbol(struct host_module *m, const struct host_symbol *symbol) {
    bool fresh;
    struct host_function *f = host_module_function(m, display(m, symbol->name), 0, &fresh);
    if (!fresh) return f;
    size_t length = host_base_length(symbol->name);
    for (size_t i = 0; i < m->elf.n_symbols; i++) {
        const struct host_symbol *other = &m->elf.symbols[i];
        if (strncmp(other->name, symbol->name, length) || host_base_length(other->name) != length) continue;
        scan(m, f, other->address, other->address + other->size);
    }
    host_function_finish(f);
    return f;
}

static struct host_function *by_number(struct host_module *m, uint64_t address) {
    bool fresh;
    uint64_t start, end;
    struct host_function *f = host_module_function(m, number_name(m, address), 0, &fresh);
    if (!fresh || !host_elf_number(&m->elf, address, &start, &end)) return f;
    scan(m, f, start, end);
    host_function_finish(f);
    return f;
}

static struct host_function *by_offset(struct host_module *m, uint64_t address) {
    bool fresh;
    char text[LONGEST];
    snprintf(text, sizeof text, "%s+0x%llx", m->base, (unsigned long long)address);
    return host_module_function(m, host_module_intern(m, text), 0, &fresh);
}

size_t host_module_levels(struct host_module *m, uint64_t address, struct host_level *levels, size_t most) {
    if (!most) return 0;
    size_t n = m->dwarf ? host_dwarf_levels(m, address, levels, most) : 0;
    if (n) return n;
    struct host_level level = {.module = m, .line = address};
    const struct host_symbol *symbol = m->readable ? host_elf_symbol(&m->elf, address) : NULL;
    uint64_t start, end;
    if (symbol) {
        level.quality = HOST_NAMES_SYMBOLS;
        level.function = by_symbol(m, symbol);
    } else if (m->readable && host_elf_number(&m->elf, address, &start, &end)) {
        level.quality = HOST_NAMES_STRIPPED;
        level.function = by_number(m, address);
    } else {
        level.function = by_offset(m, address);
    }
    levels[0] = level;
    return 1;
}

/* ---- modules ----------------------------------------------------------------------------------------------------------------- */

struct host_module *host_module_open(const char *path) {
    struct host_module *m = host_grow(NULL, sizeof *m);
    *m = (struct host_module){0};
    size_t size = strlen(path) + 1;
    m->path = memcpy(host_grow(NULL, size), path, size);
    const char *slash = strrchr(path, '/');
    char base[LONGEST];
    snprintf(base, sizeof base, "%s", slash ? slash + 1 : path);
    m->base = host_module_intern(m, base);
    m->readable = host_elf_open(&m->elf, path);
    m->dwarf = m->readable ? host_dwarf_open(&m->elf) : NULL;
    return m;
}

void host_module_close(struct host_module *m) {
    if (m->dwarf) host_dwarf_close(m->dwarf);
    if (m->readable) host_elf_close(&m->elf);
    while (m->functions) {
        struct host_function *f = m->functions;
        m->functions = f->next;
        free(f->sites);
        free(f);
    }
    for (size_t i = 0; i < m->texts_capacity; i++) free(m->texts[i]);
    free(m->texts);
    free(m->path);
    free(m);
}

/* dwarf_unit.c: compilation units, and in each the functions, their inlined copies and the scopes that have them.
 *
 * At first only the headers and the first entry of each unit are read, which says what addresses it covers. The entries of a
 * unit are read when an address or a reference leads to it. Not supported, and as if there were no debug information:
 * -gsplit-dwarf, compressed sections, and files of their own for debug information. */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "dwarf_unit.h"

enum { DEEPEST = 512, MOST_RANGES = 1 << 16, MOST_OF_ENTRY = 1024, MOST_BYTES = 1 << 28 };
enum tag {
    TAG_CLASS = 0x02,
    TAG_COMPILE_UNIT = 0x11,
    TAG_STRUCTURE = 0x13,
    TAG_UNION = 0x17,
    TAG_INLINED = 0x1d,
    TAG_SUBPROGRAM = 0x2e,
    TAG_NAMESPACE = 0x39,
    TAG_CALL_SITE = 0x48,
    TAG_GNU_CALL_SITE = 0x4109,
    TAG_PARTIAL_UNIT = 0x3c
};
enum attribute {
    AT_SIBLING = 0x01,
    AT_NAME = 0x03,
    AT_STMT_LIST = 0x10,
    AT_LOW_PC = 0x11,
    AT_HIGH_PC = 0x12,
    AT_ABSTRACT_ORIGIN = 0x31,
    AT_DECL_COLUMN = 0x39,
    AT_DECL_LINE = 0x3b,
    AT_SPECIFICATION = 0x47,
    AT_VIRTUALITY = 0x4c,
    AT_RANGES = 0x55,
    AT_CALL_COLUMN = 0x57,
    AT_CALL_LINE = 0x59,
    AT_CALL_RETURN_PC = 0x7d,
    AT_CALL_ORIGIN = 0x7f,
    AT_LINKAGE_NAME = 0x6e,
    AT_STR_OFFSETS_BASE = 0x72,
    AT_ADDR_BASE = 0x73,
    AT_RNGLISTS_BASE = 0x74,
    AT_MIPS_LINKAGE_NAME = 0x2007
};

/* ---- one entry ------------------------------------------------------------------------------------------------------------ */

struct values {
    struct host_value low, high, ranges, lines;
    uint64_t call_return, call_origin;
    bool has_low, has_high, has_ranges, has_lines;
    uint64_t sibling;
    struct host_entry entry;
    uint64_t str_offsets_base, addr_base, rnglists_base;
};

/* Where a line or column of the source is kept; NULL for other attributes. */
static uint32_t *place_in(struct host_entry *entry, uint64_t name) {
    if (name == AT_DECL_LINE) return &entry->declared;
    if (name == AT_DECL_COLUMN) return &entry->declared_column;
    if (name == AT_CALL_LINE) return &entry->call_line;
    return name == AT_CALL_COLUMN ? &entry->call_column : NULL;
}

static void keep(struct values *v, uint64_t name, struct host_value value) {
    uint32_t *place = place_in(&v->entry, name);
    if (place) *place = (uint32_t)value.number;
    bool is_text = value.kind == HOST_VALUE_TEXT, is_entry = value.kind == HOST_VALUE_ENTRY;
    switch (name) {
    case AT_SIBLING:
        v->sibling = is_entry ? value.number : 0;
        break;
    case AT_NAME:
        v->entry.name = is_text ? value.text : NULL;
        break;
    case AT_LINKAGE_NAME:
    case AT_MIPS_LINKAGE_NAME:
        v->entry.linkage = is_text ? value.text : NULL;
        break;
    case AT_ABSTRACT_ORIGIN:
        v->entry.origin = is_entry ? value.number : 0;
        break;
    case AT_SPECIFICATION:
        v->entry.specification = is_entry ? value.number : 0;
        break;
    case AT_VIRTUALITY:
        v->entry.is_virtual = value.number != 0;
        break;
    case AT_CALL_RETURN_PC:
        v->call_return = value.number;
        break;
    case AT_CALL_ORIGIN:
        v->call_origin = is_entry ? value.number : 0;
        break;
    case AT_LOW_PC:
        v->low = value, v->has_low = value.kind == HOST_VALUE_ADDRESS;
        break;
    case AT_HIGH_PC:
        v->high = value, v->has_high = true;
        break;
    case AT_RANGES:
        v->ranges = value, v->has_ranges = true;
        break;
    case AT_STMT_LIST:
        v->lines = value, v->has_lines = true;
        break;
    case AT_STR_OFFSETS_BASE:
        v->str_offsets_base = value.number;
        break;
    case AT_ADDR_BASE:
        v->addr_base = value.number;
        break;
    case AT_RNGLISTS_BASE:
        v->rnglists_base = value.number;
        break;
    }
}

static void read_values(const struct host_units *units, const struct host_unit *unit,
                        const struct host_abbreviation *abbreviation, struct host_cursor *c, struct values *v) {
    memset(v, 0, sizeof *v);
    for (size_t i = 0; i < abbreviation->n && !c->bad; i++) {
        const struct host_attribute *attribute = &unit->abbreviations.attributes[abbreviation->first + i];
        keep(v, attribute->name, host_read_attribute(&units->sections, &unit->head, c, attribute));
    }
}

static size_t ranges_of(const struct host_units *units, const struct host_unit *unit, const struct values *v,
                        struct host_range *ranges, size_t most) {
    if (v->has_ranges) return host_read_ranges(&units->sections, &unit->head, unit->base, v->ranges, ranges, most);
    if (!v->has_low || !v->has_high || !most) return 0;
    uint64_t high = v->high.kind == HOST_VALUE_ADDRESS ? v->high.number : v->low.number + v->high.number;
    ranges[0] = (struct host_range){v->low.number, high};
    return v->low.number < high;
}

/* ---- all units -------------------------------------------------------------------------------------------------------------- */

static struct host_cursor cursor_of(const struct host_units *units, const struct host_unit *unit) {
    return host_cursor_at((struct host_bytes){units->sections.info.at, unit->head.end}, unit->head.first);
}

/* The header of a unit; false for kinds that have no functions of ours. */
static bool read_head(struct host_unit_head *head, struct host_cursor *c) {
    head->version = (unsigned)host_read(c, 2);
    unsigned type = 1;
    if (head->version >= 5) {
        type = (unsigned)host_read(c, 1);
        head->address_size = (unsigned)host_read(c, 1);
        head->abbreviations = host_read(c, head->offset_size);
    } else {
        head->abbreviations = host_read(c, head->offset_size);
        head->address_size = (unsigned)host_read(c, 1);
    }
    bool good_size = head->address_size == 8 || head->address_size == 4;
    return !c->bad && head->version >= 2 && head->version <= 5 && good_size && (type == 1 || type == 3);
}

/* The first entry: what the others are relative to, and the addresses. */
static size_t read_root(struct host_units *units, struct host_unit *unit, struct host_range *ranges) {
    struct host_cursor c = cursor_of(units, unit), again;
    if (!host_abbreviations_read(&unit->abbreviations, units->sections.abbrev, unit->head.abbreviations)) return 0;
    const struct host_abbreviation *abbreviation = host_abbreviation(&unit->abbreviations, host_read_uleb(&c));
    if (!abbreviation || (abbreviation->tag != TAG_COMPILE_UNIT && abbreviation->tag != TAG_PARTIAL_UNIT)) return 0;
    struct values v;
    again = c;
    read_values(units, unit, abbreviation, &c, &v);
    unit->head.str_offsets_base = v.str_offsets_base;
    unit->head.addr_base = v.addr_base;
    unit->head.rnglists_base = v.rnglists_base;
    read_values(units, unit, abbreviation, &again, &v); /* with those */
    unit->base = v.has_low ? v.low.number : 0;
    unit->has_lines = v.has_lines;
    unit->lines_at = v.lines.number;
    return ranges_of(units, unit, &v, ranges, MOST_RANGES);
}

static int by_address(const void *a, const void *b) {
    const struct host_owner *x = a, *y = b;
    return x->range.low < y->range.low ? -1 : x->range.low > y->range.low;
}

bool host_units_read(struct host_units *units, struct host_elf *elf) {
    *units = (struct host_units){
        .sections = {host_elf_section(elf, ".debug_info"), host_elf_section(elf, ".debug_abbrev"),
                     host_elf_section(elf, ".debug_str"), host_elf_section(elf, ".debug_line_str"),
                     host_elf_section(elf, ".debug_str_offsets"), host_elf_section(elf, ".debug_addr"),
                     host_elf_section(elf, ".debug_ranges"), host_elf_section(elf, ".debug_rnglists"),
                     host_elf_section(elf, ".debug_line")}};
    struct buffer all = {0}, covered = {0};
    struct host_range *ranges = host_grow(NULL, MOST_RANGES * sizeof *ranges);
    struct host_bytes info = units->sections.info;
    for (uint64_t offset = 0; offset < info.size;) {
        struct host_unit unit = {.head.offset = offset};
        struct host_cursor c = host_cursor_at(info, offset);
        if (!host_read_length(&c, &unit.head.offset_size)) break;
        unit.head.end = offset = (uint64_t)(c.end - info.at);
        if (!read_head(&unit.head, &c)) continue;
        unit.head.first = (uint64_t)(c.at - info.at);
        size_t n = read_root(units, &unit, ranges);
        for (size_t i = 0; i < n; i++) {
            struct host_owner range = {ranges[i], (uint32_t)(all.size / sizeof unit)};
            host_buffer_add(&covered, &range, sizeof range);
        }
        host_abbreviations_free(&unit.abbreviations); /* read again for the few units that are wanted */
        host_buffer_add(&all, &unit, sizeof unit);
    }
    free(ranges);
    units->all = (struct host_unit *)all.data;
    units->n = all.size / sizeof *units->all;
    units->ranges = (struct host_owner *)covered.data;
    units->n_ranges = covered.size / sizeof *units->ranges;
    if (units->n_ranges) qsort(units->ranges, units->n_ranges, sizeof *units->ranges, by_address);
    return units->n_ranges > 0;
}

void host_units_free(struct host_units *units) {
    for (size_t i = 0; i < units->n; i++) {
        struct host_unit *unit = &units->all[i];
        host_abbreviations_free(&unit->abbreviations);
        host_lines_free(&unit->lines);
        free(unit->entries);
        free(unit->ranges);
        free(unit->roots);
        free(unit->known);
        free(unit->calls);
        free(unit->virtuals);
    }
    free(units->all);
    free(units->ranges);
    *units = (struct host_units){0};
}

/* ---- the entries of a unit ------------------------------------------------------------------------------------------------------ */

static bool kind_of(uint64_t tag, enum host_entry_kind *kind) {
    switch (tag) {
    case TAG_SUBPROGRAM:
        *kind = HOST_ENTRY_FUNCTION;
        return true;
    case TAG_INLINED:
        *kind = HOST_ENTRY_INLINED;
        return true;
    case TAG_NAMESPACE:
        *kind = HOST_ENTRY_NAMESPACE;
        return true;
    case TAG_CLASS:
    case TAG_STRUCTURE:
    case TAG_UNION:
        *kind = HOST_ENTRY_CLASS;
        return true;
    default:
        return false;
    }
}

struct walk {
    struct buffer entries, ranges, known;
    uint32_t open[DEEPEST]; /* the entry that children belong to, at each depth */
    size_t depth;
};

static uint32_t count_of(const struct walk *walk) {
    return (uint32_t)(walk->entries.size / sizeof(struct host_entry));
}

static void close_entry(struct walk *walk, uint32_t index) {
    struct host_entry *entries = (struct host_entry *)walk->entries.data;
    if (index != HOST_NO_ENTRY) entries[index].end = count_of(walk);
}

static void add_entry(const struct host_units *units, const struct host_unit *unit, struct walk *walk,
                      const struct values *v, struct host_range *room) {
    struct host_entry entry = v->entry;
    entry.first_range = walk->ranges.size / sizeof *room;
    bool code = entry.kind == HOST_ENTRY_FUNCTION || entry.kind == HOST_ENTRY_INLINED;
    if (code && walk->ranges.size < MOST_BYTES) entry.n_ranges = ranges_of(units, unit, v, room, MOST_OF_ENTRY);
    host_buffer_add(&walk->ranges, room, entry.n_ranges * sizeof *room);
    entry.end = count_of(walk) + 1;
    host_buffer_add(&walk->entries, &entry, sizeof entry);
}

/* One entry of the file: its values, and one level deeper if it has children. False at the end. */
static bool walk_on(const struct host_units *units, const struct host_unit *unit, struct walk *walk,
                    struct host_cursor *c, struct host_range *room) {
    uint64_t offset = (uint64_t)(c->at - units->sections.info.at), code = host_read_uleb(c);
    uint32_t parent = walk->depth ? walk->open[walk->depth - 1] : HOST_NO_ENTRY;
    if (!code) { /* the end of the children */
        if (!walk->depth) return false;
        walk->depth--;
        if (!walk->depth || walk->open[walk->depth - 1] != parent) close_entry(walk, parent);
        return walk->depth > 0;
    }
    const struct host_abbreviation *abbreviation = host_abbreviation(&unit->abbreviations, code);
    if (!abbreviation || walk->depth == DEEPEST) return false;
    struct values v;
    read_values(units, unit, abbreviation, c, &v);
    if (c->bad) return false;
    if (abbreviation->tag == TAG_CALL_SITE || abbreviation->tag == TAG_GNU_CALL_SITE) {
        bool old = abbreviation->tag == TAG_GNU_CALL_SITE;
        struct host_known_call call = {old ? v.low.number : v.call_return, old ? v.entry.origin : v.call_origin};
        if (call.after && call.origin) host_buffer_add(&walk->known, &call, sizeof call);
    } else if (kind_of(abbreviation->tag, &v.entry.kind)) {
        v.entry.offset = offset;
        v.entry.parent = parent;
        add_entry(units, unit, walk, &v, room);
        parent = count_of(walk) - 1;
    }
    if (abbreviation->has_children) walk->open[walk->depth++] = parent;
    return walk->depth > 0;
}

static int by_return(const void *a, const void *b) {
    const struct host_known_call *x = a, *y = b;
    return x->after < y->after ? -1 : x->after > y->after;
}

static void read_roots(struct host_unit *unit) {
    struct buffer roots = {0};
    for (uint32_t i = 0; i < unit->n_entries; i++) {
        const struct host_entry *entry = &unit->entries[i];
        for (size_t k = 0; entry->kind == HOST_ENTRY_FUNCTION && k < entry->n_ranges; k++) {
            struct host_owner root = {unit->ranges[entry->first_range + k], i};
            host_buffer_add(&roots, &root, sizeof root);
        }
    }
    unit->roots = (struct host_owner *)roots.data;
    unit->n_roots = roots.size / sizeof *unit->roots;
    if (unit->n_roots) qsort(unit->roots, unit->n_roots, sizeof *unit->roots, by_address);
}

static void read_entries(struct host_units *units, struct host_unit *unit) {
    unit->walked = true;
    if (!host_abbreviations_read(&unit->abbreviations, units->sections.abbrev, unit->head.abbreviations)) return;
    struct walk *walk = host_grow(NULL, sizeof *walk);
    struct host_range *room = host_grow(NULL, MOST_OF_ENTRY * sizeof *room);
    memset(walk, 0, sizeof *walk);
    struct host_cursor c = cursor_of(units, unit);
    while (!c.bad && c.at < c.end && count_of(walk) < HOST_NO_ENTRY - 1 && walk_on(units, unit, walk, &c, room)) {
    }
    while (walk->depth) close_entry(walk, walk->open[--walk->depth]);
    unit->entries = (struct host_entry *)walk->entries.data;
    unit->n_entries = count_of(walk);
    unit->ranges = (struct host_range *)walk->ranges.data;
    unit->n_ranges = walk->ranges.size / sizeof *room;
    unit->known = (struct host_known_call *)walk->known.data;
    unit->n_known = walk->known.size / sizeof *unit->known;
    if (unit->n_known) qsort(unit->known, unit->n_known, sizeof *unit->known, by_return);
    free(room);
    free(walk);
    read_roots(unit);
}

/* ---- questions ---------------------------------------------------------------------------------------------------------------------- */

static struct host_unit *ready(struct host_units *units, struct host_unit *unit) {
    if (!unit->walked) read_entries(units, unit);
    return unit;
}

/* The index that owns an address, or HOST_NO_ENTRY. */
static uint32_t owner_of(const struct host_owner *owners, size_t n, uint64_t address) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (owners[middle].range.low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t tries = 0; low && tries < 16; low--, tries++) /* ranges may overlap in odd files */
        if (address < owners[low - 1].range.high) return owners[low - 1].index;
    return HOST_NO_ENTRY;
}

struct host_unit *host_unit_of_address(struct host_units *units, uint64_t address) {
    uint32_t index = owner_of(units->ranges, units->n_ranges, address);
    return index == HOST_NO_ENTRY ? NULL : ready(units, &units->all[index]);
}

struct host_unit *host_unit_of_offset(struct host_units *units, uint64_t offset) {
    size_t low = 0, high = units->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (units->all[middle].head.offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low && offset < units->all[low - 1].head.end ? ready(units, &units->all[low - 1]) : NULL;
}

struct host_entry *host_unit_entry(struct host_unit *unit, uint64_t offset) {
    size_t low = 0, high = unit->n_entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unit->entries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < unit->n_entries && unit->entries[low].offset == offset ? &unit->entries[low] : NULL;
}

bool host_entry_covers(const struct host_unit *unit, const struct host_entry *entry, uint64_t address) {
    for (size_t i = 0; i < entry->n_ranges; i++) {
        struct host_range range = unit->ranges[entry->first_range + i];
        if (address >= range.low && address < range.high) return true;
    }
    return false;
}

uint32_t host_unit_function(const struct host_unit *unit, uint64_t address) {
    return owner_of(unit->roots, unit->n_roots, address);
}

uint32_t host_unit_innermost(const struct host_unit *unit, uint32_t function, uint64_t address) {
    uint32_t found = function;
    for (uint32_t i = function + 1, end = unit->entries[function].end; i < end;) {
        const struct host_entry *entry = &unit->entries[i];
        if (entry->kind == HOST_ENTRY_INLINED && host_entry_covers(unit, entry, address)) {
            found = i++;
            end = entry->end;
        } else {
            i = entry->end > i ? entry->end : i + 1;
        }
    }
    return found;
}

uint64_t host_unit_known_call(const struct host_unit *unit, uint64_t after) {
    struct host_known_call key = {.after = after};
    const struct host_known_call *found =
        unit->n_known ? bsearch(&key, unit->known, unit->n_known, sizeof key, by_return) : NULL;
    return found ? found->origin : 0;
}

const struct host_row *host_unit_row(struct host_units *units, struct host_unit *unit, uint64_t address) {
    if (!unit->lines_read) {
        unit->lines_read = true;
        if (unit->has_lines) host_lines_read(&unit->lines, units->sections.line, unit->lines_at);
    }
    return host_lines_find(&unit->lines, address);
}

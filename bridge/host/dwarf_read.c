/* dwarf_read.c: numbers, attributes and abbreviations of debug information. */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "dwarf_read.h"

/* ---- numbers ------------------------------------------------------------------------------------------------------------ */

struct host_cursor host_cursor_at(struct host_bytes bytes, uint64_t offset) {
    if (offset > bytes.size || !bytes.at) return (struct host_cursor){.bad = true};
    return (struct host_cursor){bytes.at + offset, bytes.at + bytes.size, false};
}

void host_read_over(struct host_cursor *c, uint64_t size) {
    if (c->bad || size > (uint64_t)(c->end - c->at))
        c->bad = true;
    else
        c->at += size;
}

uint64_t host_read(struct host_cursor *c, unsigned size) {
    const unsigned char *from = c->at;
    uint64_t value = 0;
    host_read_over(c, size);
    if (!c->bad && size <= 8) memcpy(&value, from, size);
    return value;
}

uint64_t host_read_uleb(struct host_cursor *c) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = host_read(c, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        if (c->bad || !(byte & 0x80)) return value;
    }
}

int64_t host_read_sleb(struct host_cursor *c) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = host_read(c, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        if (c->bad) return 0;
        if (byte & 0x80) continue;
        if (shift + 7 < 64 && byte & 0x40) value |= ~0ull << (shift + 7);
        return (int64_t)value;
    }
}

const char *host_read_text(struct host_cursor *c) {
    const char *text = (const char *)c->at;
    const unsigned char *end = c->bad ? NULL : memchr(c->at, 0, (size_t)(c->end - c->at));
    if (!end) {
        c->bad = true;
        return "";
    }
    c->at = end + 1;
    return text;
}

bool host_read_length(struct host_cursor *c, unsigned *offset_size) {
    uint64_t length = host_read(c, 4);
    *offset_size = 4;
    if (length == 0xffffffff) {
        length = host_read(c, 8);
        *offset_size = 8;
    }
    if (c->bad || !length || length > (uint64_t)(c->end - c->at)) return false;
    c->end = c->at + length;
    return true;
}

static const char *text_in(struct host_bytes section, uint64_t offset) {
    struct host_cursor c = host_cursor_at(section, offset);
    return host_read_text(&c);
}

/* ---- abbreviations ------------------------------------------------------------------------------------------------------- */

static int by_code(const void *a, const void *b) {
    const struct host_abbreviation *x = a, *y = b;
    return x->code < y->code ? -1 : x->code > y->code;
}

bool host_abbreviations_read(struct host_abbreviations *a, struct host_bytes section, uint64_t offset) {
    struct buffer all = {0}, attributes = {0};
    struct host_cursor c = host_cursor_at(section, offset);
    bool sorted = true;
    uint64_t last = 0;
    for (;;) {
        struct host_abbreviation one = {.code = host_read_uleb(&c)};
        if (c.bad || !one.code) break;
        one.tag = host_read_uleb(&c);
        one.has_children = host_read(&c, 1);
        one.first = attributes.size / sizeof(struct host_attribute);
        for (;; one.n++) {
            struct host_attribute attribute = {.name = host_read_uleb(&c)};
            attribute.form = host_read_uleb(&c);
            if (attribute.form == 0x21) attribute.implicit = host_read_sleb(&c);
            if (c.bad || (!attribute.name && !attribute.form)) break;
            host_buffer_add(&attributes, &attribute, sizeof attribute);
        }
        host_buffer_add(&all, &one, sizeof one);
        sorted = sorted && one.code > last;
        last = one.code;
    }
    *a = (struct host_abbreviations){(struct host_abbreviation *)all.data, all.size / sizeof *a->all,
                                     (struct host_attribute *)attributes.data, attributes.size / sizeof *a->attributes};
    if (!sorted) qsort(a->all, a->n, sizeof *a->all, by_code);
    return !c.bad && a->n;
}

void host_abbreviations_free(struct host_abbreviations *a) {
    free(a->all);
    free(a->attributes);
    *a = (struct host_abbreviations){0};
}

const struct host_abbreviation *host_abbreviation(const struct host_abbreviations *a, uint64_t code) {
    if (code && code <= a->n && a->all[code - 1].code == code) return &a->all[code - 1];
    struct host_abbreviation key = {.code = code};
    return a->n ? bsearch(&key, a->all, a->n, sizeof key, by_code) : NULL;
}

/* ---- attributes ------------------------------------------------------------------------------------------------------------ */

enum form {
    ADDR = 0x01,
    BLOCK2 = 0x03,
    BLOCK4,
    DATA2,
    DATA4,
    DATA8,
    STRING,
    BLOCK,
    BLOCK1,
    DATA1,
    FLAG,
    SDATA,
    STRP,
    UDATA,
    REF_ADDR,
    REF1,
    REF2,
    REF4,
    REF8,
    REF_UDATA,
    INDIRECT,
    SEC_OFFSET,
    EXPRLOC,
    FLAG_PRESENT,
    STRX,
    ADDRX,
    REF_SUP4,
    STRP_SUP,
    DATA16,
    LINE_STRP,
    REF_SIG8,
    IMPLICIT_CONST,
    LOCLISTX,
    RNGLISTX,
    REF_SUP8,
    STRX1,
    STRX2,
    STRX3,
    STRX4,
    ADDRX1,
    ADDRX2,
    ADDRX3,
    ADDRX4,
    GNU_ADDR_INDEX = 0x1f01,
    GNU_STR_INDEX = 0x1f02,
    GNU_REF_ALT = 0x1f20,
    GNU_STRP_ALT = 0x1f21
};

static struct host_value constant(uint64_t number) {
    return (struct host_value){HOST_VALUE_CONSTANT, number, NULL};
}
static struct host_value text(const char *text) {
    return (struct host_value){HOST_VALUE_TEXT, 0, text};
}
static struct host_value entry(uint64_t at) {
    return (struct host_value){HOST_VALUE_ENTRY, at, NULL};
}

static struct host_value other(struct host_cursor *c, uint64_t size) {
    host_read_over(c, size);
    return (struct host_value){0};
}

static uint64_t scaled(uint64_t base, uint64_t index, unsigned size) {
    return index > (1ull << 40) ? ~0ull : base + index * size;
}

static struct host_value text_of(const struct host_dwarf_sections *s, const struct host_unit_head *u, uint64_t index) {
    struct host_cursor c = host_cursor_at(s->str_offsets, scaled(u->str_offsets_base, index, u->offset_size));
    return text(text_in(s->str, host_read(&c, u->offset_size)));
}

static struct host_value address_of(const struct host_dwarf_sections *s, const struct host_unit_head *u,
                                    uint64_t index) {
    struct host_cursor c = host_cursor_at(s->addr, scaled(u->addr_base, index, u->address_size));
    return (struct host_value){HOST_VALUE_ADDRESS, host_read(&c, u->address_size), NULL};
}

/* Numbers, and what is passed over. */
static struct host_value read_number(const struct host_unit_head *u, struct host_cursor *c, uint64_t form,
                                     int64_t implicit) {
    static const unsigned char sizes[] = {[DATA1] = 1, [FLAG] = 1, [DATA2] = 2, [DATA4] = 4, [DATA8] = 8};
    static const unsigned char others[] = {[DATA16] = 16, [REF_SUP4] = 4, [REF_SIG8] = 8, [REF_SUP8] = 8};
    static const unsigned char blocks[] = {[BLOCK1] = 1, [BLOCK2] = 2, [BLOCK4] = 4};
    if (form < sizeof sizes && sizes[form]) return constant(host_read(c, sizes[form]));
    if (form < sizeof others && others[form]) return other(c, others[form]);
    if (form < sizeof blocks && blocks[form]) return other(c, host_read(c, blocks[form]));
    if (form == UDATA) return constant(host_read_uleb(c));
    if (form == SDATA) return constant((uint64_t)host_read_sleb(c));
    if (form == SEC_OFFSET) return constant(host_read(c, u->offset_size));
    if (form == FLAG_PRESENT) return constant(1);
    if (form == IMPLICIT_CONST) return constant((uint64_t)implicit);
    if (form == BLOCK || form == EXPRLOC) return other(c, host_read_uleb(c));
    if (form == STRP_SUP || form == GNU_REF_ALT || form == GNU_STRP_ALT) return other(c, u->offset_size);
    if (form == RNGLISTX) return (struct host_value){HOST_VALUE_RANGES, host_read_uleb(c), NULL};
    if (form == LOCLISTX)
        host_read_uleb(c);
    else
        c->bad = true; /* a form that we cannot pass over */
    return (struct host_value){0};
}

struct host_value host_read_attribute(const struct host_dwarf_sections *s, const struct host_unit_head *u,
                                      struct host_cursor *c, const struct host_attribute *attribute) {
    static const unsigned char references[] = {[REF1] = 1, [REF2] = 2, [REF4] = 4, [REF8] = 8};
    uint64_t form = attribute->form;
    for (unsigned i = 0; form == INDIRECT && i < 4; i++) form = host_read_uleb(c);
    if (form < sizeof references && references[form]) return entry(u->offset + host_read(c, references[form]));
    if (form == REF_UDATA) return entry(u->offset + host_read_uleb(c));
    if (form == REF_ADDR) return entry(host_read(c, u->version < 3 ? u->address_size : u->offset_size));
    if (form == STRING) return text(host_read_text(c));
    if (form == STRP) return text(text_in(s->str, host_read(c, u->offset_size)));
    if (form == LINE_STRP) return text(text_in(s->line_str, host_read(c, u->offset_size)));
    if (form == STRX || form == GNU_STR_INDEX) return text_of(s, u, host_read_uleb(c));
    if (form >= STRX1 && form <= STRX4) return text_of(s, u, host_read(c, (unsigned)(form - STRX1 + 1)));
    if (form == ADDR) return (struct host_value){HOST_VALUE_ADDRESS, host_read(c, u->address_size), NULL};
    if (form == ADDRX || form == GNU_ADDR_INDEX) return address_of(s, u, host_read_uleb(c));
    if (form >= ADDRX1 && form <= ADDRX4) return address_of(s, u, host_read(c, (unsigned)(form - ADDRX1 + 1)));
    return read_number(u, c, form, attribute->implicit);
}

/* ---- ranges -------------------------------------------------------------------------------------------------------------- */

static size_t old_ranges(const struct host_dwarf_sections *s, const struct host_unit_head *u, uint64_t base,
                         uint64_t offset, struct host_range *ranges, size_t most) {
    struct host_cursor c = host_cursor_at(s->ranges, offset);
    uint64_t largest = u->address_size == 4 ? 0xffffffff : ~0ull;
    size_t n = 0;
    for (bool first = true; n < most; first = false) {
        uint64_t low = host_read(&c, u->address_size), high = host_read(&c, u->address_size);
        /* GCC also begins lists so, with an empty range at the start of the unit. It writes no empty lists. */
        if (first && !c.bad && !low && !high) continue;
        if (c.bad || (!low && !high)) break;
        if (low == largest)
            base = high;
        else if (low < high)
            ranges[n++] = (struct host_range){base + low, base + high};
    }
    return n;
}

/* One entry of .debug_rnglists: false at the end. */
static bool new_range(const struct host_dwarf_sections *s, const struct host_unit_head *u, struct host_cursor *c,
                      uint64_t *base, struct host_range *range) {
    uint64_t kind = host_read(c, 1);
    *range = (struct host_range){0};
    if (kind == 1) { /* base_addressx */
        *base = address_of(s, u, host_read_uleb(c)).number;
    } else if (kind == 2) { /* startx_endx */
        range->low = address_of(s, u, host_read_uleb(c)).number;
        range->high = address_of(s, u, host_read_uleb(c)).number;
    } else if (kind == 3) { /* startx_length */
        range->low = address_of(s, u, host_read_uleb(c)).number;
        range->high = range->low + host_read_uleb(c);
    } else if (kind == 4) { /* offset_pair */
        range->low = *base + host_read_uleb(c);
        range->high = *base + host_read_uleb(c);
    } else if (kind == 5) { /* base_address */
        *base = host_read(c, u->address_size);
    } else if (kind == 6) { /* start_end */
        range->low = host_read(c, u->address_size);
        range->high = host_read(c, u->address_size);
    } else if (kind == 7) { /* start_length */
        range->low = host_read(c, u->address_size);
        range->high = range->low + host_read_uleb(c);
    } else {
        return false;
    }
    return !c->bad;
}

size_t host_read_ranges(const struct host_dwarf_sections *s, const struct host_unit_head *u, uint64_t base,
                        struct host_value where, struct host_range *ranges, size_t most) {
    uint64_t offset = where.number;
    if (u->version < 5) return old_ranges(s, u, base, offset, ranges, most);
    if (where.kind == HOST_VALUE_RANGES) {
        struct host_cursor index = host_cursor_at(s->rnglists, scaled(u->rnglists_base, offset, u->offset_size));
        offset = u->rnglists_base + host_read(&index, u->offset_size);
        if (index.bad) return 0;
    }
    struct host_cursor c = host_cursor_at(s->rnglists, offset);
    struct host_range range;
    size_t n = 0;
    while (n < most && new_range(s, u, &c, &base, &range))
        if (range.low < range.high) ranges[n++] = range;
    return n;
}

/* unwind.c: a reader of .eh_frame, for the few rules that matter to whoever looks for return addresses.
 *
 * libgcc and libunwind do this and much more, but libars needs libc and libm only, and paths.c wants the rules themselves:
 * it follows them again, without reading them again. Registers other than rsp and rbp are not followed: compilers for x86-64
 * count the CFA from no others (a function that aligns its stack keeps the old one in its frame).
 *
 * The tables are part of the program's read-only memory and are as right as its code is. */
#define _GNU_SOURCE
#include "unwind.h"

#include <link.h>
#include <string.h>

/* ---- modules ------------------------------------------------------------------------------------------------------------ */

struct search {
    uintptr_t address;
    struct ars__module found;
};

static int look_at_module(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *s = data;
    const unsigned char *tables = NULL;
    bool holds = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && s->address - from < p->p_memsz) holds = true;
        if (p->p_type == PT_GNU_EH_FRAME) tables = (const unsigned char *)from;
    }
    if (!holds) return 0;
    s->found = (struct ars__module){info->dlpi_name ? info->dlpi_name : "", info->dlpi_addr, tables};
    return 1;
}

struct ars__module ars__module_of(uintptr_t address) {
    struct search s = {address, {NULL, 0, NULL}};
    dl_iterate_phdr(look_at_module, &s);
    return s.found;
}

#if defined(__x86_64__)

/* ---- numbers ------------------------------------------------------------------------------------------------------------- */

struct reader {
    const unsigned char *at, *end;
};

static uint64_t fixed(struct reader *r, size_t size) {
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < size) {
        r->at = r->end;
        return 0;
    }
    memcpy(&value, r->at, size);
    r->at += size;
    return value;
}

static uint64_t uleb(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0; r->at < r->end; shift += 7) {
        const unsigned char byte = *r->at++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) break;
    }
    return value;
}

static int64_t sleb(struct reader *r) {
    uint64_t value = 0;
    unsigned shift = 0;
    unsigned char byte = 0;
    while (r->at < r->end) {
        byte = *r->at++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) break;
    }
    if (shift < 64 && (byte & 0x40)) value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

/* A pointer in one of the encodings of the tables. `relative`: with what it is relative to; a length has none. */
static uint64_t encoded(struct reader *r, unsigned encoding, bool relative) {
    const uint64_t here = (uintptr_t)r->at;
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x01:
        value = uleb(r);
        break;
    case 0x02:
        value = fixed(r, 2);
        break;
    case 0x03:
        value = fixed(r, 4);
        break;
    case 0x09:
        value = (uint64_t)sleb(r);
        break;
    case 0x0a:
        value = (uint64_t)(int64_t)(int16_t)fixed(r, 2);
        break;
    case 0x0b:
        value = (uint64_t)(int64_t)(int32_t)fixed(r, 4);
        break;
    default:
        value = fixed(r, 8);
    }
    return relative && (encoding & 0x70) == 0x10 ? value + here : value;
}

/* ---- the tables: a CIE is what many functions share, an FDE is of one function ------------------------------------------ */

struct description {
    struct reader common, own; /* instructions: of the CIE, of the FDE */
    uint64_t code_align;
    int64_t data_align;
    unsigned encoding;
    uintptr_t from, size; /* of the function */
};

static bool entry_at(const unsigned char *at, struct reader *r) {
    uint32_t size;
    memcpy(&size, at, sizeof size);
    *r = (struct reader){at + 4, at + 4 + size};
    return size && size != 0xffffffffu;
}

static bool read_cie(const unsigned char *at, struct description *d, bool *augmented) {
    struct reader r;
    if (!entry_at(at, &r) || fixed(&r, 4) != 0) return false;
    const unsigned version = (unsigned)fixed(&r, 1);
    const char *letters = (const char *)r.at;
    r.at += strlen(letters) + 1;
    d->code_align = uleb(&r);
    d->data_align = sleb(&r);
    const uint64_t return_column = version == 1 ? fixed(&r, 1) : uleb(&r);
    d->encoding = 0;
    *augmented = *letters == 'z';
    if ((*letters && !*augmented) || return_column != 16) return false;
    if (*augmented) {
        const uint64_t size = uleb(&r);
        struct reader extra = {r.at, r.at + size};
        r.at += size;
        for (letters++; *letters; letters++) {
            if (*letters == 'R')
                d->encoding = (unsigned)fixed(&extra, 1);
            else if (*letters == 'P')
                encoded(&extra, (unsigned)fixed(&extra, 1), false);
            else if (*letters == 'L')
                fixed(&extra, 1);
            else
                return false; /* 'S' is a signal's frame: what was interrupted made no call */
        }
    }
    d->common = r;
    return true;
}

static bool read_fde(const unsigned char *at, struct description *d) {
    struct reader r;
    bool augmented;
    if (!entry_at(at, &r)) return false;
    const unsigned char *field = r.at;
    const uint32_t back = (uint32_t)fixed(&r, 4);
    if (!back || !read_cie(field - back, d, &augmented)) return false;
    d->from = encoded(&r, d->encoding, true);
    d->size = encoded(&r, d->encoding, false);
    if (augmented) {
        const uint64_t size = uleb(&r);
        r.at += size;
    }
    d->own = r;
    return true;
}

/* By bisection in the table of .eh_frame_hdr, whose entries all linkers write in this form. */
static const unsigned char *find_fde(const unsigned char *header, uintptr_t address) {
    enum { VERSION = 1, COUNT_OF_4 = 0x03, RELATIVE_TO_HEADER = 0x3b };
    if (header[0] != VERSION || header[2] != COUNT_OF_4 || header[3] != RELATIVE_TO_HEADER) return NULL;
    struct reader r = {header + 4, header + 64};
    encoded(&r, header[1], false);
    const uint32_t n = (uint32_t)fixed(&r, 4);
    const unsigned char *table = r.at;
    const int64_t wanted = (int64_t)(address - (uintptr_t)header);
    uint32_t low = 0, high = n;
    int32_t pair[2];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        memcpy(pair, table + 8 * (size_t)middle, sizeof pair);
        if (pair[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low) return NULL;
    memcpy(pair, table + 8 * (size_t)(low - 1), sizeof pair);
    return header + pair[1];
}

/* ---- the rules at one address -------------------------------------------------------------------------------------------- */

enum { RBP = 6, RSP = 7, RETURN = 16, MOST_REMEMBERED = 8 };

struct row {
    struct ars__unwind_rule rule;
    bool odd_cfa, odd; /* something that we do not follow: about the CFA, about registers */
};

struct machine {
    const struct description *d;
    struct row row, initial, remembered[MOST_REMEMBERED];
    unsigned n_remembered;
    uintptr_t at;
};

/* rbp + offset, or what is stored there: all that compilers need expressions for. */
static bool simple_expression(struct reader *r, int32_t *offset, bool *deref) {
    enum { BREG6 = 0x76, DEREF = 0x06 };
    const uint64_t size = uleb(r);
    struct reader e = {r->at, r->at + size};
    r->at += size;
    if (fixed(&e, 1) != BREG6) return false;
    *offset = (int32_t)sleb(&e);
    *deref = e.at < e.end;
    return !*deref || (fixed(&e, 1) == DEREF && e.at == e.end);
}

static void set_cfa(struct row *row, uint64_t reg, int64_t offset) {
    row->odd_cfa = reg != RBP && reg != RSP;
    row->rule.from_rbp = reg == RBP;
    row->rule.deref = false;
    row->rule.offset = (int32_t)offset;
}

static void set_register(struct row *row, uint64_t reg, int64_t offset) {
    if (reg == RETURN) row->odd |= offset != -8;
    if (reg != RBP) return;
    row->rule.rbp = ARS__RBP_AT_CFA;
    row->rule.rbp_offset = (int32_t)offset;
}

static void restore_register(struct machine *m, uint64_t reg) {
    if (reg != RBP) return;
    m->row.rule.rbp = m->initial.rule.rbp;
    m->row.rule.rbp_offset = m->initial.rule.rbp_offset;
}

/* Expressions for the CFA (0x0f), and for where a register is saved (0x10). */
static void by_expression(struct row *row, unsigned op, struct reader *r) {
    int32_t offset = 0;
    bool deref = false;
    const uint64_t reg = op == 0x0f ? RSP : uleb(r);
    const bool simple = simple_expression(r, &offset, &deref);
    if (op == 0x0f) {
        row->odd_cfa = !simple;
        row->rule.from_rbp = true;
        row->rule.deref = deref;
        row->rule.offset = offset;
    } else if (reg == RBP || reg == RETURN) {
        row->odd |= !simple || deref || reg == RETURN;
        row->rule.rbp = ARS__RBP_AT_RBP;
        row->rule.rbp_offset = offset;
    }
}

static void remember(struct machine *m) {
    if (m->n_remembered < MOST_REMEMBERED)
        m->remembered[m->n_remembered++] = m->row;
    else
        m->row.odd = true;
}

static void recall(struct machine *m) {
    if (m->n_remembered)
        m->row = m->remembered[--m->n_remembered];
    else
        m->row.odd = true;
}

/* Rules about registers, whose operands are numbers. */
static void about_register(struct machine *m, unsigned op, struct reader *r) {
    struct row *row = &m->row;
    const uint64_t reg = uleb(r);
    const int64_t align = m->d->data_align;
    switch (op) {
    case 0x05: /* offset_extended */
        set_register(row, reg, (int64_t)uleb(r) * align);
        break;
    case 0x11: /* offset_extended_sf */
        set_register(row, reg, sleb(r) * align);
        break;
    case 0x2f: /* GNU_negative_offset_extended */
        set_register(row, reg, -(int64_t)uleb(r) * align);
        break;
    case 0x06: /* restore_extended */
        restore_register(m, reg);
        break;
    case 0x07: /* undefined */
        row->rule.outermost |= reg == RETURN;
        break;
    case 0x08: /* same_value */
        if (reg == RBP) row->rule.rbp = ARS__RBP_SAME;
        break;
    case 0x0c: /* def_cfa */
        set_cfa(row, reg, (int64_t)uleb(r));
        break;
    case 0x12: /* def_cfa_sf */
        set_cfa(row, reg, sleb(r) * align);
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(row, reg, row->rule.offset);
        break;
    default: /* register, val_offset and their like */
        row->odd |= reg == RBP || reg == RETURN;
        sleb(r);
    }
}

static void about_others(struct machine *m, unsigned op, struct reader *r) {
    struct row *row = &m->row;
    switch (op) {
    case 0x00: /* nop */
        break;
    case 0x01: /* set_loc */
        m->at = encoded(r, m->d->encoding, true);
        break;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        m->at += fixed(r, (size_t)1 << (op - 2)) * m->d->code_align;
        break;
    case 0x0a:
        remember(m);
        break;
    case 0x0b:
        recall(m);
        break;
    case 0x0e: /* def_cfa_offset */
        row->rule.offset = (int32_t)uleb(r);
        row->odd_cfa |= row->rule.deref;
        break;
    case 0x13: /* def_cfa_offset_sf */
        row->rule.offset = (int32_t)(sleb(r) * m->d->data_align);
        row->odd_cfa |= row->rule.deref;
        break;
    case 0x0f:
    case 0x10:
        by_expression(row, op, r);
        break;
    case 0x16: { /* val_expression */
        const uint64_t reg = uleb(r), size = uleb(r);
        row->odd |= reg == RBP || reg == RETURN;
        r->at += size;
        break;
    }
    case 0x2e: /* GNU_args_size */
        uleb(r);
        break;
    default:
        about_register(m, op, r);
    }
}

/* Up to the row of the address. */
static void follow(struct machine *m, struct reader r, uintptr_t address) {
    while (r.at < r.end) {
        const unsigned char byte = *r.at++;
        const unsigned low = byte & 0x3f;
        switch (byte >> 6) {
        case 1: /* advance_loc */
            m->at += low * m->d->code_align;
            break;
        case 2: /* offset */
            set_register(&m->row, low, (int64_t)uleb(&r) * m->d->data_align);
            break;
        case 3: /* restore */
            restore_register(m, low);
            break;
        default:
            about_others(m, byte, &r);
        }
        if (m->at > address) return;
    }
}

bool ars__unwind_find(uintptr_t return_address, struct ars__unwind_rule *rule) {
    const uintptr_t address = return_address - 1; /* the call itself may be the last of its function */
    const struct ars__module module = ars__module_of(address);
    const unsigned char *fde = module.tables ? find_fde(module.tables, address) : NULL;
    struct description d;
    if (!fde || !read_fde(fde, &d) || address - d.from >= d.size) return false;
    struct machine m = {.d = &d, .at = d.from};
    follow(&m, d.common, address);
    m.initial = m.row;
    m.at = d.from;
    follow(&m, d.own, address);
    *rule = m.row.rule;
    return !m.row.odd && !m.row.odd_cfa;
}

#else

bool ars__unwind_find(uintptr_t return_address, struct ars__unwind_rule *rule) {
    (void)return_address, (void)rule;
    return false;
}

#endif

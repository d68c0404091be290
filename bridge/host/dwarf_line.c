/* dwarf_line.c: lines and columns of addresses. Files are not read: the calls of a function are ordered by line and column,
 * and a function that is spread over files is rare. */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "dwarf_line.h"

struct program {
    uint64_t least_length, most_operations, range, first_special;
    int line_base;
    unsigned address_size;
    const unsigned char *counts; /* of operands of standard opcodes */
    uint64_t address, operation, line, column;
    struct buffer rows;
};

static bool read_header(struct program *p, struct host_cursor *c) {
    unsigned offset_size;
    if (!host_read_length(c, &offset_size)) return false;
    unsigned version = (unsigned)host_read(c, 2);
    if (version < 2 || version > 5) return false;
    p->address_size = 8;
    if (version >= 5) {
        p->address_size = (unsigned)host_read(c, 1);
        host_read(c, 1);
    }
    uint64_t size = host_read(c, offset_size);
    struct host_cursor program = *c;
    host_read_over(&program, size);
    p->least_length = host_read(c, 1);
    p->most_operations = version >= 4 ? host_read(c, 1) : 1;
    host_read(c, 1); /* default_is_stmt */
    p->line_base = (signed char)host_read(c, 1);
    p->range = host_read(c, 1);
    p->first_special = host_read(c, 1);
    p->counts = c->at;
    host_read_over(c, p->first_special ? p->first_special - 1 : 0);
    if (c->bad || program.bad || !p->range || !p->first_special) return false;
    *c = program;
    return true;
}

static void restart(struct program *p) {
    p->address = p->operation = p->column = 0, p->line = 1;
}

static void add_row(struct program *p, bool end) {
    uint32_t order = (uint32_t)(p->rows.size / sizeof(struct host_row)) + 1;
    struct host_row row = {p->address, end ? 0 : (uint32_t)p->line, (uint32_t)p->column, end ? 0 : order};
    host_buffer_add(&p->rows, &row, sizeof row);
}

static void advance(struct program *p, uint64_t operations) {
    if (p->most_operations <= 1) {
        p->address += p->least_length * operations;
        return;
    }
    p->address += p->least_length * ((p->operation + operations) / p->most_operations);
    p->operation = (p->operation + operations) % p->most_operations;
}

static void extended(struct program *p, struct host_cursor *c) {
    uint64_t size = host_read_uleb(c);
    struct host_cursor inside = *c;
    host_read_over(c, size);
    if (c->bad || !size) return;
    inside.end = c->at;
    uint64_t code = host_read(&inside, 1);
    if (code == 1) { /* end_sequence */
        add_row(p, true);
        restart(p);
    } else if (code == 2) { /* set_address */
        p->address = host_read(&inside, size - 1 <= 8 ? (unsigned)(size - 1) : 8);
        p->operation = 0;
    }
}

static void standard(struct program *p, struct host_cursor *c, uint64_t code) {
    switch (code) {
    case 1:
        add_row(p, false);
        break;
    case 2:
        advance(p, host_read_uleb(c));
        break;
    case 3:
        p->line += (uint64_t)host_read_sleb(c);
        break;
    case 5:
        p->column = host_read_uleb(c);
        break;
    case 8:
        advance(p, (255 - p->first_special) / p->range);
        break;
    case 9:
        p->address += host_read(c, 2), p->operation = 0;
        break;
    default: /* operands that we do not need */
        for (unsigned i = 0; i < p->counts[code - 1]; i++) host_read_uleb(c);
    }
}

/* The last row of an address counts, and the end of one sequence does not hide the start of another. */
static int by_address(const void *a, const void *b) {
    const struct host_row *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void host_lines_read(struct host_lines *lines, struct host_bytes section, uint64_t offset) {
    *lines = (struct host_lines){0};
    struct program p = {0};
    struct host_cursor c = host_cursor_at(section, offset);
    if (!read_header(&p, &c)) return;
    restart(&p);
    while (c.at < c.end && !c.bad) {
        uint64_t code = host_read(&c, 1);
        if (code >= p.first_special) {
            uint64_t special = code - p.first_special;
            advance(&p, special / p.range);
            p.line += (uint64_t)((int64_t)p.line_base + (int64_t)(special % p.range));
            add_row(&p, false);
        } else if (code) {
            standard(&p, &c, code);
        } else {
            extended(&p, &c);
        }
    }
    lines->rows = (struct host_row *)p.rows.data;
    lines->n = p.rows.size / sizeof *lines->rows;
    if (lines->n) qsort(lines->rows, lines->n, sizeof *lines->rows, by_address);
}

void host_lines_free(struct host_lines *lines) {
    free(lines->rows);
    *lines = (struct host_lines){0};
}

const struct host_row *host_lines_find(const struct host_lines *lines, uint64_t address) {
    size_t low = 0, high = lines->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lines->rows[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && lines->rows[low - 1].order ? &lines->rows[low - 1] : NULL;
}

/* dwarf_line.h: lines and columns of addresses, of one compilation unit. */
#ifndef ARS_HOST_DWARF_LINE_H
#define ARS_HOST_DWARF_LINE_H

#include "dwarf_read.h"

struct host_row {
    uint64_t address;
    uint32_t line, column; /* line 0: not known */
    uint32_t order;        /* in the table; 0: the end of a sequence */
};

struct host_lines {
    struct host_row *rows; /* by address */
    size_t n;
};

void host_lines_read(struct host_lines *lines, struct host_bytes section, uint64_t offset);
void host_lines_free(struct host_lines *lines);

/* The row of the instruction at an address, or NULL. */
const struct host_row *host_lines_find(const struct host_lines *lines, uint64_t address);

#endif /* ARS_HOST_DWARF_LINE_H */

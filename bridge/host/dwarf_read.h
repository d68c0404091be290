/* dwarf_read.h: numbers, attributes and abbreviations of debug information (DWARF 2 to 5). Nothing is read outside its section:
 * a cursor that meets the end is bad from then on, and gives zeros. */
#ifndef ARS_HOST_DWARF_READ_H
#define ARS_HOST_DWARF_READ_H

#include "elf_file.h"

struct host_cursor {
    const unsigned char *at, *end;
    bool bad;
};

struct host_cursor host_cursor_at(struct host_bytes bytes, uint64_t offset);
uint64_t host_read(struct host_cursor *c, unsigned size); /* little-endian, of 1 to 8 bytes */
uint64_t host_read_uleb(struct host_cursor *c);
int64_t host_read_sleb(struct host_cursor *c);
const char *host_read_text(struct host_cursor *c); /* "" if it does not end */
void host_read_over(struct host_cursor *c, uint64_t size);
/* The length of a unit; sets the size of offsets in it, 4 or 8. The cursor then ends with the unit. */
bool host_read_length(struct host_cursor *c, unsigned *offset_size);

/* The sections that are needed. */
struct host_dwarf_sections {
    struct host_bytes info, abbrev, str, line_str, str_offsets, addr, ranges, rnglists, line;
};

struct host_attribute {
    uint64_t name, form;
    int64_t implicit;
};

struct host_abbreviation {
    uint64_t code, tag;
    bool has_children;
    size_t first, n; /* attributes */
};

struct host_abbreviations {
    struct host_abbreviation *all; /* by code */
    size_t n;
    struct host_attribute *attributes;
    size_t n_attributes;
};

bool host_abbreviations_read(struct host_abbreviations *a, struct host_bytes section, uint64_t offset);
void host_abbreviations_free(struct host_abbreviations *a);
const struct host_abbreviation *host_abbreviation(const struct host_abbreviations *a, uint64_t code);

/* What attributes need to know about their unit. */
struct host_unit_head {
    uint64_t offset, first, end; /* in .debug_info: of the header, of the first entry, behind the last one */
    uint64_t abbreviations;      /* where they are in .debug_abbrev */
    unsigned version, address_size, offset_size;
    uint64_t str_offsets_base, addr_base, rnglists_base;
};

enum host_value_kind {
    HOST_VALUE_OTHER,
    HOST_VALUE_ADDRESS,
    HOST_VALUE_CONSTANT, /* also offsets into other sections, and flags */
    HOST_VALUE_TEXT,
    HOST_VALUE_ENTRY,  /* an offset in .debug_info */
    HOST_VALUE_RANGES, /* an index of .debug_rnglists */
};

struct host_value {
    enum host_value_kind kind;
    uint64_t number;
    const char *text;
};

struct host_value host_read_attribute(const struct host_dwarf_sections *s, const struct host_unit_head *unit,
                                      struct host_cursor *c, const struct host_attribute *attribute);

struct host_range {
    uint64_t low, high;
};

/* Reads a list of ranges, at most `most`, and returns their number. `base` is the unit's own address. */
size_t host_read_ranges(const struct host_dwarf_sections *s, const struct host_unit_head *unit, uint64_t base,
                        struct host_value where, struct host_range *ranges, size_t most);

#endif /* ARS_HOST_DWARF_READ_H */

/* dwarf_unit.h: compilation units, and in each the functions, their inlined copies and the scopes that have them. */
#ifndef ARS_HOST_DWARF_UNIT_H
#define ARS_HOST_DWARF_UNIT_H

#include "code.h"
#include "dwarf_line.h"
#include "dwarf_read.h"

enum { HOST_NO_ENTRY = UINT32_MAX };

enum host_entry_kind {
    HOST_ENTRY_FUNCTION,
    HOST_ENTRY_INLINED,
    HOST_ENTRY_NAMESPACE,
    HOST_ENTRY_CLASS,
};

/* A function, an inlined copy of one, a namespace or a class. In the order of the file: those inside it follow, up to `end`. */
struct host_entry {
    uint64_t offset; /* in .debug_info */
    enum host_entry_kind kind;
    uint32_t parent, end; /* indices */
    const char *name, *linkage;
    uint64_t origin, specification; /* offsets of other entries; 0: none */
    uint64_t identity;              /* offset of the abstract entry; 0: not asked for yet */
    bool is_virtual, named;         /* named: `display` is known */
    bool scanned;                   /* its machine code is in the unit's calls */
    uint32_t declared;              /* line */
    uint32_t declared_column;       /* 0: not known, as from Clang */
    uint32_t call_line, call_column;
    size_t first_range, n_ranges;
    const char *display; /* readable name */
};

/* A call instruction, or a jump to another function, and the innermost entry that it is in. */
struct host_entry_call {
    struct host_call call;
    uint32_t entry;
};

struct host_owner {
    struct host_range range;
    uint32_t index; /* of a unit or an entry */
};

/* A call whose target the compiler knew. */
struct host_known_call {
    uint64_t after;  /* the address that it returns to */
    uint64_t origin; /* offset of the entry of the function */
};

struct host_unit {
    struct host_unit_head head;
    struct host_abbreviations abbreviations;
    uint64_t base; /* of ranges */
    uint64_t lines_at;
    bool has_lines, walked, lines_read;
    struct host_lines lines;
    struct host_entry *entries; /* by offset */
    size_t n_entries;
    struct host_range *ranges;
    size_t n_ranges;
    struct host_owner *roots; /* ranges of functions, by address */
    size_t n_roots;
    struct host_entry_call *calls;
    size_t n_calls, calls_capacity;
    struct host_known_call *known; /* by address */
    size_t n_known;
    const char **virtuals; /* names of virtual functions, by pointer */
    size_t n_virtuals;
    bool virtuals_known;
};

struct host_units {
    struct host_dwarf_sections sections;
    struct host_unit *all; /* by offset */
    size_t n;
    struct host_owner *ranges; /* of units, by address */
    size_t n_ranges;
};

/* Reads the headers of all units. False if there is no debug information. */
bool host_units_read(struct host_units *units, struct host_elf *elf);
void host_units_free(struct host_units *units);

/* The unit that covers an address, or that has an offset of .debug_info, read as far as its entries; NULL if there is none. */
struct host_unit *host_unit_of_address(struct host_units *units, uint64_t address);
struct host_unit *host_unit_of_offset(struct host_units *units, uint64_t offset);

/* The entry at an offset of this unit, or NULL. */
struct host_entry *host_unit_entry(struct host_unit *unit, uint64_t offset);

/* The function whose machine code has an address, and the innermost inlined copy there, which may be itself; HOST_NO_ENTRY if there
 * is none. */
uint32_t host_unit_function(const struct host_unit *unit, uint64_t address);
uint32_t host_unit_innermost(const struct host_unit *unit, uint32_t function, uint64_t address);
bool host_entry_covers(const struct host_unit *unit, const struct host_entry *entry, uint64_t address);

/* The entry of the function that is called by the instruction before an address; 0 if the debug information does not say. */
uint64_t host_unit_known_call(const struct host_unit *unit, uint64_t after);

/* Line and column of an instruction, or NULL. */
const struct host_row *host_unit_row(struct host_units *units, struct host_unit *unit, uint64_t address);

#endif /* ARS_HOST_DWARF_UNIT_H */

/* elf_file.h: sections and function symbols of an executable or a shared library. Reads the file, never maps it: a file that is
 * replaced or cut while we read gives wrong bytes, not a signal. Every number in it is checked before it is used. */
#ifndef ARS_HOST_ELF_FILE_H
#define ARS_HOST_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_bytes {
    const unsigned char *at;
    size_t size;
};

struct host_section {
    const char *name; /* ends with a 0 inside the file's table of names */
    uint64_t address, offset, size, flags;
    uint32_t type, link;
    bool tried; /* to read it */
    unsigned char *data;
};

struct host_symbol {
    uint64_t address, size;
    const char *name;
    unsigned char rank; /* the symbol with the smaller one names an address that has several */
};

/* A slot of the global offset table that the loader fills: with the address of a named function, or of one of ours. */
struct host_slot {
    uint64_t address;
    const char *name; /* NULL: it is at `target` */
    uint64_t target;
};

struct host_elf {
    int fd;
    uint64_t file_size;
    uint16_t machine;
    struct host_section *sections;
    size_t n_sections;
    struct host_symbol *symbols; /* of functions, by address */
    size_t n_symbols;
    struct host_slot *slots; /* by address */
    size_t n_slots;
    uint64_t *starts; /* of functions according to the unwind table, ascending; for stripped files */
    size_t n_starts;
};

/* False if the file is not a little-endian 64-bit ELF file that can be read; then there is nothing to close. */
bool host_elf_open(struct host_elf *elf, const char *path);
void host_elf_close(struct host_elf *elf);

/* The contents of a section; empty if there is none, it is compressed or it cannot be read. */
struct host_bytes host_elf_section(struct host_elf *elf, const char *name);

/* The machine code from an address to the end of its section; empty if there is none. */
struct host_bytes host_elf_code(struct host_elf *elf, uint64_t address);

/* The function that covers an address, or NULL. */
const struct host_symbol *host_elf_symbol(const struct host_elf *elf, uint64_t address);

/* The number of the function that covers an address, by the order of functions in the file, from 1; 0 if unknown. `start` and
 * `end` are its extent. */
size_t host_elf_number(const struct host_elf *elf, uint64_t address, uint64_t *start, uint64_t *end);

/* What the loader puts at this address of the global offset table, or NULL. */
const struct host_slot *host_elf_slot(const struct host_elf *elf, uint64_t address);

#endif /* ARS_HOST_ELF_FILE_H */

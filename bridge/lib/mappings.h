/* mappings.h: the private memory that the simulator can write to, as the kernel lists it. */
#ifndef ARS_LIB_MAPPINGS_H
#define ARS_LIB_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    ARS__PAGE_BYTES = 4096,
    ARS__MOST_MAPPINGS = 1024,
    ARS__MOST_SPACE = 1 << 22 /* pages of address space that are looked through: 16 GB */
};

/* A private mapping that can be written, as far as it is the simulator's. */
struct ars__mapping {
    uintptr_t from, to;
    uint32_t first; /* number of its first page in the map of present pages */
    bool of_file;   /* an untouched page comes from a file; otherwise it is zero */
    bool is_static; /* the variables of a program or library: from its file, or right behind them */
};

/* A descriptor that the simulator may have closed, and its number given to a file of its own. */
struct ars__proc_file {
    int fd;
    dev_t device;
    ino_t inode;
};

/* Lives in memory that is never put back (kept.h). */
struct ars__mappings {
    struct ars__proc_file file;
    bool queries;          /* the kernel answers questions about mappings one by one */
    uintptr_t ours[2][2];  /* memory that is never put back, and so left out */
    uintptr_t stack_holds; /* an address in the main stack */
    uintptr_t stack_from;  /* where that mapping begins */
    size_t n, n_looked_at;
    struct ars__mapping at[ARS__MOST_MAPPINGS], looked_at[ARS__MOST_MAPPINGS]; /* in the order of their addresses */
    char text[256 << 10]; /* /proc/self/maps, for a kernel that answers no questions */
};

int ars__mappings_open(struct ars__mappings *all); /* 0 or an errno */
bool ars__mappings_look(
    struct ars__mappings *all); /* fills looked_at. False: there are too many, or the kernel does not say */
bool ars__mappings_same(const struct ars__mappings *all); /* at and looked_at */
bool ars__mappings_take(struct ars__mappings *all);       /* at becomes looked_at. False: too much memory */
const struct ars__mapping *ars__mapping_of(const struct ars__mappings *all, uintptr_t address); /* NULL: none */

int ars__open_proc(struct ars__proc_file *file, const char *path); /* 0 or an errno */
bool ars__still_open(const struct ars__proc_file *file);

#endif /* ARS_LIB_MAPPINGS_H */

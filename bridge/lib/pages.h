/* pages.h: the memory that this process may write to: which pages it has written, what was on them at a loop's entry, and how
 * to put that back. For continuations that are undone (rewind.h). */
#ifndef ARS_LIB_PAGES_H
#define ARS_LIB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mappings.h"

enum {
    ARS__MOST_PAGES = 4096, /* put back at a rewind; with more a fork is cheaper */
};

/* A page that is put back, and where its content is kept. */
struct ars__known_page {
    uintptr_t at;
    uint32_t slot;
};

/* Lives in memory that is never put back (kept.h). */
struct ars__pages {
    struct ars__mappings mappings;
    struct ars__proc_file pagemap;
    uintptr_t stack; /* the stack pointer's page at the entry, below which that mapping is dead; 0: it is elsewhere */
    uintptr_t scanned_stack;      /* the same, at the last scan */
    uintptr_t rseq_from, rseq_to; /* written by the kernel at any time */
    long faults;                  /* counted so far: if there are more, a page was written for the first time */
    bool scanned;                 /* what follows is what the kernel says as long as faults and mappings are the same */
    size_t n_pages;               /* known ones, in the order of their addresses */
    unsigned char *saved;         /* their contents at the entry */
    pid_t witness;                /* a copy of the process when it began to rewind, or 0 */
    pid_t sleeper;                /* a copy of the process at the entry, while there is one */
    bool lost;                    /* the content of a page could not be found */
    uint32_t n_missed;            /* pages written though they were shared with the parent, this time */
    uintptr_t missed[64];         /* the first of them */
    struct ars__known_page page[ARS__MOST_PAGES];
    uint64_t present[ARS__MOST_SPACE / 64]; /* anonymous pages that were there at the last scan: a bit each */
    uint64_t entry[4096];                   /* of the kernel's table */
};

/* Makes ready in this process. Returns 0, or an errno that says why not. */
int ars__pages_open(struct ars__pages *p);
/* Notes which pages this process has written so far. False: there are too many. */
bool ars__pages_look(struct ars__pages *p, uintptr_t stack_pointer);
/* The same, before a fork, after which they look like pages that were never written. */
void ars__pages_before_fork(struct ars__pages *p, uintptr_t stack_pointer);
/* Saves what a continuation may write to. Everything above the stack pointer given is alive. False: there is too much. */
bool ars__pages_save(struct ars__pages *p, uintptr_t stack_pointer);
/* Puts everything back. False: it cannot, because the content of the missed pages is lost. Calls nothing in libc. */
bool ars__pages_restore(struct ars__pages *p);
/* Makes these pages this process's own, if they are the simulator's; then they are known when they are written to. */
void ars__pages_own(struct ars__pages *p, const uint64_t *at, size_t n);
/* A copy of the process that remembers every page as it is now, for processes whose habits are not known yet. */
void ars__pages_remember(struct ars__pages *p);
void ars__pages_forget(struct ars__pages *p);
/* The same for the life of this process, and for static data. */
void ars__pages_call_witness(struct ars__pages *p);

#endif /* ARS_LIB_PAGES_H */

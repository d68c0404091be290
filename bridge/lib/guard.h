/* guard.h: keeps a continuation that will be undone from doing what cannot be. See rewind.h. */
#ifndef ARS_LIB_GUARD_H
#define ARS_LIB_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARS__MOST_NEW_MAPPINGS = 128, ARS__OWN_SIGNALS = 5 };

/* sigaction as the kernel knows it. */
struct ars__kernel_action {
    void (*handler)(int, void *, void *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

/* Lives in memory that is never put back (kept.h). */
struct ars__guard {
    volatile char selector; /* read by the kernel at every system call */
    bool on;                /* simulator code of a continuation is running */
    unsigned long mask;     /* signals that were blocked before */
    struct ars__kernel_action sigsys;
    struct ars__kernel_action own[ARS__OWN_SIGNALS]; /* what happens at signals that a continuation causes itself */
    uintptr_t program_break, highest_break;          /* at the entry; since then */
    size_t n_mappings;                               /* made since the entry */
    struct {
        uintptr_t from, to;
    } mapping[ARS__MOST_NEW_MAPPINGS];
};

int ars__guard_open(struct ars__guard *g);   /* once per process; 0 or an errno */
bool ars__guard_enter(struct ars__guard *g); /* before the first continuation of an entry. False: it cannot */
void ars__guard_leave(struct ars__guard *g); /* after the last one */
/* From now on, system calls are looked at; or not, while libars itself makes some. */
void ars__guard_on(struct ars__guard *g);
void ars__guard_off(struct ars__guard *g);
void ars__guard_undo(struct ars__guard *g); /* gives back what the continuation got from the system */

#endif /* ARS_LIB_GUARD_H */

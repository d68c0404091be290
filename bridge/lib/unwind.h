/* unwind.h: how to find the caller of a function, from the tables that compilers make for exceptions (.eh_frame). x86-64
 * only; elsewhere nothing is found, and unnamed draws have the address of their own call alone. */
#ifndef ARS_LIB_UNWIND_H
#define ARS_LIB_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The frame of the function that goes on at some return address, as far as it concerns us. Its CFA is the stack pointer
 * before the call that made it; the return address of that call is at CFA - 8. */
struct ars__unwind_rule {
    bool from_rbp;  /* the CFA is counted from the frame pointer; else from the stack pointer */
    bool deref;     /* it is not at that place, but stored there: a function that aligns its stack */
    int32_t offset; /* from that register */
    enum { ARS__RBP_SAME, ARS__RBP_AT_CFA, ARS__RBP_AT_RBP } rbp; /* where the caller's frame pointer is now */
    int32_t rbp_offset;
    bool outermost; /* it has no caller */
};

/* False: there is no table for this address, or it says what we do not understand. */
bool ars__unwind_find(uintptr_t return_address, struct ars__unwind_rule *rule);

/* The program or library that holds an address. */
struct ars__module {
    const char *path; /* "": the program itself; NULL: none */
    uintptr_t bias;   /* to be taken off an address, for the one at link time */
    const unsigned char *tables;
};
struct ars__module ars__module_of(uintptr_t address);

#endif /* ARS_LIB_UNWIND_H */

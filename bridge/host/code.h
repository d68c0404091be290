/* code.h: the calls in a stretch of machine code. */
#ifndef ARS_HOST_CODE_H
#define ARS_HOST_CODE_H

#include "elf_file.h"

enum host_transfer {
    HOST_CALL,
    HOST_JUMP, /* a tail call, if its target is the entry of another function */
};

struct host_call {
    uint64_t at, after; /* addresses of the instruction and of the one behind it */
    uint64_t target;    /* direct: the address; through a slot of the global offset table: the slot's address */
    enum host_transfer transfer;
    bool slot;     /* `target` is a slot */
    bool indirect; /* through a register or another place in memory: no target */
    bool table;    /* indirect, and a jump within a function, as a switch makes: the target is taken from a table */
};

/* The next call or jump in [address, end), or false. x86-64 and AArch64; none on other machines. */
bool host_code_next(struct host_elf *elf, uint64_t address, uint64_t end, struct host_call *call);

/* The call that returns to this address, or false. A guess from the bytes before it: `at` may be behind a prefix. */
bool host_code_before(struct host_elf *elf, uint64_t after, struct host_call *call);

/* If there is a stub of the procedure linkage table at this address, the slot that it jumps through; else 0. */
uint64_t host_code_stub(struct host_elf *elf, uint64_t address);

#endif /* ARS_HOST_CODE_H */

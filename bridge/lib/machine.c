/* machine.c: registers, stacks and system calls, in the processor's own words. See machine.h. */
#include "machine.h"

#ifdef ARS__HAS_REWIND

_Static_assert(offsetof(struct ars__registers, rsp) == 48 && offsetof(struct ars__registers, rip) == 56 &&
                   offsetof(struct ars__registers, mxcsr) == 64 && offsetof(struct ars__registers, x87) == 72,
               "the offsets below");

/* clang-format off */
__asm__(
    ".macro ars__routine name\n"
    ".balign 16\n"
    ".hidden \\name\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    ".endm\n"
    ".pushsection .text\n"

    /* The stack pointer as it is after the return. fnstenv leaves all exceptions of the x87 masked: hence the fldenv. */
    "ars__routine ars__mark\n"
    "    mov %rbx, 0(%rdi)\n"
    "    mov %rbp, 8(%rdi)\n"
    "    mov %r12, 16(%rdi)\n"
    "    mov %r13, 24(%rdi)\n"
    "    mov %r14, 32(%rdi)\n"
    "    mov %r15, 40(%rdi)\n"
    "    lea 8(%rsp), %rdx\n"
    "    mov %rdx, 48(%rdi)\n"
    "    mov (%rsp), %rdx\n"
    "    mov %rdx, 56(%rdi)\n"
    "    stmxcsr 64(%rdi)\n"
    "    fnstenv 72(%rdi)\n"
    "    fldenv 72(%rdi)\n"
    "    xor %eax, %eax\n"
    "    ret\n"

    "ars__routine ars__jump\n"
    "    mov 0(%rdi), %rbx\n"
    "    mov 8(%rdi), %rbp\n"
    "    mov 16(%rdi), %r12\n"
    "    mov 24(%rdi), %r13\n"
    "    mov 32(%rdi), %r14\n"
    "    mov 40(%rdi), %r15\n"
    "    mov 48(%rdi), %rsp\n"
    "    ldmxcsr 64(%rdi)\n"
    "    fldenv 72(%rdi)\n"
    "    cld\n"
    "    mov $1, %eax\n"
    "    jmp *56(%rdi)\n"

    "ars__routine ars__on_stack\n"
    "    mov %rdi, %rsp\n"
    "    xor %ebp, %ebp\n"
    "    call *%rsi\n"
    "    ud2\n"

    /* From here to ars__raw_end system calls are let through. The kernel looks at the address behind the instruction. */
    ".balign 64\n"
    ".hidden ars__raw_begin\n"
    ".globl ars__raw_begin\n"
    "ars__raw_begin:\n"

    "ars__routine ars__restorer\n"
    "    mov $15, %eax\n" /* rt_sigreturn */
    "    syscall\n"
    "    ud2\n"

    "ars__routine ars__raw\n"
    "    mov %rdi, %rax\n"
    "    mov %rsi, %rdi\n"
    "    mov %rdx, %rsi\n"
    "    mov %rcx, %rdx\n"
    "    mov %r8, %r10\n"
    "    mov %r9, %r8\n"
    "    mov 8(%rsp), %r9\n"
    "    syscall\n"
    "    ret\n"

    /* clone without a stack of its own, and without a signal when it ends. The child uses registers only. */
    "ars__routine ars__clone_sleeper\n"
    "    mov $56, %eax\n" /* clone */
    "    xor %edi, %edi\n"
    "    xor %esi, %esi\n"
    "    xor %edx, %edx\n"
    "    xor %r10d, %r10d\n"
    "    xor %r8d, %r8d\n"
    "    syscall\n"
    "    test %rax, %rax\n"
    "    jz 1f\n"
    "    ret\n"
    "1:  mov $157, %eax\n" /* prctl(PR_SET_PDEATHSIG, SIGKILL) */
    "    mov $1, %edi\n"
    "    mov $9, %esi\n"
    "    syscall\n"
    "2:  mov $34, %eax\n" /* pause */
    "    syscall\n"
    "    jmp 2b\n"

    ".hidden ars__raw_end\n"
    ".globl ars__raw_end\n"
    "ars__raw_end:\n"
    ".popsection\n"
    ".purgem ars__routine\n"
);
/* clang-format on */

#endif

/* machine.c: registers, stacks and system calls, in the processor's own words. See machine.h.
 *
 * Functions and not a file of assembly: a compiler that optimises the whole program has to know them. */
#include "machine.h"

#ifdef ARS__HAS_REWIND

_Static_assert(offsetof(struct ars__registers, rsp) == 48 && offsetof(struct ars__registers, rip) == 56 &&
                   offsetof(struct ars__registers, mxcsr) == 64 && offsetof(struct ars__registers, x87) == 72,
               "the offsets below");

/* noipa: gcc would look into the body for the registers that it changes, and finds none. */
#ifndef __has_attribute
#define __has_attribute(name) 0
#endif
#if __has_attribute(noipa)
#define BARE __attribute__((naked, noinline, noipa, used, no_instrument_function))
#else
#define BARE __attribute__((naked, noinline, used, no_instrument_function))
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The stack pointer as it is after the return. fnstenv leaves all exceptions of the x87 masked: hence the fldenv. */
BARE int ars__mark(struct ars__registers *registers) {
    __asm__("mov %rbx, 0(%rdi)\n\t"
            "mov %rbp, 8(%rdi)\n\t"
            "mov %r12, 16(%rdi)\n\t"
            "mov %r13, 24(%rdi)\n\t"
            "mov %r14, 32(%rdi)\n\t"
            "mov %r15, 40(%rdi)\n\t"
            "lea 8(%rsp), %rdx\n\t"
            "mov %rdx, 48(%rdi)\n\t"
            "mov (%rsp), %rdx\n\t"
            "mov %rdx, 56(%rdi)\n\t"
            "stmxcsr 64(%rdi)\n\t"
            "fnstenv 72(%rdi)\n\t"
            "fldenv 72(%rdi)\n\t"
            "xor %eax, %eax\n\t"
            "ret");
}

BARE _Noreturn void ars__jump(const struct ars__registers *registers) {
    __asm__("mov 0(%rdi), %rbx\n\t"
            "mov 8(%rdi), %rbp\n\t"
            "mov 16(%rdi), %r12\n\t"
            "mov 24(%rdi), %r13\n\t"
            "mov 32(%rdi), %r14\n\t"
            "mov 40(%rdi), %r15\n\t"
            "mov 48(%rdi), %rsp\n\t"
            "ldmxcsr 64(%rdi)\n\t"
            "fldenv 72(%rdi)\n\t"
            "cld\n\t"
            "mov $1, %eax\n\t"
            "jmp *56(%rdi)");
}

BARE _Noreturn void ars__on_stack(void *top, void (*function)(void)) {
    __asm__("mov %rdi, %rsp\n\t"
            "xor %ebp, %ebp\n\t"
            "call *%rsi\n\t"
            "ud2");
}

/* Three routines in one function, so that nothing else gets between them: the kernel lets system calls through from here only, and
 * looks at the address behind the instruction. machine.h has their places.
 *   restorer   15: rt_sigreturn.
 *   sleeper    56: clone, without a stack of its own, and without a signal when it ends. The child uses registers only. It has no
 *              descriptors of its own (0x400: CLONE_FILES), which would keep files open, and locked, that the simulator has closed.
 *              It asks to end with its parent (157: prctl(PR_SET_PDEATHSIG, SIGKILL)), and sleeps (34: pause). */
BARE __attribute__((aligned(64))) long ars__raw(long number, long a, long b, long c, long d, long e, long f) {
    __asm__("mov %rdi, %rax\n\t"
            "mov %rsi, %rdi\n\t"
            "mov %rdx, %rsi\n\t"
            "mov %rcx, %rdx\n\t"
            "mov %r8, %r10\n\t"
            "mov %r9, %r8\n\t"
            "mov 8(%rsp), %r9\n\t"
            "syscall\n\t"
            "ret\n\t"

            ".balign 64\n\t"
            "mov $15, %eax\n\t"
            "syscall\n\t"
            "ud2\n\t"

            ".balign 64\n\t"
            "mov $56, %eax\n\t"
            "mov $0x400, %edi\n\t"
            "xor %esi, %esi\n\t"
            "xor %edx, %edx\n\t"
            "xor %r10d, %r10d\n\t"
            "xor %r8d, %r8d\n\t"
            "syscall\n\t"
            "test %rax, %rax\n\t"
            "jz 1f\n\t"
            "ret\n"
            "1:\n\t"
            "mov $157, %eax\n\t"
            "mov $1, %edi\n\t"
            "mov $9, %esi\n\t"
            "syscall\n"
            "2:\n\t"
            "mov $34, %eax\n\t"
            "syscall\n\t"
            "jmp 2b\n\t"
            ".balign 64");
}

#pragma GCC diagnostic pop

#endif

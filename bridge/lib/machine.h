/* machine.h: the few things about the processor and the kernel that C cannot say, for continuations that are undone
 * (rewind.h). x86-64 Linux; elsewhere ARS__HAS_REWIND is not defined and every loop is forked. */
#ifndef ARS_LIB_MACHINE_H
#define ARS_LIB_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* The sanitizers keep a copy of all memory's state, far larger than what can be looked through. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ARS__SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ARS__SANITIZED
#endif
#if defined(__x86_64__) && defined(__linux__) && !defined(ARS__SANITIZED)
#define ARS__HAS_REWIND
#endif

/* What a function must find in its caller's hands when it returns: the registers that it may not change, where to go on, and
 * both floating-point units with their modes and flags. machine.c has the offsets. */
struct ars__registers {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
    uint32_t mxcsr, reserved;
    unsigned char x87[32]; /* fnstenv: 28 bytes */
};

#ifdef ARS__HAS_REWIND
/* Like setjmp and longjmp, which glibc guards against what is done here: returns 0, and 1 when it is jumped to. */
int ars__mark(struct ars__registers *registers) __attribute__((returns_twice, visibility("hidden")));
_Noreturn void ars__jump(const struct ars__registers *registers) __attribute__((visibility("hidden")));
/* Calls `function`, which does not return, on another stack: its own is about to be overwritten. */
_Noreturn void ars__on_stack(void *top, void (*function)(void)) __attribute__((visibility("hidden")));

/* A system call from the one place that the guard lets through. Returns -errno if it fails; touches no memory of libc. */
long ars__raw(long number, long a, long b, long c, long d, long e, long f) __attribute__((visibility("hidden")));
enum { ARS__RESTORER_AT = 64, ARS__SLEEPER_AT = 128, ARS__RAW_SIZE = 192 };

/* How the guard's signal handler returns. */
static inline void (*ars__restorer(void))(void) {
    return (void (*)(void))((uintptr_t)ars__raw + ARS__RESTORER_AT);
}

/* A copy of this process that never writes to its memory: it sleeps until it is killed. Returns its id, or -errno. */
static inline long ars__clone_sleeper(void) {
    return ((long (*)(void))((uintptr_t)ars__raw + ARS__SLEEPER_AT))();
}

/* memcpy of whole words, which no linker has to look up. */
static inline void ars__copy(void *to, const void *from, size_t size) {
    size /= 8;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(size)::"memory");
}
static inline void ars__clear(void *to, size_t size) {
    size /= 8;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(size) : "a"(0) : "memory");
}

/* The processor's clock: it counts, and nobody has to be asked. */
static inline uint64_t ars__ticks(void) {
    return __builtin_ia32_rdtsc();
}

/* Not 0: the processor checks return addresses against a stack of its own, which cannot be put back. */
static inline uint64_t ars__shadow_stack(void) {
    uint64_t pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer)); /* nothing happens without one */
    return pointer;
}
#else
static inline uint64_t ars__ticks(void) {
    return 0;
}
#endif

#endif /* ARS_LIB_MACHINE_H */

/* test_machine.c: a jump back to a mark finds every register that a function must keep, and both floating-point units, as they
 * were. */
#include <fenv.h>

#include "check.h"
#include "machine.h"

#ifdef ARS__HAS_REWIND

/* Fills the registers, marks, destroys them, jumps back: returns a bit for each register that is not what it was. */
unsigned lost_registers(struct ars__registers *registers);

/* clang-format off */
__asm__(
    ".text\n"
    ".globl lost_registers\n"
    "lost_registers:\n"
    "    push %rbx\n"
    "    push %rbp\n"
    "    push %r12\n"
    "    push %r13\n"
    "    push %r14\n"
    "    push %r15\n"
    "    push %rdi\n"
    "    mov $101, %rbx\n"
    "    mov $102, %rbp\n"
    "    mov $103, %r12\n"
    "    mov $104, %r13\n"
    "    mov $105, %r14\n"
    "    mov $106, %r15\n"
    "    call ars__mark\n"
    "    test %eax, %eax\n"
    "    jnz 1f\n"
    "    mov (%rsp), %rdi\n"
    "    xor %ebx, %ebx\n"
    "    xor %ebp, %ebp\n"
    "    xor %r12d, %r12d\n"
    "    xor %r13d, %r13d\n"
    "    xor %r14d, %r14d\n"
    "    xor %r15d, %r15d\n"
    "    sub $256, %rsp\n"
    "    std\n"
    "    call ars__jump\n"
    "1:  pushf\n"
    "    pop %rdx\n"
    "    shr $10, %rdx\n" /* the direction flag */
    "    and $1, %edx\n"
    "    xor %eax, %eax\n"
    "    cmp $101, %rbx\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %edx\n"
    "    cmp $102, %rbp\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %edx\n"
    "    cmp $103, %r12\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %edx\n"
    "    cmp $104, %r13\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %edx\n"
    "    cmp $105, %r14\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %edx\n"
    "    cmp $106, %r15\n"
    "    setne %al\n"
    "    lea (%rax, %rdx, 2), %eax\n"
    "    pop %rdi\n"
    "    pop %r15\n"
    "    pop %r14\n"
    "    pop %r13\n"
    "    pop %r12\n"
    "    pop %rbp\n"
    "    pop %rbx\n"
    "    ret\n"
);
/* clang-format on */

static unsigned short x87_control(void) {
    unsigned short word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}

/* Modes and flags of both units: those at the mark, whatever was set since. */
static void test_floating_point(int mode, int flag) {
    static struct ars__registers registers;
    static volatile int times;
    static volatile unsigned short control;
    times = 0;
    fesetround(mode);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(flag);
    control = x87_control();
    ars__mark(&registers);
    CHECK(fegetround() == mode);
    CHECK(fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) == flag);
    CHECK(x87_control() == control);
    if (times++ < 2) {
        const unsigned short other = 0x07f;
        fesetround(mode == FE_UPWARD ? FE_DOWNWARD : FE_UPWARD);
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(flag == FE_OVERFLOW ? FE_INVALID : FE_OVERFLOW);
        __asm__ volatile("fldcw %0" : : "m"(other));
        ars__jump(&registers);
    }
    fesetenv(FE_DFL_ENV);
}

int main(void) {
    struct ars__registers registers;
    CHECK(lost_registers(&registers) == 0);
    test_floating_point(FE_TONEAREST, FE_DIVBYZERO);
    test_floating_point(FE_DOWNWARD, FE_OVERFLOW);
    test_floating_point(FE_UPWARD, FE_UNDERFLOW);
    return check_failures != 0;
}

#else

int main(void) {
    return check_failures ? 1 : 77; /* loops are forked here */
}

#endif

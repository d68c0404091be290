/* guard.c: keeps a continuation that will be undone from doing what cannot be.
 *
 * Memory can be put back, a file that was written cannot. So while simulator code of a continuation runs, every system call is
 * stopped before it happens (Syscall User Dispatch, Linux 5.11): one byte says whether, the kernel sends SIGSYS instead, and the
 * handler decides:
 *   - what has no effect that lasts, is done: asking for the time, for random bytes, for memory that nobody had;
 *   - output to the standard output is swallowed, as it is in a forked continuation, which prints to nowhere;
 *   - everything else ends the continuation: it is undone, and the loop is forked from then on (ars__rewind_refuse).
 * Only instructions of one function are let through (ars__raw), which is how the handler itself does things and
 * returns. A child, however it is made, has no guard.
 *
 * Signals from elsewhere (timers, the terminal) wait until the estimate is over: their handlers run simulator code. Those that
 * the continuation itself causes do not wait: without a handler they end the process, and the host runs the trace again with
 * this loop forked; with one, the handler runs. Its return is a system call, which is refused; if it jumps out, the continuation goes
 * on. */
#define _GNU_SOURCE
#include "guard.h"
#include "machine.h"
#include "rewind.h"

#ifdef ARS__HAS_REWIND

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2
#endif
enum { DISPATCH_OFF = 0, DISPATCH_ON = 1, ALLOW = 0, BLOCK = 1, RESTORER = 0x04000000 };

/* ---- memory that the continuation gets ------------------------------------------------------------------------------- */

static bool worked(long result) {
    return result >= 0 || result < -4095;
}

static size_t whole_pages(size_t size) {
    return (size + 4095) & ~(size_t)4095;
}

/* The new mapping that holds all of this, or -1. */
static int find_new(const struct ars__guard *g, uintptr_t from, uintptr_t to) {
    for (size_t i = 0; i < g->n_mappings; i++)
        if (from >= g->mapping[i].from && to <= g->mapping[i].to && from < to) return (int)i;
    return -1;
}

static bool is_new(const struct ars__guard *g, uintptr_t from, size_t size) {
    const uintptr_t to = from + whole_pages(size);
    return find_new(g, from, to) >= 0 || (from >= whole_pages(g->program_break) && to <= g->highest_break && from < to);
}

static void add_new(struct ars__guard *g, uintptr_t from, size_t size) {
    g->mapping[g->n_mappings].from = from;
    g->mapping[g->n_mappings++].to = from + whole_pages(size);
}

/* Takes [from, to) out of mapping i, of which at most two pieces are left. */
static void remove_new(struct ars__guard *g, int i, uintptr_t from, uintptr_t to) {
    const uintptr_t end = g->mapping[i].to;
    if (g->mapping[i].from < from) {
        g->mapping[i].to = from;
        if (to < end) add_new(g, to, end - to);
    } else if (to < end) {
        g->mapping[i].from = to;
    } else {
        g->mapping[i] = g->mapping[--g->n_mappings];
    }
}

/* Growing is undone at the end. Shrinking is not done: the caller is told so, and goes on with what it has. */
static long do_brk(struct ars__guard *g, uintptr_t wanted) {
    if (wanted && wanted < g->program_break) wanted = 0;
    const long now = ars__raw(SYS_brk, (long)wanted, 0, 0, 0, 0, 0);
    if ((uintptr_t)now > g->highest_break) g->highest_break = (uintptr_t)now;
    return now;
}

static bool may_map(const struct ars__guard *g, unsigned long protection, unsigned long flags) {
    const unsigned long harmless = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_POPULATE;
    const unsigned long needed = MAP_PRIVATE | MAP_ANONYMOUS;
    return !(flags & ~harmless) && (flags & needed) == needed && !(protection & PROT_EXEC) &&
           g->n_mappings + 2 < ARS__MOST_NEW_MAPPINGS;
}

/* Signals that a continuation causes itself. */
static const int own[ARS__OWN_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

/* The kernel forgets a handler for one use (SA_RESETHAND) when it is used. */
static void reinstall_handlers(const struct ars__guard *g) {
    for (int i = 0; i < ARS__OWN_SIGNALS; i++)
        if (g->own[i].flags & SA_RESETHAND) ars__raw(SYS_rt_sigaction, own[i], (long)&g->own[i], 0, 8, 0, 0);
}

void ars__guard_undo(struct ars__guard *g) {
    reinstall_handlers(g);
    if (g->highest_break > g->program_break) {
        ars__raw(SYS_brk, (long)g->program_break, 0, 0, 0, 0, 0);
        g->highest_break = g->program_break;
    }
    while (g->n_mappings) {
        g->n_mappings--;
        const uintptr_t from = g->mapping[g->n_mappings].from;
        ars__raw(SYS_munmap, (long)from, (long)(g->mapping[g->n_mappings].to - from), 0, 0, 0, 0);
    }
}

/* ---- a system call ------------------------------------------------------------------------------------------------------ */

struct call {
    long number, a, b, c, d, e, f;
};

static long do_call(const struct call *c) {
    return ars__raw(c->number, c->a, c->b, c->c, c->d, c->e, c->f);
}

/* Questions that leave no trace, in the order of their numbers. */
static bool is_question(const struct call *c) {
    switch (c->number) {
    case SYS_stat:
    case SYS_fstat:
    case SYS_lstat:
    case SYS_access:
    case SYS_sched_yield:
    case SYS_nanosleep:
    case SYS_getpid:
    case SYS_uname:
    case SYS_getcwd:
    case SYS_readlink:
    case SYS_gettimeofday:
    case SYS_getrlimit:
    case SYS_getrusage:
    case SYS_sysinfo:
    case SYS_times:
    case SYS_getuid:
    case SYS_getgid:
    case SYS_geteuid:
    case SYS_getegid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_time:
    case SYS_sched_getaffinity:
    case SYS_clock_gettime:
    case SYS_clock_getres:
    case SYS_clock_nanosleep:
    case SYS_newfstatat:
    case SYS_getcpu:
    case SYS_getrandom:
        return true;
    case SYS_ioctl:
        return c->b == TCGETS;
    case SYS_futex: /* a lock that nobody waits for */
        return (c->b & FUTEX_CMD_MASK) == FUTEX_WAKE;
    default:
        return false;
    }
}

static long swallow(const struct call *c) {
    if (c->number == SYS_write) return c->c;
    const struct iovec *piece = (const struct iovec *)c->b;
    long all = 0;
    for (long i = 0; i < c->c; i++) all += (long)piece[i].iov_len;
    return all;
}

static long do_mremap(struct ars__guard *g, const struct call *c, bool *refused) {
    const uintptr_t from = (uintptr_t)c->a, to = from + whole_pages((size_t)c->b);
    const int i = find_new(g, from, to);
    *refused = i < 0 || g->mapping[i].from != from || g->mapping[i].to != to || (c->d & ~MREMAP_MAYMOVE);
    if (*refused) return 0;
    const long at = do_call(c);
    if (!worked(at)) return at;
    remove_new(g, i, from, to);
    add_new(g, (uintptr_t)at, (size_t)c->c);
    return at;
}

static long do_memory(struct ars__guard *g, const struct call *c, bool *refused) {
    const uintptr_t at = (uintptr_t)c->a, end = at + whole_pages((size_t)c->b);
    long result;
    int i;
    switch (c->number) {
    case SYS_brk:
        return do_brk(g, at);
    case SYS_mmap:
        if ((*refused = !may_map(g, (unsigned long)c->c, (unsigned long)c->d))) return 0;
        result = do_call(c);
        if (worked(result)) add_new(g, (uintptr_t)result, (size_t)c->b);
        return result;
    case SYS_munmap:
        if ((*refused = (i = find_new(g, at, end)) < 0 || g->n_mappings + 2 >= ARS__MOST_NEW_MAPPINGS)) return 0;
        result = do_call(c);
        if (worked(result)) remove_new(g, i, at, end);
        return result;
    case SYS_mremap:
        return do_mremap(g, c, refused);
    case SYS_mprotect:
        *refused = !is_new(g, at, (size_t)c->b) || (c->c & PROT_EXEC);
        return *refused ? 0 : do_call(c);
    case SYS_madvise:
        *refused = !is_new(g, at, (size_t)c->b);
        return *refused ? 0 : do_call(c);
    default:
        *refused = true;
        return 0;
    }
}

static void on_system_call(int signal, void *information, void *context) {
    (void)signal;
    const siginfo_t *info = information;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const struct call c = {info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    struct ars__guard *g = ars__rewind_guard();
    if (!g->on) return; /* sent by somebody else, and between continuations */
    /* The numbers of int 0x80 are others. */
    bool refused = info->si_code != SYS_USER_DISPATCH || info->si_arch != AUDIT_ARCH_X86_64;
    if (refused)
        ;
    else if (is_question(&c))
        r[REG_RAX] = do_call(&c);
    else if ((c.number == SYS_write || c.number == SYS_writev) && c.a == STDOUT_FILENO)
        r[REG_RAX] = swallow(&c);
    else
        r[REG_RAX] = do_memory(g, &c, &refused);
    if (refused) ars__rewind_refuse(ARS_REASON_SYSCALL, info->si_syscall);
}

/* ---- on and off ------------------------------------------------------------------------------------------------------- */

int ars__guard_open(struct ars__guard *g) {
    g->selector = ALLOW;
    g->on = false;
    const long why = ars__raw(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, (long)ars__raw, ARS__RAW_SIZE,
                              (long)&g->selector, 0);
    return (int)-why;
}

static unsigned long bit_of(int signal) {
    return 1ul << (signal - 1);
}

bool ars__guard_enter(struct ars__guard *g) {
    const struct ars__kernel_action ours = {on_system_call, SA_SIGINFO | RESTORER, ars__restorer(), ~0ul};
    unsigned long others = ~0ul;
    const unsigned long sigsys = bit_of(SIGSYS);
    for (int i = 0; i < ARS__OWN_SIGNALS; i++) {
        others &= ~bit_of(own[i]);
        if (ars__raw(SYS_rt_sigaction, own[i], 0, (long)&g->own[i], 8, 0, 0)) return false;
    }
    others &= ~sigsys;
    if (ars__raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&others, (long)&g->mask, 8, 0, 0)) return false;
    if (g->mask & sigsys) ars__raw(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&sigsys, 0, 8, 0, 0);
    if (ars__raw(SYS_rt_sigaction, SIGSYS, (long)&ours, (long)&g->sigsys, 8, 0, 0)) {
        ars__raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&g->mask, 0, 8, 0, 0);
        return false;
    }
    g->program_break = g->highest_break = (uintptr_t)ars__raw(SYS_brk, 0, 0, 0, 0, 0, 0);
    g->n_mappings = 0;
    return true;
}

void ars__guard_leave(struct ars__guard *g) {
    ars__raw(SYS_rt_sigaction, SIGSYS, (long)&g->sigsys, 0, 8, 0, 0);
    ars__raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&g->mask, 0, 8, 0, 0);
}

void ars__guard_on(struct ars__guard *g) {
    g->on = true;
    g->selector = BLOCK;
}

void ars__guard_off(struct ars__guard *g) {
    g->on = false;
    g->selector = ALLOW;
}

#endif

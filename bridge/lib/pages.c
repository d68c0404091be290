/* pages.c: which pages this process has written, what was on them at a loop's entry, and how to put that back.
 *
 * After a fork all private memory of a process is write-protected by the kernel, and the first write to a page is a fault, by
 * which the process gets a page of its own. The kernel counts the faults of a thread (getrusage), so a continuation during which
 * the count has not moved wrote to pages that were its process's own before. Those are known, and were saved: copying them back
 * restores everything, and costs the same however large the process is.
 *
 * If the count has moved, /proc/self/pagemap says which pages are the process's own now ("exclusively mapped", bit 56). Each new
 * one was, at the entry,
 *   dead            below the stack pointer: nothing to restore;
 *   not there       anonymous memory that nobody had touched, so zero;
 *   a file's        so the kernel brings it back;
 *   shared          with the process that forked this one. Its content is gone, unless a sleeper has it: a copy of the process,
 *                   made at the entry, that never writes. Without one, the page is "missed": the caller must run the trace again.
 *                   (A witness is a sleeper for life. It speaks for static data only, which nobody unmaps and maps again, and
 *                   only for pages not written since: those are known, because the process looks before it forks.)
 * From then on the page is known.
 *
 * Why a stale view is safe. The list of mappings is compared at every entry, the count of faults too; while both stay the same, no
 * page has come into being. One may have vanished (unmapped and mapped again, given back, swapped out): a known page is saved as it
 * is now, whatever it is, and an unknown one that is taken for shared is missed, or read from the sleeper. Nothing is guessed.
 *
 * What could make a page writable without a fault of ours is khugepaged, which gathers small pages into a huge one: it is kept out
 * (PR_SET_THP_DISABLE). A huge page that is there already is written like small ones, or all its pages become known at once.
 * Memory that is swapped out counts as known. */
#define _GNU_SOURCE
#include "pages.h"
#include "machine.h"

#ifdef ARS__HAS_REWIND

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES = (int)(sizeof((struct ars__pages *)0)->entry / 8) };

#define PAGE_OF(address) ((address) & ~(uintptr_t)(ARS__PAGE_BYTES - 1))

/* ---- what the kernel says ----------------------------------------------------------------------------------------- */

enum { PRESENT = 63, SWAPPED = 62, OF_FILE = 61, OFF_LIMITS = 58, EXCLUSIVE = 56 };

static bool has_bit(uint64_t entry, int bit) {
    return entry >> bit & 1;
}

/* Off limits: nobody can read or write it (MADV_GUARD_INSTALL); the kernel lists it as swapped out. */
static bool is_own(uint64_t entry) {
    return (has_bit(entry, SWAPPED) && !has_bit(entry, OFF_LIMITS)) ||
           (has_bit(entry, PRESENT) && has_bit(entry, EXCLUSIVE) && !has_bit(entry, OF_FILE));
}

static long count_faults(void) {
    struct rusage usage;
    ars__raw(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0);
    return usage.ru_minflt + usage.ru_majflt;
}

/* ---- known pages ------------------------------------------------------------------------------------------------- */

/* Where it is, or would be. */
static size_t place_of(const struct ars__pages *p, uintptr_t at) {
    size_t low = 0, high = p->n_pages;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->page[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_known(const struct ars__pages *p, uintptr_t at) {
    size_t place = place_of(p, at);
    return place < p->n_pages && p->page[place].at == at;
}

/* Returns where its content is to be kept, or NULL if there is no room. */
static unsigned char *add_known(struct ars__pages *p, uintptr_t at) {
    if (p->n_pages == ARS__MOST_PAGES) return NULL;
    size_t place = place_of(p, at);
    const uint32_t slot = (uint32_t)p->n_pages;
    for (size_t i = p->n_pages++; i > place; i--) p->page[i] = p->page[i - 1];
    p->page[place] = (struct ars__known_page){at, slot};
    return p->saved + (size_t)slot * ARS__PAGE_BYTES;
}

static bool is_dead(const struct ars__pages *p, uintptr_t at) {
    return at < p->stack && at >= p->mappings.stack_from && p->mappings.stack_from;
}

/* Whether the stack pointer is in the main stack; a coroutine's stack may be anywhere, with data below it. */
static void note_stack(struct ars__pages *p, uintptr_t stack_pointer) {
    const struct ars__mapping *m = ars__mapping_of(&p->mappings, stack_pointer);
    p->stack = m && m->from == p->mappings.stack_from ? PAGE_OF(stack_pointer) : 0;
}

/* ---- scanning ---------------------------------------------------------------------------------------------------- */

/* Calls `each` with the kernel's entry for every page of the mappings; stops if it returns false. */
static bool for_pages(struct ars__pages *p,
                      bool (*each)(struct ars__pages *, const struct ars__mapping *, uintptr_t, uint64_t)) {
    if (!ars__still_open(&p->pagemap)) return false;
    for (size_t i = 0; i < p->mappings.n; i++) {
        const struct ars__mapping *m = &p->mappings.at[i];
        for (uintptr_t at = m->from; at < m->to;) {
            size_t n = (m->to - at) / ARS__PAGE_BYTES;
            if (n > ENTRIES) n = ENTRIES;
            long got = ars__raw(SYS_pread64, p->pagemap.fd, (long)p->entry, (long)(n * 8),
                                (long)(at / ARS__PAGE_BYTES * 8), 0, 0);
            if (got <= 0 || got % 8) return false;
            for (size_t k = 0; k < (size_t)got / 8; k++, at += ARS__PAGE_BYTES)
                if (p->entry[k] && !each(p, m, at, p->entry[k])) return false;
        }
    }
    return true;
}

static size_t number_of(const struct ars__mapping *m, uintptr_t at) {
    return m->first + (at - m->from) / ARS__PAGE_BYTES;
}

static bool note_page(struct ars__pages *p, const struct ars__mapping *m, uintptr_t at, uint64_t entry) {
    size_t number = number_of(m, at);
    if (has_bit(entry, PRESENT) && !has_bit(entry, OF_FILE)) p->present[number / 64] |= 1ull << number % 64;
    return !is_own(entry) || is_dead(p, at) || is_known(p, at) || add_known(p, at);
}

/* Pages that were known stay so where they are still mapped: a fork has shared them again, and they will be written again. */
static void drop_unmapped(struct ars__pages *p) {
    uint32_t kept = 0;
    for (size_t i = 0, m = 0; i < p->n_pages; i++) {
        const uintptr_t at = p->page[i].at;
        while (m < p->mappings.n && p->mappings.at[m].to <= at) m++;
        if (m == p->mappings.n || at < p->mappings.at[m].from) continue;
        p->page[kept] = (struct ars__known_page){at, kept};
        kept++;
    }
    p->n_pages = kept;
}

static bool scan(struct ars__pages *p, uintptr_t stack_pointer) {
    p->scanned = false;
    if (!ars__mappings_take(&p->mappings)) return false;
    note_stack(p, stack_pointer);
    p->scanned_stack = p->stack;
    drop_unmapped(p);
    const struct ars__mapping *last = p->mappings.n ? &p->mappings.at[p->mappings.n - 1] : NULL;
    const size_t n = last ? number_of(last, last->to) : 0;
    memset(p->present, 0, (n + 63) / 64 * 8);
    return p->scanned = for_pages(p, note_page);
}

/* ---- saving and putting back ------------------------------------------------------------------------------------------ */

bool ars__pages_look(struct ars__pages *p, uintptr_t stack_pointer) {
    if (!ars__mappings_look(&p->mappings)) return false;
    const long faults = count_faults();
    const bool deeper = PAGE_OF(stack_pointer) < p->scanned_stack; /* what was dead then is alive */
    if (p->scanned && !deeper && faults == p->faults && ars__mappings_same(&p->mappings)) return true;
    p->faults = faults;
    return scan(p, stack_pointer);
}

bool ars__pages_save(struct ars__pages *p, uintptr_t stack_pointer) {
    if (!ars__pages_look(p, stack_pointer)) return false;
    note_stack(p, stack_pointer);
    for (size_t i = 0; i < p->n_pages; i++) {
        const struct ars__known_page *page = &p->page[i];
        if (!is_dead(p, page->at))
            ars__copy(p->saved + (size_t)page->slot * ARS__PAGE_BYTES, (const void *)page->at, ARS__PAGE_BYTES);
    }
    p->n_missed = 0;
    p->lost = false;
    p->faults = count_faults();
    return true;
}

static bool remembered(pid_t sleeper, uintptr_t at, void *content) {
    const struct iovec to = {content, ARS__PAGE_BYTES}, from = {(void *)at, ARS__PAGE_BYTES};
    return sleeper && ars__raw(SYS_process_vm_readv, sleeper, (long)&to, 1, (long)&from, 1, 0) == ARS__PAGE_BYTES;
}

/* What was on a page at the entry that is our own now. */
static bool recover_content(struct ars__pages *p, const struct ars__mapping *m, uintptr_t at, unsigned char *content) {
    const size_t number = number_of(m, at);
    if (p->present[number / 64] >> number % 64 & 1) {
        if (p->n_missed < sizeof p->missed / sizeof *p->missed) p->missed[p->n_missed] = at;
        p->n_missed++;
        return remembered(p->sleeper, at, content) || (m->is_static && remembered(p->witness, at, content));
    }
    if (!m->of_file) {
        ars__clear(content, ARS__PAGE_BYTES);
        return true;
    }
    if (ars__raw(SYS_madvise, (long)at, ARS__PAGE_BYTES, MADV_DONTNEED, 0, 0, 0)) return false;
    ars__copy(content, (const void *)at, ARS__PAGE_BYTES);
    return true;
}

/* Goes on after a loss, so that all pages are found that the next process should expect. */
static bool recover(struct ars__pages *p, const struct ars__mapping *m, uintptr_t at, uint64_t entry) {
    if (!is_own(entry) || is_dead(p, at) || is_known(p, at)) return true;
    unsigned char *content = add_known(p, at);
    if (!content || !recover_content(p, m, at, content)) p->lost = true;
    return true;
}

/* The kernel writes to its part of the thread's memory at any time, so that part is left out. */
static void put_back(const struct ars__pages *p, const struct ars__known_page *page) {
    const unsigned char *saved = p->saved + (size_t)page->slot * ARS__PAGE_BYTES;
    unsigned char *at = (unsigned char *)page->at;
    if (p->rseq_to <= page->at || p->rseq_from >= page->at + ARS__PAGE_BYTES) {
        ars__copy(at, saved, ARS__PAGE_BYTES);
        return;
    }
    const size_t from = p->rseq_from > page->at ? p->rseq_from - page->at : 0;
    const size_t to = p->rseq_to < page->at + ARS__PAGE_BYTES ? p->rseq_to - page->at : ARS__PAGE_BYTES;
    ars__copy(at, saved, from);
    ars__copy(at + to, saved + to, ARS__PAGE_BYTES - to);
}

bool ars__pages_restore(struct ars__pages *p) {
    const bool moved = count_faults() != p->faults;
    if (moved && (!for_pages(p, recover) || p->lost)) return false;
    for (size_t i = 0; i < p->n_pages; i++)
        if (!is_dead(p, p->page[i].at)) put_back(p, &p->page[i]);
    if (moved) p->faults = count_faults();
    return true;
}

/* ---- pages that are expected ------------------------------------------------------------------------------------------ */

void ars__pages_own(struct ars__pages *p, const uint64_t *at, size_t n) {
    if (!ars__mappings_look(&p->mappings) || !ars__mappings_take(&p->mappings)) return;
    p->scanned = false;
    for (size_t i = 0; i < n; i++) {
        if (at[i] != PAGE_OF(at[i]) || !ars__mapping_of(&p->mappings, at[i])) continue;
        __asm__ volatile("lock addb $0, (%0)" ::"r"(at[i]) : "memory"); /* a write that changes nothing */
    }
}

static pid_t make_sleeper(void) {
    const long pid = ars__clone_sleeper();
    return pid > 0 ? (pid_t)pid : 0;
}

void ars__pages_remember(struct ars__pages *p) {
    p->sleeper = make_sleeper();
}

void ars__pages_call_witness(struct ars__pages *p) {
    if (ars__pages_look(p, (uintptr_t)__builtin_frame_address(0))) p->witness = make_sleeper();
}

static void dismiss(pid_t *sleeper) {
    if (!*sleeper) return;
    ars__raw(SYS_kill, *sleeper, SIGKILL, 0, 0, 0, 0);
    while (ars__raw(SYS_wait4, *sleeper, 0, __WALL, 0, 0, 0) == -EINTR) {
    }
    *sleeper = 0;
}

void ars__pages_forget(struct ars__pages *p) {
    dismiss(&p->sleeper);
}

/* A page that was written since the witness was made, and is not known, must not be taken for one that it can speak for. */
void ars__pages_before_fork(struct ars__pages *p, uintptr_t stack_pointer) {
    if (!ars__pages_look(p, stack_pointer)) dismiss(&p->witness);
}

/* ---- making ready -------------------------------------------------------------------------------------------------- */

/* glibc 2.35 registers an area of every thread with the kernel. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static void note_rseq(struct ars__pages *p) {
    enum { LEAST = 32 };
    p->rseq_from = p->rseq_to = 0;
    if (!&__rseq_offset || !&__rseq_size || !__rseq_size) return;
    uintptr_t thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    p->rseq_from = thread + (uintptr_t)__rseq_offset;
    p->rseq_to = p->rseq_from + (__rseq_size > LEAST ? (__rseq_size + 7u) & ~7u : LEAST);
}

/* One page, from its first write on: does the kernel count it, and say that it is our own? */
static int try_kernel(struct ars__pages *p) {
    char *page = mmap(NULL, ARS__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return errno;
    const off_t at = (off_t)((uintptr_t)page / ARS__PAGE_BYTES * 8);
    uint64_t before = 1, after = 0;
    const long faults = count_faults();
    bool read = pread(p->pagemap.fd, &before, 8, at) == 8;
    *(volatile char *)page = 1;
    const bool counted = count_faults() > faults;
    read = read && pread(p->pagemap.fd, &after, 8, at) == 8;
    munmap(page, ARS__PAGE_BYTES);
    return read && counted && !is_own(before) && is_own(after) ? 0 : ENOTSUP;
}

int ars__pages_open(struct ars__pages *p) {
    int why;
    if (sysconf(_SC_PAGESIZE) != ARS__PAGE_BYTES) return ENOTSUP;
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) return errno;
    if ((why = ars__mappings_open(&p->mappings)) || (why = ars__open_proc(&p->pagemap, "/proc/self/pagemap")))
        return why;
    madvise(p->saved, (size_t)ARS__MOST_PAGES * ARS__PAGE_BYTES,
            MADV_DONTFORK); /* less to copy for those that are forked */
    p->scanned = false;
    p->n_pages = 0;
    p->sleeper = p->witness = 0;
    note_rseq(p);
    return try_kernel(p);
}

#endif

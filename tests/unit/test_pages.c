/* test_pages.c: memory that is put back. A process is forked, so that its memory is shared with its parent; it saves, writes
 * everywhere, and must find everything as it was. What the test itself has to remember is in shared memory, which nobody puts back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "kept.h"
#include "process.h"

#ifdef ARS__HAS_REWIND

enum { PAGES = 40, SKIPPED = 77 };

static unsigned char touched[PAGES * ARS__PAGE_BYTES];   /* written before the fork: shared with the parent */
static unsigned char untouched[PAGES * ARS__PAGE_BYTES]; /* zero, and nowhere in memory */
static unsigned char *of_file;                           /* a private mapping of a file */
static _Thread_local unsigned char of_thread[100];

static struct {
    bool restored;
    uint32_t missed;
    uintptr_t first_missed;
    int rounds;
} * shared;

static struct ars__rewind *here(void) {
    return &ars__me.kept->rewind;
}

static void undo(void) {
    struct ars__pages *p = &here()->pages;
    shared->restored = ars__pages_restore(p);
    shared->missed = p->n_missed;
    shared->first_missed = p->missed[0];
    if (!shared->restored) ars__raw(231 /* exit_group */, 0, 0, 0, 0, 0, 0);
    ars__jump(&here()->registers);
}

/* Saves; calls `write`; puts back. The second time it returns everything is as it was. */
static void __attribute__((noinline)) and_back(void (*write)(void), int rounds) {
    shared->rounds = 0;
    if (ars__mark(&here()->registers) == 0)
        CHECK(ars__pages_save(&here()->pages, here()->registers.rsp));
    else if (++shared->rounds == rounds)
        return;
    write();
    ars__on_stack(here()->stack + sizeof here()->stack, undo);
}

/* ---- what is written ----------------------------------------------------------------------------------------------------- */

static uint32_t sum_of(const unsigned char *bytes, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

static void fill(unsigned char *bytes, size_t size, int with) {
    memset(bytes, with, size);
}

static void write_own(void) {
    fill(touched, sizeof touched, 1);
}

static void write_untouched(void) {
    fill(untouched, sizeof untouched, shared->rounds + 3);
}

static void write_file(void) {
    fill(of_file, 3 * ARS__PAGE_BYTES, 7);
}

static void write_elsewhere(void) {
    fill(of_thread, sizeof of_thread, 9);
    errno = 77;
    unsetenv("PATH");
    char *leak = malloc(1000);
    fill((unsigned char *)leak, 1000, 5);
}

static int recurse(int depth) {
    volatile unsigned char frame[3000];
    frame[depth] = (unsigned char)depth;
    return depth ? recurse(depth - 1) + frame[depth] : 0;
}

static void write_stack(void) {
    recurse(300);
}

static void write_modes(void) {
    const uint32_t mxcsr = 0x7f80; /* round towards zero */
    const uint16_t x87 = 0x0f7f;
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(x87));
}

static uint64_t modes(void) {
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (uint64_t)mxcsr << 16 | x87;
}

/* ---- cases: each in a process of its own ------------------------------------------------------------------------------------ */

static void own_pages(void) {
    for (size_t i = 0; i < PAGES; i++) touched[i * ARS__PAGE_BYTES] ^= 1; /* so they are ours */
    const uint32_t before = sum_of(touched, sizeof touched);
    and_back(write_own, 3);
    CHECK(shared->rounds == 3 && shared->missed == 0);
    CHECK(sum_of(touched, sizeof touched) == before);
}

static void pages_that_were_not_there(void) {
    and_back(write_untouched, 3);
    CHECK(shared->missed == 0);
    for (size_t i = 0; i < sizeof untouched; i++)
        if (untouched[i]) {
            CHECK(!"an untouched page is not zero");
            return;
        }
}

static void pages_of_a_file(void) {
    const uint32_t before = sum_of(of_file, 4 * ARS__PAGE_BYTES);
    and_back(write_file, 2);
    CHECK(sum_of(of_file, 4 * ARS__PAGE_BYTES) == before);
}

static void shared_pages_with_a_sleeper(void) {
    const uint32_t before = sum_of(touched, sizeof touched);
    ars__pages_look(&here()->pages, (uintptr_t)__builtin_frame_address(0));
    ars__pages_remember(&here()->pages);
    CHECK(here()->pages.sleeper > 0);
    and_back(write_own, 2);
    ars__pages_forget(&here()->pages);
    CHECK(shared->rounds == 2 && shared->missed >= PAGES);
    CHECK(sum_of(touched, sizeof touched) == before);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

/* The test of the tests: without a sleeper the content is gone, and that is said. */
static void shared_pages_without(void) {
    and_back(write_own, 2);
    CHECK(!"lost pages were called restored");
}

static void expected_pages(void) {
    const uint32_t before = sum_of(touched, sizeof touched);
    uint64_t at[PAGES + 1];
    for (size_t i = 0; i < PAGES; i++) at[i] = ((uintptr_t)touched + i * ARS__PAGE_BYTES) & ~(uint64_t)4095;
    at[PAGES] = 4096; /* nobody's: left alone */
    at[PAGES - 1] = ((uintptr_t)touched + sizeof touched - 1) & ~(uint64_t)4095;
    ars__pages_own(&here()->pages, at, PAGES + 1);
    and_back(write_own, 2);
    CHECK(shared->rounds == 2 && sum_of(touched, sizeof touched) == before);
}

static void thread_errno_and_heap(void) {
    errno = 5;
    fill(of_thread, sizeof of_thread, 4);
    char *before = malloc(1000);
    free(before);
    setenv("PATH", "/here", 1);
    and_back(write_elsewhere, 4);
    CHECK(errno == 5 && of_thread[50] == 4);
    CHECK_TEXT(getenv("PATH"), "/here");
    CHECK(malloc(1000) == before); /* the heap knows nothing of the others */
}

static void a_deep_stack(void) {
    volatile unsigned char mine[5000];
    for (size_t i = 0; i < sizeof mine; i++) mine[i] = (unsigned char)i;
    and_back(write_stack, 3);
    for (size_t i = 0; i < sizeof mine; i++)
        if (mine[i] != (unsigned char)i) {
            CHECK(!"a live part of the stack has changed");
            return;
        }
    CHECK(here()->pages.n_pages < 200); /* the dead part takes no room */
}

static void floating_point_modes(void) {
    const uint64_t before = modes();
    and_back(write_modes, 3);
    CHECK(modes() == before);
}

static void mappings_read_as_text(void) {
    here()->pages.mappings.queries = false;
    own_pages();
    pages_that_were_not_there();
}

/* A loop is entered, then one further up the stack: what was dead is alive. */
static void __attribute__((noinline)) deeper(int depth) {
    volatile unsigned char frame[6000];
    for (size_t i = 0; i < sizeof frame; i++) frame[i] = (unsigned char)(i + (size_t)depth);
    if (depth) deeper(depth - 1);
    and_back(write_stack, 2);
    bool same = true;
    for (size_t i = 0; i < sizeof frame; i++) same &= frame[i] == (unsigned char)(i + (size_t)depth);
    CHECK(same);
}

static void one_entry_after_another(void) {
    and_back(write_stack, 2);
    deeper(6);
    and_back(write_stack, 2);
}

/* ---- running them ------------------------------------------------------------------------------------------------------------ */

static int run(void (*test)(void), const char *name, bool ends) {
    memset(shared, 0, sizeof *shared);
    const pid_t pid = fork();
    if (pid == 0) {
        const int why = ars__pages_open(&here()->pages);
        if (why) {
            fprintf(stderr, "this system does not say which pages were written: %s\n", strerror(why));
            _exit(SKIPPED);
        }
        check_failures = 0; /* those of the others */
        test();
        _exit(check_failures != 0 || ends);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == SKIPPED) return SKIPPED;
    if (code) fprintf(stderr, "%s: failed (status %x)\n", name, (unsigned)status);
    return code != 0;
}

int main(void) {
    char path[] = "/tmp/ars_test_pages_XXXXXX";
    const int fd = mkstemp(path);
    unlink(path);
    for (size_t i = 0; i < 4 * ARS__PAGE_BYTES; i++) {
        const unsigned char byte = (unsigned char)(i * 7);
        if (write(fd, &byte, 1) != 1) return 1;
    }
    of_file = mmap(NULL, 4 * ARS__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (of_file == MAP_FAILED || shared == MAP_FAILED || !ars__kept_make()) return 1;
    for (size_t i = 0; i < sizeof touched; i++) touched[i] = (unsigned char)(i * 13 + 1);

    const struct {
        void (*test)(void);
        const char *name;
        bool ends; /* the process ends before the test does: nothing may follow a loss */
    } tests[] = {{own_pages, "own pages", false},
                 {pages_that_were_not_there, "pages that were not there", false},
                 {pages_of_a_file, "pages of a file", false},
                 {shared_pages_with_a_sleeper, "shared pages with a sleeper", false},
                 {shared_pages_without, "shared pages without a sleeper", true},
                 {expected_pages, "expected pages", false},
                 {thread_errno_and_heap, "thread, errno and heap", false},
                 {a_deep_stack, "a deep stack", false},
                 {floating_point_modes, "floating-point modes", false},
                 {mappings_read_as_text, "mappings read as text", false},
                 {one_entry_after_another, "one entry after another", false}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        const int failed = run(tests[i].test, tests[i].name, tests[i].ends);
        if (failed == SKIPPED) return SKIPPED;
        check_failures += failed;
        if (tests[i].ends) CHECK(!shared->restored && shared->missed >= PAGES && shared->first_missed);
    }
    return check_failures != 0;
}

#else

int main(void) {
    return check_failures ? 1 : 77; /* loops are forked here */
}

#endif

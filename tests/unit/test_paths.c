/* test_paths.c: call paths from the tree of paths.c are those that libgcc unwinds (backtrace), whatever the frames look like,
 * and are found without unwinding once they are known. */
#define _GNU_SOURCE
#include <alloca.h>
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check.h"
#include "paths.h"
#include "unwind.h"

#define KEPT_APART __attribute__((noinline, noclone))

static struct ars__paths *paths;
static uint64_t drawn; /* calls of here() */
static bool oracle = true;
static uint32_t latest; /* the path that here() found last */
static volatile int sink;

/* ---- the oracle ---------------------------------------------------------------------------------------------------------- */

enum { MOST = 4096 };

static void root(struct ars__origin origin) {
    ars__path_root(paths, &origin);
}

static unsigned fold(uint64_t *list, unsigned n, uint64_t word) {
    for (unsigned i = 0; i < n; i++)
        if (list[i] == word) return i + 1;
    list[n] = word;
    return n + 1;
}

/* What the path should be: the return addresses from that of here() to the last one below run(). */
static void compare(uint32_t path, uintptr_t from, uintptr_t until) {
    static void *frames[MOST];
    static uint64_t list[MOST];
    const int n = backtrace(frames, MOST);
    unsigned n_list = 0;
    int i = 0;
    while (i < n && (uintptr_t)frames[i] != from) i++;
    for (; i < n && (uintptr_t)frames[i] != until; i++) n_list = fold(list, n_list, (uintptr_t)frames[i]);
    CHECK(i < n);
    const struct ars__path *found = &paths->paths[path];
    if (n_list > ARS__PATH_FRAMES) n_list = ARS__PATH_FRAMES;
    CHECK(found->n == n_list);
    if (found->n == n_list) CHECK(memcmp(paths->words + found->at, list, 8 * n_list) == 0);
}

static uintptr_t return_to_run;

/* Stands for ars_flat. */
static KEPT_APART double here(void) {
    const struct ars__call_at call = ARS__CALL_HERE();
    latest = ars__path_of(paths, call);
    drawn++;
    if (oracle) compare(latest, call.return_to, return_to_run);
    ARS__KEEP_FRAME();
    return 0.5;
}

/* Stands for ars_main. */
static KEPT_APART void run(void (*model)(unsigned), unsigned n) {
    root(ars__origin_here(__builtin_frame_address(0), NULL, 0));
    model(n);
    ARS__KEEP_FRAME();
}

/* The address in run() to which the model returns; told by the model itself. */
static KEPT_APART void model_of(unsigned n);
static void (*body)(unsigned);
static KEPT_APART void model_of(unsigned n) {
    return_to_run = (uintptr_t)__builtin_return_address(0);
    body(n);
    ARS__KEEP_FRAME();
}

static unsigned number = 1;
static unsigned next(unsigned below) {
    number = number * 1103515245u + 12345u;
    return (number >> 8) % below;
}

/* Runs it `times` times with different numbers. Returns how many of its paths had to be unwound. */
static uint32_t unwound_in(void (*function)(unsigned), int times) {
    const uint32_t before = paths->unwound;
    body = function;
    for (int i = 0; i < times; i++) run(model_of, next(1000));
    return paths->unwound - before;
}

/* ---- frames of all kinds -------------------------------------------------------------------------------------------------- */

static KEPT_APART void leaf(void) {
    here();
    here();
    sink++;
}

static KEPT_APART void chain(unsigned n) {
    char room[64];
    memset(room, (int)n, sizeof room);
    leaf();
    sink += room[n % 64];
}

static void plain(unsigned n) {
    chain(n);
    chain(n + 1);
    sink++;
}

/* Its frame is as large as it is told. */
static KEPT_APART void with_alloca(unsigned n) {
    char *room = alloca(n + 1);
    memset(room, 1, n + 1);
    leaf();
    sink += room[n];
}

/* gcc aligns the stack, and keeps its old place in a register and in the frame. */
static KEPT_APART void aligned(unsigned n) {
    _Alignas(64) char aligned_room[128];
    char *room = alloca(n % 100 + 1);
    memset(aligned_room, (int)n, sizeof aligned_room);
    memset(room, 2, n % 100 + 1);
    leaf();
    sink += aligned_room[n % 128] + room[0];
}

static KEPT_APART void arguments(long a, long b, long c, long d, long e, long f, struct ars__step by_value, long g) {
    leaf();
    sink += (int)(a + b + c + d + e + f + by_value.offset + g);
}

static void with_arguments(unsigned n) {
    arguments(1, 2, 3, 4, 5, 6, (struct ars__step){.offset = (int)n}, 8);
    here();
}

static KEPT_APART void descend(unsigned depth) {
    if (!depth) {
        leaf();
        return;
    }
    descend(depth - 1);
    sink++;
}

static void recursive(unsigned n) {
    descend(n % 60);
    sink++;
}

/* A walk through a tree, left or right by the bits of n. */
static KEPT_APART void walk(unsigned n, unsigned depth) {
    if (!depth)
        here();
    else if (n & 1)
        walk(n >> 1, depth - 1);
    else
        walk(n >> 1, depth - 1);
    sink++;
}

static void walks(unsigned n) {
    walk(n, 10);
    sink++;
}

static int by_draw(const void *a, const void *b) {
    here();
    return *(const int *)a - *(const int *)b;
}

static void through_libc(unsigned n) {
    int values[8];
    for (unsigned i = 0; i < 8; i++) values[i] = (int)(n * (i + 7) % 13);
    qsort(values, 8, sizeof *values, by_draw);
    sink += values[0];
}

/* One call of here() for all of them, as in an engine that a whole generator draws from. */
static KEPT_APART void engine(void) {
    here();
    sink++;
}
#define CALLERS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define CALLER_OF(i)                                                                                                   \
    static KEPT_APART void caller_##i(void) {                                                                          \
        engine();                                                                                                      \
        engine();                                                                                                      \
        sink += i;                                                                                                     \
    }
CALLERS(CALLER_OF)

static void many(unsigned n) {
    static void (*const all[])(void) = {
#define NAME_OF(i) caller_##i,
        CALLERS(NAME_OF)};
    all[n % 10]();
    sink++;
}

/* ---- what could go wrong ---------------------------------------------------------------------------------------------------- */

static void test_frames(void) {
    static const struct {
        void (*function)(unsigned);
        uint32_t most; /* unwound, in many calls: that it is small is the whole point */
    } kinds[] = {{plain, 4},       {with_alloca, 2},   {with_arguments, 3}, {recursive, 120},
                 {walks, 1 << 10}, {through_libc, 40}, {many, 20},          {aligned, 2}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const uint32_t unwound = unwound_in(kinds[i].function, 2000);
        if (unwound > kinds[i].most) fprintf(stderr, "kind %zu: %u were unwound\n", i, unwound);
        CHECK(unwound <= kinds[i].most);
        CHECK(unwound_in(kinds[i].function, 100) <= kinds[i].most / 10);
    }
}

/* However deep the recursion, there are few paths. */
static void test_recursion_is_folded(void) {
    const uint32_t before = paths->n_paths;
    unwound_in(recursive, 500);
    CHECK(paths->n_paths == before); /* test_frames had them all: two draws, at the bottom or below one descent */
}

/* What a table holds is lost when it is full; the paths stay right. */
static void test_full_tables(void) {
    for (int i = 0; i < 3; i++) {
        paths->n_steps = ARS__MOST_STEPS_KNOWN;
        memset(paths->edges, 0, sizeof paths->edges);
        unwound_in(plain, 3);
        CHECK(paths->n_paths == 4);
        unwound_in(many, 50);
    }
}

/* ars_next_trace called by the root itself, and by a function that has returned. */
static KEPT_APART void begin(void) {
    root(ars__origin_here(__builtin_frame_address(0), __builtin_return_address(0), 0));
    ARS__KEEP_FRAME();
}
static KEPT_APART void begin_for_me(void) {
    begin();
    sink++;
}

static KEPT_APART uint32_t frames_of(bool indirectly) {
    uint32_t n = 0;
    for (int i = 0; i < 3; i++) {
        if (indirectly)
            begin_for_me();
        else
            begin();
        leaf();
        n = paths->paths[latest].n; /* leaf and this function */
        here();
        CHECK(paths->paths[latest].n == 1);
    }
    return n;
}

static void test_event_loops(void) {
    oracle = false;
    CHECK(frames_of(false) == 2);
    CHECK(frames_of(true) == 2);
    oracle = true;
}

/* A stack of the simulator's own, with nothing above it. */
static ucontext_t outside, inside;
static void on_own_stack(void) {
    for (int i = 0; i < 20; i++) leaf();
}

static void test_other_stacks(void) {
    const size_t size = 64 << 10;
    oracle = false;
    for (int mapped = 0; mapped < 2; mapped++) {
        char *stack = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED && mprotect(stack, size, PROT_READ | PROT_WRITE) == 0);
        if (mapped) munmap(stack + size, size);
        root(ars__origin_here(__builtin_frame_address(0), NULL, 0));
        descend(50); /* the tree has long paths from the same call */
        getcontext(&inside);
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = size;
        inside.uc_link = &outside;
        makecontext(&inside, on_own_stack, 0);
        swapcontext(&outside, &inside);
        CHECK(paths->paths[latest].n >= 2); /* leaf and on_own_stack, and libc's beginning of it */
        munmap(stack, mapped ? size : 2 * size);
    }
    oracle = true;
}

static void test_places(void) {
    struct ars__place *a = ars__place_of(paths, 1, 2, 3, 4);
    CHECK(a->site_id == ARS__PLACE_UNKNOWN);
    a->site_id = 17;
    CHECK(ars__place_of(paths, 1, 2, 3, 4)->site_id == 17);
    CHECK(ars__place_of(paths, 1, 2, 3, 5)->site_id == ARS__PLACE_UNKNOWN);
    CHECK(ars__place_of(paths, 1, 2, 4, 4)->site_id == ARS__PLACE_UNKNOWN);
    CHECK(ars__place_of(paths, 1, 3, 3, 4)->site_id == ARS__PLACE_UNKNOWN);
    CHECK(ars__place_of(paths, 2, 2, 3, 4)->site_id == ARS__PLACE_UNKNOWN);
    for (uint32_t i = 0; i < 3 * ARS__MOST_PLACES; i++) {
        struct ars__place *p = ars__place_of(paths, i % 5000, i / 5000, i, 0);
        CHECK(p->site_id == ARS__PLACE_UNKNOWN && p->loop == i);
        p->site_id = i;
        CHECK(ars__place_of(paths, i % 5000, i / 5000, i, 0)->site_id == i);
    }
}

int main(void) {
#if !defined(__x86_64__)
    return 77;
#endif
    paths = mmap(NULL, sizeof *paths, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (paths == MAP_FAILED) return 77;
    test_frames();
    test_recursion_is_folded();
    test_full_tables();
    test_event_loops();
    test_other_stacks();
    test_places();
    return check_failures != 0;
}

/* places.c: where the memory of a simulator may lie. Usage: places MEGABYTES HUGE STACK
 * Tries write here and there in a table of so many megabytes, which is filled before the first trace, on huge pages if HUGE is 1.
 * STACK: 0, the model runs on the stack of main; 1, on one of its own, with data below it. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <ars.h>

#include "hash.h"

enum { STACK = 1 << 18, BELOW = 1 << 16, PER_TRY = 20, MOST = 1 << 14 };

static double *table;
static size_t cells;
static size_t changed[MOST], n_changed;
static unsigned steps;
static int on_own_stack;
static unsigned char *own;

static double change(double x) {
    uint64_t hash = hash_word(3, ++steps);
    for (int i = 0; i < PER_TRY && n_changed < MOST; i++) {
        const size_t at = (size_t)hash_word(steps, (uint64_t)i % 7 + (i < 14 ? 0 : steps)) % cells;
        table[at] += x;
        changed[n_changed++] = at;
        hash = hash_add(hash, table[at]);
    }
    if (own) hash = hash_word(hash, own[steps * 61 % BELOW] += (unsigned char)steps);
    return hash_unit(hash_add(hash, table[changed[n_changed / 2]]));
}

static void model(void) {
    while (n_changed) table[changed[--n_changed]] = 0.5;
    if (own) memset(own, 0, BELOW);
    steps = 0;
    double sum = 0;
    for (int i = 0; i < 2; i++)
        for (;;) {
            rs_start("here");
            const double x = ars_sample("x", ars_uniform(0, 1));
            const double unit = change(x);
            const double m = ars_sample("m", ars_normal(unit, 1));
            if (x + 0.01 * m < 0.35 + 0.4 * unit) {
                rs_end();
                sum += m;
                break;
            }
        }
    ars_observe("y", ars_normal(sum, 2));
    ars_result("sum", sum + change(sum));
}

/* The data lie at the beginning of the block, the stack above them grows down towards them. */
static void choose_stack(void *user) {
    (void)user;
    if (!on_own_stack) {
        model();
        return;
    }
    static ucontext_t here, there;
    if (!own && !(own = malloc(BELOW + STACK))) abort();
    if (getcontext(&there)) abort();
    there.uc_stack.ss_sp = own + BELOW;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, model, 0);
    if (swapcontext(&here, &there)) abort();
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const size_t size = (size_t)atoi(argv[1]) << 20, huge = 2u << 20;
    char *block = mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 2;
    block += (huge - (uintptr_t)block % huge) % huge;
    madvise(block, size, atoi(argv[2]) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    table = (double *)(void *)block;
    cells = size / sizeof *table;
    for (size_t i = 0; i < cells; i++) table[i] = 0.5;
    on_own_stack = atoi(argv[3]);
    return ars_main(argc, argv, choose_stack, NULL);
}

/* stray.c: a simulator with a stray pointer. Usage: stray WHERE [BYTE]
 *
 * In the traces whose first draw says so it stores onto what WHERE names. Its random choices are the same whatever it does, so
 * every other trace must be bitwise that of "nowhere". It knows the segment by libars' own header: the worst that chance could
 * do to a wild pointer. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "process.h"

enum { ARRAY = 64 << 20, OVERRUN = 2200 };

static const char *where = "nowhere";
static int byte;

static bool at(const char *name) {
    return strcmp(where, name) == 0;
}

/* ---- arrays that are overrun --------------------------------------------------------------------------------------- */

static void run_over(double *array) {
    volatile double *past = array + ARRAY / sizeof *array;
    for (int i = 0; i < OVERRUN; i++) past[i] = 0.5 + i;
}

static void *map_at(uintptr_t address) {
    void *made = mmap((void *)address, ARRAY, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return made == (void *)address ? made : NULL;
}

/* Without a byte between the array and what belongs to the segment. */
static double *neighbour_below(void) {
    uintptr_t segment = (uintptr_t)ars__me.shm;
    for (uintptr_t gap = 0; gap <= 1 << 20; gap += 4096) {
        void *array = map_at(segment - gap - ARRAY);
        if (array) return array;
    }
    abort();
}

/* As malloc places it, below all that is mapped; or right below the segment, wherever that is. */
static void overrun(void) {
    double *array = at("overrun") ? malloc(ARRAY) : neighbour_below();
    if (!array) abort();
    run_over(array);
}

/* The other end: an array that is left at its front. Something else may be mapped there, which will do as well. */
static void underrun(void) {
    uintptr_t end = (uintptr_t)ars__me.shm + ars__shm_size(ars__me.n_workers, ars__me.per_worker);
    volatile double *front = (double *)end;
    map_at(end);
    for (int i = 1; i <= OVERRUN; i++) front[-i] = 0.5 + i;
}

/* ---- single stores --------------------------------------------------------------------------------------------------- */

static uint32_t neighbour(void) {
    return (ars__me.worker + 1) % ars__me.n_workers;
}

static volatile unsigned char *target(void) {
    const struct ars__shm *shm = ars__me.shm;
    struct ars__worker *other = ars__worker_at(shm, ars__me.per_worker, neighbour());
    struct ars__snapshot *slot = ars__snapshot_at(shm, ars__me.per_worker, neighbour(), 0);
    /* One name, one value: the table, the padded name, the value. */
    const unsigned char *value = shm->data + sizeof(struct ars_wire_observed) + ARS_WIRE_PAD(1);
    const void *found = at("data")       ? (const void *)value
                        : at("settings") ? (const void *)&shm->run.seed
                        : at("sites")    ? (const void *)&shm->sites[0]
                        : at("names")    ? (const void *)shm->names
                        : at("ring")     ? (const void *)other->ring
                        : at("slot")     ? (const void *)&slot->estimate.s_pq_sum
                                         : NULL;
    return (volatile unsigned char *)(uintptr_t)found;
}

static void stray(void) {
    if (at("below")) run_over(neighbour_below());
    if (at("above")) underrun();
    if (at("state") || at("state_later"))
        ars__me.state = 77; /* libars' own memory: the next question is from nowhere */
    if (at("bell")) memset(ars__bell_at(ars__me.shm), byte, sizeof(struct ars__bell));
    if (at("reads"))
        printf("%u\n", atomic_load(&ars__worker_at(ars__me.shm, ars__me.per_worker, neighbour())->order_done));
    volatile unsigned char *to = target();
    for (int i = 0; to && i < 8; i++) to[i] = (unsigned char)(0x40 + i);
}

static double loop(bool strays) {
    for (;;) {
        rs_start("loop");
        double u = ars_sample("u", ars_uniform(0, 1));
        if (strays && ars_in_continuation()) stray();
        if (u < 0.5) {
            rs_end();
            return u;
        }
    }
}

static void model(void *in_continuations) {
    static int traces;
    static bool spoilt; /* by an earlier trace of this process */
    double x = ars_sample("x", ars_normal(0, 1));
    bool once = at("overrun") || at("overrun_below"), strays = x > 1 && !once;
    if (once && ++traces == 4) overrun();
    bool now = at("state_later") ? spoilt : strays;
    spoilt |= strays;
    if (now && !in_continuations) stray();
    double u = loop(strays && in_continuations);
    ars_observe("y", ars_normal(x, 0.5));
    ars_result("r", x);
    ars_result("sum", x + u);
}

int main(int argc, char **argv) {
    if (argc > 1) where = argv[1];
    bool in_continuations = argc > 2 && strcmp(argv[2], "continuations") == 0;
    if (argc > 2) byte = atoi(argv[2]);
    return ars_main(argc, argv, model, in_continuations ? &byte : NULL);
}

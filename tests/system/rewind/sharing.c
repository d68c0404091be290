/* sharing.c: memory and files that other processes hold, too. Usage: sharing WHAT
 * stale    a trace in twenty writes to a static page, which a forked loop then shares with its snapshot, and a rewound one writes;
 * fresh    every trace reads new memory without writing to it, and its last loop writes to it;
 * lock     every trace locks a file, and closes it after its loop;
 * guard    there are pages that nobody can touch in memory that can be written (Linux 6.13; otherwise nothing). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ars.h>

enum { PAGES = 128, DOUBLES = 512, GUARD_INSTALL = 102 };

static const char *what;
static _Alignas(4096) double cells[PAGES * DOUBLES];

static int is(const char *name) {
    return strcmp(what, name) == 0;
}

static void forked(void) {
    for (;;) {
        rs_start("forked");
        const double x = ars_sample("x", ars_uniform(0, 1));
        syscall(SYS_getpgid, 0); /* refused */
        if (x < 0.5) break;
    }
    rs_end();
}

/* Tries add to a cell of one of the pages given, if there are any. */
static double rewound(double *pages, int n) {
    for (;;) {
        rs_start("rewound");
        const double x = ars_sample("x", ars_uniform(0, 1));
        double *cell = n ? pages + (int)(x * n) * DOUBLES : NULL;
        if (cell) *cell += x;
        const double m = ars_sample("m", ars_normal(cell ? *cell : 0, 1));
        if (x + 0.01 * m < 0.5) {
            rs_end();
            return m;
        }
    }
}

static double stale(void) {
    const double u = ars_sample("u", ars_uniform(0, 20));
    double *page = u < 1 ? cells + (int)(u * PAGES) * DOUBLES : NULL;
    if (page) *page = 5 + u;
    forked();
    double sum = rewound(page, page != NULL);
    if (page) {
        sum += *page;
        *page = 1;
    }
    return sum;
}

static double fresh(void) {
    double sum = 0;
    for (int i = 0; i < 5; i++) sum += rewound(NULL, 0);
    double *memory = mmap(NULL, sizeof cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    for (int i = 0; i < PAGES; i++) sum += ((volatile double *)memory)[i * DOUBLES];
    sum += rewound(memory, PAGES);
    for (int i = 0; i < PAGES; i++) sum += memory[i * DOUBLES];
    munmap(memory, sizeof cells);
    return sum;
}

static double locked(void) {
    const int fd = open(getenv("DEED_FILE"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX)) abort();
    const double sum = rewound(NULL, 0);
    close(fd);
    return sum;
}

static void model(void *user) {
    (void)user;
    const double sum = is("stale") ? stale() : is("fresh") ? fresh() : is("lock") ? locked() : rewound(NULL, 0);
    ars_observe("y", ars_normal(sum, 2));
    ars_result("sum", sum);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    what = argv[1];
    for (int i = 0; i < PAGES * DOUBLES; i++) cells[i] = 1;
    if (is("guard")) {
        char *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) return 2;
        madvise(block, 8192, GUARD_INSTALL);
        block[1 << 16] = 1;
    }
    return ars_main(argc, argv, model, NULL);
}

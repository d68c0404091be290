/* bench_loop: what `ars bench` runs. A loop of a given acceptance in a process of a given size, and next to it a bare
 * fork of the same process, so that the two can be compared.
 *
 *   loop     LOOPS nested loops, each of which accepts with ACCEPTANCE; every try writes to PAGES pages, the same ones
 *   data     the inner loop, and data that know what it accepted to a tenth of the range
 *   bare     FORKS times fork, _exit and waitpid; `cpu` and `wall` are what one of them costs, in seconds
 *   memory   the loop, and what its snapshot costs: `private` and `tables`, in bytes
 *   sites    DRAWS draws, all of SITES names in turn, or of one of the sets that more than DRAWS names make
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ars.h>

#include "args.h"

enum { FORKS = 50, DRAWS = 20, MOST_SITES = 4096, PAGE = 4096, MOST_PAGES = 1 << 20 };

struct parameters {
    double acceptance;
    int memory; /* MB */
    int loops;
    int pages; /* written to by every try */
    int forks;
    int sites;
    char *resident;
    size_t apart; /* bytes from one page that is written to, to the next */
    char (*names)[16];
};

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void write_to_pages(const struct parameters *with) {
    for (int i = 0; i < with->pages; i++) ((volatile char *)with->resident)[(size_t)i * with->apart]++;
}

static double inner(const struct parameters *with) {
    for (;;) {
        rs_start();
        write_to_pages(with);
        double u = ars_sample("u", ars_uniform(0, 1));
        if (u < with->acceptance) {
            rs_end();
            return u;
        }
    }
}

static void outer(const struct parameters *with) {
    for (;;) {
        rs_start();
        inner(with);
        if (ars_sample("v", ars_uniform(0, 1)) < with->acceptance) {
            rs_end();
            return;
        }
    }
}

static void loop(void *user) {
    const struct parameters *with = user;
    if (with->loops == 1)
        inner(with);
    else
        outer(with);
    ars_observe("y", ars_normal(0, 1));
}

static void data(void *user) {
    const struct parameters *with = user;
    ars_observe("y", ars_normal(10 * inner(with) / with->acceptance, 1));
}

/* ---- a bare fork --------------------------------------------------------------------------------------------------- */

static double seconds(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static double cpu(void) {
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds(self.ru_utime) + seconds(self.ru_stime) + seconds(children.ru_utime) + seconds(children.ru_stime);
}

static double wall(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* As libars does it: without libc's handlers, where libc allows that. */
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 34)
#define bare_fork _Fork
#endif
#endif
#ifndef bare_fork
#define bare_fork fork
#endif

static void bare(void *user) {
    const struct parameters *with = user;
    double cpu_before = cpu(), wall_before = wall();
    for (int i = 0; i < with->forks; i++) {
        pid_t pid = bare_fork();
        if (pid == 0) _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid) exit(1);
    }
    ars_result("cpu", (cpu() - cpu_before) / with->forks);
    ars_result("wall", (wall() - wall_before) / with->forks);
    ars_observe("y", ars_normal(0, 1));
}

/* ---- what a snapshot costs ----------------------------------------------------------------------------------------- */

/* The sum of the numbers, in kB, that follow `key` in a file of /proc, as bytes. */
static double kilobytes(const char *path, const char *key) {
    char line[256];
    double sum = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) sum += strtod(line + strlen(key), NULL);
    fclose(file);
    return 1024 * sum;
}

static void memory(void *user) {
    char path[64];
    int pid = 0;
    loop(user);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (!children || fscanf(children, "%d", &pid) != 1) pid = 0; /* a run without estimates has no snapshot */
    if (children) fclose(children);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    ars_result("private", kilobytes(path, "Private_Dirty:") + kilobytes(path, "Private_Clean:"));
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    ars_result("tables", kilobytes(path, "VmPTE:"));
}

/* ---- many sites ---------------------------------------------------------------------------------------------------- */

static void sites(void *user) {
    const struct parameters *with = user;
    double sum = 0;
    int groups = with->sites / DRAWS, group = groups > 1 ? (int)(groups * ars_draw(ars_uniform(0, 1))) % groups : 0;
    for (int i = 0; i < DRAWS; i++) sum += ars_sample(with->names[(group * DRAWS + i) % with->sites], ars_normal(0, 1));
    ars_observe("y", ars_normal(sum, 1));
}

/* -------------------------------------------------------------------------------------------------------------------- */

/* Written to, so that it is there; pieces below the size at which malloc maps them one by one would be a heap, and the
 * heap of a real simulator is what this stands for. The pages that tries write to are spread over it evenly. */
static void reside(struct parameters *with) {
    size_t size = (size_t)with->memory << 20, least = (size_t)(with->pages + 1) * PAGE;
    if (size < least) size = least;
    with->resident = malloc(size);
    if (!with->resident) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(1);
    }
    memset(with->resident, 1, size);
    if (with->pages) with->apart = size / (size_t)with->pages / PAGE * PAGE;
}

int main(int argc, char **argv) {
    const char *usage =
        "bench_loop loop|data|bare|memory ACCEPTANCE MEMORY_MB LOOPS [PAGES [FORKS]], or bench_loop sites SITES";
    struct parameters with = {.forks = FORKS};
    if (argc > 1 && strcmp(argv[1], "sites") == 0) {
        args_count(usage, argc, 2, 2);
        with.sites = args_integer(usage, argv[2], 1, MOST_SITES, "SITES must be a number from 1 to 4096");
        with.names = calloc(MOST_SITES, sizeof *with.names);
        if (!with.names) return 1;
        for (int i = 0; i < with.sites; i++) snprintf(with.names[i], sizeof *with.names, "x%d", i);
        return ars_main(argc, argv, sites, &with);
    }
    args_count(usage, argc, 4, 6);
    void (*model)(void *) = loop;
    if (strcmp(argv[1], "data") == 0) model = data;
    if (strcmp(argv[1], "bare") == 0) model = bare;
    if (strcmp(argv[1], "memory") == 0) model = memory;
    with.acceptance = args_number(usage, argv[2], 1e-6, 1, "ACCEPTANCE must be a number from 1e-6 to 1");
    with.memory = args_integer(usage, argv[3], 0, 1 << 20, "MEMORY_MB must be a number from 0 to 1048576");
    with.loops = args_integer(usage, argv[4], 1, 2, "LOOPS must be 1 or 2");
    if (argc > 5) with.pages = args_integer(usage, argv[5], 0, MOST_PAGES, "PAGES must be a number from 0 to 1048576");
    if (argc > 6) with.forks = args_integer(usage, argv[6], 1, 1000000, "FORKS must be a number from 1 to 1000000");
    reside(&with);
    return ars_main(argc, argv, model, &with);
}

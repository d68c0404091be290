/* bench_loop: what `ars bench` runs. A loop of a given acceptance in a process of a given size, and next to it a bare
 * fork of the same process, so that the two can be compared.
 *
 *   loop     LOOPS nested loops, each of which accepts with ACCEPTANCE
 *   bare     FORKS times fork, _exit and waitpid; the result `cpu` is what they cost together, in seconds
 *   memory   the loop, and what its snapshot costs: `private` and `tables`, in bytes
 *   sites    DRAWS draws, all of SITES names in turn, or of one of the sets that more than DRAWS names make
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ars.h>

#include "args.h"

enum { FORKS = 50, DRAWS = 20, MOST_SITES = 4096 };

struct parameters {
    double acceptance;
    int memory; /* MB */
    int loops;
    int sites;
    char *resident;
    char (*names)[16];
};

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void inner(double acceptance) {
    for (;;) {
        rs_start();
        if (ars_sample("u", ars_uniform(0, 1)) < acceptance) {
            rs_end();
            return;
        }
    }
}

static void outer(double acceptance) {
    for (;;) {
        rs_start();
        inner(acceptance);
        if (ars_sample("v", ars_uniform(0, 1)) < acceptance) {
            rs_end();
            return;
        }
    }
}

static void loop(void *user) {
    const struct parameters *with = user;
    (with->loops == 1 ? inner : outer)(with->acceptance);
    ars_observe("y", ars_normal(0, 1));
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

static void bare(void *user) {
    (void)user;
    double before = cpu();
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid) exit(1);
    }
    ars_result("cpu", cpu() - before);
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
 * heap of a real simulator is what this stands for. */
static char *reside(int megabytes) {
    size_t size = (size_t)megabytes << 20;
    char *block = malloc(size);
    if (!block) {
        fprintf(stderr, "no memory for %d MB\n", megabytes);
        exit(1);
    }
    memset(block, 1, size);
    return block;
}

int main(int argc, char **argv) {
    const char *usage = "bench_loop loop|bare|memory ACCEPTANCE MEMORY_MB LOOPS, or bench_loop sites SITES";
    struct parameters with = {0};
    if (argc > 1 && strcmp(argv[1], "sites") == 0) {
        args_count(usage, argc, 2, 2);
        with.sites = args_integer(usage, argv[2], 1, MOST_SITES, "SITES must be a number from 1 to 4096");
        with.names = calloc(MOST_SITES, sizeof *with.names);
        if (!with.names) return 1;
        for (int i = 0; i < with.sites; i++) snprintf(with.names[i], sizeof *with.names, "x%d", i);
        return ars_main(argc, argv, sites, &with);
    }
    args_count(usage, argc, 4, 4);
    void (*model)(void *) = strcmp(argv[1], "bare") == 0 ? bare : strcmp(argv[1], "memory") == 0 ? memory : loop;
    with.acceptance = args_number(usage, argv[2], 1e-6, 1, "ACCEPTANCE must be a number from 1e-6 to 1");
    with.memory = args_integer(usage, argv[3], 0, 1 << 20, "MEMORY_MB must be a number from 0 to 1048576");
    with.loops = args_integer(usage, argv[4], 1, 2, "LOOPS must be 1 or 2");
    with.resident = reside(with.memory);
    return ars_main(argc, argv, model, &with);
}

/* cores.c: how much of its time a process had for itself. It runs, or sleeps of its own will; while it is ready to run and all
 * cores are busy, its clock stands still. The kernel counts that wait in /proc/PID/schedstat, and adds it when it is over. So time
 * counts when it is certain: a limit that is passed by its waits alone would end a healthy trace.
 *
 * Which process to look at is the word of the family itself. A lie costs nobody but its own trace, and
 * wins no more than HOST_MOST_WAITING says. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cores.h"
#include "host.h"

/* The start of a small file of /proc, with a zero behind it. False: there is none. */
static bool read_proc(pid_t pid, const char *file, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    return true;
}

/* The state stands behind the program's name, which is in brackets and may hold any. */
static bool is_runnable(pid_t pid) {
    char text[400];
    if (!read_proc(pid, "stat", text, sizeof text)) return false;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static bool read_schedstat(pid_t pid, uint64_t *ran, uint64_t *waited) {
    char text[100], *end;
    if (pid <= 0 || !read_proc(pid, "schedstat", text, sizeof text)) return false;
    *ran = strtoull(text, &end, 10);
    *waited = strtoull(end, &end, 10);
    return true;
}

/* Of all its threads, up to this moment. schedstat has it as of the last tick of its core, and a core without ticks (nohz_full)
 * counts once a second: a process that runs there would look like one that waits. */
static bool read_cpu_time(pid_t pid, uint64_t *ran) {
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time)) return false;
    *ran = (uint64_t)time.tv_sec * HOST_S + (uint64_t)time.tv_nsec;
    return true;
}

bool host_cpu_read(pid_t pid, struct cpu_reading *now) {
    now->pid = pid;
    if (!read_schedstat(pid, &now->ran, &now->waited) || !read_cpu_time(pid, &now->ran)) return false;
    now->runnable = is_runnable(pid);
    return true;
}

bool host_cores_counted(void) {
    uint64_t ran, waited;
    return read_schedstat(getpid(), &ran, &waited) && ran > 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The share of a process that is new since the last reading, as far as is known of it. */
static double share_of_new(const struct cpu_reading *now, double last) {
    uint64_t total = now->ran + now->waited;
    if (total) return (double)now->ran / (double)total;
    return now->runnable ? 0 : last;
}

uint64_t host_own_time(struct cpu_clock *clock, const struct cpu_reading *now, uint64_t elapsed) {
    bool goes_on =
        now && clock->last.pid == now->pid && now->ran >= clock->last.ran && now->waited >= clock->last.waited;
    if (!goes_on) {
        clock->credit = 0;
        if (now) {
            clock->share = share_of_new(now, clock->share);
            clock->last = *now;
        }
        return (uint64_t)(clock->share * (double)elapsed);
    }
    uint64_t ran = now->ran - clock->last.ran, waited = now->waited - clock->last.waited;
    clock->last = *now;
    if (!ran && !waited && now->runnable) {
        clock->credit += (int64_t)elapsed; /* left out now, and contained in what the kernel will count */
        return 0;
    }
    int64_t own = (int64_t)elapsed - (int64_t)waited + clock->credit, counted = own;
    if (now->runnable)
        counted -= (int64_t)(elapsed - least(ran, elapsed)); /* it may wait, which shows when that is over */
    if (counted < (int64_t)ran) counted = (int64_t)ran;
    if (counted > (int64_t)elapsed) counted = (int64_t)elapsed;
    clock->credit = own - counted;
    clock->share = elapsed ? (double)counted / (double)elapsed : 1;
    return (uint64_t)counted;
}

/* main.c: ars-host's command line, its segment and its descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

static const char help[] =
    "usage: ars-host --shm FD --zygote FD --zygote-pid PID --workers W --snapshots S\n"
    "\n"
    "The process between a family of simulator processes and their controller. libars starts it; there is no reason "
    "to\n"
    "start it by hand. It reads from the environment:\n"
    "  ARS_ENDPOINT        where the controller listens, ipc://... or tcp://... (loopback only)\n"
    "  ARS_TOKEN           shown to the controller (at most 32 characters)\n"
    "  ARS_CONTROLLER_PID  if set: exit when this process is gone\n";

uint64_t ars__now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * ARS__S + (uint64_t)ts.tv_nsec;
}

void ars__give_up(struct host *host, const char *format, ...) {
    if (host->error[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(host->error, sizeof host->error, format, args);
    va_end(args);
}

struct arguments {
    long shm, zygote, zygote_pid, workers, snapshots;
};

static bool number(const char *text, long low, long high, long *value) {
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return !errno && end != text && !*end && *value >= low && *value <= high;
}

/* Returns -1 to go on, else the exit code. */
static int parse(int argc, char **argv, struct arguments *a) {
    static const struct option options[] = {
        {"shm", 1, NULL, 'm'},       {"zygote", 1, NULL, 'z'},  {"zygote-pid", 1, NULL, 'p'}, {"workers", 1, NULL, 'w'},
        {"snapshots", 1, NULL, 's'}, {"version", 0, NULL, 'v'}, {"help", 0, NULL, 'h'},       {NULL, 0, NULL, 0}};
    *a = (struct arguments){-1, -1, -1, -1, -1};
    int option, which = 0;
    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        bool good = true;
        switch (option) {
        case 'm':
            good = number(optarg, 0, 1 << 20, &a->shm);
            break;
        case 'z':
            good = number(optarg, 0, 1 << 20, &a->zygote);
            break;
        case 'p':
            good = number(optarg, 1, INT32_MAX, &a->zygote_pid);
            break;
        case 'w':
            good = number(optarg, 1, ARS__MAX_WORKERS, &a->workers);
            break;
        case 's':
            good = number(optarg, 0, ARS__MAX_SNAPSHOTS, &a->snapshots);
            break;
        case 'v':
            printf("ars-host: protocol %d to %d, segment %u\n", ARS_WIRE_VERSION_MIN, ARS_WIRE_VERSION,
                   ARS__SHM_VERSION);
            return 0;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fputs(help, stderr);
            return 2;
        }
        if (!good) {
            fprintf(stderr, "ars-host: --%s %s is out of range\n", options[which].name, optarg);
            return 2;
        }
    }
    if (optind == argc && a->shm >= 0 && a->zygote >= 0 && a->zygote_pid > 0 && a->workers > 0 && a->snapshots >= 0)
        return -1;
    fprintf(stderr, "ars-host: arguments are missing or too many\n%s", help);
    return 2;
}

/* The geometry comes from the command line; what the segment says must agree with it. */
static bool map_segment(struct host *host, int fd, char *why, size_t size) {
    struct stat st;
    uint64_t expected = ars__shm_size(host->n_workers, host->per_worker);
    if (fstat(fd, &st)) {
        snprintf(why, size, "descriptor %d is no shared segment: %s", fd, strerror(errno));
        return false;
    }
    if ((uint64_t)st.st_size != expected) {
        snprintf(why, size, "the segment has %lld bytes; %u workers with %u snapshots need %llu", (long long)st.st_size,
                 host->n_workers, host->per_worker, (unsigned long long)expected);
        return false;
    }
    void *at = mmap(NULL, expected, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        snprintf(why, size, "cannot map the segment: %s", strerror(errno));
        return false;
    }
    host->shm = at;
    close(fd);
    if (host->shm->magic != ARS__SHM_MAGIC || host->shm->version != ARS__SHM_VERSION) {
        snprintf(why, size,
                 "the simulator's libars is of another version than this ars-host (segment version %u, not %u); "
                 "build both from one source",
                 host->shm->version, ARS__SHM_VERSION);
        return false;
    }
    if (host->shm->n_workers != host->n_workers || host->shm->snapshots_per_worker != host->per_worker ||
        host->shm->size != expected) {
        snprintf(why, size, "the segment's geometry is not that of the command line");
        return false;
    }
    return true;
}

static bool open_descriptors(struct host *host, char *why, size_t size) {
    if (fcntl(host->zygote_fd, F_SETFD, FD_CLOEXEC) || fcntl(host->zygote_fd, F_SETFL, O_NONBLOCK)) {
        snprintf(why, size, "descriptor %d is no zygote: %s", host->zygote_fd, strerror(errno));
        return false;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) || (host->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        snprintf(why, size, "cannot take signals: %s", strerror(errno));
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would reap the zygote behind our back */

    host->controller_fd = -1;
    const char *pid_text = getenv("ARS_CONTROLLER_PID");
    long pid;
    if (!pid_text || !*pid_text) return true;
    if (!number(pid_text, 1, INT32_MAX, &pid)) {
        snprintf(why, size, "ARS_CONTROLLER_PID=%s is no process id", pid_text);
        return false;
    }
    host->controller_fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (host->controller_fd < 0 && errno == ESRCH) {
        snprintf(why, size, "the controller (process %ld) is gone", pid);
        return false;
    }
    return true; /* without pidfd_open the connection still tells */
}

static void allocate(struct host *host) {
    host->workers = ars__grow(NULL, host->n_workers * sizeof *host->workers);
    memset(host->workers, 0, host->n_workers * sizeof *host->workers);
    host->channels = ars__grow(NULL, host->n_channels * sizeof *host->channels);
    memset(host->channels, 0, host->n_channels * sizeof *host->channels);
    for (host->ticket_bits = 1; (1u << host->ticket_bits) < host->n_channels;) host->ticket_bits++;
}

static void release(struct host *host) {
    for (uint32_t w = 0; host->workers && w < host->n_workers; w++) ars__buffer_free(&host->workers[w].bytes);
    for (int c = 0; c < ARS__COLUMNS; c++) ars__buffer_free(&host->columns[c]);
    ars__buffer_free(&host->sites_out);
    ars__buffer_free(&host->steps_out);
    ars__buffer_free(&host->names);
    free(host->workers);
    free(host->channels);
    free(host->run.queue);
    free(host->sites);
    free(host->site_kinds);
    free(host->site_table);
    free(host->strangers);
}

static bool start(struct host *host, const struct arguments *a) {
    const char *endpoint = getenv("ARS_ENDPOINT"), *token = getenv("ARS_TOKEN");
    ars__why why;
    char text[256];
    if ((uint64_t)host->n_workers * (1 + (uint64_t)host->per_worker) > ARS__MAX_CHANNELS)
        ars__give_up(host,
                     "%u workers with %u snapshots each are more than %d channels; lower ARS_WORKERS or ARS_SNAPSHOTS",
                     host->n_workers, host->per_worker, ARS__MAX_CHANNELS);
    else if (!endpoint || !*endpoint)
        ars__give_up(host, "ARS_ENDPOINT is not set");
    else if (token && strlen(token) > 32)
        ars__give_up(host, "ARS_TOKEN has more than 32 characters");
    else if (!ars__endpoint_allowed(endpoint, &why))
        ars__give_up(host, "%s", why.text);
    else if (!map_segment(host, (int)a->shm, text, sizeof text) || !open_descriptors(host, text, sizeof text))
        ars__give_up(host, "%s", text);
    if (host->error[0]) return false;
    allocate(host);
    ars__family_open(host);
    return ars__sites_open(host) && ars__wake_start(host) && ars__link_open(host, endpoint) &&
           ars__link_greet(host, token ? token : "");
}

int main(int argc, char **argv) {
    static struct host host; /* zero */
    struct arguments a;
    int code = parse(argc, argv, &a);
    if (code >= 0) return code;
    host.n_workers = (uint32_t)a.workers;
    host.per_worker = (uint32_t)a.snapshots;
    host.n_channels = host.n_workers * (1 + host.per_worker);
    host.zygote_fd = (int)a.zygote;
    host.zygote_pid = (pid_t)a.zygote_pid;
    if (start(&host, &a)) ars__loop(&host);
    if (host.error[0]) {
        fprintf(stderr, "ars-host: %s\n", host.error);
        if (host.socket) ars__link_error(&host, host.error);
    }
    ars__family_end(&host);
    ars__link_close(&host);
    release(&host);
    return host.error[0] ? 1 : 0;
}

/* start.c: from a command line to a host at work: the segment, the descriptors, the tables. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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

#include "family.h"
#include "host.h"
#include "keys.h"
#include "link.h"
#include "sites.h"
#include "start.h"
#include "states.h"
#include "wake.h"

uint64_t host_now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * HOST_S + (uint64_t)ts.tv_nsec;
}

void host_give_up(struct host *host, const char *format, ...) {
    if (host->error[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(host->error, sizeof host->error, format, args);
    va_end(args);
}

/* Before anything that depends on the layout. */
static bool check_version(int fd, char *why, size_t size) {
    struct {
        uint64_t magic;
        uint32_t version;
    } said = {0, 0};
    _Static_assert(offsetof(struct ars__shm, version) == 8, "every version of the segment begins like this");
    if (pread(fd, &said, sizeof said, 0) >= 12 && said.magic == ARS__SHM_MAGIC && said.version == ARS__SHM_VERSION)
        return true;
    snprintf(why, size,
             "the simulator's libars is of another version than this ars-host (segment version %u, not %u); "
             "build both from one source",
             said.version, ARS__SHM_VERSION);
    return false;
}

/* The geometry comes from the command line; what the segment says must agree with it. */
static bool map_segment(struct host *host, int fd, char *why, size_t size) {
    struct stat st;
    uint64_t expected = ars__shm_size(host->n_workers, host->per_worker);
    if (fstat(fd, &st)) {
        snprintf(why, size, "descriptor %d is no shared segment: %s", fd, strerror(errno));
        return false;
    }
    if (!check_version(fd, why, size)) return false;
    if ((uint64_t)st.st_size != expected) {
        snprintf(why, size, "the segment has %lld bytes; %u workers with %u snapshots need %llu", (long long)st.st_size,
                 host->n_workers, host->per_worker, (unsigned long long)expected);
        return false;
    }
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) { /* or a read of it could end us */
        snprintf(why, size, "the segment is not sealed against shrinking");
        return false;
    }
    void *at = mmap(NULL, expected, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        snprintf(why, size, "cannot map the segment: %s", strerror(errno));
        return false;
    }
    host->shm = at;
    close(fd);
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
    if (!pid_text || !*pid_text) return true;
    char *end;
    long pid = strtol(pid_text, &end, 10);
    if (*end || pid < 1 || pid > INT32_MAX) {
        snprintf(why, size, "ARS_CONTROLLER_PID=%s is no process id", pid_text);
        return false;
    }
    host->controller_fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (host->controller_fd < 0 && errno == ESRCH) {
        snprintf(why, size, "lost_controller: the controller (process %ld) is gone", pid);
        return false;
    }
    return true; /* without pidfd_open the connection still tells */
}

static void allocate(struct host *host) {
    host->workers = host_grow(NULL, host->n_workers * sizeof *host->workers);
    memset(host->workers, 0, host->n_workers * sizeof *host->workers);
    host->channels = host_grow(NULL, host->n_channels * sizeof *host->channels);
    memset(host->channels, 0, host->n_channels * sizeof *host->channels);
    for (host->ticket_bits = 1; (1u << host->ticket_bits) < host->n_channels;) host->ticket_bits++;
}

void host_release(struct host *host) {
    for (uint32_t w = 0; host->workers && w < host->n_workers; w++) {
        host_buffer_free(&host->workers[w].bytes);
        host_states_free(&host->workers[w].states);
    }
    for (int c = 0; c < ARS__COLUMNS; c++) host_buffer_free(&host->columns[c]);
    host_buffer_free(&host->sites_out);
    host_buffer_free(&host->steps_out);
    host_buffer_free(&host->names);
    free(host->workers);
    free(host->channels);
    free(host->run.queue);
    free(host->run.replays);
    host_buffer_free(&host->run.budgets);
    free(host->run.budget_at);
    free(host->run.listed);
    free(host->run.known);
    free(host->loops_wanted);
    free(host->sites);
    free(host->site_kinds);
    free(host->site_dists);
    free(host->site_table);
    free(host->strangers);
}

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text && *text;
}

/* Connects and greets; the keys are forgotten when the socket has them. */
static bool open_link(struct host *host, const char *endpoint) {
    static const char no_token[] = "00000000000000000000000000000000";
    struct keys keys;
    ars__why why;
    bool has_keys = !strncmp(endpoint, "tcp://", 6) && is_set("ARS_KEY");
    char token[33] = {0};
    if (has_keys && !host_keys_read(getenv("ARS_KEY"), &keys, &why)) {
        host_give_up(host, "%s", why.text);
        return false;
    }
    memcpy(token, has_keys ? keys.token : no_token, sizeof token - 1);
    if (is_set("ARS_TOKEN")) snprintf(token, sizeof token, "%s", getenv("ARS_TOKEN"));
    bool open = host_link_open(host, endpoint, has_keys ? &keys : NULL);
    explicit_bzero(&keys, sizeof keys);
    return open && host_link_greet(host, token);
}

bool host_start(struct host *host, int segment_fd) {
    const char *endpoint = getenv("ARS_ENDPOINT");
    ars__why why;
    char text[256];
    if ((uint64_t)host->n_workers * (1 + (uint64_t)host->per_worker) > ARS__MAX_CHANNELS)
        host_give_up(host,
                     "%u workers with %u snapshots each are more than %d channels; lower ARS_WORKERS or ARS_SNAPSHOTS",
                     host->n_workers, host->per_worker, ARS__MAX_CHANNELS);
    else if (!endpoint || !*endpoint)
        host_give_up(host, "ARS_ENDPOINT is not set");
    else if (is_set("ARS_TOKEN") && strlen(getenv("ARS_TOKEN")) > 32)
        host_give_up(host, "ARS_TOKEN has more than 32 characters");
    else if (!host_endpoint_allowed(endpoint, is_set("ARS_KEY"), is_set("ARS_INSECURE_LOOPBACK"), &why))
        host_give_up(host, "%s", why.text);
    else if (!map_segment(host, segment_fd, text, sizeof text) || !open_descriptors(host, text, sizeof text))
        host_give_up(host, "%s", text);
    if (host->error[0]) return false;
    allocate(host);
    host_family_open(host);
    return host_sites_open(host) && host_wake_start(host) && open_link(host, endpoint);
}

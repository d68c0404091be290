/* main.c: ars-host's command line. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "event_loop.h"
#include "family.h"
#include "host.h"
#include "keys.h"
#include "link.h"
#include "start.h"

static const char help[] =
    "usage: ars-host --shm FD --zygote FD --zygote-pid PID --workers W --snapshots S\n"
    "\n"
    "The process between a family of simulator processes and their controller. libars starts it; there is no reason "
    "to\n"
    "start it by hand. It reads from the environment:\n"
    "  ARS_ENDPOINT        where the controller listens, ipc://... or tcp://...\n"
    "  ARS_KEY             for tcp: the file simulator.key that ars keygen made\n"
    "  ARS_INSECURE_LOOPBACK  if set: tcp on a loopback address goes without keys\n"
    "  ARS_TOKEN           shown to the controller (at most 32 characters; default: the key file's)\n"
    "  ARS_CONTROLLER_PID  if set: exit when this process is gone\n"
    "  ARS_PREFORK         if set: fork the workers at once, so that a debugger can be attached before a run\n";

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
    host.prefork = getenv("ARS_PREFORK") != NULL;
    if (host_start(&host, (int)a.shm)) host_event_loop(&host);
    if (host.error[0]) {
        fprintf(stderr, "ars-host: %s\n", host.error);
        if (host.socket) host_link_error(&host, host.error);
    }
    host_family_end(&host);
    host_link_close(&host);
    host_release(&host);
    return host.error[0] ? 1 : 0;
}

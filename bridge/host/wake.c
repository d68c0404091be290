/* wake.c: the doorbell of the segment as a descriptor.
 *
 * A process that wants us sets its attention bit, increases the doorbell and, if host_asleep is set, wakes the futex. The
 * thread here sleeps on that futex and writes an eventfd that the main thread polls. No ring is lost:
 *  - before it polls, the main thread sets host_asleep and then looks at the attention bits once more, so a process either
 *    sees host_asleep or its bit is seen;
 *  - this thread writes the eventfd for every change of the doorbell that it sees, and the futex does not sleep if the
 *    doorbell has changed since;
 *  - it clears host_asleep before it writes the eventfd, so the main thread always looks again after that.
 * The timeout below and the tick of the main loop are belts. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "futex.h"
#include "host.h"
#include "start.h"
#include "wake.h"

static void *listen_to_bell(void *argument) {
    struct host *host = argument;
    struct ars__bell *bell = ars__bell_at(host->shm);
    uint32_t seen = atomic_load(&bell->doorbell);
    for (;;) {
        ars__futex_wait(&bell->doorbell, seen, 500 * (int64_t)HOST_MS);
        uint32_t now = atomic_load(&bell->doorbell);
        if (now == seen) continue;
        seen = now;
        /* While the main thread is awake it will look by itself before it sleeps. */
        if (!atomic_exchange(&bell->host_asleep, 0)) continue;
        uint64_t one = 1;
        if (write(host->bell_fd, &one, sizeof one) < 0 && errno != EAGAIN) return NULL;
    }
}

bool host_wake_start(struct host *host) {
    pthread_t thread;
    pthread_attr_t attributes;
    host->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int rc = host->bell_fd < 0 ? errno : pthread_create(&thread, &attributes, listen_to_bell, host);
    pthread_attr_destroy(&attributes);
    if (rc) host_give_up(host, "cannot listen to the family: %s", strerror(rc));
    return !rc;
}

bool host_attention_waiting(struct host *host) {
    struct ars__bell *bell = ars__bell_at(host->shm);
    for (uint32_t i = 0; i < (host->n_channels + 63) / 64; i++)
        if (atomic_load(&bell->attention[i])) return true;
    return false;
}

/* event_loop.c: the main loop. Look at who wants attention, hand out work, send what has gathered, sleep until something
 * happens. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#include "columns.h"
#include "event_loop.h"
#include "family.h"
#include "host.h"
#include "link.h"
#include "relay.h"
#include "schedule.h"
#include "session.h"
#include "start.h"
#include "timing.h"
#include "wake.h"

enum { ROUNDS = 4, IDLE_MS = 500 };

void host_signals(struct host *host) {
    struct signalfd_siginfo info;
    while (read(host->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGINT) host->quit = true; /* Ctrl-C is the controller's to handle */
}

static void look_at(struct host *host, uint32_t channel) {
    if (channel >= host->n_channels) return;
    bool is_worker = channel < host->n_workers;
    /* Records first: a question may be of the trace after the one whose record waits in the ring. */
    host_worker_look(host, is_worker ? channel : (channel - host->n_workers) / host->per_worker);
    host_relay_question(host, channel);
}

/* Looks once at every channel whose bit is set. False: there was none. */
static bool drain(struct host *host) {
    bool any = false;
    for (uint32_t i = 0; i < (host->n_channels + 63) / 64; i++) {
        _Atomic uint64_t *word = &ars__bell_at(host->shm)->attention[i];
        if (!atomic_load_explicit(word, memory_order_relaxed)) continue;
        for (uint64_t bits = atomic_exchange(word, 0); bits; bits &= bits - 1) {
            if (host->blocked) { /* later */
                atomic_fetch_or(word, bits);
                return any;
            }
            any = true;
            look_at(host, i * 64 + (uint32_t)__builtin_ctzll(bits));
        }
    }
    return any;
}

static void look(struct host *host) {
    if (host->look_at_all && !host->blocked) {
        host->look_at_all = false;
        for (uint32_t w = 0; w < host->n_workers && !host->blocked; w++) host_worker_look(host, w);
        if (host->blocked) host->look_at_all = true;
    }
    for (int i = 0; i < ROUNDS && !host->blocked && drain(host); i++) {
    }
}

static long sleep_ms(struct host *host) {
    if (!host->blocked && (host->look_at_all || host_attention_waiting(host))) return 0;
    if (!host->run.active) return IDLE_MS;
    if (host->run.hopeless.kind && host->run.queued && !host->blocked) return 0;
    uint64_t until = host->next_tick, now = host_now();
    if (host->n_traces_out && !host->blocked && host_columns_due_at(host) < until) until = host_columns_due_at(host);
    if (host->n_steps_out && !host->blocked && host_steps_due_at(host) < until) until = host_steps_due_at(host);
    return until <= now ? 0 : (long)((until - now + HOST_MS - 1) / HOST_MS);
}

static void sleep_until_event(struct host *host) {
    zmq_pollitem_t items[6] = {{host->socket, 0, (short)(ZMQ_POLLIN | (host->blocked ? ZMQ_POLLOUT : 0)), 0},
                               {host->monitor, 0, ZMQ_POLLIN, 0},
                               {NULL, host->signal_fd, ZMQ_POLLIN, 0},
                               {NULL, host->bell_fd, ZMQ_POLLIN, 0}};
    int n = 4, zygote = -1, controller = -1;
    if (!host->zygote_lost) items[zygote = n++] = (zmq_pollitem_t){NULL, host->zygote_fd, ZMQ_POLLIN, 0};
    if (host->controller_fd >= 0) items[controller = n++] = (zmq_pollitem_t){NULL, host->controller_fd, ZMQ_POLLIN, 0};

    atomic_store(&ars__bell_at(host->shm)->host_asleep, 1); /* then look at the bits once more: see wake.c */
    int rc = zmq_poll(items, n, sleep_ms(host));
    atomic_store(&ars__bell_at(host->shm)->host_asleep, 0);
    host->now = host_now();
    if (rc < 0 && zmq_errno() != EINTR) host_give_up(host, "cannot poll: %s", zmq_strerror(zmq_errno()));
    if (rc <= 0) return;
    uint64_t rings;
    if (items[3].revents && read(host->bell_fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
        host_give_up(host, "cannot read the doorbell");
    if (items[0].revents & ZMQ_POLLOUT) host->blocked = false;
    if (items[0].revents & ZMQ_POLLIN) host_session_receive(host);
    if (items[1].revents) host_link_watch(host);
    if (items[2].revents) host_signals(host);
    if (zygote >= 0 && items[zygote].revents) host_family_receive(host);
    if (controller >= 0 && items[controller].revents) host->disconnected = true;
}

/* The name of this failure reaches no run of the controller that is gone: it is for whoever reads our stderr. */
static void controller_lost(struct host *host) {
    host_session_receive(host); /* its last word may have been QUIT */
    if (host->quit || host->error[0]) return;
    const struct run *run = &host->run;
    char at[100] = "between two runs";
    if (run->active)
        snprintf(at, sizeof at, "in the middle of a run, after %llu of %llu traces",
                 (unsigned long long)run->counters.traces, (unsigned long long)run->config.n_traces);
    host_give_up(
        host, "lost_controller: the controller ended, or the connection to it, %s; the simulator's processes are ended",
        at);
}

void host_event_loop(struct host *host) {
    host->now = host_now();
    while (!host->quit && !host->error[0] && !host->disconnected) {
        look(host);
        host_tick(host);
        host_schedule(host);
        host_link_flush(host, false);
        host_run_finish(host);
        if (host->error[0]) break;
        sleep_until_event(host);
    }
    if (host->disconnected) controller_lost(host);
}

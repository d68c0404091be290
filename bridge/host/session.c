/* session.c: what the controller says, and whether it may say it now. */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "host.h"
#include "relay.h"
#include "schedule.h"
#include "session.h"
#include "sites.h"
#include "start.h"

enum { MESSAGES_PER_TURN = 64 };

static void receive_run(struct host *host, const unsigned char *frame, const struct ars_wire_header *h) {
    if (host->run.active)
        host_give_up(host, "RUN %llu came before run %llu was DONE", (unsigned long long)h->run,
                     (unsigned long long)host->run.last_number);
    else if (h->run <= host->run.last_number)
        host_give_up(host, "RUN %llu came after run %llu; run numbers count up", (unsigned long long)h->run,
                     (unsigned long long)host->run.last_number);
    else
        host_run_start(host, frame);
}

/* Only at the beginning: ids that the family has been told do not change. */
static void receive_sites(struct host *host, const unsigned char *frame, const struct ars_wire_header *h) {
    if (host->run.last_number || host->n_sites)
        host_give_up(host, "SITES from the controller came after the first run had begun, or twice");
    else
        host_sites_adopt(host, frame, h);
}

static void receive_replies(struct host *host, const unsigned char *frame, const struct ars_wire_header *h) {
    if (!host->run.active || h->run != host->run.config.header.run) return; /* of a run that is over */
    size_t at = sizeof *h;
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t size;
        memcpy(&size, frame + at, sizeof size);
        if (!host_relay_reply(host, frame + at)) return;
        at += size;
    }
}

static void receive_cancel(struct host *host, const struct ars_wire_header *h) {
    if (h->run > host->run.last_number || h->run == 0)
        host_give_up(host, "CANCEL of run %llu, which has not begun", (unsigned long long)h->run);
    else if (host->run.active && h->run == host->run.config.header.run && !host->run.cancelled)
        host_run_cancel(host);
}

static void receive_error(struct host *host, const unsigned char *frame, size_t size) {
    const char *text = (const char *)frame + sizeof(struct ars_wire_header);
    size_t length = strnlen(text, size - sizeof(struct ars_wire_header));
    host_give_up(host, "the controller gave up: %.*s", (int)(length < 400 ? length : 400), text);
    host->disconnected = true; /* no answer is expected */
}

static void obey(struct host *host, const unsigned char *frame, size_t size, bool more) {
    struct ars_wire_header h;
    ars__why why;
    if (more) {
        host_give_up(host, "a bad message from the controller: it has more than one frame");
        return;
    }
    if (!ars__check_message(frame, size, host_sites_known(host), &why)) {
        host_give_up(host, "a bad message from the controller: %s", why.text);
        return;
    }
    memcpy(&h, frame, sizeof h);
    switch (h.type) {
    case ARS_MSG_RUN:
        receive_run(host, frame, &h);
        break;
    case ARS_MSG_SITES:
        receive_sites(host, frame, &h);
        break;
    case ARS_MSG_REPLIES:
        receive_replies(host, frame, &h);
        break;
    case ARS_MSG_CANCEL:
        receive_cancel(host, &h);
        break;
    case ARS_MSG_QUIT:
        host->quit = true;
        break;
    case ARS_MSG_ERROR:
        receive_error(host, frame, size);
        break;
    default:
        host_give_up(host, "a bad message from the controller: type %u is not for a host to receive", (unsigned)h.type);
    }
}

void host_session_receive(struct host *host) {
    for (int i = 0; i < MESSAGES_PER_TURN && !host->error[0] && !host->quit; i++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        int size = zmq_msg_recv(&message, host->socket, ZMQ_DONTWAIT);
        if (size >= 0) obey(host, zmq_msg_data(&message), (size_t)size, zmq_msg_more(&message));
        zmq_msg_close(&message);
        if (size < 0) return;
    }
}

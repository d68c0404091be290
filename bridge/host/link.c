/* link.c: the one ZeroMQ socket. A DEALER that connects to the controller's ROUTER. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "columns.h"
#include "event_loop.h"
#include "host.h"
#include "keys.h"
#include "link.h"
#include "relay.h"
#include "start.h"

enum {
    GREETING_MS = 30000,
    LINGER_MS = 2000,
    HEARTBEAT_MS = 5000,
    HEARTBEAT_TIMEOUT_MS = 30000,
    HANDSHAKE_MS = 8000,
    HIGH_WATER = 64
};
enum { GATHER_MS = 5 }; /* how long requests wait for each other at most */

/* ---- where to ---------------------------------------------------------------------------------------------------- */

static bool is_loopback(const char *address, size_t size) {
    if (size == 9 && !memcmp(address, "localhost", 9)) return true;
    if (size == 5 && !memcmp(address, "[::1]", 5)) return true;
    if (size < 9 || size > 15 || memcmp(address, "127.", 4)) return false;
    unsigned a, b, c;
    int used = 0;
    char text[16] = {0};
    memcpy(text, address, size);
    return strspn(text, "0123456789.") == size && sscanf(text, "127.%u.%u.%u%n", &a, &b, &c, &used) == 3 &&
           (size_t)used == size && a < 256 && b < 256 && c < 256;
}

bool host_endpoint_allowed(const char *endpoint, bool has_keys, bool insecure_loopback, ars__why *why) {
    if (!strncmp(endpoint, "ipc://", 6) && endpoint[6]) return true;
    if (strncmp(endpoint, "tcp://", 6)) {
        snprintf(why->text, sizeof why->text, "ARS_ENDPOINT=%.100s: it must be ipc://... or tcp://...", endpoint);
        return false;
    }
    const char *address = endpoint + 6, *colon = strrchr(address, ':');
    if (has_keys || (insecure_loopback && colon && is_loopback(address, (size_t)(colon - address)))) return true;
    snprintf(why->text, sizeof why->text,
             insecure_loopback
                 ? "ARS_ENDPOINT=%.100s is not a loopback address, and ARS_INSECURE_LOOPBACK is for those only"
                 : "ARS_ENDPOINT=%.100s: tcp needs keys: set ARS_KEY to the simulator.key of a pair that "
                   "ars keygen made",
             endpoint);
    return false;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static bool set(void *socket, int option, int value) {
    return !zmq_setsockopt(socket, option, &value, sizeof value);
}

static bool open_monitor(struct host *host) {
    static const char address[] = "inproc://monitor";
    /* A connection that has to be tried again is lost too: the controller listens before it starts us. */
    int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (zmq_socket_monitor(host->socket, address, events)) return false;
    host->monitor = zmq_socket(host->context, ZMQ_PAIR);
    return host->monitor && set(host->monitor, ZMQ_LINGER, 0) && !zmq_connect(host->monitor, address);
}

static bool use_keys(struct host *host, const struct keys *keys) {
    if (!keys) return true;
    host->has_keys = true;
    return !zmq_setsockopt(host->socket, ZMQ_CURVE_SERVERKEY, keys->peer, sizeof keys->peer) &&
           !zmq_setsockopt(host->socket, ZMQ_CURVE_PUBLICKEY, keys->public, sizeof keys->public) &&
           !zmq_setsockopt(host->socket, ZMQ_CURVE_SECRETKEY, keys->secret, sizeof keys->secret);
}

bool host_link_open(struct host *host, const char *endpoint, const struct keys *keys) {
    int64_t largest = ARS_WIRE_MAX_MESSAGE;
    host->context = zmq_ctx_new();
    host->socket = host->context ? zmq_socket(host->context, ZMQ_DEALER) : NULL;
    bool ready = host->socket && set(host->socket, ZMQ_LINGER, LINGER_MS) &&
                 set(host->socket, ZMQ_SNDHWM, HIGH_WATER) && set(host->socket, ZMQ_RCVHWM, HIGH_WATER) &&
                 set(host->socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
                 set(host->socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) &&
                 set(host->socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS) && set(host->socket, ZMQ_IPV6, 1) &&
                 !zmq_setsockopt(host->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) && open_monitor(host) &&
                 use_keys(host, keys) && !zmq_connect(host->socket, endpoint);
    if (!ready) host_give_up(host, "cannot connect to %.200s: %s", endpoint, zmq_strerror(zmq_errno()));
    return ready;
}

void host_link_close(struct host *host) {
    if (host->socket && host->disconnected) set(host->socket, ZMQ_LINGER, 0);
    if (host->monitor) {
        zmq_socket_monitor(host->socket, NULL, 0);
        zmq_close(host->monitor);
    }
    if (host->socket) zmq_close(host->socket);
    if (host->context) zmq_ctx_term(host->context);
    host->monitor = host->socket = host->context = NULL;
}

static enum refusal meaning(uint16_t event) {
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return REFUSAL_WRONG_KEY;
    return event == ZMQ_EVENT_CONNECT_RETRIED ? REFUSAL_NO_ANSWER : REFUSAL_CLOSED;
}

void host_link_watch(struct host *host) {
    for (;;) {
        zmq_msg_t event;
        zmq_msg_init(&event);
        /* An event is two frames, number and address; the first begins with a 16-bit code. */
        int size = zmq_msg_recv(&event, host->monitor, ZMQ_DONTWAIT);
        uint16_t code = 0;
        bool more = size >= 0 && zmq_msg_more(&event);
        if (more && size >= (int)sizeof code) memcpy(&code, zmq_msg_data(&event), sizeof code);
        zmq_msg_close(&event);
        if (size < 0) return;
        if (!more) continue;
        host->disconnected = true; /* every event that we listen to means this */
        if (!host->refusal) host->refusal = meaning(code);
    }
}

/* ---- send -------------------------------------------------------------------------------------------------------- */

struct ars_wire_header host_header(const struct host *host, enum ars_message type, size_t size, uint32_t count) {
    return (struct ars_wire_header){.magic = ARS_WIRE_MAGIC,
                                    .version = ARS_WIRE_VERSION,
                                    .type = (uint16_t)type,
                                    .size = (uint32_t)size,
                                    .count = count,
                                    .run = host->run.active ? host->run.config.header.run : 0};
}

bool host_link_send(struct host *host, const void *frame, size_t size, bool more) {
    while (zmq_send(host->socket, frame, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) {
        if (zmq_errno() == EINTR) continue;
        if (zmq_errno() == EAGAIN)
            host->blocked = true;
        else
            host->disconnected = true;
        return false;
    }
    return true;
}

/* A batch is a buffer whose first bytes are kept for the header. */
static bool send_batch(struct host *host, enum ars_message type, struct buffer *batch, uint32_t *count) {
    if (!*count) return true;
    struct ars_wire_header header = host_header(host, type, batch->size, *count);
    memcpy(batch->data, &header, sizeof header);
    if (!host_link_send(host, batch->data, batch->size, false)) return false;
    batch->size = 0;
    *count = 0;
    return true;
}

/* The controller answers a batch for little more than a single request, so requests are sent together. While it works on
 * one batch the next one gathers. When it has nothing to do, we wait until half of the families that are at work have
 * asked: the other half keeps the cores busy meanwhile. But not for long: they may be busy with themselves. */
uint64_t host_steps_due_at(const struct host *host) {
    uint32_t busy = 0;
    if (host->unanswered) return UINT64_MAX;
    for (uint32_t w = 0; w < host->n_workers; w++) busy += host->workers[w].has_order;
    return 2 * host->n_askers_out >= busy ? 0 : host->steps_since + GATHER_MS * HOST_MS;
}

/* 65,536 channels could ask for more than one message holds, or be answered with more. */
bool host_steps_crowded(const struct host *host) {
    return host->steps_out.size > ARS_WIRE_MAX_MESSAGE / 4 ||
           host->n_steps_out >= ARS_WIRE_MAX_MESSAGE / ARS_WIRE_MAX_STEP / 2;
}

static bool steps_due(const struct host *host) {
    if (!host->n_steps_out) return false;
    return host_steps_crowded(host) || host->now >= host_steps_due_at(host);
}

void host_link_flush(struct host *host, bool all_traces) {
    if (host->blocked || host->disconnected) return;
    if (!send_batch(host, ARS_MSG_SITES, &host->sites_out, &host->n_sites_out)) return;
    if (steps_due(host)) {
        host_relay_clean(host);
        uint32_t steps = host->n_steps_out;
        if (!send_batch(host, ARS_MSG_STEPS, &host->steps_out, &host->n_steps_out)) return;
        host->unanswered += steps;
    }
    if (host->n_traces_out && (all_traces || host_columns_due(host))) host_columns_send(host);
}

void host_link_error(struct host *host, const char *text) {
    unsigned char frame[sizeof(struct ars_wire_header) + ARS_WIRE_TEXT] = {0};
    size_t length = strnlen(text, ARS_WIRE_TEXT - 1), size = sizeof(struct ars_wire_header) + length;
    struct ars_wire_header header = host_header(host, ARS_MSG_ERROR, size, (uint32_t)length);
    memcpy(frame, &header, sizeof header);
    memcpy(frame + sizeof header, text, length);
    /* What had finished, and our last word: worth a short wait if the socket is full. */
    for (int i = 0; i < 50 && !host->disconnected; i++) {
        host->blocked = false;
        if (host->run.active) host_link_flush(host, true);
        if (!host->n_traces_out && host_link_send(host, frame, size, false)) return;
        usleep(10000);
    }
}

/* ---- the greeting ------------------------------------------------------------------------------------------------ */

/* Says why the controller did not answer HELLO, as far as that is known. */
static void give_up_greeting(struct host *host) {
    static const char taken[] = "a controller takes one simulator, and this one may have its own already";
    if (host->refusal == REFUSAL_WRONG_KEY)
        host_give_up(host, "the controller does not know this key: the two key files are not of one pair");
    else if (host->refusal == REFUSAL_NO_ANSWER)
        host_give_up(host, "nobody listens at ARS_ENDPOINT: start the controller first; %s", taken);
    else if (host->has_keys)
        host_give_up(host, "the controller closed the connection before it said WELCOME: either the two key files are "
                           "not of one pair, or it has its simulator already");
    else
        host_give_up(host, "the controller closed the connection before it said WELCOME; %s", taken);
}

/* Waits for one frame. Returns its size, or -1 with the reason in host->error. */
static int await_frame(struct host *host, void *frame, size_t capacity) {
    uint64_t end = host_now() + GREETING_MS * HOST_MS;
    for (;;) {
        zmq_pollitem_t items[] = {{host->socket, 0, ZMQ_POLLIN, 0},
                                  {host->monitor, 0, ZMQ_POLLIN, 0},
                                  {NULL, host->signal_fd, ZMQ_POLLIN, 0},
                                  {NULL, host->zygote_fd, ZMQ_POLLIN, 0},
                                  {NULL, host->controller_fd, ZMQ_POLLIN, 0}};
        int n = host->controller_fd < 0 ? 4 : 5;
        if (zmq_poll(items, n, 200) < 0 && zmq_errno() != EINTR) break;
        if (items[0].revents) {
            int size = zmq_recv(host->socket, frame, capacity, ZMQ_DONTWAIT);
            if (size >= 0) return size;
        }
        if (items[1].revents) host_link_watch(host);
        if (host->disconnected)
            give_up_greeting(host);
        else if (items[2].revents)
            host_signals(host);
        else if (items[3].revents)
            host_give_up(host, "the simulator ended before the controller said WELCOME");
        else if (n == 5 && items[4].revents)
            host_give_up(host, "lost_controller: the controller is gone");
        else if (host_now() > end)
            host_give_up(
                host,
                "no answer from a controller at ARS_ENDPOINT in %d s: it is not there, or it has its simulator "
                "already (a controller takes one)",
                GREETING_MS / 1000);
        if (host->error[0] || host->quit) return -1;
    }
    host_give_up(host, "cannot poll: %s", zmq_strerror(zmq_errno()));
    return -1;
}

bool host_link_greet(struct host *host, const char *token) {
    struct ars_wire_hello hello = {.header = host_header(host, ARS_MSG_HELLO, sizeof hello, 0),
                                   .version_min = ARS_WIRE_VERSION_MIN,
                                   .version_max = ARS_WIRE_VERSION,
                                   .workers = host->n_workers,
                                   .host_pid = (uint32_t)getpid(),
                                   .zygote_pid = (uint32_t)host->zygote_pid};
    memcpy(hello.token, token, strnlen(token, sizeof hello.token));
    if (!host_link_send(host, &hello, sizeof hello, false)) {
        host_give_up(host, "cannot send HELLO: %s", zmq_strerror(zmq_errno()));
        return false;
    }
    unsigned char frame[sizeof(struct ars_wire_header) + ARS_WIRE_TEXT];
    int size = await_frame(host, frame, sizeof frame);
    if (size < 0) return false;
    struct ars_wire_header header;
    struct ars_wire_welcome welcome;
    ars__why why;
    if ((size_t)size > sizeof frame)
        host_give_up(host, "the controller answered HELLO with %d bytes", size);
    else if (!ars__check_message(frame, (size_t)size, (ars__known_sites){0}, &why))
        host_give_up(host, "the controller answered HELLO with a bad frame: %s", why.text);
    if (host->error[0]) return false;
    memcpy(&header, frame, sizeof header);
    if (header.type == ARS_MSG_ERROR) {
        size_t length = (size_t)size - sizeof header;
        host_give_up(host, "the controller refused: %.*s", (int)strnlen((char *)frame + sizeof header, length),
                     (char *)frame + sizeof header);
    } else if (header.type == ARS_MSG_QUIT) {
        host->quit = true;
    } else if (header.type != ARS_MSG_WELCOME) {
        host_give_up(host, "the controller answered HELLO with message type %u", (unsigned)header.type);
    } else {
        memcpy(&welcome, frame, sizeof welcome);
        if (welcome.version < ARS_WIRE_VERSION_MIN || welcome.version > ARS_WIRE_VERSION)
            host_give_up(host, "the controller wants protocol version %u; this ars-host speaks %d to %d",
                         (unsigned)welcome.version, ARS_WIRE_VERSION_MIN, ARS_WIRE_VERSION);
    }
    return !host->error[0];
}

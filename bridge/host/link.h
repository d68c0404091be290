/* link.h: the ZeroMQ socket: what goes to the controller, and whether it is there. */
#ifndef ARS_HOST_LINK_H
#define ARS_HOST_LINK_H

#include "host.h"

struct keys;

/* ipc, tcp with keys, or tcp on loopback if the user says so. */
bool host_endpoint_allowed(const char *endpoint, bool has_keys, bool insecure_loopback, ars__why *why);
bool host_link_open(struct host *host, const char *endpoint, const struct keys *keys); /* keys: NULL for none */
bool host_link_greet(struct host *host, const char *token);
void host_link_close(struct host *host);
void host_link_watch(struct host *host); /* reads the monitor */
/* A header for this run. */
struct ars_wire_header host_header(const struct host *host, enum ars_message type, size_t size, uint32_t count);
/* Sends one frame, or returns false: the socket is full (host->blocked) or the link is gone (host->disconnected). */
bool host_link_send(struct host *host, const void *frame, size_t size, bool more);
/* Sends what has gathered, in the order that PROTOCOL.md asks for: sites, steps, and traces if they are due. */
void host_link_flush(struct host *host, bool all_traces);
/* When the requests that have gathered go out, if nothing happens before: UINT64_MAX while the controller is busy. */
uint64_t host_steps_due_at(const struct host *host);
bool host_steps_crowded(const struct host *host);
void host_link_error(struct host *host, const char *text);

#endif /* ARS_HOST_LINK_H */

/* start.h: from a command line to a host at work, and back; the time; and the reason that ends it. */
#ifndef ARS_HOST_START_H
#define ARS_HOST_START_H

#include "host.h"

uint64_t host_now(void);
/* Remembers the reason that ends the host; the first one counts. */
void host_give_up(struct host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Geometry and descriptors are in *host; makes the rest, and greets the controller. */
bool host_start(struct host *host, int segment_fd);
void host_release(struct host *host);

#endif /* ARS_HOST_START_H */

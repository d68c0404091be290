/* listed.h: which traces the run consists of. */
#ifndef ARS_HOST_LISTED_H
#define ARS_HOST_LISTED_H

#include "host.h"

/* A run begins: its traces go into the queue. `list`: as it came in RUN; nothing, if the traces follow each other. */
void host_listed_start(struct host *host, const unsigned char *list);
/* Writes what is known of the trace of an order next to it; before the worker is told that there is one. */
void host_listed_share(const struct host *host, const struct range *order, struct ars__worker *shared);

#endif /* ARS_HOST_LISTED_H */

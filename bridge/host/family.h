/* family.h: the zygote, and the life and death of workers. */
#ifndef ARS_HOST_FAMILY_H
#define ARS_HOST_FAMILY_H

#include "host.h"

void host_family_open(struct host *host);
void host_family_receive(struct host *host);
void host_family_spawn(struct host *host, uint32_t worker);
void host_family_kill(struct host *host, uint32_t worker);
/* Kills the family, and its current trace fails with this. */
void host_family_condemn(struct host *host, uint32_t worker, enum ars_failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void host_family_lost(struct host *host); /* the zygote is gone: nothing can be forked any more */
void host_family_where(const struct host *host, const struct ars__where *where, struct ars_wire_failure *failure);
void host_family_reap(struct host *host); /* orphans that have come to us, and the zygote */
void host_family_end(struct host *host);
void host_family_count(struct host *host, uint32_t worker); /* tells all workers how many snapshots this one has */
uint64_t host_current_trace(const struct worker *worker);

#endif /* ARS_HOST_FAMILY_H */

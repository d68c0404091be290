/* columns.h: finished traces on their way to the controller. */
#ifndef ARS_HOST_COLUMNS_H
#define ARS_HOST_COLUMNS_H

#include "host.h"

void host_columns_add(struct host *host, const ars__trace_view *view);
void host_columns_fail(struct host *host, const struct ars_wire_failure *failure, uint32_t snapshots);
bool host_columns_due(const struct host *host); /* enough have gathered, or the first has waited long enough */
uint64_t host_columns_due_at(const struct host *host);
void host_columns_send(struct host *host);
void host_columns_clear(struct host *host);

#endif /* ARS_HOST_COLUMNS_H */

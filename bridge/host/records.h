/* records.h: from a worker's ring to finished traces. */
#ifndef ARS_HOST_RECORDS_H
#define ARS_HOST_RECORDS_H

#include "host.h"

/* Reads the worker's ring and its snapshots' results. `last`: the family is dead, nobody will write any more. False: there
 * is more to read, but the link is full or it is another worker's turn (host->look_at_all). */
bool host_records_read(struct host *host, uint32_t worker, bool last);
/* The slots of the snapshots that the worker's trace waits for; returns how many (slots has room for all). */
uint32_t host_records_at_work(struct host *host, uint32_t worker, uint32_t *slots);

#endif /* ARS_HOST_RECORDS_H */

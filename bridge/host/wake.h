/* wake.h: the doorbell of the segment as a descriptor. */
#ifndef ARS_HOST_WAKE_H
#define ARS_HOST_WAKE_H

#include "host.h"

bool host_wake_start(struct host *host);
bool host_attention_waiting(struct host *host);

#endif /* ARS_HOST_WAKE_H */

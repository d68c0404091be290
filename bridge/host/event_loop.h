/* event_loop.h: the main loop. */
#ifndef ARS_HOST_EVENT_LOOP_H
#define ARS_HOST_EVENT_LOOP_H

#include "host.h"

void host_event_loop(struct host *host);
void host_signals(struct host *host); /* reads them; all but SIGINT mean quit */

#endif /* ARS_HOST_EVENT_LOOP_H */

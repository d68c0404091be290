/* session.h: what the controller sends. */
#ifndef ARS_HOST_SESSION_H
#define ARS_HOST_SESSION_H

#include "host.h"

void host_session_receive(struct host *host); /* all that is there */

#endif /* ARS_HOST_SESSION_H */

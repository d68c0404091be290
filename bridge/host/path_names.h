/* path_names.h: questions of the family about the names of call paths. */
#ifndef ARS_HOST_PATH_NAMES_H
#define ARS_HOST_PATH_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "host.h"

/* The name of the path in the body of an ARS__ASK_PATH (shm.h), with a final 0. False: the question is not a valid one. */
bool host_path_name(struct host *host, const unsigned char *body, uint32_t size, char *name, size_t room,
                    ars__why *why);

#endif /* ARS_HOST_PATH_NAMES_H */

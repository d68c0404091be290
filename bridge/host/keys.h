/* keys.h: the key file of a controller on another machine. */
#ifndef ARS_HOST_KEYS_H
#define ARS_HOST_KEYS_H

#include "wire_check.h"

struct keys {
    unsigned char secret[32], public[32], peer[32];
    char token[32];
};
bool host_keys_read(const char *path, struct keys *keys, ars__why *why);

#endif /* ARS_HOST_KEYS_H */

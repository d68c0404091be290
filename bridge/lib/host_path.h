/* host_path.h: where ars-host is. */
#ifndef ARS_LIB_HOST_PATH_H
#define ARS_LIB_HOST_PATH_H

#include <limits.h>
#include <stdbool.h>

struct ars__host_path {
    const char *path;    /* of ars-host, if it was found */
    char made[PATH_MAX]; /* room for a path that is put together */
    char problem[500];   /* if there is none: what to do, and where it was looked for */
};

/* Looks at $ARS_HOST and nowhere else if that is set. Otherwise, in this order: where an installation has ars-host, seen from
 * the file that holds libars (libars.so, or the program that libars.a is linked into); where it was installed; in the
 * program's own folder; on the PATH. */
bool ars__host_find(struct ars__host_path *host);

#endif /* ARS_LIB_HOST_PATH_H */

/* family.h: the split, the zygote and the worker's day; and the launcher, who waits for a sign of life. */
#ifndef ARS_LIB_FAMILY_H
#define ARS_LIB_FAMILY_H

#include <stdbool.h>
#include <sys/types.h>

/* The pipe to the launcher, while it is open. */
struct ars__alive {
    bool known;
    int fd;
    dev_t device;
    ino_t inode;
};

bool ars__controlled(void);
void ars__split(void);       /* returns in a worker */
bool ars__worker_next(void); /* ends the trace in progress, waits for the next */
void ars__alive_error(const char *text);
_Noreturn void ars__cannot_start(const char *what, int error);

#endif /* ARS_LIB_FAMILY_H */

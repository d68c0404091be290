/* snapshot.h: a copy of the simulator parked at the entry of one loop, and the continuations it forks. */
#ifndef ARS_LIB_SNAPSHOT_H
#define ARS_LIB_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "role.h"
#include "shm.h"

struct ars__loop;

#define ARS__EXIT_LEFT 87 /* a continuation that ended as it should */

/* Which snapshot sits in which slot is known to its worker alone. */
struct ars__snapshots {
    uint32_t alive;
    pid_t pid[ARS__MAX_SNAPSHOTS]; /* by slot; 0: none */
};

void ars__snapshot_at_entry(struct ars__loop *loop);
void ars__snapshots_dismiss_from(size_t record); /* those of this loop and the ones behind it */
void ars__snapshots_await(void);
/* In a continuation: a try of its loop has ended. Returns if it goes on, so only if the try was rejected. */
void ars__continuation_tried(const struct ars__loop *root, enum ars__outcome outcome);

#endif /* ARS_LIB_SNAPSHOT_H */

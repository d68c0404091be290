/* snapshot.h: a copy of the simulator parked at the entry of one loop, and the continuations it forks. */
#ifndef ARS_LIB_SNAPSHOT_H
#define ARS_LIB_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shm.h"

struct ars__loop;

#define ARS__EXIT_LEFT 87 /* a continuation that ended as it should */

/* Which snapshot sits in which slot is known to its worker alone. */
struct ars__snapshots {
    uint32_t alive;
    pid_t pid[ARS__MAX_SNAPSHOTS]; /* by slot; 0: none */
};

void ars__snapshot_at_entry(struct ars__loop *loop);
void ars__snapshots_dismiss_after(size_t record); /* those of the loops behind this one */
void ars__snapshots_await(void);
/* In a continuation: a try of its loop was rejected, or accepted. Returns if it goes on, so never if accepted. */
void ars__continuation_tried(const struct ars__loop *root, bool accepted);

#endif /* ARS_LIB_SNAPSHOT_H */

/* snapshot.h: a copy of the simulator parked at the entry of one loop, and the continuations it forks. */
#ifndef ARS_LIB_SNAPSHOT_H
#define ARS_LIB_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "dist.h"
#include "role.h"

struct ars__loop;

#define ARS__EXIT_LEFT 87 /* a continuation that ended as it should */

/* The random stream of a continuation of the loop that was entered last. */
ars__rng ars__stream(enum ars__role role, uint32_t number);

void ars__snapshot_at_entry(struct ars__loop *loop);
void ars__snapshots_dismiss_after(size_t record); /* those of the loops behind this one */
void ars__snapshots_await(void);
void ars__continuation_rejected(struct ars__loop *root);
_Noreturn void ars__continuation_accepted(struct ars__loop *root);

#endif /* ARS_LIB_SNAPSHOT_H */

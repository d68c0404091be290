/* methods.h: how loops are estimated: what one worker has learnt, all others are told. */
#ifndef ARS_HOST_METHODS_H
#define ARS_HOST_METHODS_H

#include "host.h"

/* A loop of a finished trace: if it was forked for a reason that lasts, all workers fork it from now on. */
void host_methods_note(struct host *host, const struct ars_wire_loop *loop);
/* The loop was forked, with these results; if it was rewound as well, compares the two. */
void host_methods_compare(const struct host *host, struct ars_wire_loop *loop, const struct ars__estimate *forked);
/* Passes on the pages that this worker's continuations wrote unexpectedly. False: none that are not known already. */
bool host_methods_take_missed(struct host *host, uint32_t w);
/* A worker has ended. True: in a continuation that ran in place, or because one could not be undone, so its trace is begun again. */
bool host_methods_died(struct host *host, uint32_t w, int status);

#endif /* ARS_HOST_METHODS_H */

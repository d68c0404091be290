/* handles.h: rejection loops that a handle stands for. */
#ifndef ARS_LIB_HANDLES_H
#define ARS_LIB_HANDLES_H

#include <stdint.h>
#include <sys/types.h>

#include "ars.h"

/* The names of loops with handles, by hash; copied, because a loop outlives its handle where that is a mistake. */
enum { ARS__NAME_BUCKETS = 64 };
struct ars__handle_names {
    ars__loop_mark *bucket[ARS__NAME_BUCKETS];
};

void ars__handles_begin(pid_t worker); /* entries of this process get numbers that no other process gives */

#endif /* ARS_LIB_HANDLES_H */

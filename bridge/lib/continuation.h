/* continuation.h: the simulator going on from the entry of a loop, to see whether and when it is accepted. Forked by a
 * snapshot (snapshot.c), or made where the loop stands (loop_in_place.c). */
#ifndef ARS_LIB_CONTINUATION_H
#define ARS_LIB_CONTINUATION_H

#include <stdbool.h>

#include "process.h"

static inline bool ars__continuing(void) {
    return ars__me.role == ARS__TRY_Q || ars__me.role == ARS__RUN_P;
}

#endif /* ARS_LIB_CONTINUATION_H */

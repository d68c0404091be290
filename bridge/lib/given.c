/* given.c: values that the controller gives instead of proposals. */
#include "given.h"

#include <math.h>

#include "continuation.h"
#include "fail.h"
#include "process.h"
#include "rewind.h"

/* A rehearsal takes what the main run will be given, and what comes of it is undone with everything else. */
bool ars__given_take(const ars_dist *prior, ars_dist *proposal) {
    if (ars__continuing() && !ars__rehearsing())
        ars__fail(
            ARS_FAIL_PROTOCOL, 0,
            "the controller gave a value to a continuation under q: a run that gives values must not ask for tries "
            "under q");
    if (ars__dist_log_density(prior, proposal->a[0]) == -INFINITY) {
        ars__me.trace.impossible = true;
        *proposal = *prior;
        return false;
    }
    for (size_t i = 0; i < ars__me.loops.depth; i++) ars__me.loops.at[i].given = true;
    return true;
}

void ars__given_rejected(struct ars__loop *loop) {
    if (!loop->given) return;
    loop->given = false;
    ars__me.trace.impossible = true;
}

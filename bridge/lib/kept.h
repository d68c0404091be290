/* kept.h: memory that a rewind leaves alone: what continuations have counted and learnt, and what is needed to undo them. */
#ifndef ARS_LIB_KEPT_H
#define ARS_LIB_KEPT_H

#include <stdbool.h>

#include "ahead.h"
#include "method.h"
#include "paths.h"
#include "rewind.h"
#include "scopes.h"

struct ars__kept {
    struct ars__rewind rewind;
    struct ars__habits habits;
    struct ars__guesses guesses;
    struct ars__scopes scopes;
    struct ars__paths paths;
};

/* Makes it, before workers are forked: they all have one of their own then, and the limit on memory does not count it. False: no
 * memory. */
bool ars__kept_make(void);

#endif /* ARS_LIB_KEPT_H */

/* tail.h: functions that are not on the stack any more, because their last call was a jump. */
#ifndef ARS_HOST_TAIL_H
#define ARS_HOST_TAIL_H

#include "module.h"

enum { HOST_MOST_TAILS = 4 };

struct host_tail {
    struct host_call jump;
    bool ambiguous; /* there are several such jumps */
};

/* How the function with this symbol gets to one with that name, by jumps alone: one for each function that vanished, the outermost
 * first. Returns their number; 0 if there is no such way, or more than one. */
size_t host_tails(struct host_module *module, const char *symbol, const char *name, struct host_tail *tails);

#endif /* ARS_HOST_TAIL_H */

/* rejected_log.h: what rejected tries drew, for runs that ask for it. */
#ifndef ARS_LIB_REJECTED_LOG_H
#define ARS_LIB_REJECTED_LOG_H

#include <stdbool.h>

#include "trace.h"

struct ars__loop;

/* Where the record of rejected tries stood. */
struct ars__log_position {
    size_t tries, samples, params;
};

static inline struct ars__log_position ars__rejected_now(const struct ars__trace *t) {
    struct ars__log_position m = {t->tries.used, t->rejected.used, t->rejected_params.used};
    return m;
}
void ars__rejected_keep(struct ars__loop *loop); /* the present try is rejected: call before the trace is rewound */
void ars__rejected_close(struct ars__loop *loop, bool accepted); /* the loop has ended */

/* Continuations and their loops belong to no record. */
bool ars__recording_rejected(void);

#endif /* ARS_LIB_REJECTED_LOG_H */

/* fail.h: a failure is an outcome, never a silence. */
#ifndef ARS_LIB_FAIL_H
#define ARS_LIB_FAIL_H

#include "shm.h"
#include "wire.h"

void ars__where_read(const struct ars__where *where, struct ars_wire_failure *failure);

/* Ends the trace with a named failure; alone, writes to stderr and aborts. Asserts are for our bugs, this is for the
 * world's. */
_Noreturn void ars__fail(enum ars_failure_kind kind, int detail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* ARS_LIB_FAIL_H */

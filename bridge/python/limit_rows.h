/* limit_rows.h: the table of bridge/common/limits_table.h, for Python. */
#ifndef ARS_CFFI_LIMIT_ROWS_H
#define ARS_CFFI_LIMIT_ROWS_H

#include <stdint.h>

/* cffi: begin */
struct ars__limit {
    const char *name;
    uint64_t standard;
    uint64_t least;
    uint64_t most;
    const char *unit;
    const char *words; /* for the default, if its number does not say it */
    const char *meaning;
};

/* The row, or NULL after the last. */
const struct ars__limit *ars__limit_at(unsigned row);
/* cffi: end */

#endif /* ARS_CFFI_LIMIT_ROWS_H */

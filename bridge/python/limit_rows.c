/* limit_rows.c: the rows of the table, to be walked. */
#include "limit_rows.h"

#include <stddef.h>

#include "limits_table.h"

static const struct ars__limit rows[] = {
#define ARS__X(NAME, name, standard, least, most, unit, words, meaning)                                                \
    {name, standard, least, most, unit, words, meaning},
    ARS__LIMITS(ARS__X)
#undef ARS__X
};

const struct ars__limit *ars__limit_at(unsigned row) {
    return row < sizeof rows / sizeof *rows ? &rows[row] : NULL;
}

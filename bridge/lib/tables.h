/* tables.h: the first memory of the tables that a continuation writes to. */
#ifndef ARS_LIB_TABLES_H
#define ARS_LIB_TABLES_H

#include "loops.h"
#include "sites.h"
#include "wire.h"

enum { ARS__FEW_LOOPS = 4, ARS__FEW_FRAMES = 8, ARS__FEW_SITES = 48, ARS__FEW_SAMPLES = 20, ARS__FEW_RECORDS = 4 };
struct ars__few {
    struct ars__loop loops[ARS__FEW_LOOPS];
    struct ars__tagged_frame tagged[ARS__FEW_FRAMES];
    struct ars__met met[ARS__FEW_SITES];
    struct ars_wire_sample samples[ARS__FEW_SAMPLES];
    struct ars_wire_loop records[ARS__FEW_RECORDS];
};
/* Enlarges a table: `old` may be NULL, memory of struct ars__few, or of a former call. NULL: no memory. */
void *ars__enlarge(void *old, size_t old_size, size_t size);

#endif /* ARS_LIB_TABLES_H */

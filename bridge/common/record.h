/* record.h: the record of one trace in a worker's ring: where its parts lie. libars writes it, ars-host reads it. */
#ifndef ARS_RECORD_H
#define ARS_RECORD_H

#include <stdint.h>

#include "wire.h"

struct ars__record {
    uint32_t size; /* bytes of the whole record, a multiple of 8 */
    uint32_t reserved;
};

#define ARS__NO_SLOT 0xffffffffu

/* The parts of a record, in their order. A failed trace's counts are all 0. */
enum ars__part {
    ARS__PART_RECORD, /* ars__record */
    ARS__PART_TRACE,  /* ars_wire_trace */
    ARS__PART_SAMPLES,
    ARS__PART_OBSERVES,
    ARS__PART_RESULTS,
    ARS__PART_LOOPS,
    ARS__PART_SLOTS,    /* one uint32_t per loop: the worker's snapshot slot, or ARS__NO_SLOT; padded to 8 bytes */
    ARS__PART_VALUES,   /* double */
    ARS__PART_TRIES,    /* the rejected ones */
    ARS__PART_REJECTED, /* ars_wire_sample: of the rejected tries */
    ARS__PART_FAILURE,  /* ars_wire_failure, of a failed trace */
    ARS__PARTS
};

/* Part i is the bytes at[i] to at[i + 1] of the record; at[ARS__PARTS] is its size. */
struct ars__layout {
    uint64_t at[ARS__PARTS + 1];
};

static inline struct ars__layout ars__record_layout(const struct ars_wire_trace *t, uint32_t n_rejected) {
    const uint64_t sizes[ARS__PARTS] = {
        [ARS__PART_RECORD] = sizeof(struct ars__record),
        [ARS__PART_TRACE] = sizeof(struct ars_wire_trace),
        [ARS__PART_SAMPLES] = t->n_samples * (uint64_t)sizeof(struct ars_wire_sample),
        [ARS__PART_OBSERVES] = t->n_observes * (uint64_t)sizeof(struct ars_wire_values),
        [ARS__PART_RESULTS] = t->n_results * (uint64_t)sizeof(struct ars_wire_result),
        [ARS__PART_LOOPS] = t->n_loops * (uint64_t)sizeof(struct ars_wire_loop),
        [ARS__PART_SLOTS] = (t->n_loops * (uint64_t)sizeof(uint32_t) + 7) / 8 * 8,
        [ARS__PART_VALUES] = t->n_values * (uint64_t)sizeof(double),
        [ARS__PART_TRIES] = t->n_tries * (uint64_t)sizeof(struct ars_wire_try),
        [ARS__PART_REJECTED] = n_rejected * (uint64_t)sizeof(struct ars_wire_sample),
        [ARS__PART_FAILURE] = t->failure ? sizeof(struct ars_wire_failure) : 0,
    };
    struct ars__layout layout = {{0}};
    for (int i = 0; i < ARS__PARTS; i++) layout.at[i + 1] = layout.at[i] + sizes[i];
    return layout;
}

#endif /* ARS_RECORD_H */

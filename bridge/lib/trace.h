/* trace.h: the trace under construction. */
#ifndef ARS_LIB_TRACE_H
#define ARS_LIB_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* A growing array of bytes; `used` is truncated when a loop's try is rejected. */
struct ars__buffer {
    unsigned char *bytes;
    size_t used, room;
};

struct ars__trace {
    struct ars__buffer samples;            /* ars_wire_sample */
    struct ars__buffer params;             /* double: parameters of the samples' priors, if the run records them */
    struct ars__buffer observes, observed; /* ars_wire_values, and their doubles */
    struct ars__buffer results, resulted;  /* ars_wire_result, and their doubles */
    struct ars__buffer loops;              /* ars_wire_loop */
    struct ars__buffer slots;              /* uint32_t per loop */
    struct ars__buffer tries, rejected;    /* ars_wire_try, and their ars_wire_sample (rejected_log.c) */
    struct ars__buffer rejected_params;    /* double: of the rejected samples' priors */
    double log_likelihood;
    double log_ratio_all;
    bool impossible; /* the values that the controller gave are (given.h): its weight is 0 */
    uint32_t snapshots;
    uint32_t entries; /* loops entered, rejected ones included: names the random streams of their continuations */
};

/* Up to where, and when, the host was last told of records in the ring. */
struct ars__told_host {
    uint64_t at_byte;
    int64_t at_time; /* nanoseconds of CLOCK_MONOTONIC */
};

/* Where the trace stood: everything a rejected try adds lies behind it. */
struct ars__position {
    size_t samples, params, results, resulted, loops;
};

void *ars__buffer_add(struct ars__buffer *b, const void *bytes, size_t size);
void ars__trace_reset(struct ars__trace *t);
struct ars__position ars__trace_position(const struct ars__trace *t);
void ars__trace_rewind(struct ars__trace *t, const struct ars__position *to); /* also gives instance numbers back */
void ars__trace_send(struct ars__trace *t); /* writes the record into the worker's ring */
void ars__trace_send_failure(const struct ars_wire_failure *failure);

static inline size_t ars__n_samples(const struct ars__trace *t) {
    return t->samples.used / sizeof(struct ars_wire_sample);
}
static inline size_t ars__n_loops(const struct ars__trace *t) {
    return t->loops.used / sizeof(struct ars_wire_loop);
}
/* The loops of the trace, and the snapshot's slot of each. Both move when a loop is entered. */
static inline struct ars_wire_loop *ars__loop_records(const struct ars__trace *t) {
    return (struct ars_wire_loop *)(void *)t->loops.bytes;
}
static inline uint32_t *ars__loop_slots(const struct ars__trace *t) {
    return (uint32_t *)(void *)t->slots.bytes;
}

#endif /* ARS_LIB_TRACE_H */

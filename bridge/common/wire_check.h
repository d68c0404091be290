/* wire_check.h: is this message, item or record what PROTOCOL.md says it is? Pure functions over bytes that a peer wrote.
 *
 * Bytes may be unaligned. Every function returns true for good bytes; else false, with a sentence in `why`. Nothing is
 * read beyond the size given. */
#ifndef ARS_WIRE_CHECK_H
#define ARS_WIRE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

typedef struct ars__why {
    char text[256];
} ars__why;

/* What the receiver knows of sites: how many there are, and (if not NULL) the kind and the distribution of each. */
typedef struct ars__known_sites {
    uint32_t n;
    const uint8_t *kinds;
    const uint8_t *dists;
} ars__known_sites;

/* The header of any frame: magic, a type we know, a size equal to the frame's; and a version we speak, except in HELLO,
 * WELCOME and ERROR, which must be readable across versions. */
bool ars__check_header(const void *frame, size_t size, struct ars_wire_header *header, ars__why *why);

/* A distribution at the start of `bytes`; *used is its length. Structure and numbers that no distribution may have (NaN,
 * infinities out of place); whoever draws from it checks the rest. */
enum ars__dist_role { ARS__AS_PRIOR = 0, ARS__AS_PROPOSAL = 1 };
bool ars__check_dist(const void *bytes, size_t size, enum ars__dist_role role, size_t *used, ars__why *why);

/* The length of the well-formed UTF-8 sequence at the start of n > 0 bytes; 0: there is none. */
size_t ars__utf8_sequence(const unsigned char *c, size_t n);

/* One item of STEPS, REPLIES or SITES at the start of `bytes`; *used is its length. */
bool ars__check_step(const void *bytes, size_t size, ars__known_sites sites, size_t *used, ars__why *why);
bool ars__check_reply(const void *bytes, size_t size, size_t *used, ars__why *why);
bool ars__check_site(const void *bytes, size_t size, size_t *used, ars__why *why);

/* A whole message of one frame, of any type but TRACES. */
bool ars__check_message(const void *frame, size_t size, ars__known_sites sites, ars__why *why);

/* The parts of a RUN that has been checked, as bytes from the start of its frame: its budgets begin where the observed data
 * end, and its listed traces where the budgets do. */
typedef struct ars__run_parts {
    size_t budgets, listed;
} ars__run_parts;
ars__run_parts ars__parts_of_run(const unsigned char *frame);

/* One trace: where each of its arrays begins. */
typedef struct ars__trace_view {
    struct ars_wire_trace trace;
    const unsigned char *samples;
    const unsigned char *observes;
    const unsigned char *results;
    const unsigned char *loops;
    const unsigned char *values;
    const unsigned char *tries;
    const unsigned char *rejected;
    uint32_t n_rejected; /* samples: the sum of the tries' n_samples */
} ars__trace_view;
/* The samples that n tries have; false if they are more than `room`. */
bool ars__count_rejected(const unsigned char *tries, uint32_t n, size_t room, uint32_t *n_rejected, ars__why *why);
bool ars__check_trace(const ars__trace_view *view, ars__known_sites sites, ars__why *why);

/* A failure: a known kind, places that are known, and a text whose last byte is 0. */
bool ars__check_failure(const void *bytes, ars__known_sites sites, ars__why *why);

/* TRACES: the header frame and its columns, in the order of PROTOCOL.md. */
enum ars__column {
    ARS__COLUMN_TRACES,
    ARS__COLUMN_SAMPLES,
    ARS__COLUMN_OBSERVES,
    ARS__COLUMN_RESULTS,
    ARS__COLUMN_LOOPS,
    ARS__COLUMN_VALUES,
    ARS__COLUMN_FAILURES,
    ARS__COLUMN_TRIES,
    ARS__COLUMN_REJECTED,
    ARS__COLUMNS
};
typedef struct ars__bytes {
    const void *data;
    size_t size;
} ars__bytes;
bool ars__check_traces(ars__bytes header, const ars__bytes columns[ARS__COLUMNS], ars__known_sites sites,
                       ars__why *why);

#endif /* ARS_WIRE_CHECK_H */

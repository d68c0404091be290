/* wire_says.h: what the checks of wire.c, wire_run.c and wire_traces.c have in common. */
#ifndef ARS_WIRE_SAYS_H
#define ARS_WIRE_SAYS_H

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dist.h"
#include "wire_check.h"

/* Says what is wrong; false. */
__attribute__((format(printf, 2, 3))) static inline bool bad(ars__why *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

static inline double double_at(const unsigned char *bytes, size_t i) {
    double x;
    memcpy(&x, bytes + i * sizeof x, sizeof x);
    return x;
}

static inline bool finite_number(double x) {
    return x >= -DBL_MAX && x <= DBL_MAX;
}

/* A log density or ratio: -inf is an outcome, NaN and +inf are not. */
static inline bool log_number(double x) {
    return x <= DBL_MAX;
}

static inline bool is_site(ars__known_sites sites, uint32_t id, enum ars_site_kind kind) {
    return id < sites.n && (!sites.kinds || sites.kinds[id] == kind);
}

/* wire.c: a name of this size at the start of `size` bytes, with its padding. */
bool ars__check_name(const unsigned char *at, uint32_t name_size, size_t size, ars__why *why);
/* wire_run.c: a RUN whose header has been checked. */
bool ars__check_run(const unsigned char *frame, const struct ars_wire_header *h, ars__why *why);

#endif /* ARS_WIRE_SAYS_H */

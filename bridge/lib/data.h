/* data.h: the observed values of a posterior run, handed out in order. */
#ifndef ARS_LIB_DATA_H
#define ARS_LIB_DATA_H

#include <stddef.h>

/* One name of the observed data, and how many of its values this trace has taken. */
struct ars__given {
    const char *name;
    size_t name_size;
    const double *values;
    size_t n, taken;
};

struct ars__data {
    struct ars__given *given;
    size_t n, latest; /* how many names; the one looked up last */
};

void ars__data_begin_run(void);
void ars__data_begin_trace(void);
/* The next n given values for `name`, NaN where one was not observed; NULL if this run simulates its observations. Fails if
 * they do not fit. */
const double *ars__data_take(const char *name, size_t n);
/* Which of several values the one taken last is, for messages: " (element 2 of 10)", from 0; nothing if there is one. */
void ars__data_place(const char *name, char *text, size_t size);
void ars__data_end_trace(void);

#endif /* ARS_LIB_DATA_H */

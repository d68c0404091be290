/* data.h: the observed values of a posterior run, handed out in order. */
#ifndef ARS_LIB_DATA_H
#define ARS_LIB_DATA_H

#include <stdbool.h>
#include <stddef.h>

/* One name of the observed data, and how many of its values this trace has taken. */
struct ars__given {
    const char *name;
    size_t name_size;
    const double *values;
    size_t n, taken;
    bool seen; /* by ars_given, as a whole */
};

struct ars__data {
    struct ars__given *given;
    size_t n, latest; /* how many names; the one looked up last */
};

void ars__data_begin_run(void);
void ars__data_begin_trace(void);
/* The next n given values for `name`, NaN where one was not observed; NULL if this run simulates its observations. Without
 * data of that name they are those of `literal`, the program's own, and *held is true; if that is NULL, it fails. Also if the
 * data do not fit. */
const double *ars__data_take(const char *name, size_t n, const double *literal, bool *held);
/* All values for `name`, for ars_given; NULL if there are none. */
const double *ars__data_look(const char *name, size_t *n);
/* Which of several values the one is that was taken as the last but `before_end` - 1, for messages: " (element 2 of 10)", from
 * 0; nothing if there is one. */
void ars__data_place(const char *name, size_t before_end, char *text, size_t size);
void ars__data_end_trace(void);

#endif /* ARS_LIB_DATA_H */

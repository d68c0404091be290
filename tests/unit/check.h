/* check.h: for test programs. CHECK reports and goes on; main ends with `return check_failures != 0`. */
#ifndef ARS_TESTS_CHECK_H
#define ARS_TESTS_CHECK_H

#include <math.h>
#include <stdio.h>
#include <string.h>

static int check_failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                    \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

/* |got - wanted| <= tolerance; a NaN fails. */
#define CHECK_NEAR(got, wanted, tolerance)                                                                             \
    do {                                                                                                               \
        double check_got = (got), check_wanted = (wanted);                                                             \
        if (!(check_got == check_wanted || fabs(check_got - check_wanted) <= (tolerance))) {                           \
            fprintf(stderr, "%s:%d: failed: %s is %.17g, not %.17g\n", __FILE__, __LINE__, #got, check_got,            \
                    check_wanted);                                                                                     \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

#define CHECK_TEXT(got, wanted)                                                                                        \
    do {                                                                                                               \
        const char *check_got = (got), *check_wanted = (wanted);                                                       \
        if (strcmp(check_got, check_wanted) != 0) {                                                                    \
            fprintf(stderr, "%s:%d: failed: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, check_got,          \
                    check_wanted);                                                                                     \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

#endif /* ARS_TESTS_CHECK_H */

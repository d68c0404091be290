/* args.h: command-line arguments of the example simulators: checked, and refused with a sentence and the usage. */
#ifndef CSIM_ARGS_H
#define CSIM_ARGS_H

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline void args_fail(const char *usage, const char *what, const char *text) {
    fprintf(stderr, "%s, not \"%s\"\nusage: %s\n", what, text, usage);
    exit(2);
}

static inline void args_count(const char *usage, int argc, int least, int most) {
    if (argc - 1 >= least && argc - 1 <= most) return;
    fprintf(stderr, "wrong number of arguments: %d\nusage: %s\n", argc - 1, usage);
    exit(2);
}

/* A finite number in [low, high]. `what` is the complaint if it is not: "SIGMA must be a positive number". */
static inline double args_number(const char *usage, const char *text, double low, double high, const char *what) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(value) || value < low || value > high) args_fail(usage, what, text);
    return value;
}

static inline int args_integer(const char *usage, const char *text, int low, int high, const char *what) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) args_fail(usage, what, text);
    return (int)value;
}

#endif /* CSIM_ARGS_H */

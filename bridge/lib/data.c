/* data.c: the observed values of a posterior run, handed out in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "fail.h"
#include "process.h"
#include "sites.h"

static struct ars__data *const data = &ars__me.data;

/* The host has checked the sizes against data_size when the run began. */
void ars__data_begin_run(void) {
    const struct ars__run *run = &ars__me.shm->run;
    data->n = (run->flags & ARS_RUN_POSTERIOR) ? run->n_observed : 0;
    free(data->given);
    data->given = calloc(data->n + 1, sizeof(struct ars__given));
    if (!data->given) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the table of %zu observed names", data->n);
    const struct ars_wire_observed *table = (const void *)ars__me.shm->data;
    const unsigned char *at = (const unsigned char *)(table + data->n);
    for (size_t i = 0; i < data->n; i++) {
        data->given[i].name = (const char *)at;
        data->given[i].name_size = table[i].name_size;
        data->given[i].n = table[i].n_values;
        at += ARS_WIRE_PAD(table[i].name_size);
    }
    for (size_t i = 0; i < data->n; i++) {
        data->given[i].values = (const double *)(const void *)at;
        at += 8 * data->given[i].n;
    }
    data->latest = 0;
}

void ars__data_begin_trace(void) {
    for (size_t i = 0; i < data->n; i++) {
        data->given[i].taken = 0;
        data->given[i].seen = false;
    }
}

/* Names come in the order of the last trace, so the search starts where the last one ended. */
static struct ars__given *find_given(const char *name) {
    size_t size = strlen(name);
    for (size_t k = 0; k < data->n; k++) {
        struct ars__given *g = &data->given[(data->latest + k) % data->n];
        if (g->name_size == size && memcmp(g->name, name, size) == 0) {
            data->latest = (size_t)(g - data->given);
            return g;
        }
    }
    return NULL;
}

static const char *list_names(char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < data->n && used + 8 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s\"%.*s\"", i ? ", " : "", (int)data->given[i].name_size,
                                 data->given[i].name);
    return data->n ? text : "none";
}

const double *ars__data_take(const char *name, size_t n, const double *literal, bool *held) {
    if (!(ars__me.flags & ARS_RUN_POSTERIOR)) return NULL;
    char names[200], shown[100];
    struct ars__given *g = find_given(name);
    if (!g && literal) {
        *held = true;
        return literal;
    }
    if (!g)
        ars__fail(ARS_FAIL_OBSERVATION, 0,
                  "the simulator observes \"%s\", for which no data were given; given: %s. Add it to observe=, as "
                  "NaN if it was not observed",
                  ars__shown(name, shown, sizeof shown), list_names(names, sizeof names));
    if (g->n - g->taken < n)
        ars__fail(
            ARS_FAIL_OBSERVATION, 0,
            "the data given for \"%.80s\" are too short: %zu values were given, the simulator observes at least %zu",
            name, g->n, g->taken + n);
    g->taken += n;
    return g->values + g->taken - n;
}

const double *ars__data_look(const char *name, size_t *n) {
    struct ars__given *g = (ars__me.flags & ARS_RUN_POSTERIOR) ? find_given(name) : NULL;
    if (g) g->seen = true;
    *n = g ? g->n : 0;
    return g ? g->values : NULL;
}

void ars__data_place(const char *name, size_t before_end, char *text, size_t size) {
    const struct ars__given *g = find_given(name);
    if (g && g->n > 1) snprintf(text, size, " (element %zu of %zu)", g->taken - before_end, g->n);
}

void ars__data_end_trace(void) {
    for (size_t i = 0; i < data->n; i++) {
        const struct ars__given *g = &data->given[i];
        if (g->seen && !g->taken) continue;
        int size = (int)(g->name_size < 80 ? g->name_size : 80);
        if (!g->taken && g->n)
            ars__fail(ARS_FAIL_OBSERVATION, 0,
                      "data were given for \"%.*s\", which the simulator did not observe in trace %llu; check the name",
                      size, g->name, (unsigned long long)ars__me.trace_number);
        if (g->taken != g->n)
            ars__fail(ARS_FAIL_OBSERVATION, 0,
                      "the data given for \"%.*s\" are too long: %zu values were given, the simulator observed %zu",
                      size, g->name, g->n, g->taken);
    }
}

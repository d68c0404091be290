/* states.c: the states that the controller gave to a trace. A process hands them back from memory that its simulator may have
 * written over; a state that the controller does not know would cost the run, not the trace. */
#include "states.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"

enum { FIRST_CAPACITY = 64, MOST_KEPT = 8192 }; /* powers of two */

static size_t place_of(const struct states *states, uint64_t state) {
    size_t last = states->capacity - 1, i = (size_t)(state * 0x9e3779b97f4a7c15u >> 32) & last;
    while (states->at[i] && states->at[i] != state) i = (i + 1) & last;
    return i;
}

bool host_states_know(const struct states *states, uint64_t state) {
    return !state || (states->count && states->at[place_of(states, state)] == state);
}

static void grow(struct states *states) {
    struct states old = *states;
    states->capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
    states->at = host_grow(NULL, states->capacity * sizeof *states->at);
    memset(states->at, 0, states->capacity * sizeof *states->at);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.at[i]) states->at[place_of(states, old.at[i])] = old.at[i];
    free(old.at);
}

void host_states_add(struct states *states, uint64_t state) {
    if (host_states_know(states, state)) return;
    if (2 * (states->count + 1) > states->capacity) grow(states);
    states->at[place_of(states, state)] = state;
    states->count++;
}

void host_states_clear(struct states *states) {
    if (!states->count) return;
    states->count = 0;
    if (states->capacity <= MOST_KEPT)
        memset(states->at, 0, states->capacity * sizeof *states->at);
    else
        host_states_free(states);
}

void host_states_free(struct states *states) {
    free(states->at);
    *states = (struct states){0};
}

/* hash.h: state becomes a number in [0, 1) that any other state would change beyond recognition. Draws, acceptance and results
 * depend on it, so a state that was not put back shows in the bits of a trace. Exact in every rounding mode. */
#ifndef REWIND_HASH_H
#define REWIND_HASH_H

#include <stdint.h>
#include <string.h>

static inline uint64_t hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 32;
}

static inline uint64_t hash_add(uint64_t hash, double value) {
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return hash_word(hash, word);
}

static inline double hash_unit(uint64_t hash) {
    return (double)(int64_t)(hash >> 11) * (1.0 / 9007199254740992.0);
}

#endif

/* fuzz.h: what the fuzz targets share. */
#ifndef ARS_FUZZ_H
#define ARS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that must hold whatever the input is. */
#define PROMISE(what)                                                                                                  \
    do {                                                                                                               \
        if (what) break;                                                                                               \
        fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #what);                                     \
        abort();                                                                                                       \
    } while (0)

/* The sites of tests/host/golden/sites.bin. */
static const uint8_t fuzz_kinds[] = {ARS_SITE_SAMPLE, ARS_SITE_SAMPLE, ARS_SITE_OBSERVE, ARS_SITE_RESULT,
                                     ARS_SITE_LOOP};
static const uint8_t fuzz_dists[] = {ARS_DIST_NORMAL, ARS_DIST_UNIFORM, ARS_DIST_NORMAL, 0, 0};
#define FUZZ_SITES ((ars__known_sites){sizeof fuzz_kinds, fuzz_kinds, fuzz_dists})

/* The bytes of an input, taken one after another; zeros when there are no more. */
struct script {
    const uint8_t *at;
    size_t left;
};

static inline size_t script_take(struct script *s, void *out, size_t size) {
    size_t n = size < s->left ? size : s->left;
    memcpy(out, s->at, n);
    memset((unsigned char *)out + n, 0, size - n);
    s->at += n;
    s->left -= n;
    return n;
}

static inline uint8_t script_byte(struct script *s) {
    uint8_t byte;
    script_take(s, &byte, sizeof byte);
    return byte;
}

/* Bytes with their own size in front: two bytes, or what is left. */
static inline struct script script_part(struct script *s) {
    uint16_t size;
    script_take(s, &size, sizeof size);
    struct script part = {s->at, size < s->left ? size : s->left};
    s->at += part.left;
    s->left -= part.left;
    return part;
}

#endif /* ARS_FUZZ_H */

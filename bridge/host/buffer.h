/* buffer.h: bytes that grow. Running out of memory ends the program with a message: a host that cannot hold a batch
 * cannot report anything either. */
#ifndef ARS_HOST_BUFFER_H
#define ARS_HOST_BUFFER_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    unsigned char *data;
    size_t size, capacity;
};

static inline void *host_grow(void *data, size_t size) {
    void *grown = realloc(data, size);
    if (grown) return grown;
    fprintf(stderr, "ars-host: out of memory (%zu bytes)\n", size);
    _Exit(1);
}

static inline void host_buffer_reserve(struct buffer *b, size_t more) {
    if (b->capacity - b->size >= more) return;
    size_t capacity = b->capacity ? b->capacity : 4096;
    while (capacity - b->size < more) capacity *= 2;
    b->data = host_grow(b->data, capacity);
    b->capacity = capacity;
}

static inline void host_buffer_add(struct buffer *b, const void *data, size_t size) {
    if (!size) return;
    host_buffer_reserve(b, size);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void host_buffer_zeros(struct buffer *b, size_t size) {
    if (!size) return;
    host_buffer_reserve(b, size);
    memset(b->data + b->size, 0, size);
    b->size += size;
}

static inline void host_buffer_free(struct buffer *b) {
    free(b->data);
    *b = (struct buffer){0};
}

#endif /* ARS_HOST_BUFFER_H */

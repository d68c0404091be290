/* ahead.h: proposals that continuations under q will want, asked for before they run. */
#ifndef ARS_LIB_AHEAD_H
#define ARS_LIB_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "dist.h"
#include "shm.h"

struct ars__loop;

/* How often guesses about a loop were right. */
struct ars__score {
    uint32_t asked, used, left_alone;
};

/* A continuation to come, as far as it is known. */
struct ars__guessed_stream {
    ars__rng rng;
    uint64_t state;
    double value;
    uint32_t head, tail; /* its answers */
};

enum { ARS__GUESSES_ROOM = 64 << 10 };
struct ars__guesses {
    struct ars__score scores[ARS_WIRE_MAX_SITES]; /* by loop; pages without a loop take no memory */
    struct ars__guessed_stream streams[ARS__MOST_STEPS];
    uint32_t first_stream, n_streams;
    uint32_t used_in_place; /* answers that continuations in place have used */
    size_t filled;
    _Alignas(8) unsigned char room[ARS__GUESSES_ROOM]; /* answers, each with its question */
};

void ars__script_begin(struct ars__loop *loop); /* a try begins */
void ars__script_close(struct ars__loop *loop); /* what comes next in this try cannot be guessed */
void ars__script_asks(const unsigned char *request, size_t size);
void ars__script_answered(size_t reply_size);
/* Asks what n continuations under q, from this number on, will want to know. Returns how many answers it got. */
uint32_t ars__ask_ahead(const struct ars__loop *loop, uint32_t from, uint32_t n);
void ars__ahead_learn(uint32_t loop_id, uint32_t asked, uint32_t used);
uint32_t ars__ahead_used_in_place(void); /* since the last call */
/* In a continuation: which one it is; and the answer to its next question, NULL if it was not guessed. */
void ars__ahead_begin(uint32_t number);
const unsigned char *ars__ahead_find(const unsigned char *request, size_t size, size_t *reply_size);

#endif /* ARS_LIB_AHEAD_H */

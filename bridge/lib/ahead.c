/* ahead.c: proposals that continuations under q will want, asked for before they run.
 *
 * A continuation that asks has to wait: for the other processes, the controller, and a core. Waiting costs more than all that
 * it does otherwise, and N of them wait one after another. But what they will ask can be guessed. The proposal for the
 * first draw of the loop is known, the random stream of every continuation too, so its first value can be drawn here;
 * and the next question is most likely the one that the main run asked at this place, with that value in it. All N of
 * them go in one message; then the values drawn from the answers, with the question after that, and so on.
 *
 * Nothing depends on the guess being right. A continuation compares its question with the one guessed, byte by byte, and if they
 * differ it asks as it always would; and the controller's answer to a question does not depend on who asks it, and
 * when. Wrong guesses cost time only: a loop whose guesses are mostly wrong is left alone for a while. But they are questions that
 * the simulator might never ask, to which a proposal written by hand may have no answer: hence a flag of the run. */
#include <math.h>
#include <string.h>

#include "ahead.h"
#include "ask.h"
#include "continuation.h"
#include "loops.h"
#include "process.h"

enum {
    FEW = 32,         /* guesses that say nothing about a loop yet */
    LEFT_ALONE = 200, /* times, before a loop is tried again */
    FADING = 4096     /* guesses after which older ones count half */
};

#define guesses (&ars__me.kept->guesses)

/* One question of the script, before its prior. */
struct ars__scripted {
    uint32_t site_id, instance;
    uint32_t prior_size, reply_size;
};

/* ---- what the main run asked ------------------------------------------------------------------------------------------ */

/* A snapshot and its continuations read what the main run has left them. */
static bool writes_scripts(const struct ars__loop *loop) {
    return loop && loop->first && !ars__me.snapshot && ars__me.role != ARS__RUN_P &&
           (ars__me.flags & ARS_RUN_ASK_AHEAD);
}

void ars__script_begin(struct ars__loop *loop) {
    if (!writes_scripts(loop)) return;
    struct ars__script *script = &loop->first->script;
    script->used = script->begun = script->closed = 0;
}

void ars__script_close(struct ars__loop *loop) {
    if (writes_scripts(loop)) loop->first->script.closed = 1;
}

static void add_to_script(struct ars__script *script, const unsigned char *request) {
    struct ars_wire_step step;
    memcpy(&step, request, sizeof step);
    const size_t prior_at = sizeof step + step.n_told * sizeof(struct ars_wire_told);
    const struct ars__scripted item = {step.site_id, step.instance, (uint32_t)(step.size - prior_at), 0};
    if (step.n_told != 1 || script->used + sizeof item + item.prior_size > sizeof script->bytes) {
        script->closed = 1;
        return;
    }
    ars__me.latest_scripted = (struct ars__scripted *)(void *)(script->bytes + script->used);
    *ars__me.latest_scripted = item;
    memcpy(ars__me.latest_scripted + 1, request + prior_at, item.prior_size);
    script->used += (uint32_t)sizeof item + item.prior_size;
}

void ars__script_asks(const unsigned char *request, size_t size) {
    struct ars__loop *loop = ars__top(&ars__me.loops);
    ars__me.latest_scripted = NULL;
    if (!writes_scripts(loop) || loop->first->script.closed) return;
    const struct ars__first *first = loop->first;
    struct ars__script *script = &loop->first->script;
    if (script->begun) {
        add_to_script(script, request);
        return;
    }
    /* A try that begins with another question than that which is remembered says nothing about those that do. */
    script->begun = !first->request_size || (first->request_size == size && memcmp(first->request, request, size) == 0);
    script->closed = !script->begun;
}

void ars__script_answered(size_t reply_size) {
    if (ars__me.latest_scripted) ars__me.latest_scripted->reply_size = (uint32_t)reply_size;
}

/* ---- whether it is worth it ------------------------------------------------------------------------------------------- */

static bool promising(uint32_t loop_id) {
    const struct ars__score *score = &guesses->scores[loop_id];
    return score->asked < FEW || 2 * score->used >= score->asked;
}

void ars__ahead_learn(uint32_t loop_id, uint32_t asked, uint32_t used) {
    struct ars__score *score = &guesses->scores[loop_id];
    if (!asked && !promising(loop_id) && ++score->left_alone == LEFT_ALONE) *score = (struct ars__score){0};
    score->asked += asked;
    score->used += used;
    if (score->asked < FADING) return;
    score->asked /= 2;
    score->used /= 2;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------ */

/* Answers are kept where forks find them, with their questions, a continuation's one after another. */
struct answer {
    uint32_t next; /* of the same continuation: an offset, 0 for none */
    uint32_t request_size, reply_size, reserved;
};

/* The latent that values were drawn for last. */
struct drawn {
    uint32_t site_id, instance;
};

static bool decode_dist(ars_dist *d, const unsigned char *bytes, size_t size) {
    char why[256];
    return ars__dist_decode(d, bytes, size, why, sizeof why);
}

/* Draws from the proposal of a reply, as the continuation will. */
static bool draw_value(struct ars__guessed_stream *s, const unsigned char *reply, size_t reply_size,
                       const unsigned char *prior, size_t prior_size) {
    const size_t header = sizeof(struct ars_wire_reply);
    ars_dist proposal;
    if (reply_size < header || !decode_dist(&proposal, reply + header, reply_size - header)) return false;
    if (proposal.kind == ARS_DIST_PRIOR && !decode_dist(&proposal, prior, prior_size)) return false;
    s->state = ((const struct ars_wire_reply *)(const void *)reply)->state;
    s->value = ars__dist_sample(&proposal, &s->rng);
    return isfinite(s->value);
}

/* The first draw of the loop. */
static bool draw_first(const struct ars__first *first, struct drawn *last) {
    struct ars_wire_step step;
    memcpy(&step, first->request, sizeof step);
    const size_t prior_at = sizeof step + step.n_told * sizeof(struct ars_wire_told);
    if (step.site_id == ARS_NO_SITE || ars__prior_proposes(step.site_id)) return false;
    for (uint32_t i = 0; i < guesses->n_streams; i++) {
        guesses->streams[i].rng = ars__stream(ARS__TRY_Q, guesses->first_stream + i);
        guesses->streams[i].head = guesses->streams[i].tail = 0;
        if (!draw_value(&guesses->streams[i], first->reply, first->reply_size, first->request + prior_at,
                        step.size - prior_at))
            return false;
    }
    *last = (struct drawn){step.site_id, step.instance};
    return true;
}

static size_t request_size_of(const struct ars__scripted *item) {
    return sizeof(struct ars_wire_step) + sizeof(struct ars_wire_told) + item->prior_size;
}

static size_t build_question(unsigned char *out, const struct ars__guessed_stream *s, const struct drawn *last,
                             const struct ars__scripted *item, const unsigned char *prior) {
    struct ars_wire_told told = {last->site_id, last->instance, s->value};
    struct ars_wire_step step = {.trace = ars__me.trace_number,
                                 .state = s->state,
                                 .site_id = item->site_id,
                                 .instance = item->instance,
                                 .n_told = 1,
                                 .size = (uint32_t)request_size_of(item)};
    memcpy(out, &step, sizeof step);
    memcpy(out + sizeof step, &told, sizeof told);
    memcpy(out + sizeof step + sizeof told, prior, item->prior_size);
    return step.size;
}

static bool keep_answer(struct ars__guessed_stream *s, const struct drawn *last, const struct ars__scripted *item,
                        const unsigned char *prior, const unsigned char *reply, size_t reply_size) {
    struct answer *a = (void *)(guesses->room + guesses->filled);
    const size_t size = sizeof *a + request_size_of(item) + ARS_WIRE_PAD(reply_size);
    if (size > sizeof guesses->room - guesses->filled) return false;
    unsigned char *request = (unsigned char *)(a + 1);
    *a = (struct answer){.request_size = (uint32_t)build_question(request, s, last, item, prior),
                         .reply_size = (uint32_t)reply_size};
    memcpy(request + a->request_size, reply, reply_size);
    if (s->tail)
        ((struct answer *)(void *)(guesses->room + s->tail))->next = (uint32_t)guesses->filled;
    else
        s->head = (uint32_t)guesses->filled;
    s->tail = (uint32_t)guesses->filled;
    guesses->filled += size;
    return true;
}

/* Keeps an answer, and draws from it. */
static bool use_answer(struct ars__guessed_stream *s, const struct drawn *last, const struct ars__scripted *item,
                       const unsigned char *prior, const unsigned char *reply, size_t reply_size) {
    if (!keep_answer(s, last, item, prior, reply, reply_size)) return false;
    const struct answer *a = (const void *)(guesses->room + s->tail);
    return draw_value(s, (const unsigned char *)(a + 1) + a->request_size, reply_size, prior, item->prior_size);
}

/* Asks one question of the script for n streams from this one on. Returns how many of them go on. */
static uint32_t ask_some(struct ars__guessed_stream *from, uint32_t n, const struct drawn *last,
                         const struct ars__scripted *item, const unsigned char *prior) {
    unsigned char *body = ars__me.channel->body;
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++) size += build_question(body + size, from + i, last, item, prior);
    size = ars__ask_in_place(ARS__ASK_STEPS, size);
    uint32_t answered = 0;
    struct ars_wire_reply reply;
    for (size_t at = 0; size - at >= sizeof reply; at += reply.size) {
        memcpy(&reply, body + at, sizeof reply);
        if (reply.size < sizeof reply || reply.size > size - at || reply.ticket >= n) break;
        answered += use_answer(from + reply.ticket, last, item, prior, body + at, reply.size);
    }
    return answered;
}

/* Asks one question of the script for all streams, as many at a time as the mailbox holds. Returns how many go on. */
static uint32_t ask_all(const struct drawn *last, const struct ars__scripted *item, const unsigned char *prior) {
    const size_t request = request_size_of(item), larger = request > item->reply_size ? request : item->reply_size;
    const uint32_t fit = (uint32_t)(sizeof ars__me.channel->body / larger);
    uint32_t answered = 0;
    for (uint32_t i = 0, n; i < guesses->n_streams; i += n) {
        n = guesses->n_streams - i < fit ? guesses->n_streams - i : fit;
        answered += ask_some(&guesses->streams[i], n, last, item, prior);
    }
    return answered;
}

uint32_t ars__ask_ahead(const struct ars__loop *loop, uint32_t from, uint32_t n) {
    const struct ars__first *first = loop->first;
    guesses->first_stream = from;
    guesses->n_streams = n < ARS__MOST_STEPS ? n : ARS__MOST_STEPS;
    guesses->filled = sizeof(struct answer); /* so that no offset is 0 */
    struct drawn last;
    if (!n || !(ars__me.flags & ARS_RUN_ASK_AHEAD) || !first || !first->request_size || !first->script.used ||
        !promising(loop->site_id) || !draw_first(first, &last)) {
        guesses->n_streams = 0;
        return 0;
    }
    uint32_t asked = 0;
    for (uint32_t at = 0, answered = guesses->n_streams; at < first->script.used && answered == guesses->n_streams;) {
        struct ars__scripted item;
        memcpy(&item, first->script.bytes + at, sizeof item);
        const unsigned char *prior = first->script.bytes + at + sizeof item;
        if (ars__prior_proposes(item.site_id)) break;
        asked += answered = ask_all(&last, &item, prior);
        last = (struct drawn){item.site_id, item.instance};
        at += (uint32_t)sizeof item + item.prior_size;
    }
    return asked;
}

/* ---- in the continuation ----------------------------------------------------------------------------------------------- */

void ars__ahead_begin(uint32_t number) {
    const bool known = number >= guesses->first_stream && number - guesses->first_stream < guesses->n_streams;
    ars__me.ahead = known ? guesses->streams[number - guesses->first_stream].head : 0;
}

uint32_t ars__ahead_used_in_place(void) {
    uint32_t used = guesses->used_in_place;
    guesses->used_in_place = 0;
    return used;
}

const unsigned char *ars__ahead_find(const unsigned char *request, size_t size, size_t *reply_size) {
    const struct answer *a = (const void *)(guesses->room + ars__me.ahead);
    const unsigned char *guessed = (const unsigned char *)(a + 1);
    if (a->request_size != size || memcmp(guessed, request, size) != 0) {
        ars__me.ahead = 0; /* it went another way: what was guessed after this is wrong as well */
        return NULL;
    }
    ars__me.ahead = a->next;
    ++*(ars__me.snapshot ? &ars__me.snapshot->used_ahead : &guesses->used_in_place);
    *reply_size = a->reply_size;
    return guessed + size;
}

/* fuzz_message.c: any bytes as a message of one frame, as ars-host gets it from its controller. What passes the check is
 * walked again the way the host walks it, without looking at any size twice: nothing may be read beyond the frame. */
#include "fuzz.h"

static void walk_replies(const uint8_t *data, const struct ars_wire_header *h) {
    size_t at = sizeof *h, used;
    ars__why why;
    for (uint32_t i = 0; i < h->count; i++) {
        struct ars_wire_reply reply;
        PROMISE(h->size - at >= sizeof reply);
        memcpy(&reply, data + at, sizeof reply);
        PROMISE(reply.size <= ARS_WIRE_MAX_STEP && reply.size <= h->size - at);
        PROMISE(ars__check_reply(data + at, reply.size, &used, &why) && used == reply.size);
        at += reply.size;
    }
    PROMISE(at == h->size);
}

static void walk_run(const uint8_t *data, const struct ars_wire_header *h) {
    struct ars_wire_run run;
    memcpy(&run, data, sizeof run);
    PROMISE(run.n_traces && run.max_tries && run.trace_timeout >= 0);
    uint64_t at = sizeof run + (uint64_t)h->count * sizeof(struct ars_wire_observed);
    for (uint32_t i = 0; i < h->count; i++) {
        struct ars_wire_observed o;
        memcpy(&o, data + sizeof run + i * sizeof o, sizeof o);
        at += ARS_WIRE_PAD(o.name_size) + 8ull * o.n_values;
    }
    const ars__run_parts parts = ars__parts_of_run(data);
    PROMISE(at == parts.budgets && at <= parts.listed && parts.listed <= h->size);
    at = parts.listed;
    uint64_t before = 0;
    for (uint32_t i = 0; i < run.n_listed; i++) {
        struct ars_wire_listed l;
        PROMISE(h->size - at >= sizeof l);
        memcpy(&l, data + at, sizeof l);
        PROMISE(i ? l.trace > before : l.trace == run.first_trace);
        before = l.trace;
        at += sizeof l + ARS_WIRE_PAD(4ull * l.n_tries);
    }
    PROMISE(at == h->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ars__why why = {""};
    struct ars_wire_header h;
    if (!ars__check_message(data, size, FUZZ_SITES, &why)) {
        PROMISE(why.text[0] && memchr(why.text, 0, sizeof why.text));
        return 0;
    }
    memcpy(&h, data, sizeof h);
    PROMISE(h.size == size);
    if (h.type == ARS_MSG_REPLIES) walk_replies(data, &h);
    if (h.type == ARS_MSG_RUN) walk_run(data, &h);
    return 0;
}

/* fuzz_steps.c: any bytes as a STEPS message, taken apart by the C code that the controller calls, into arrays that have
 * exactly the room that pyside/ars/_native.py gives them. It must agree with the check of the whole message. */
#include "fuzz.h"
#include "steps.h"

/* Arrays of exactly n entries. */
static void *room(size_t n, size_t size) {
    void *memory = malloc(n * size + !n);
    if (!memory) abort();
    return memory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ars_wire_header h;
    ars__why why;
    if (!ars__check_header(data, size, &h, &why) || h.type != ARS_MSG_STEPS || h.count < 1) return 0;
    if (sizeof h + h.count * sizeof(struct ars_wire_step) > size) return 0;
    size_t n = h.count, body = size - sizeof h;
    size_t n_told = body / sizeof(struct ars_wire_told);
    struct ars__steps out = {.begin = room(n + 1, 8),
                             .ticket = room(n, 4),
                             .trace = room(n, 8),
                             .state = room(n, 8),
                             .site = room(n, 4),
                             .instance = room(n, 4),
                             .told_begin = room(n + 1, 8),
                             .told_site = room(n_told, 4),
                             .told_instance = room(n_told, 4),
                             .told_value = room(n_told, 8),
                             .prior_kind = room(n, 2),
                             .prior_begin = room(n + 1, 8),
                             .prior = room(body / 8, 8),
                             .n_more = room(n, 4)};
    char text[512];
    uint32_t item = 0;
    bool good = !ars__steps_decode(data, size, h.count, fuzz_kinds, fuzz_dists, sizeof fuzz_kinds, &out, &item, text,
                                   sizeof text);
    PROMISE(good == ars__check_message(data, size, FUZZ_SITES, &why));
    PROMISE(good || (text[0] && item <= h.count));
    if (good) {
        PROMISE(out.begin[n] == (int64_t)size);
        PROMISE(out.told_begin[n] <= (int64_t)n_told && out.prior_begin[n] <= (int64_t)(body / 8));
    }
    void *all[] = {out.begin,      out.ticket,      out.trace,     out.state,         out.site,
                   out.instance,   out.told_begin,  out.told_site, out.told_instance, out.told_value,
                   out.prior_kind, out.prior_begin, out.prior,     out.n_more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return 0;
}

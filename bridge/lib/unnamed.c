/* unnamed.c: draws that are named by their call path. paths.c finds the path, ars-host its name (it reads symbols and debug
 * information, which libars does not), and the policy says what becomes of it: once per path and its surroundings. */
#include "unnamed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "fail.h"
#include "kept.h"
#include "loops.h"
#include "policy.h"
#include "process.h"
#include "scopes.h"
#include "sites.h"
#include "thread_owner.h"
#include "unwind.h"
#include "where.h"

/* Of the parts of an address that are made here: leaves as much for the loops around the draw. */
enum { MOST_NAME = ARS_WIRE_MAX_NAME / 2, KEPT_AT_THE_END = 320 };

/* ---- the name of a path ------------------------------------------------------------------------------------------------------ */

/* Writes the question about a path to the mailbox. Returns its size. */
static size_t write_question(const struct ars__path *path) {
    uint64_t words[ARS__PATH_FRAMES + 1];
    const uintptr_t model = ars__me.kept->paths.origin.model;
    const uint32_t n_frames = path->n + (model ? 1 : 0);
    memcpy(words, ars__me.kept->paths.words + path->at, path->n * sizeof *words);
    words[path->n] = model + 1; /* as if it were a return address: what comes before it is in the function */
    unsigned char *body = ars__me.channel->body;
    const size_t most = sizeof ars__me.channel->body;
    struct ars__path_question question = {n_frames, model != 0};
    size_t size = sizeof question + n_frames * sizeof(struct ars__path_frame);
    struct ars__module last = {NULL, 0, NULL};
    uint32_t last_at = 0;
    for (uint32_t i = 0; i < n_frames; i++) {
        const struct ars__module module = ars__module_of(words[i] - 1);
        const char *file = module.path ? module.path : "?";
        if (!last_at || file != last.path) {
            const size_t n = strlen(file) + 1;
            if (n > most - size)
                ars__fail(ARS_FAIL_LIMIT, 0,
                          "the names of the libraries on the call path of an unnamed draw are too long. Give the draw "
                          "a name: ars_sample(\"name\", ...)");
            memcpy(body + size, file, n);
            last_at = (uint32_t)size;
            size += n;
        }
        last = module;
        last.path = file;
        const struct ars__path_frame frame = {words[i] - module.bias, last_at, 0};
        memcpy(body + sizeof question + i * sizeof frame, &frame, sizeof frame);
    }
    memcpy(body, &question, sizeof question);
    return size;
}

static uint64_t hash_of(const char *text, size_t size) { /* FNV-1a */
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h;
}

/* The scopes, and what the host calls the path. Too long a name keeps its end; a hash stands for the rest. */
static void write_name(uint32_t path, char name[MOST_NAME + 1]) {
    char whole[ARS_MAX_SCOPES * 64 + ARS_WIRE_MAX_NAME];
    const size_t most = sizeof whole - ARS_WIRE_MAX_NAME;
    size_t used = ars__scopes_write(whole, most);
    if (used > most) used = most;
    size_t n = ars__ask_in_place(ARS__ASK_PATH, write_question(&ars__me.kept->paths.paths[path]));
    if (n > ARS_WIRE_MAX_NAME) n = ARS_WIRE_MAX_NAME;
    memcpy(whole + used, ars__me.channel->body, n);
    used += n;
    for (size_t i = 0; i < used; i++)
        if (whole[i] == '/' || !whole[i]) whole[i] = '|'; /* "/" is for loops */
    if (used <= MOST_NAME) {
        memcpy(name, whole, used);
        name[used] = 0;
        return;
    }
    size_t from = used - KEPT_AT_THE_END;
    while (from < used && ((unsigned char)whole[from] & 0xc0) == 0x80) from++; /* not within a character */
    snprintf(name, MOST_NAME + 1, "~%016llx~%.*s", (unsigned long long)hash_of(whole, used), (int)(used - from),
             whole + from);
}

/* ---- its site ---------------------------------------------------------------------------------------------------------------- */

static bool is_nuisance(const char *name, uint32_t loop_id) {
    char address[2 * ARS_WIRE_MAX_NAME];
    int n = 0;
    const char *loops = loop_id == ARS_NO_SITE ? "" : ars__site_address(loop_id, &n);
    snprintf(address, sizeof address, "%.*s%s%s", n, loops, n ? "/" : "", name);
    return ars__policy_is_nuisance(address);
}

static uint32_t name_site(uint32_t path, uint32_t loop_id, enum ars__call call, const ars_dist *d) {
    char name[MOST_NAME + 1 + 40];
    write_name(path, name);
    /* One function may draw from several kinds of distribution in one place, and a site has one kind. */
    if (call != ARS__CALL_FLAT) {
        const size_t used = strlen(name);
        snprintf(name + used, sizeof name - used, ":%s", ars__dist_name(d->kind));
    }
    return is_nuisance(name, loop_id) ? ARS_NO_SITE : ars__site_id(name, ARS_SITE_SAMPLE, d->kind);
}

static uint32_t site_of(struct ars__call_at at, enum ars__call call, const ars_dist *d) {
    struct ars__paths *p = &ars__me.kept->paths;
    const struct ars__loop *top = ars__top(&ars__me.loops);
    const uint32_t loop_id = top ? top->site_id : ARS_NO_SITE;
    const uint32_t path = ars__path_of(p, at);
    struct ars__place *place = ars__place_of(p, path, ars__me.scope.node, loop_id, d->kind << 8 | call);
    if (place->site_id == ARS__PLACE_UNKNOWN) place->site_id = name_site(path, loop_id, call, d);
    return place->site_id;
}

/* ---- the calls --------------------------------------------------------------------------------------------------------------- */

static void check(enum ars__call call, const char *caller, const ars_dist *d) {
    const char *what = ars__call_name(call), *with = call == ARS__CALL_FLAT ? "" : "(NULL)";
    ars__thread_check(call);
    if (!ars__me.in_trace)
        ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
                  "%s%s was called outside a trace: call it from the model that ars_main runs, or after ars_next_trace "
                  "has returned true",
                  what, with);
    if (ars__me.loops.depth) ars__loops_check(caller, what, NULL);
    char why[256];
    if (ars__dist_check(d, why, sizeof why) != 0) ars__fail(ARS_FAIL_PARAMETER, 0, "%s%s: %s", what, with, why);
}

static double draw(struct ars__call_at at, enum ars__call call, const ars_dist *d) {
    const bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    const uint32_t site_id = plain ? ARS_NO_SITE : site_of(at, call, d);
    if (site_id == ARS_NO_SITE) return ars__dist_sample(d, &ars__me.rng);
    ars__at_site(site_id);
    return ars__sample_at(site_id, d, call == ARS__CALL_FLAT);
}

static __attribute__((noinline)) double flat(struct ars__call_at at, const char *caller) {
    const ars_dist unit = {.kind = ARS_DIST_UNIFORM, .a = {0, 1}};
    const int kept = errno;
    check(ARS__CALL_FLAT, caller, &unit);
    const double value = draw(at, ARS__CALL_FLAT, &unit);
    errno = kept;
    return value;
}

double(ars_flat)(void) {
    if (ars__thread == ARS__PLAIN) return ars__rng_uniform(&ars__me.rng);
    const double value = flat(ARS__CALL_HERE(), ARS__CALLER(0));
    ARS__KEEP_FRAME();
    return value;
}

uint32_t ars__unnamed_site(struct ars__call_at at, const char *caller, const ars_dist *d) {
    check(ARS__CALL_SAMPLE_VECTOR, caller, d);
    const bool plain = ars__me.role == ARS__ALONE || ars__me.role == ARS__RUN_P;
    const uint32_t site_id = plain ? ARS_NO_SITE : site_of(at, ARS__CALL_SAMPLE, d);
    if (site_id != ARS_NO_SITE) ars__at_site(site_id);
    return site_id;
}

double ars__sample_unnamed(struct ars__call_at at, const char *caller, const ars_dist *d) {
    const int kept = errno;
    check(ARS__CALL_SAMPLE, caller, d);
    const double value = draw(at, ARS__CALL_SAMPLE, d);
    errno = kept;
    return value;
}

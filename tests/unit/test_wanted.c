/* test_wanted.c: what is wanted of a loop's entry is what its continuations do, however they are made. A worker of libars against
 * a played host; everything is predicted draw by draw from the random streams. */
#include "played_host.h"

enum { TRACES = 12, SEED = 5, OUTER = 0, INNER = 1 };
enum kind { FORKED, REWOUND, IN_PLACE, KINDS };
static const uint64_t RUN = UINT64_C(3) << 32; /* its low half is that of no run, and of many */

struct scenario {
    const char *name;
    uint32_t flags;
    struct ars_wire_wanted wanted, inner; /* of all loops; of the inner one */
    uint64_t inner_run;                   /* the run that `inner` holds for; 0: there is none */
    bool known;                           /* the host knows which try the outer loop accepts */
};
static const struct scenario *now;
static enum kind kind;
static unsigned *calls; /* of the inner body, by all processes */

/* ---- the simulator --------------------------------------------------------------------------------------------------- */

#define PRIOR ars_normal(0, 1)
#define PROPOSAL ars_normal(0.5, 1.25)

static bool accepts(double a, double c, double b) {
    return a + 0.1 * c + b > 0.7;
}

static void marked(void) {
    for (;;) {
        rs_start("outer");
        double a = ars_sample("a", PRIOR), c = ars_sample("c", PRIOR), b;
        for (;;) {
            rs_start("inner");
            b = ars_sample("b", PRIOR);
            if (b * b < 1) {
                rs_end();
                break;
            }
        }
        if (accepts(a, c, b)) {
            rs_end();
            return;
        }
    }
}

static bool inner_body(void *b) {
    (*calls)++;
    *(double *)b = ars_sample("b", PRIOR);
    return *(double *)b * *(double *)b < 1;
}

static bool outer_body(void *nothing) {
    (void)nothing;
    double a = ars_sample("a", PRIOR), c = ars_sample("c", PRIOR), b;
    ars_reject_named("inner", inner_body, &b);
    return accepts(a, c, b);
}

static void work(void) {
    become_played_worker();
    for (int i = 0; i < TRACES; i++) {
        ars_next_trace();
        if (kind == IN_PLACE)
            ars_reject_named("outer", outer_body, NULL);
        else
            marked();
    }
    ars_next_trace(); /* ends the last trace, then waits for an order that does not come */
}

/* ---- the same, predicted from the streams ----------------------------------------------------------------------------- */

struct draws {
    ars__rng rng;
    bool under_p;
    unsigned entries, calls, inner_tries; /* loops entered; tries of inner loops; of the last one */
    double inner_square;                  /* sum of (p/q)^2 over its rejected tries */
};

static double draw(struct draws *d, double *ratio) {
    const ars_dist prior = PRIOR, proposal = PROPOSAL;
    const double x = ars__dist_sample(d->under_p ? &prior : &proposal, &d->rng);
    if (!d->under_p) *ratio += ars__dist_log_density(&prior, x) - ars__dist_log_density(&proposal, x);
    return x;
}

static bool try_inner(struct draws *d, double *b, double *ratio) {
    d->calls++;
    *b = draw(d, ratio);
    return *b * *b < 1;
}

static bool try_outer(struct draws *d, double *ratio) {
    const double a = draw(d, ratio), c = draw(d, ratio);
    double b, inner;
    d->entries++;
    d->inner_square = d->inner_tries = 0;
    for (bool accepted = false; !accepted;) {
        inner = 0;
        accepted = try_inner(d, &b, &inner);
        d->inner_tries++;
        if (!accepted) d->inner_square += exp(2 * inner);
        *ratio += inner;
    }
    return accepts(a, c, b);
}

static bool try_once(struct draws *d, bool outer, double *ratio) {
    double b;
    *ratio = 0;
    return outer ? try_outer(d, ratio) : try_inner(d, &b, ratio);
}

struct outcome {
    struct ars__estimate estimate;
    unsigned continuations, calls;
};

/* One continuation of the loop that was the entry-th to be entered. */
static void predict_one(struct outcome *o, const struct ars_wire_wanted *w, uint64_t trace, uint64_t entry, bool outer,
                        bool under_p, uint64_t number) {
    struct draws d = {.under_p = under_p};
    if (now->flags & ARS_RUN_PILOT) number += 1 << 30;
    ars__rng_init(&d.rng, SEED, trace, entry << 32 | (uint64_t)under_p << 31 | number);
    struct ars__estimate *e = &o->estimate;
    bool accepted = false;
    while (!accepted && (under_p || !w->tries_q || e->tries_q < w->tries_q)) {
        double ratio;
        accepted = try_once(&d, outer, &ratio);
        *(under_p ? &e->tries_p : &e->tries_q) += 1;
        *(under_p ? &e->runs_p : &e->accepted_q) += accepted;
        if (!accepted && !under_p) e->s_pq_sum += exp(2 * ratio);
    }
    o->continuations++;
    o->calls += d.calls;
}

static struct outcome predict(const struct ars_wire_wanted *w, uint64_t trace, uint64_t entry, bool outer) {
    struct outcome o = {.calls = 0};
    const struct ars__estimate *e = &o.estimate;
    for (uint64_t n = 0; w->tries_q ? e->tries_q < w->tries_q : e->accepted_q < w->accepted_q; n++)
        predict_one(&o, w, trace, entry, outer, false, n);
    for (uint64_t n = 0; n < w->runs_p; n++) predict_one(&o, w, trace, entry, outer, true, n);
    return o;
}

/* The main run. */
struct run {
    unsigned tries, inner_entries, inner_tries, calls;
    double square, inner_square, log_rejected;
};

static struct run predict_run(uint64_t trace) {
    struct draws d = {.under_p = false};
    struct run r = {.tries = 0};
    ars__rng_init(&d.rng, SEED, trace, 0);
    for (;;) {
        double ratio;
        r.tries++;
        if (try_once(&d, true, &ratio)) break;
        r.square += exp(2 * ratio);
        r.log_rejected += ratio;
    }
    r.inner_entries = d.entries;
    r.inner_tries = d.inner_tries;
    r.inner_square = d.inner_square;
    r.calls = d.calls;
    return r;
}

/* ---- comparing --------------------------------------------------------------------------------------------------------- */

static struct ars_wire_wanted wanted_of(int loop) {
    return loop == INNER && now->inner_run == RUN ? now->inner : now->wanted;
}

static bool is_estimated(int loop) {
    return (now->flags & ARS_RUN_ESTIMATE) && wanted_of(loop).runs_p;
}

static void check_estimate(const struct ars__estimate *got, const struct ars__estimate *e) {
    CHECK(got->tries_q == e->tries_q && got->accepted_q == e->accepted_q);
    CHECK(got->runs_p == e->runs_p && got->tries_p == e->tries_p);
    CHECK_NEAR(got->s_pq_sum, e->s_pq_sum, 1e-9 * (1 + e->s_pq_sum));
}

static void check_loop(const struct ars_wire_loop *l, uint32_t slot, uint64_t trace, uint64_t entry, int loop) {
    if (!is_estimated(loop)) {
        CHECK(l->method == ARS_METHOD_NONE && slot == ARS__NO_SLOT);
        CHECK(!l->runs_p && !l->tries_p && !l->tries_q && !l->accepted_q && !l->rewinds && l->s_pq_sum == 0);
        return;
    }
    const struct ars_wire_wanted wanted = wanted_of(loop);
    const struct outcome o = predict(&wanted, trace, entry, loop == OUTER);
    CHECK(o.estimate.runs_p == wanted.runs_p);
    CHECK(wanted.tries_q ? o.estimate.tries_q == wanted.tries_q : o.estimate.accepted_q == wanted.accepted_q);
    CHECK(l->method == (kind == FORKED ? ARS_METHOD_FORK : kind == IN_PLACE ? ARS_METHOD_IN_PLACE : l->method));
    if (l->method != ARS_METHOD_FORK)
        check_estimate(&(struct ars__estimate){.tries_q = l->tries_q,
                                               .accepted_q = l->accepted_q,
                                               .runs_p = l->runs_p,
                                               .tries_p = l->tries_p,
                                               .s_pq_sum = l->s_pq_sum},
                       &o.estimate);
    if (l->method == ARS_METHOD_REWIND) CHECK(l->rewinds == o.continuations);
    CHECK((slot == ARS__NO_SLOT) ? l->method != ARS_METHOD_FORK : kind != IN_PLACE);
    if (slot == ARS__NO_SLOT) return;
    struct ars__snapshot *s = go_and_await(slot, wanted);
    check_estimate(&s->estimate, &o.estimate);
    CHECK(s->forks + 1 == o.continuations); /* the last run is made by the snapshot itself */
    free_slot(s);
}

/* What was estimated in tries of the outer loop that were rejected is not in the record, but has left its traces. */
static void check_effort(const struct ars_wire_trace *t, uint64_t trace, const struct run *r) {
    const unsigned from = now->known ? r->inner_entries : 1;
    if (kind == FORKED)
        CHECK(t->snapshots == is_estimated(OUTER) + (is_estimated(INNER) ? r->inner_entries - from + 1 : 0));
    if (kind != IN_PLACE) return;
    const struct ars_wire_wanted outer = wanted_of(OUTER), inner = wanted_of(INNER);
    unsigned expected = r->calls + (is_estimated(OUTER) ? predict(&outer, trace, 1, true).calls : 0);
    for (unsigned i = from; is_estimated(INNER) && i <= r->inner_entries; i++)
        expected += predict(&inner, trace, 1 + i, false).calls;
    CHECK(*calls == expected);
}

static void check_record(const unsigned char *at, uint64_t trace) {
    struct ars_wire_trace t;
    memcpy(&t, at + sizeof(struct ars__record), sizeof t);
    CHECK(t.failure == ARS_OK && t.trace == trace && t.n_samples == 3 && t.n_loops == 2);
    const struct ars_wire_sample *samples = (const void *)(at + sizeof(struct ars__record) + sizeof t);
    const struct ars_wire_loop *loops = (const void *)(samples + t.n_samples);
    const uint32_t *slots = (const void *)(loops + t.n_loops);
    const struct run r = predict_run(trace);
    CHECK(loops[OUTER].tries == r.tries && loops[INNER].tries == r.inner_tries);
    CHECK_NEAR(loops[OUTER].s_pq_main, r.square, 1e-9 * (1 + r.square));
    CHECK_NEAR(loops[INNER].s_pq_main, r.inner_square, 1e-9 * (1 + r.inner_square));
    CHECK_NEAR(loops[OUTER].log_ratio_rejected, r.log_rejected, 1e-9);
    check_effort(&t, trace, &r);
    check_loop(&loops[OUTER], slots[OUTER], trace, 1, OUTER);
    check_loop(&loops[INNER], slots[INNER], trace, 1 + r.inner_entries, INNER);
}

/* ---- runs -------------------------------------------------------------------------------------------------------------- */

static void set_up_run(void) {
    const uint32_t rewind = kind == REWOUND && (now->flags & ARS_RUN_ESTIMATE) ? ARS_RUN_REWIND : 0;
    shm->run = (struct ars__run){.number = RUN, .seed = SEED, .flags = now->flags | rewind, .wanted = now->wanted};
    const char *names[] = {"outer", "outer/inner"};
    for (uint32_t i = 0; i < 2; i++) {
        struct ars_wire_site site = {.kind = ARS_SITE_LOOP, .name_size = (uint32_t)strlen(names[i])};
        CHECK(played_site(&site, names[i]) == i);
    }
    shm->wanted[INNER].wanted = now->inner;
    atomic_store(&shm->wanted[INNER].run, now->inner_run);
}

static void order(uint64_t trace, uint32_t number) {
    struct ars__worker *w = played_worker();
    w->order_first = trace;
    w->order_count = 1;
    w->order_n_known = 2;
    w->order_known[OUTER] = now->known ? predict_run(trace).tries : 0;
    w->order_known[INNER] = 0;
    atomic_store(&w->order_number, number);
    ars__futex_wake(&w->order_number, 1);
}

static bool run_all(void) {
    if (!play_host()) exit(77);
    set_up_run();
    played_ahead = 0;
    const pid_t child = fork();
    if (child == 0) {
        work();
        _exit(1);
    }
    for (uint32_t trace = 0; trace < TRACES; trace++) {
        *calls = 0;
        order(trace, trace + 1);
        size_t size;
        const unsigned char *record = await_record(child, &size);
        if (!record) return false;
        check_record(record, trace);
        await_order_done(trace + 1);
    }
    play_no_more(child);
    return !check_failures;
}

/* All continuations ask for "c" after "a", and no more of them are asked for than are to come. In place the first one shows how. */
static void check_ahead(void) {
    const unsigned asked = now->wanted.accepted_q;
    if (!(now->flags & ARS_RUN_ASK_AHEAD)) CHECK(played_ahead == 0);
    if ((now->flags & ARS_RUN_ASK_AHEAD) && kind == FORKED) CHECK(played_ahead == asked * TRACES);
    if ((now->flags & ARS_RUN_ASK_AHEAD) && kind == IN_PLACE) CHECK(played_ahead == (asked ? asked - 1 : 0) * TRACES);
}

/* A pilot's numbers say nothing about those that count. */
static void check_pilot(void) {
    static const struct scenario one = {.flags = 0}, other = {.flags = ARS_RUN_PILOT};
    const struct ars_wire_wanted many = {.runs_p = 20, .accepted_q = 20};
    now = &one;
    const struct outcome a = predict(&many, 0, 1, true);
    now = &other;
    const struct outcome b = predict(&many, 0, 1, true);
    CHECK(a.estimate.tries_q != b.estimate.tries_q && a.estimate.tries_p != b.estimate.tries_p);
}

int main(void) {
    const uint32_t estimate = ARS_RUN_ESTIMATE;
    const uint32_t ahead = estimate | ARS_RUN_ASK_AHEAD, pilot = estimate | ARS_RUN_PILOT;
    const struct scenario scenarios[] = {
        {"no estimates", 0, {2, 5, 0}, {0}, 0, false},
        {"N tries under q", estimate, {3, 7, 0}, {0}, 0, false},
        {"until R are accepted", estimate, {2, 0, 3}, {0}, 0, false},
        {"R = 0", estimate, {2, 0, 0}, {0}, 0, false},
        {"the inner loop has a budget of its own", estimate, {2, 0, 3}, {1, 4, 0}, RUN, false},
        {"the inner loop had one in another run", estimate, {2, 0, 3}, {1, 4, 0}, RUN - (UINT64_C(1) << 32), false},
        {"the inner loop is not estimated", estimate, {1, 0, 2}, {0, 0, 0}, RUN, false},
        {"the inner loop alone is estimated", estimate, {0, 0, 0}, {2, 0, 1}, RUN, false},
        {"rejected tries are known", estimate, {1, 0, 2}, {0}, 0, true},
        {"rejected tries are known, N tries", estimate, {1, 3, 0}, {2, 2, 0}, RUN, true},
        {"a pilot", pilot, {2, 0, 2}, {0}, 0, false},
        {"a pilot of N tries", pilot, {2, 6, 0}, {0}, 0, false},
        {"answers asked for ahead", ahead, {1, 0, 4}, {0}, 0, false},
        {"nothing to ask for ahead", ahead, {1, 0, 0}, {0}, 0, false},
    };
    played_proposal = PROPOSAL;
    calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        now = &scenarios[i];
        for (kind = 0; kind < KINDS; kind++) {
            const bool good = run_all();
            check_ahead();
            if (!good || check_failures) {
                fprintf(stderr, "in \"%s\", kind %d\n", now->name, (int)kind);
                return 1;
            }
        }
    }
    check_pilot();
    return check_failures != 0;
}

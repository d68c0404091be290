/* test_worker.c: a worker of libars against a host played by this program: real forks, real shared memory, no ZeroMQ. The
 * continuations' outcomes, and what is recorded of rejected tries, are predicted draw by draw from the random streams. */
#include "played_host.h"
#include "wire_check.h"

enum { TRACES = 40, SEED = 11, N = 7, M = 3, MAX_REJECTED = 2 };

/* ---- the simulator ------------------------------------------------------------------------------------------------- */

/* An outer loop with one inside: the inner one's draws and snapshots vanish with a rejected outer try. */
static void model(void) {
    double a, b;
    ars_sample("start", ars_uniform(2, 3));
    for (;;) {
        rs_start("outer");
        a = ars_sample("a", ars_uniform(0, 1));
        for (;;) {
            rs_start("inner");
            b = ars_sample("b", ars_uniform(0, 1));
            if (b < 0.6) {
                rs_end();
                break;
            }
        }
        ars_result("seen", b);
        if (a + b > 0.7) {
            rs_end();
            break;
        }
    }
    ars_observe("y", ars_normal(a + b, 1));
}

static void work(void) {
    become_played_worker();
    for (int i = 0; i < TRACES; i++) {
        ars_next_trace();
        model();
    }
    ars_next_trace(); /* ends the last trace, then waits for an order that does not come */
}

/* ---- the same, predicted from the streams -------------------------------------------------------------------------- */

struct rng {
    ars__rng it;
};

static double uniform(struct rng *r) {
    ars_dist d = ars_uniform(0, 1);
    return ars__dist_sample(&d, &r->it);
}

static bool try_inner(struct rng *r, double *b) {
    return (*b = uniform(r)) < 0.6;
}

static bool try_outer(struct rng *r, double *a, double *b, unsigned *entries, unsigned *inner_tries) {
    *a = uniform(r);
    (*entries)++;
    *inner_tries = 1;
    while (!try_inner(r, b)) (*inner_tries)++;
    return *a + *b > 0.7;
}

struct outcome {
    uint64_t tries_q, accepted_q, tries_p, forks;
};

/* The chain of tries under q, then the runs under p, of the loop that was the entry-th to be entered. */
static struct outcome predict(uint64_t trace, uint64_t entry, bool outer) {
    struct outcome o = {0, 0, 0, 0};
    for (int under_p = 0; under_p < 2; under_p++) {
        for (uint64_t number = 0, runs = 0; under_p ? runs < M : o.tries_q < N; number++) {
            struct rng r;
            ars__rng_init(&r.it, SEED, trace, entry << 32 | (uint64_t)under_p << 31 | number);
            o.forks++;
            bool accepted = false;
            double a, b;
            unsigned entries = 0, tries;
            while (!accepted && (under_p || o.tries_q < N)) {
                accepted = outer ? try_outer(&r, &a, &b, &entries, &tries) : try_inner(&r, &b);
                *(under_p ? &o.tries_p : &o.tries_q) += 1;
            }
            runs += accepted;
            if (!under_p) o.accepted_q += accepted;
        }
    }
    o.forks--; /* the last run is made by the snapshot itself */
    return o;
}

/* ---- the loops ------------------------------------------------------------------------------------------------------ */

static void check_slot(uint64_t trace, uint32_t slot, uint64_t entry, bool outer) {
    struct ars__snapshot *s = go_and_await(slot, (struct ars_wire_wanted){.runs_p = M, .tries_q = N});
    struct outcome o = predict(trace, entry, outer);
    CHECK(s->estimate.tries_q == N && s->estimate.runs_p == M);
    CHECK(s->estimate.accepted_q == o.accepted_q);
    CHECK(s->estimate.tries_p == o.tries_p);
    CHECK(s->forks == o.forks);
    double rejected = (double)(s->estimate.tries_q - s->estimate.accepted_q); /* p = q: every rejected try counts 1 */
    CHECK_NEAR(s->estimate.s_pq_sum, rejected, 1e-12);
    free_slot(s);
}

/* ---- rejected tries -------------------------------------------------------------------------------------------------- */

enum { MANY = 400 };
struct expected {
    int n_tries, n_samples;
    struct ars_wire_try tries[MANY];
    double values[MANY];
};

static void expect_try(struct expected *e, bool outer, int parent, unsigned prefix, unsigned rejected) {
    CHECK(e->n_tries < MANY && e->n_samples < MANY - 2);
    unsigned recorded = rejected < MAX_REJECTED ? rejected : MAX_REJECTED;
    e->tries[e->n_tries++] = (struct ars_wire_try){
        .parent = parent, .prefix = prefix, .n_samples = outer ? 2 : 1, .recorded = recorded, .rejected = rejected};
}

/* Everything that the main run draws, and from it what must be in the record. */
static void predict_rejected(uint64_t trace, struct expected *e) {
    static double inner[MANY][MANY], a[MANY], b[MANY];
    static int n_inner[MANY];
    struct rng r;
    ars__rng_init(&r.it, SEED, trace, 0);
    uniform(&r);
    int tries = 0;
    do {
        a[tries] = uniform(&r);
        for (n_inner[tries] = 0; !try_inner(&r, &b[tries]); n_inner[tries]++) inner[tries][n_inner[tries]] = b[tries];
        tries++;
    } while (a[tries - 1] + b[tries - 1] <= 0.7);

    *e = (struct expected){.n_tries = 0};
    for (int i = 0; i < tries; i++) {
        bool accepted = i == tries - 1;
        if (!accepted && i >= MAX_REJECTED) continue;
        int kept = n_inner[i] < MAX_REJECTED ? n_inner[i] : MAX_REJECTED, outer_index = e->n_tries + kept;
        for (int j = 0; j < kept; j++) {
            expect_try(e, false, accepted ? -1 : outer_index, accepted ? 2 : 1, (unsigned)n_inner[i]);
            e->values[e->n_samples++] = inner[i][j];
        }
        if (accepted) break;
        expect_try(e, true, -1, 1, (unsigned)tries - 1);
        e->values[e->n_samples++] = a[i];
        e->values[e->n_samples++] = b[i];
    }
}

static void check_rejected(const struct ars_wire_trace *t, const double *values, uint64_t trace) {
    const struct ars_wire_try *tries = (const void *)(values + t->n_values);
    const struct ars_wire_sample *samples = (const void *)(tries + t->n_tries);
    static struct expected e;
    predict_rejected(trace, &e);
    CHECK((int)t->n_tries == e.n_tries);
    CHECK((int)t->n_values == 2 + 2 * (3 + e.n_samples)); /* y, seen, and two parameters for every sample */
    int sample = 0;
    for (int i = 0; i < e.n_tries && i < (int)t->n_tries; i++) {
        bool outer = e.tries[i].n_samples == 2;
        CHECK_TEXT(name_of(tries[i].site_id), outer ? "outer" : "outer/inner");
        CHECK(tries[i].instance == 0 && tries[i].n_samples == e.tries[i].n_samples);
        CHECK(tries[i].parent == e.tries[i].parent && tries[i].prefix == e.tries[i].prefix);
        CHECK(tries[i].recorded == e.tries[i].recorded && tries[i].rejected == e.tries[i].rejected);
        for (uint32_t j = 0; j < tries[i].n_samples; j++, sample++) {
            CHECK(samples[sample].value == e.values[sample] && samples[sample].loop == i);
            CHECK(samples[sample].instance == 0 && samples[sample].n_params == 2);
            CHECK_TEXT(name_of(samples[sample].site_id), outer && j == 0 ? "outer/a" : "outer/inner/b");
            CHECK(values[8 + 2 * sample] == 0 && values[9 + 2 * sample] == 1);
        }
    }
    ars__why why;
    ars__trace_view view = {.trace = *t, .tries = (const void *)tries, .rejected = (const void *)samples};
    CHECK(ars__count_rejected(view.tries, t->n_tries, (size_t)e.n_samples, &view.n_rejected, &why));
    CHECK((int)view.n_rejected == e.n_samples);
}

static void check_record(const unsigned char *at, size_t size, uint64_t trace, bool rejected) {
    struct ars__record record;
    struct ars_wire_trace t;
    memcpy(&record, at, sizeof record);
    memcpy(&t, at + sizeof record, sizeof t);
    CHECK(record.size == size && t.failure == ARS_OK && t.trace == trace);
    const struct ars_wire_sample *samples = (const void *)(at + sizeof record + sizeof t);
    const struct ars_wire_values *observes = (const void *)(samples + t.n_samples);
    const struct ars_wire_result *results = (const void *)(observes + t.n_observes);
    const struct ars_wire_loop *loops = (const void *)(results + t.n_results);
    const uint32_t *slots = (const void *)(loops + t.n_loops);

    struct rng r;
    ars__rng_init(&r.it, SEED, trace, 0);
    double start = 2 + uniform(&r), a, b;
    unsigned outer_tries = 1, inner_entries = 0, inner_tries;
    while (!try_outer(&r, &a, &b, &inner_entries, &inner_tries)) outer_tries++;

    CHECK(t.n_samples == 3 && t.n_loops == 2 && t.n_results == 1 && t.n_observes == 1);
    CHECK(t.snapshots == 1 + inner_entries);
    CHECK(samples[0].value == start && samples[1].value == a && samples[2].value == b);
    CHECK(samples[1].instance == 0 && samples[2].instance == 0); /* rejected tries gave their numbers back */
    CHECK(samples[0].loop == -1 && samples[1].loop == 0 && samples[2].loop == 1);
    CHECK_TEXT(name_of(samples[1].site_id), "outer/a");
    CHECK_TEXT(name_of(samples[2].site_id), "outer/inner/b");
    CHECK(loops[0].parent == -1 && loops[1].parent == 0 && loops[1].instance == 0);
    CHECK(loops[0].tries == outer_tries && loops[1].tries == inner_tries);
    CHECK_NEAR(loops[0].log_ratio_rejected, 0, 0);
    if (rejected)
        check_rejected(&t, (const void *)(slots + 2), trace);
    else
        CHECK(t.n_tries == 0 && t.n_values == 2);
    check_slot(trace, slots[0], 1, true);
    check_slot(trace, slots[1], 1 + inner_entries, false);
}

static int check_run(bool rejected) {
    if (!play_host()) return 77;
    shm->run = (struct ars__run){.number = 1,
                                 .seed = SEED,
                                 .flags = ARS_RUN_PROPOSE_PRIOR | ARS_RUN_ESTIMATE,
                                 .wanted = {.runs_p = M, .tries_q = N}};
    if (rejected) {
        shm->run.flags |= ARS_RUN_RECORD_PRIORS | ARS_RUN_RECORD_REJECTED;
        shm->run.max_rejected = MAX_REJECTED;
    }
    struct ars__worker *w = played_worker();
    w->order_count = TRACES;
    atomic_store(&w->order_number, 1);
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(1);
    }
    size_t size;
    for (uint64_t trace = 0; trace < TRACES; trace++) {
        const unsigned char *record = await_record(child, &size);
        if (!record) return 1;
        check_record(record, size, trace, rejected);
    }
    await_order_done(1);
    play_no_more(child);
    return check_failures != 0;
}

int main(void) {
    int plain = check_run(false);
    return plain ? plain : check_run(true);
}

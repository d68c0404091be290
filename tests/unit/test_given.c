/* test_given.c: a worker of libars that is given values instead of proposals, by a host that this program plays. */
#include <math.h>

#include "played_host.h"

enum { TIMES = 5, SEED = 3, M = 2 };

/* Every latent is uniform on (0, 1) and gets the same value. */
static void model(void) {
    double start = ars_sample("start", ars_uniform(0, 1)), a, b;
    for (;;) {
        rs_start("outer");
        a = ars_sample("a", ars_uniform(0, 1));
        for (;;) {
            rs_start("inner");
            b = ars_sample("b", ars_uniform(0, 1));
            if (b > 0.1) {
                rs_end();
                break;
            }
        }
        if (a + start > 0.8) {
            rs_end();
            break;
        }
    }
    ars_sample("end", ars_uniform(0, 2));
    ars_observe("y", ars_normal(a + b, 1));
}

static void work(void) {
    become_played_worker();
    ars_next_trace();
    model();
    ars_next_trace(); /* ends the trace, then waits for an order that does not come */
}

struct found {
    struct ars_wire_trace trace;
    struct ars_wire_sample samples[4];
    struct ars_wire_loop loops[2];
};

static struct found read_record(const unsigned char *at) {
    struct found f;
    memset(&f, 0, sizeof f);
    at += sizeof(struct ars__record);
    memcpy(&f.trace, at, sizeof f.trace);
    if (f.trace.failure) return f;
    at += sizeof f.trace;
    CHECK(f.trace.n_samples == 4 && f.trace.n_loops == 2);
    memcpy(f.samples, at, sizeof f.samples);
    at += sizeof f.samples + f.trace.n_observes * sizeof(struct ars_wire_values);
    memcpy(f.loops, at, sizeof f.loops);
    return f;
}

static void check_trace(const struct found *f, double value) {
    CHECK(f->trace.failure == ARS_OK);
    const bool possible = value < 1 && value > 0.1 && 2 * value > 0.8;
    for (int i = 0; i < 4; i++) {
        const struct ars_wire_sample *s = &f->samples[i];
        CHECK(s->value > 0 && s->value < (i == 3 ? 2 : 1)); /* what the simulator saw */
        if (possible) CHECK(s->value == value && s->log_q == 0);
        CHECK_NEAR(s->log_p, i == 3 ? -log(2) : 0, 1e-15);
    }
    if (possible) {
        CHECK(f->loops[0].tries == 1 && f->loops[1].tries == 1);
        CHECK_NEAR(f->trace.log_ratio_accepted, -log(2), 1e-15);
        CHECK_NEAR(f->trace.log_ratio_all, -log(2), 1e-15);
        return;
    }
    CHECK(f->trace.log_ratio_accepted == -INFINITY && f->trace.log_ratio_all == -INFINITY);
    CHECK(f->samples[1].value + f->samples[0].value > 0.8 && f->samples[2].value > 0.1);
    if (value < 1) CHECK(f->samples[0].value == value);         /* before it turned out to be impossible */
    if (value > 0.1 && value < 1) CHECK(f->loops[0].tries > 1); /* the outer try was rejected, and not for ever */
    if (value < 0.1) CHECK(f->loops[1].tries > 1 || f->loops[0].tries > 1);
}

static int check_given(double value, unsigned asked, uint64_t seed) {
    if (!play_host()) return 77;
    shm->run = (struct ars__run){.number = 1, .seed = seed, .max_tries = 1000000};
    played_proposal = (ars_dist){.kind = ARS_DIST_GIVEN, .n = 1, .a = {value}};
    played_asked = 0;
    played_worker()->order_count = 1;
    atomic_store(&played_worker()->order_number, 1);
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(1);
    }
    size_t size;
    const unsigned char *record = await_record(child, &size);
    if (!record) return 1;
    const struct found f = read_record(record);
    check_trace(&f, value);
    await_order_done(1);
    CHECK(played_asked == asked); /* after an impossible value, nothing */
    play_no_more(child);
    return 0;
}

/* A continuation under q cannot be given a value: it would be rejected, or accepted, for ever. */
static int check_continuation(void) {
    if (!play_host()) return 77;
    shm->run = (struct ars__run){.number = 1,
                                 .seed = SEED,
                                 .flags = ARS_RUN_ESTIMATE,
                                 .max_tries = 1000000,
                                 .wanted = {.runs_p = M, .tries_q = 3}};
    played_proposal = (ars_dist){.kind = ARS_DIST_GIVEN, .n = 1, .a = {0.5}};
    played_worker()->order_count = 1;
    atomic_store(&played_worker()->order_number, 1);
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(1);
    }
    size_t size;
    const unsigned char *record = await_record(child, &size);
    if (!record) return 1;
    const struct found f = read_record(record);
    CHECK(f.trace.failure == ARS_OK);
    struct ars__snapshot *s = ars__snapshot_at(shm, SLOTS, 0, 0);
    s->wanted = shm->run.wanted;
    atomic_store(&s->order, ARS__GO);
    ars__futex_wake(&s->order, 1);
    uint32_t status;
    while ((status = atomic_load(&s->status)) == ARS__SLOT_PARKED || status == ARS__SLOT_RUNNING) {
        answer(&s->channel);
        usleep(200);
    }
    CHECK(status == ARS__SLOT_FAILED && s->failure.kind == ARS_FAIL_PROTOCOL);
    CHECK(strstr(s->failure.text, "gave a value to a continuation under q") != NULL);
    play_no_more(child);
    return 0;
}

int main(void) {
    static const struct {
        double value;
        unsigned asked;
    } cases[] = {{0.5, 4}, {0.9, 4}, {0.3, 3}, {0.05, 3}, {1.5, 1}};
    for (size_t i = 0; i < TIMES * sizeof cases / sizeof *cases; i++) {
        const int failed = check_given(cases[i / TIMES].value, cases[i / TIMES].asked, i);
        if (failed) return failed;
    }
    const int failed = check_continuation();
    return failed ? failed : check_failures != 0;
}

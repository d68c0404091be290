/* The part of its time that a process had for itself, from made-up readings of what the kernel counts. */
#include "../../bridge/host/cores.c"

#include "check.h"

static const uint64_t ms = 1000000;

static struct cpu_clock begun(void) {
    return (struct cpu_clock){.last = {.pid = 7}, .share = 1};
}

/* The time counted when `ran` and `waited` have grown by this much in `elapsed`. */
static uint64_t grow(struct cpu_clock *clock, uint64_t elapsed, uint64_t ran, uint64_t waited, bool runnable) {
    struct cpu_reading now = clock->last;
    now.ran += ran * ms;
    now.waited += waited * ms;
    now.runnable = runnable;
    return host_own_time(clock, &now, elapsed * ms) / ms;
}

static void one_process(void) {
    struct cpu_clock clock = begun();
    CHECK(grow(&clock, 50, 50, 0, true) == 50);   /* a core of its own */
    CHECK(grow(&clock, 50, 0, 0, false) == 50);   /* asleep: that is its own affair */
    CHECK(grow(&clock, 50, 10, 40, true) == 10);  /* five share a core */
    CHECK(grow(&clock, 50, 10, 20, false) == 30); /* and it slept for 20 */
}

/* Of a process that has a core or waits for one now, nobody knows whether it slept or waits: that shows in the next reading. */
static void a_wait_that_is_not_over(void) {
    struct cpu_clock clock = begun();
    CHECK(grow(&clock, 250, 10, 0, true) == 10); /* and 240 of waiting */
    CHECK(grow(&clock, 250, 10, 240, true) == 10);
    CHECK(grow(&clock, 250, 10, 240, true) == 10);
    clock = begun();
    CHECK(grow(&clock, 50, 25, 0, true) == 25); /* and 25 of sleeping */
    for (int i = 0; i < 3; i++) CHECK(grow(&clock, 50, 25, 0, true) == 50);
    CHECK(grow(&clock, 50, 0, 0, false) == 50 && clock.credit == 25 * (int64_t)ms);
}

/* The kernel counts a wait when it is over. */
static void a_long_wait(void) {
    struct cpu_clock clock = begun();
    for (int i = 0; i < 3; i++) CHECK(grow(&clock, 50, 0, 0, true) == 0);
    CHECK(grow(&clock, 50, 40, 160, true) == 40);
    CHECK(grow(&clock, 50, 50, 0, true) == 50);
}

static void one_after_another(void) {
    struct cpu_clock clock = begun();
    struct cpu_reading next = {.pid = 8, .ran = 2 * ms, .waited = 18 * ms};
    CHECK(host_own_time(&clock, &next, 50 * ms) == 5 * ms); /* a tenth of what it lived */
    CHECK(host_own_time(&clock, NULL, 50 * ms) == 5 * ms);  /* gone, and the next is not there yet */
    CHECK(host_own_time(&clock, &(struct cpu_reading){.pid = 9, .runnable = true}, 50 * ms) == 0);
    CHECK(grow(&clock, 50, 45, 5, true) == 45);
    CHECK(host_own_time(&clock, &(struct cpu_reading){.pid = 10}, 50 * ms) == 45 * ms); /* nothing known of it */
    /* The number of a process that is gone, with another's times. */
    CHECK(host_own_time(&clock, &(struct cpu_reading){.pid = 10, .ran = 1}, 50 * ms) > 0);
    clock.last.ran = 100 * ms;
    CHECK(host_own_time(&clock, &(struct cpu_reading){.pid = 10, .ran = ms, .waited = ms}, 50 * ms) == 25 * ms);
}

/* A process that runs, sleeps and waits for as long as chance will have it, looked at now and then. */
enum { RUNS, SLEEPS, WAITS };
struct life {
    uint64_t seed, left, ran, slept, waited, hidden, longest;
    int state;
};

static uint64_t chance(struct life *life, uint64_t most) {
    life->seed = life->seed * 6364136223846793005u + 1442695040888963407u;
    return (life->seed >> 33) % most + 1;
}

static void live(struct life *life, uint64_t time) {
    while (time) {
        uint64_t step = life->left < time ? life->left : time;
        *(life->state == RUNS ? &life->ran : life->state == SLEEPS ? &life->slept : &life->hidden) += step;
        time -= step;
        if (life->left -= step) continue;
        if (life->hidden > life->longest) life->longest = life->hidden;
        life->waited += life->hidden;
        life->hidden = 0;
        /* Whoever waited runs, whoever slept waits; if only for a moment. */
        life->state = life->state == WAITS ? RUNS : life->state == SLEEPS || chance(life, 2) == 1 ? WAITS : SLEEPS;
        life->left = chance(life, (life->state == WAITS ? 120 : 20) * ms);
    }
}

static void whole_lives(void) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct life life = {.seed = seed, .left = 1, .state = RUNS};
        struct cpu_clock clock = begun();
        uint64_t counted = 0, longest = 0;
        for (int i = 0; i < 4000; i++) {
            uint64_t step = i % 100 ? 50 * ms : 400 * ms; /* now and then the host is held up itself */
            live(&life, step);
            struct cpu_reading now = {7, life.ran, life.waited, life.state != SLEEPS};
            counted += host_own_time(&clock, &now, step);
            uint64_t own = life.ran + life.slept, off = counted > own ? counted - own : own - counted;
            if (off > longest) longest = off;
            CHECK(counted <= own); /* no wait ever counts */
        }
        CHECK(life.waited > life.ran); /* or this would show nothing */
        CHECK(longest <=
              life.longest + 400 * ms); /* off by one wait or one step at any time, however many there were */
    }
}

static void real_readings(void) {
    struct cpu_clock clock = {.share = 1};
    struct cpu_reading now;
    CHECK(!host_cpu_read(0, &now) && !host_cpu_read(-1, &now) && !host_cpu_read(0x7fffffff, &now));
    if (!host_cores_counted()) return; /* a kernel without schedstat: all time counts */
    CHECK(host_cpu_read(getpid(), &now) && now.pid == getpid() && now.ran > 0);
    clock.last = now;
    for (volatile int i = 0; i < 100000000 && now.ran == clock.last.ran; i++)
        if (i % 100000 == 0) CHECK(host_cpu_read(getpid(), &now));
    CHECK(now.ran > clock.last.ran);
}

/* A process that has run is seen to have run, also if its core has had no tick since: some cores have none for a second. */
static void a_core_without_ticks(void) {
    struct cpu_clock clock = {.share = 1};
    struct cpu_reading now;
    if (!host_cores_counted()) return;
    CHECK(host_cpu_read(getpid(), &clock.last));
    for (int i = 0; i < 100; i++) {
        CHECK(host_cpu_read(getpid(), &now));
        CHECK(now.ran > clock.last.ran);
        clock.last = now;
    }
}

int main(void) {
    one_process();
    a_long_wait();
    a_wait_that_is_not_over();
    one_after_another();
    whole_lives();
    real_readings();
    a_core_without_ticks();
    return check_failures != 0;
}

/* fuzz_reply.c: libars' side of the segment. A worker draws latents and gets any bytes as the answers in its mailbox; or it
 * begins a run with any bytes as the observed data that the host has passed. What it accepts must be a draw, and whatever
 * it does not accept must end in a named failure.
 *
 * The host is this file: the futex call with which libars would wait is replaced (linked with --wrap=syscall), and so is
 * ars__fail, which comes back here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "data.h"
#include "fuzz.h"
#include "process.h"
#include "sites.h"
#include "thread_owner.h"
#include "trace.h"
#include "wire_check.h"

enum { PRIORS = ARS_DIST_TRUNCATED_NORMAL + 2, MOST_DRAWS = 8 };

static struct ars__shm *shm;
static struct script script;
static jmp_buf failed;
static const char *const names[] = {"", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"};

/* ---- in place of what would wait or exit ------------------------------------------------------------------------- */

_Noreturn void __wrap_ars__fail(enum ars_failure_kind kind, int detail, const char *format, ...);
_Noreturn void __wrap_ars__fail(enum ars_failure_kind kind, int detail, const char *format, ...) {
    char text[ARS_WIRE_TEXT];
    va_list args;
    (void)detail;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PROMISE(kind >= ARS_FAIL_CRASH && kind <= ARS_FAIL_LOST && text[0]);
    longjmp(failed, 1);
}

static void answer_site(struct ars__channel *c) {
    struct ars_wire_site site;
    memcpy(&site, c->body, sizeof site);
    site.id = site.dist;
    shm->sites[site.id] = (struct ars__site_entry){.kind = site.kind, .dist = site.dist, .name_size = site.name_size};
    memcpy(c->body, &site, sizeof site);
    c->size = sizeof site;
}

/* The size is what the script says it is, whatever comes with it. */
static void answer_step(struct ars__channel *c) {
    struct script reply = script_part(&script);
    uint32_t size = (uint32_t)reply.left;
    if (script_byte(&script) == 0xff) script_take(&script, &size, sizeof size);
    script_take(&reply, c->body, reply.left < sizeof c->body ? reply.left : sizeof c->body);
    c->size = size;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    struct ars__channel *c = ars__me.channel;
    PROMISE(number == SYS_futex);
    if (atomic_load(&c->state) != ARS__ASKED) return 0; /* a wake */
    if (c->kind == ARS__ASK_SITE)
        answer_site(c);
    else
        answer_step(c);
    atomic_store(&c->state, ARS__ANSWERED);
    return 0;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */

static ars_dist prior_of(unsigned kind) {
    static const double p[] = {0.2, 0.3, 0.5};
    switch (kind) {
    case ARS_DIST_UNIFORM:
        return ars_uniform(-1, 2);
    case ARS_DIST_NORMAL:
        return ars_normal(0, 1);
    case ARS_DIST_BERNOULLI:
        return ars_bernoulli(0.3);
    case ARS_DIST_CATEGORICAL:
        return ars_categorical(p, 3);
    case ARS_DIST_POISSON:
        return ars_poisson(4);
    case ARS_DIST_BINOMIAL:
        return ars_binomial(10, 0.4);
    case ARS_DIST_BETA:
        return ars_beta(2, 3);
    case ARS_DIST_GAMMA:
        return ars_gamma(2, 3);
    case ARS_DIST_EXPONENTIAL:
        return ars_exponential(2);
    case ARS_DIST_WEIBULL:
        return ars_weibull(1, 2);
    case ARS_DIST_LOGNORMAL:
        return ars_lognormal(0, 1);
    case 13:
        return ars_negative_binomial(3.5, 0.4);
    case 14:
        return ars_student_t(3, 1, 2);
    default:
        return ars_truncated_normal(0, 1, -1, INFINITY);
    }
}

static void begin_trace(uint32_t flags) {
    ars__me.flags = flags;
    ars__me.in_trace = true;
    ars__me.state = 0;
    ars__me.told = 0;
    ars__me.loops.depth = 0;
    ars__trace_reset(&ars__me.trace);
    ars__instances_reset();
    ars__rng_init(&ars__me.rng, 1, 1, 0);
    atomic_store(&ars__me.channel->state, ARS__IDLE);
}

static void draw(void) {
    begin_trace(script_byte(&script) & 1 ? ARS_RUN_RECORD_PRIORS : 0);
    for (size_t i = 0; i < MOST_DRAWS && script.left; i++) {
        unsigned kind = 1 + script_byte(&script) % PRIORS;
        double value = ars_sample(names[kind], prior_of(kind));
        const struct ars_wire_sample *s = (const void *)ars__me.trace.samples.bytes;
        PROMISE(ars__n_samples(&ars__me.trace) == i + 1);
        PROMISE(isfinite(value) && s[i].value == value && isfinite(s[i].log_q) && !isnan(s[i].log_p));
    }
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static void observe(void) {
    ars__why why;
    struct ars_wire_run run;
    const unsigned char *frame = script.at;
    if (!ars__check_message(frame, script.left, FUZZ_SITES, &why)) return;
    memcpy(&run.header, frame, sizeof run.header);
    if (run.header.type != ARS_MSG_RUN) return;
    memcpy(&run, frame, sizeof run);
    size_t size = ars__parts_of_run(frame).budgets - sizeof run,
           at = run.header.count * sizeof(struct ars_wire_observed);
    memcpy(shm->data, frame + sizeof run, size);
    shm->run = (struct ars__run){.flags = run.flags, .n_observed = run.header.count, .data_size = size};
    begin_trace(run.flags);
    ars__data_begin_run();
    ars__data_begin_trace();
    for (uint32_t i = 0; i < run.header.count; i++) {
        struct ars_wire_observed o;
        char name[ARS_WIRE_MAX_NAME + 1] = {0};
        memcpy(&o, shm->data + i * sizeof o, sizeof o);
        memcpy(name, shm->data + at, o.name_size);
        at += ARS_WIRE_PAD(o.name_size);
        bool held = false;
        const double *values = ars__data_take(name, o.n_values, NULL, &held);
        PROMISE(!held);
        PROMISE((const unsigned char *)values >= shm->data);
        PROMISE((const unsigned char *)(values + o.n_values) <= shm->data + size);
        for (uint32_t k = 0; k < o.n_values; k++) PROMISE(!isinf(values[k]));
    }
    ars__data_end_trace();
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void begin(void) {
    size_t size = ars__shm_size(1, 1);
    shm = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shm == MAP_FAILED) abort();
    ars__thread = ARS__OWNER;
    ars__me.role = ARS__WORKER;
    ars__me.shm = shm;
    ars__me.n_workers = ars__me.per_worker = 1;
    ars__me.run_number = 1;
    ars__me.mine = ars__worker_at(shm, 1, 0);
    ars__me.channel = &ars__me.mine->channel;
    ars__me.where = &ars__me.mine->where;
    begin_trace(0);
    for (unsigned kind = 1; kind <= PRIORS; kind++)
        PROMISE(ars__site_id(names[kind], ARS_SITE_SAMPLE, kind) == kind); /* asked once, then known */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!shm) begin();
    script = (struct script){data, size};
    if (setjmp(failed)) return 0;
    if (script_byte(&script) & 1)
        observe();
    else
        draw();
    return 0;
}

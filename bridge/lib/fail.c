/* fail.c: a failure is an outcome, never a silence. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "continuation.h"
#include "fail.h"
#include "family.h"
#include "process.h"
#include "rewind.h"
#include "trace.h"

/* One list; the numbers are those of wire.h. */
#define ARS__FAILURES(X)                                                                                               \
    X(ARS_OK, "ok")                                                                                                    \
    X(ARS_FAIL_CRASH, "crash")                                                                                         \
    X(ARS_FAIL_EXIT, "exit")                                                                                           \
    X(ARS_FAIL_TIMEOUT, "timeout")                                                                                     \
    X(ARS_FAIL_TOO_MANY_TRIES, "too_many_tries")                                                                       \
    X(ARS_FAIL_NAN, "nan")                                                                                             \
    X(ARS_FAIL_MISUSE, "misuse")                                                                                       \
    X(ARS_FAIL_LOOP_LEFT, "loop_left")                                                                                 \
    X(ARS_FAIL_RS_END, "rs_end")                                                                                       \
    X(ARS_FAIL_OBSERVE_IN_LOOP, "observe_in_loop")                                                                     \
    X(ARS_FAIL_PARAMETER, "parameter")                                                                                 \
    X(ARS_FAIL_SITE_CHANGED, "site_changed")                                                                           \
    X(ARS_FAIL_OBSERVATION, "observation")                                                                             \
    X(ARS_FAIL_FORK, "fork")                                                                                           \
    X(ARS_FAIL_THREADS, "threads")                                                                                     \
    X(ARS_FAIL_MEMORY, "memory")                                                                                       \
    X(ARS_FAIL_LIMIT, "limit")                                                                                         \
    X(ARS_FAIL_PROTOCOL, "protocol")                                                                                   \
    X(ARS_FAIL_OUTSIDE_TRACE, "outside_trace")                                                                         \
    X(ARS_FAIL_LOST, "lost")                                                                                           \
    X(ARS_FAIL_TRY_TIMEOUT, "try_timeout")

/* The name of a failure, as the controller reports it. */
static const char *failure_name(enum ars_failure_kind kind) {
    switch (kind) {
#define ARS__CASE(number, name)                                                                                        \
    case number:                                                                                                       \
        return name;
        ARS__FAILURES(ARS__CASE)
#undef ARS__CASE
    default:
        return "unknown";
    }
}

void ars__where_read(const struct ars__where *where, struct ars_wire_failure *failure) {
    failure->loop_id = where ? atomic_load_explicit(&where->loop_id, memory_order_relaxed) : ARS_NO_SITE;
    failure->site_id = where ? atomic_load_explicit(&where->site_id, memory_order_relaxed) : ARS_NO_SITE;
}

_Noreturn void ars__fail(enum ars_failure_kind kind, int detail, const char *format, ...) {
    /* The loop is forked then, and the forked continuation fails in the same way. */
    if (ars__rewinding()) ars__rewind_refuse(ARS_REASON_FAILURE, (int32_t)kind);
    struct ars_wire_failure failure = {.trace = ars__me.trace_number, .kind = kind, .detail = detail};
    ars__where_read(ars__me.where, &failure);
    va_list args;
    va_start(args, format);
    vsnprintf(failure.text, sizeof failure.text, format, args);
    va_end(args);

    /* A continuation in place is the worker itself. */
    switch (ars__continuing() && !ars__me.snapshot ? ARS__WORKER : ars__me.role) {
    case ARS__WORKER:
        ars__trace_send_failure(&failure);
        _exit(ARS__EXIT_FAILED);
    case ARS__SNAPSHOT:
    case ARS__TRY_Q:
    case ARS__RUN_P:
        /* The parent (the worker, or the snapshot) sees the exit code and passes this on. */
        ars__me.snapshot->failure = failure;
        _exit(ARS__EXIT_FAILED);
    case ARS__FOREIGN:
        fprintf(stderr,
                "libars: process %d was forked by the simulator itself and takes no part in the trace: exec or _exit "
                "there; "
                "%s\n",
                (int)getpid(), failure.text);
        _exit(ARS__EXIT_FAILED);
    default:
        ars__alive_error(failure.text);
        fprintf(stderr, "libars: %s: %s\n", failure_name(kind), failure.text);
        abort();
    }
}

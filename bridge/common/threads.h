/* threads.h: libars belongs to the thread that asked for the first trace. Everything in libars is that thread's: the random
 * stream, the trace, the mailbox and the ring. A call from any other thread must touch none of it, so it leaves one word in
 * the segment, which call it was, and ends the process. Whoever waits for the process (the host, or a snapshot) finds the
 * word and makes the failure of it. Also for ars-host, which reads the word. */
#ifndef ARS_LIB_THREADS_H
#define ARS_LIB_THREADS_H

#include <stdbool.h>
#include <stdio.h>

#include "shm.h"

/* The calls of ars.h that need the owner. */
#define ARS__CALLS(X)                                                                                                  \
    X(ARS__CALL_NEXT_TRACE, "ars_next_trace")                                                                          \
    X(ARS__CALL_SAMPLE, "ars_sample")                                                                                  \
    X(ARS__CALL_DRAW, "ars_draw")                                                                                      \
    X(ARS__CALL_OBSERVE, "ars_observe")                                                                                \
    X(ARS__CALL_OBSERVE_NORMALS, "ars_observe_normals")                                                                \
    X(ARS__CALL_FACTOR, "ars_factor")                                                                                  \
    X(ARS__CALL_RESULT, "ars_result")                                                                                  \
    X(ARS__CALL_RESULTS, "ars_results")                                                                                \
    X(ARS__CALL_RS_START, "rs_start")                                                                                  \
    X(ARS__CALL_RS_END, "rs_end")                                                                                      \
    X(ARS__CALL_REJECT, "ars_reject")

enum ars__call {
    ARS__CALL_NONE = 0,
#define ARS__NUMBER(number, name) number,
    ARS__CALLS(ARS__NUMBER)
#undef ARS__NUMBER
        ARS__N_CALLS
};

static inline const char *ars__call_name(uint32_t call) {
    static const char *const names[] = {
#define ARS__NAME(number, name) [number] = name,
        ARS__CALLS(ARS__NAME)
#undef ARS__NAME
    };
    return call && call < ARS__N_CALLS ? names[call] : "libars";
}

#define ARS__THREADS_ADVICE                                                                                            \
    "Only the thread that called ars_main, or ars_next_trace for the first time, may call libars. Make the draws in "  \
    "that thread and hand the values to the others, or run the simulator with one thread (for instance "               \
    "OMP_NUM_THREADS=1)"

/* If a second thread ended this process: kind and text of the failure. */
static inline bool ars__stray_describe(const struct ars__where *where, struct ars_wire_failure *failure) {
    uint32_t call = atomic_load_explicit(&where->stray, memory_order_relaxed);
    if (!call) return false;
    failure->kind = ARS_FAIL_THREADS;
    failure->detail = 0;
    snprintf(failure->text, sizeof failure->text, "a second thread called %s. " ARS__THREADS_ADVICE,
             ars__call_name(call));
    return true;
}

/* ---- in libars (threads.c) ----------------------------------------------------------------------------------------- */

/* What the calling thread is. A fork keeps it: the child's only thread is a copy of the one that forked. Initial-exec, so
 * that looking is one load and no call, in a shared library too. */
enum {
    ARS__STRANGER = 0,
    ARS__OWNER = 1,
    ARS__PLAIN = 2 /* the owner, in a trace of the plain simulator: it may draw without another look */
};
#define ARS__INITIAL_EXEC __attribute__((tls_model("initial-exec"), visibility("hidden")))
extern _Thread_local unsigned char ars__thread ARS__INITIAL_EXEC;

void ars__thread_claim(void); /* the first thread to ask for a trace owns libars; fails in any other */
void ars__thread_refuse(enum ars__call call);

static inline void ars__thread_check(enum ars__call call) {
    if (__builtin_expect(ars__thread == ARS__STRANGER, 0)) ars__thread_refuse(call);
}

#endif /* ARS_LIB_THREADS_H */

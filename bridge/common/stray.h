/* stray.h: the word that a second thread leaves in the segment when it calls libars: which call it was. Whoever waits for the
 * process (the host, or a snapshot) finds the word and makes the failure of it. */
#ifndef ARS_STRAY_H
#define ARS_STRAY_H

#include <stdbool.h>
#include <stdio.h>

#include "shm.h"

/* The calls of ars.h that need the owner. */
#define ARS__CALLS(X)                                                                                                  \
    X(ARS__CALL_NEXT_TRACE, "ars_next_trace")                                                                          \
    X(ARS__CALL_SAMPLE, "ars_sample")                                                                                  \
    X(ARS__CALL_SAMPLE_VECTOR, "ars_sample_vector")                                                                    \
    X(ARS__CALL_DRAW, "ars_draw")                                                                                      \
    X(ARS__CALL_DRAW_VECTOR, "ars_draw_vector")                                                                        \
    X(ARS__CALL_OBSERVE, "ars_observe")                                                                                \
    X(ARS__CALL_OBSERVE_NORMALS, "ars_observe_normals")                                                                \
    X(ARS__CALL_OBSERVE_VALUE, "ars_observe_value")                                                                    \
    X(ARS__CALL_OBSERVE_VECTOR, "ars_observe_vector")                                                                  \
    X(ARS__CALL_OBSERVE_VALUES, "ars_observe_values")                                                                  \
    X(ARS__CALL_GIVEN, "ars_given")                                                                                    \
    X(ARS__CALL_FACTOR, "ars_factor")                                                                                  \
    X(ARS__CALL_RESULT, "ars_result")                                                                                  \
    X(ARS__CALL_RESULTS, "ars_results")                                                                                \
    X(ARS__CALL_RESULTS_SHAPED, "ars_results_shaped")                                                                  \
    X(ARS__CALL_RS_START, "rs_start")                                                                                  \
    X(ARS__CALL_RS_END, "rs_end")                                                                                      \
    X(ARS__CALL_REJECT, "ars_reject")                                                                                  \
    X(ARS__CALL_LOOP_TRY, "ars_loop_try")                                                                              \
    X(ARS__CALL_LOOP_ACCEPT, "ars_loop_accept")                                                                        \
    X(ARS__CALL_LOOP_ABANDON, "ars_loop_abandon")                                                                      \
    X(ARS__CALL_FLAT, "ars_flat")                                                                                      \
    X(ARS__CALL_SCOPE_PUSH, "ars_scope_push")                                                                          \
    X(ARS__CALL_SCOPE_POP, "ars_scope_pop")                                                                            \
    X(ARS__CALL_FLAT_POLICY, "ars_flat_policy")

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

#endif /* ARS_STRAY_H */

/* thread_owner.c: which thread libars belongs to, and the end of a process in which another one calls it. */
#include <unistd.h>

#include "fail.h"
#include "process.h"
#include "thread_owner.h"

_Thread_local unsigned char ars__thread ARS__INITIAL_EXEC; /* repeated: GCC forgets it here */

_Noreturn static void fail(enum ars__call call) {
    ars__fail(ARS_FAIL_THREADS, 0, "a second thread called %s. " ARS__THREADS_ADVICE, ars__call_name(call));
}

void ars__thread_claim(void) {
    if (ars__thread != ARS__STRANGER) return;
    if (atomic_exchange(&ars__me.is_owned, true)) {
        ars__thread_refuse(ARS__CALL_NEXT_TRACE);
        fail(ARS__CALL_NEXT_TRACE); /* the owner is about to begin its first trace */
    }
    ars__thread = ARS__OWNER;
}

/* Writes nothing that the owner may be writing at this moment. Returns where no thread runs traces: before the first one, and
 * in a process that the simulator forked, the call is reported as made outside a trace. */
void ars__thread_refuse(enum ars__call call) {
    switch (ars__me.role) {
    case ARS__UNDECIDED:
    case ARS__FOREIGN:
        return;
    case ARS__ALONE:
        fail(call);
    default:
        if (ars__me.where) atomic_store(&ars__me.where->stray, call);
        _exit(ARS__EXIT_FAILED);
    }
}

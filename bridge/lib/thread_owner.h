/* thread_owner.h: libars belongs to the thread that asked for the first trace. Everything in libars is that thread's: the
 * random stream, the trace, the mailbox and the ring. A call from any other thread must touch none of it, so it leaves one
 * word in the segment (stray.h), and ends the process. */
#ifndef ARS_LIB_THREAD_OWNER_H
#define ARS_LIB_THREAD_OWNER_H

#include "stray.h"

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

#endif /* ARS_LIB_THREAD_OWNER_H */

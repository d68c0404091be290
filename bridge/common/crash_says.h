/* crash_says.h: a signal in words, for the failure of a trace; libars and ars-host say the same. */
#ifndef ARS_CRASH_SAYS_H
#define ARS_CRASH_SAYS_H

#include <signal.h>

/* What to add to a signal's name. Where the process stored or loaded is not known: only a signal handler would see the address,
 * and libars takes none. */
static inline const char *ars__crash_hint(int number) {
    if (number != SIGSEGV && number != SIGBUS) return "";
    return ": it accessed memory outside its own, most often past the end of an array, or ran out of stack. The memory "
           "that libars shares between processes is guarded, so an overrun into it ends the same way. Replay the trace "
           "in a debugger to find the line";
}

#endif /* ARS_CRASH_SAYS_H */

/* futex.h: sleep on a word of shared memory, and wake those who do. Shared futexes: the words live in a segment that
 * several processes map. */
#ifndef ARS_FUTEX_H
#define ARS_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == expected, for at most timeout_ns (negative: for ever). Returns 0 if woken, else -EAGAIN (the word
 * had changed already), -ETIMEDOUT or -EINTR. It may also return 0 for no reason: callers look at the word again.
 * errno is kept. */
static inline int ars__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns) {
    int kept = errno, rc = 0;
    struct timespec ts = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &ts, NULL, 0) < 0) rc = -errno;
    errno = kept;
    return rc;
}

/* Wakes at most n sleepers; returns how many. errno is kept. */
static inline int ars__futex_wake(_Atomic uint32_t *word, int n) {
    int kept = errno;
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
    errno = kept;
    return woken < 0 ? 0 : (int)woken;
}

#endif /* ARS_FUTEX_H */

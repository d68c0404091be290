/* methods.c: how loops are estimated. The choice is made by workers (method.c in libars); here what one of them has learnt is passed
 * on to the others, rewound and forked estimates of the same entry are compared, and a trace whose worker could not undo a
 * continuation is begun again. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "family.h"
#include "methods.h"
#include "replay.h"
#include "sites.h"

/* Processes that may lose the same trace: for pages that had been missed before, perhaps by another process at the same time; and
 * for others. */
enum { MOST_LOST = 3, MOST_LOST_ANEW = 20 };

static void fork_from_now_on(struct host *host, uint32_t loop_id, enum ars_fork_reason reason, int32_t detail) {
    struct ars__loop_method *method = &host->shm->methods[loop_id];
    if (atomic_load_explicit(&method->reason, memory_order_relaxed)) return;
    method->detail = detail;
    atomic_store_explicit(&method->reason, reason, memory_order_release);
}

/* The others concern one entry, or all loops of a process, each of which finds out for itself. */
static bool is_of_the_loop(uint32_t reason) {
    return reason == ARS_REASON_SYSCALL || reason == ARS_REASON_MISMATCH || reason == ARS_REASON_COST ||
           reason == ARS_REASON_PAGES;
}

void host_methods_note(struct host *host, const struct ars_wire_loop *loop) {
    if (loop->method == ARS_METHOD_CHECKED) atomic_fetch_add(&host->shm->methods[loop->site_id].checked, 1);
    if (is_of_the_loop(loop->reason))
        fork_from_now_on(host, loop->site_id, (enum ars_fork_reason)loop->reason, loop->detail);
}

/* Where proposals are asked for, the controller computes them for whoever asks at the same time, and a matrix product may have other
 * last bits at another place of the batch. */
static bool same_sum(const struct host *host, double a, double b) {
    const bool asks = !(host->run.config.flags & ARS_RUN_PROPOSE_PRIOR);
    return a == b || (asks && fabs(a - b) <= 1e-9 * fabs(a));
}

void host_methods_compare(const struct host *host, struct ars_wire_loop *loop, const struct ars__estimate *forked) {
    if (!loop->rewinds) return;
    const bool equal = loop->tries_q == forked->tries_q && loop->accepted_q == forked->accepted_q &&
                       loop->runs_p == forked->runs_p && loop->tries_p == forked->tries_p &&
                       loop->abandoned_p == forked->abandoned_p && loop->abandoned_q == forked->abandoned_q &&
                       loop->abandoned_tries == forked->abandoned_tries &&
                       same_sum(host, loop->s_pq_sum, forked->s_pq_sum);
    loop->method = equal ? ARS_METHOD_CHECKED : ARS_METHOD_MISMATCH;
    if (!equal) loop->reason = ARS_REASON_MISMATCH;
}

/* ---- pages -------------------------------------------------------------------------------------------------------------- */

static bool add_missed(struct host *host, uint64_t page) {
    struct ars__shm *shm = host->shm;
    const uint32_t n = atomic_load_explicit(&shm->n_missed, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (shm->missed[i] == page) return false;
    if (n == ARS__MOST_MISSED) return false;
    shm->missed[n] = page;
    atomic_store_explicit(&shm->n_missed, n + 1, memory_order_release);
    return true;
}

/* A worker writes what it likes here; those who read it touch only pages that are theirs. */
bool host_methods_take_missed(struct host *host, uint32_t w) {
    struct ars__worker *shared = ars__worker_at(host->shm, host->per_worker, w);
    const uint32_t n = atomic_load_explicit(&shared->n_missed, memory_order_acquire);
    bool news = false;
    for (uint32_t i = 0; i < n && i < ARS__MOST_MISSED_AT_ONCE; i++) news |= add_missed(host, shared->missed[i]);
    if (n) atomic_store(&shared->n_missed, 0);
    return news;
}

/* ---- a worker that ended ----------------------------------------------------------------------------------------------- */

/* Who was killed from outside, or by a system without memory, dies as any other process does. */
bool host_methods_died(struct host *host, uint32_t w, int status) {
    const struct ars__where *where = &ars__worker_at(host->shm, host->per_worker, w)->where;
    const uint32_t state = atomic_load(&where->rewind), loop_id = atomic_load(&where->rewound_loop);
    const bool news = host_methods_take_missed(host, w);
    if (state == ARS__REWIND_NOT || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) return false;
    if (atomic_load(&where->stray)) return false;
    const uint32_t times = host_replay_undone(host, host_current_trace(&host->workers[w]));
    if (!times) return false;
    const bool known = host_site_or_none(host, loop_id, 1u << ARS_SITE_LOOP) == loop_id && loop_id != ARS_NO_SITE;
    if (state == ARS__REWIND_OPENING)
        atomic_store(&host->shm->cannot_rewind, EPERM);
    else if (state == ARS__REWIND_RUNNING && known)
        fork_from_now_on(host, loop_id, ARS_REASON_CRASH, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    else if (state == ARS__REWIND_LOST && known && times >= (news ? MOST_LOST_ANEW : MOST_LOST))
        fork_from_now_on(host, loop_id, ARS_REASON_PAGES, 0);
    return true;
}

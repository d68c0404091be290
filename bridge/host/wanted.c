/* wanted.c: what the run wants of each loop. RUN has budgets by address; workers find theirs by id, in the segment. The host
 * keeps its own copy, by which it judges what comes back. */
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "sites.h"
#include "wanted.h"

static struct ars_wire_budget budget_at(const struct run *run, uint32_t i, const unsigned char **name) {
    struct ars_wire_budget b;
    memcpy(&b, run->budgets.data + run->budget_at[i], sizeof b);
    *name = run->budgets.data + run->budget_at[i] + sizeof b;
    return b;
}

/* By bisection: the addresses ascend. */
static bool find_budget(const struct run *run, const char *address, size_t size, struct ars_wire_wanted *wanted) {
    for (uint32_t low = 0, high = run->config.n_budgets; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        const unsigned char *name;
        const struct ars_wire_budget b = budget_at(run, middle, &name);
        int order = memcmp(address, name, size < b.name_size ? size : b.name_size);
        if (!order) order = (size > b.name_size) - (size < b.name_size);
        if (!order) {
            *wanted = b.wanted;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

void host_wanted_meet(struct host *host, uint32_t loop_id) {
    const uint64_t number = host->run.config.header.run;
    struct ars__loop_wanted *shared = &host->shm->wanted[loop_id];
    struct ars_wire_wanted wanted;
    int size;
    const char *address = host_site_address(host, loop_id, &size);
    if (!find_budget(&host->run, address, (size_t)size, &wanted)) return;
    host->loops_wanted[loop_id] = (struct loop_wanted){number, wanted};
    shared->wanted = wanted;
    atomic_store_explicit(&shared->run, number, memory_order_release);
}

void host_wanted_start(struct host *host, const unsigned char *budgets, size_t size) {
    struct run *run = &host->run;
    const uint32_t n = run->config.n_budgets;
    run->budgets.size = 0;
    host_buffer_add(&run->budgets, budgets, size);
    if (n) run->budget_at = host_grow(run->budget_at, n * sizeof *run->budget_at);
    for (size_t i = 0, at = 0; i < n; i++) {
        struct ars_wire_budget b;
        memcpy(&b, budgets + at, sizeof b);
        run->budget_at[i] = at;
        at += sizeof b + ARS_WIRE_PAD(b.name_size);
    }
    for (uint32_t id = 0; n && id < host->n_sites; id++)
        if (host->site_kinds[id] == ARS_SITE_LOOP) host_wanted_meet(host, id);
}

struct ars_wire_wanted host_wanted_of(const struct host *host, uint32_t loop_id) {
    const struct ars_wire_run *config = &host->run.config;
    const struct loop_wanted *own = &host->loops_wanted[loop_id];
    return own->run == config->header.run ? own->wanted : config->wanted;
}

bool host_wanted_is_met(const struct host *host, const struct ars_wire_loop *loop) {
    if (!(host->run.config.flags & ARS_RUN_ESTIMATE)) return false;
    const struct ars_wire_wanted w = host_wanted_of(host, loop->site_id);
    if (loop->runs_p != w.runs_p) return false;
    if (w.tries_q) return loop->tries_q == w.tries_q;
    return loop->accepted_q == w.accepted_q && (w.accepted_q || !loop->tries_q);
}

void host_wanted_say_missed(const struct host *host, const struct ars_wire_loop *loop, char *text, size_t size) {
    const struct ars_wire_wanted w = host_wanted_of(host, loop->site_id);
    const unsigned long long tries = loop->tries_q, accepted = loop->accepted_q, runs = loop->runs_p;
    if (w.tries_q)
        snprintf(text, size,
                 "a loop has %llu tries under q and %llu runs under p, which are not the %u and %u that were asked for",
                 tries, runs, w.tries_q, w.runs_p);
    else
        snprintf(text, size,
                 "a loop has %llu accepted of %llu tries under q and %llu runs under p; %u accepted and %u runs were "
                 "asked for",
                 accepted, tries, runs, w.accepted_q, w.runs_p);
}

/* listed.c: which traces the run consists of. A run is a range of trace numbers, or a list of them. With a listed trace comes how
 * many tries its loop entries take, as far as an earlier run has shown it. */
#include <string.h>

#include "host.h"
#include "listed.h"
#include "schedule.h"

static void copy_list(struct run *run, const unsigned char *list) {
    const uint32_t n = run->config.n_listed;
    size_t n_known = 0;
    run->listed = host_grow(run->listed, n * sizeof *run->listed);
    for (size_t i = 0, at = 0; i < n; i++) {
        struct ars_wire_listed l;
        memcpy(&l, list + at, sizeof l);
        run->listed[i] = (struct listed){l.trace, l.n_tries, n_known};
        n_known += l.n_tries;
        at += sizeof l + ARS_WIRE_PAD(l.n_tries * sizeof *run->known);
    }
    if (n_known) run->known = host_grow(run->known, n_known * sizeof *run->known);
    for (size_t i = 0, at = 0; i < n; i++) {
        const struct listed *l = &run->listed[i];
        at += sizeof(struct ars_wire_listed);
        if (l->n_tries) memcpy(run->known + l->at, list + at, l->n_tries * sizeof *run->known);
        at += ARS_WIRE_PAD(l->n_tries * sizeof *run->known);
    }
}

/* What follows each other may be one order, except where something is known: that goes with an order of one trace. The lowest
 * numbers come last into the queue, so they are the first to be served. */
static void queue_list(struct host *host) {
    const struct listed *listed = host->run.listed;
    for (size_t end = host->run.config.n_listed, first; end > 0; end = first) {
        first = end - 1;
        while (first && !listed[first].n_tries && !listed[first - 1].n_tries &&
               listed[first - 1].trace + 1 == listed[first].trace)
            first--;
        host_requeue(host, listed[first].trace, end - first);
    }
}

void host_listed_start(struct host *host, const unsigned char *list) {
    const struct ars_wire_run *config = &host->run.config;
    if (!config->n_listed) {
        host_requeue(host, config->first_trace, config->n_traces);
        return;
    }
    copy_list(&host->run, list);
    queue_list(host);
}

static const struct listed *find_listed(const struct run *run, uint64_t trace) {
    for (uint32_t low = 0, high = run->config.n_listed; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (run->listed[middle].trace == trace) return &run->listed[middle];
        if (trace < run->listed[middle].trace)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Numbers in the segment are not read back: a stray thread of the worker may have written over them. */
void host_listed_share(const struct host *host, const struct range *order, struct ars__worker *shared) {
    const struct listed *l = order->count == 1 ? find_listed(&host->run, order->first) : NULL;
    const uint32_t n = !l ? 0 : l->n_tries < ARS__MOST_KNOWN ? l->n_tries : ARS__MOST_KNOWN;
    shared->order_n_known = n;
    if (n) memcpy(shared->order_known, host->run.known + l->at, n * sizeof *shared->order_known);
}

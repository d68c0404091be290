/* columns.c: finished traces on their way to the controller, gathered into the columns of a TRACES message. */
#include <string.h>

#include "columns.h"
#include "host.h"
#include "link.h"
#include "replay.h"

enum { ENOUGH_BYTES = 1 << 20, LONGEST_WAIT_MS = 20 };

static void add_to_column(struct host *host, enum ars__column column, const void *data, size_t size) {
    host_buffer_add(&host->columns[column], data, size);
    host->columns_size += size;
}

static void add_trace(struct host *host, const struct ars_wire_trace *trace) {
    if (!host->n_traces_out++) host->columns_since = host->now;
    add_to_column(host, ARS__COLUMN_TRACES, trace, sizeof *trace);
    host->run.accounted++;
    host_replay_forget(host, trace->trace);
    host->run.counters.traces++;
}

void host_columns_add(struct host *host, const ars__trace_view *view) {
    const struct ars_wire_trace *t = &view->trace;
    add_trace(host, t);
    add_to_column(host, ARS__COLUMN_SAMPLES, view->samples, t->n_samples * sizeof(struct ars_wire_sample));
    add_to_column(host, ARS__COLUMN_OBSERVES, view->observes, t->n_observes * sizeof(struct ars_wire_values));
    add_to_column(host, ARS__COLUMN_RESULTS, view->results, t->n_results * sizeof(struct ars_wire_result));
    add_to_column(host, ARS__COLUMN_LOOPS, view->loops, t->n_loops * sizeof(struct ars_wire_loop));
    add_to_column(host, ARS__COLUMN_VALUES, view->values, t->n_values * sizeof(double));
    if (!t->n_tries) return;
    add_to_column(host, ARS__COLUMN_TRIES, view->tries, t->n_tries * sizeof(struct ars_wire_try));
    add_to_column(host, ARS__COLUMN_REJECTED, view->rejected, view->n_rejected * sizeof(struct ars_wire_sample));
}

void host_columns_fail(struct host *host, const struct ars_wire_failure *failure, uint32_t snapshots) {
    struct ars_wire_trace trace = {.trace = failure->trace, .failure = failure->kind, .snapshots = snapshots};
    add_trace(host, &trace);
    add_to_column(host, ARS__COLUMN_FAILURES, failure, sizeof *failure);
}

uint64_t host_columns_due_at(const struct host *host) {
    return host->columns_since + LONGEST_WAIT_MS * HOST_MS;
}

bool host_columns_due(const struct host *host) {
    return host->columns_size > ENOUGH_BYTES || host->now >= host_columns_due_at(host);
}

void host_columns_send(struct host *host) {
    struct ars_wire_header header = host_header(host, ARS_MSG_TRACES, sizeof header, host->n_traces_out);
    if (!host_link_send(host, &header, sizeof header, true)) return;
    for (int c = 0; c < ARS__COLUMNS; c++) {
        bool more = c + 1 < ARS__COLUMNS;
        if (host_link_send(host, host->columns[c].data, host->columns[c].size, more)) continue;
        /* The high-water mark counts whole messages, so the rest of one is refused only when the peer is gone. */
        host->disconnected = true;
        return;
    }
    host_columns_clear(host);
}

void host_columns_clear(struct host *host) {
    for (int c = 0; c < ARS__COLUMNS; c++) host->columns[c].size = 0;
    host->n_traces_out = 0;
    host->columns_size = 0;
}

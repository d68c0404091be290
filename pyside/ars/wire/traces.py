"""TRACES: finished traces in columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars import _native as native
from ars._native import DTYPES, N_PARAMS, DistKind, FailureKind, ForkReason, LoopMethod, Message, SiteKind
from ars.columns import Columns, value_starts
from ars.wire.frames import HEADER, Array, Bytes, expect, refuse
from ars.wire.run import RunConfig
from ars.wire.sites import SiteTable

_MOST_PARAMETERS = np.zeros(max(DistKind) + 1, dtype=np.uint16)
_MOST_PARAMETERS[list(N_PARAMS)] = list(N_PARAMS.values())
_LEAST_PARAMETERS = np.where(np.arange(len(_MOST_PARAMETERS)) == DistKind.CATEGORICAL, 1, _MOST_PARAMETERS)

_TRACE_COLUMNS = ("trace", "sample", "values", "result", "loop", None, "failure", "try", "sample")
_COLUMN_NAMES = ("traces", "samples", "observes", "results", "loops", "values", "failures", "tries", "rejected")


def decode_traces(frames: Sequence[Bytes], sites: SiteTable, run: RunConfig | None = None) -> Columns:
    """The columns, copied out of the frames and consistent with each other.

    Traces that are not part of the run are refused, if it is given."""
    kind = Message.TRACES
    if not frames:
        refuse(kind, "no frames")
    header = expect(frames[0], kind)
    if header.size != HEADER.itemsize:
        refuse(kind, f"a header frame of {header.size} bytes, must be {HEADER.itemsize}")
    if len(frames) != 1 + len(_COLUMN_NAMES):
        refuse(kind, f"{len(frames)} frames, must be {1 + len(_COLUMN_NAMES)}")
    columns: list[Array] = []
    for frame, name, layout in zip(frames[1:], _COLUMN_NAMES, _TRACE_COLUMNS, strict=True):
        dtype = DTYPES[layout] if layout else np.dtype("<f8")
        if len(frame) > native.MAX_MESSAGE or len(frame) % dtype.itemsize:
            refuse(kind, f"{name}: {len(frame)} bytes, must be a multiple of {dtype.itemsize} and within the limit")
        columns.append(np.frombuffer(frame, dtype=dtype).copy())
    out = Columns(*columns)
    if header.count < 1 or out.traces.size != header.count:
        refuse(kind, f"count {header.count}, but the traces column has {out.traces.size}")
    _check_traces(out, run)
    _check_counts(out)
    _check_items(out, sites)
    _check_loops(out, sites)
    _check_failures(out, sites)
    if out.tries.size:
        _check_tries(out, sites)
    return out


def _log_values(column: str, array: Array, *fields: str) -> None:
    """Logs of densities or ratios: -inf is an outcome (a value outside the prior's support), NaN and +inf are not."""
    for field in fields:
        if np.isnan(array[field]).any() or (array[field] == np.inf).any():
            refuse(Message.TRACES, f"{column}: {field} is NaN or +inf")


def _check_traces(out: Columns, run: RunConfig | None) -> None:
    kind = Message.TRACES
    numbers = out.traces["trace"]
    if run is not None and (outside := run.places(numbers) < 0).any():
        refuse(kind, f"traces: trace {int(numbers[outside][0])} is outside the run")
    if np.unique(numbers).size != numbers.size:
        refuse(kind, "traces: a trace comes twice")
    if int(out.traces["failure"].max()) > max(FailureKind):
        refuse(kind, f"traces: failure {int(out.traces['failure'].max())} is unknown")
    complete = out.traces[out.traces["failure"] == 0]
    _log_values("traces", complete, "log_likelihood", "log_ratio_accepted", "log_ratio_all")


def _check_counts(out: Columns) -> None:
    columns = {"samples": out.samples, "observes": out.observes, "results": out.results, "loops": out.loops}
    columns["tries"] = out.tries
    failed = out.traces["failure"] != 0
    for name, column in {**columns, "values": out.values}.items():
        counts = out.traces[f"n_{name}"].astype(np.int64)
        if int(counts.sum()) != column.size:
            refuse(Message.TRACES, f"{name}: the traces' counts add up to {int(counts.sum())}, not {column.size}")
        if counts[failed].any():
            refuse(Message.TRACES, f"{name}: a failed trace has some")
    n_rejected = int(out.tries["n_samples"].sum(dtype=np.uint64))
    if n_rejected != out.rejected.size:
        refuse(Message.TRACES, f"rejected: the tries' counts add up to {n_rejected}, not {out.rejected.size}")
    owned = np.zeros(out.traces.size, dtype=np.int64)
    if out.rejected.size:
        owner = np.repeat(np.repeat(np.arange(out.traces.size), out.traces["n_tries"]), out.tries["n_samples"])
        owned += np.bincount(owner, weights=out.rejected["n_params"], minlength=out.traces.size).astype(np.int64)
    for name, column, field in (
        ("observes", out.observes, "n"),
        ("results", out.results, "n"),
        ("samples", out.samples, "n_params"),
    ):
        owner = np.repeat(np.arange(out.traces.size), out.traces[f"n_{name}"])
        owned += np.bincount(owner, weights=column[field], minlength=out.traces.size).astype(np.int64)
    if (owned != out.traces["n_values"]).any():
        refuse(Message.TRACES, "values: n_values differs from what the trace's items say they have")


def _check_items(out: Columns, sites: SiteTable) -> None:
    kind = Message.TRACES
    _check_samples("samples", out.samples, sites)
    sites.check(kind, "observes", out.observes["site"], SiteKind.OBSERVE)
    sites.check(kind, "results", out.results["site"], SiteKind.RESULT)
    _log_values("observes", out.observes, "log_p")
    if np.isnan(out.values).any():
        refuse(kind, "values: a value is NaN")
    _check_shapes(out)
    n_loops = np.repeat(out.traces["n_loops"].astype(np.int64), out.traces["n_samples"])
    if ((out.samples["loop"] < -1) | (out.samples["loop"] >= n_loops)).any():
        refuse(kind, "samples: loop is not the index of a loop of its trace")


def _check_shapes(out: Columns) -> None:
    kind, results = Message.TRACES, out.results
    if results["reserved"].any():
        refuse(kind, "results: reserved is not 0")
    n_dims = results["n_dims"].astype(np.int64)
    if ((n_dims > native.MAX_DIMS) | (n_dims > results["n"])).any():
        refuse(kind, f"results: n_dims is above {native.MAX_DIMS}, or above n")
    shaped = np.flatnonzero(n_dims)
    if not shaped.size:
        return
    product, starts = np.ones(shaped.size), value_starts(out).results[shaped]
    for axis in range(int(n_dims.max())):
        there = axis < n_dims[shaped]
        length = out.values[np.where(there, starts + axis, 0)]
        if (there & ~((length >= 0) & (length <= 0xFFFFFFFF) & (length == np.floor(length)))).any():
            refuse(kind, "results: the length of an axis is not a whole number")
        product = np.where(there, product * length, product)
    if (product != results["n"][shaped] - n_dims[shaped]).any():
        refuse(kind, "results: a result does not have as many numbers as its shape says")


def _check_samples(column: str, samples: Array, sites: SiteTable) -> None:
    kind = Message.TRACES
    sites.check(kind, column, samples["site"], SiteKind.SAMPLE)
    _log_values(column, samples, "log_p")
    for field in ("value", "log_q"):
        if not np.isfinite(samples[field]).all():
            refuse(kind, f"{column}: {field} is not finite")
    if not samples.size:
        return
    announced, given = sites.dists[samples["site"]], samples["n_params"]
    if (announced != samples["prior"]).any():
        refuse(kind, f"{column}: a prior's kind is not the one that its site was announced with")
    if ((given > _MOST_PARAMETERS[announced]) | ((given > 0) & (given < _LEAST_PARAMETERS[announced]))).any():
        refuse(kind, f"{column}: n_params is not what a prior of that kind has")


def _check_tries(out: Columns, sites: SiteTable) -> None:
    kind = Message.TRACES
    tries = out.tries
    _check_samples("rejected", out.rejected, sites)
    sites.check(kind, "tries", tries["site"], SiteKind.LOOP)
    counts = out.traces["n_tries"].astype(np.int64)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    index = np.arange(tries.size) - first
    parent = tries["parent"].astype(np.int64)
    inside = parent >= 0
    if ((parent < -1) | (inside & ((parent <= index) | (parent >= np.repeat(counts, counts))))).any():
        refuse(kind, "tries: parent is not the index of a later try of its trace")
    before = np.where(inside, tries["n_samples"][first + parent.clip(0)], np.repeat(out.traces["n_samples"], counts))
    if (tries["prefix"] > before).any():
        refuse(kind, "tries: prefix is more than the samples that its parent has")
    if ((tries["recorded"] < 1) | (tries["rejected"] < tries["recorded"])).any():
        refuse(kind, "tries: recorded is 0, or above rejected")
    if (out.rejected["loop"] != np.repeat(index, tries["n_samples"])).any():
        refuse(kind, "rejected: loop is not the index of the try that the sample belongs to")


def _check_loops(out: Columns, sites: SiteTable) -> None:
    kind = Message.TRACES
    loops = out.loops
    sites.check(kind, "loops", loops["site"], SiteKind.LOOP)
    counts = out.traces["n_loops"].astype(np.int64)
    index = np.arange(loops.size) - np.repeat(np.cumsum(counts) - counts, counts)
    n_loops = np.repeat(counts, counts)
    parent = loops["parent"]
    if ((parent < -1) | (parent >= n_loops) | (parent == index)).any():
        refuse(kind, "loops: parent is not the index of another loop of its trace")
    if (loops["tries"] < 1).any():
        refuse(kind, "loops: tries is 0")
    if (loops["accepted_q"] > loops["tries_q"]).any():
        refuse(kind, "loops: accepted_q is above tries_q")
    if (loops["tries_p"] < loops["runs_p"]).any():
        refuse(kind, "loops: tries_p is below runs_p")
    if ((loops["runs_p"] == 0) & ((loops["tries_q"] > 0) | (loops["tries_p"] > 0))).any():
        refuse(kind, "loops: runs_p is 0, but tries_q or tries_p is not")
    estimated = loops["runs_p"] > 0
    if (loops["abandoned"] > 1).any() or (estimated & (loops["abandoned"] > 0)).any():
        refuse(kind, "loops: abandoned is above 1, or 1 in a loop with estimates")
    if (loops["abandoned_p"] > loops["runs_p"]).any():
        refuse(kind, "loops: abandoned_p is above runs_p")
    given_up = loops["abandoned_q"] > 0
    if (given_up & ~estimated).any() or (given_up != (loops["abandoned_tries"] > 0)).any():
        refuse(kind, "loops: abandoned_tries does not fit abandoned_q")
    if (loops["method"] > max(LoopMethod)).any() or (loops["reason"] > max(ForkReason)).any():
        refuse(kind, "loops: a method or a reason is unknown")
    _log_values("loops", loops, "log_ratio_rejected")
    for field in ("s_pq_sum", "s_pq_main"):
        if not (loops[field] >= 0).all():
            refuse(kind, f"loops: {field} is negative or NaN")


def _check_failures(out: Columns, sites: SiteTable) -> None:
    failed = out.traces[out.traces["failure"] != 0]
    if out.failures.size != failed.size:
        refuse(Message.TRACES, f"failures: {out.failures.size} records for {failed.size} failed traces")
    if (out.failures["trace"] != failed["trace"]).any() or (out.failures["kind"] != failed["failure"]).any():
        refuse(Message.TRACES, "failures: a record's trace or kind differs from the traces column")
    if out.failures.size and out.failures.view(np.uint8).reshape(out.failures.size, -1)[:, -1].any():
        refuse(Message.TRACES, "failures: a text has no terminating zero")
    loop, site = out.failures["loop"], out.failures["site"]
    sites.check(Message.TRACES, "failures", loop[loop != native.NO_SITE], SiteKind.LOOP)
    for number in np.unique(site[site != native.NO_SITE]).tolist():
        if number >= len(sites) or sites[number].kind is SiteKind.LOOP:
            refuse(Message.TRACES, f"failures: site {number} is unknown, or a loop")

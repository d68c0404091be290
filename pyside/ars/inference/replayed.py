"""Traces that were run a second time, for their estimates: are they the same traces, and what did the second run add?

Nothing here knows about processes. A *replay* is the same trace number of the same run, so it must draw, observe and
return the same; only the estimates of its loops are new.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ars.columns import (
    HOW,
    Array,
    Booleans,
    Columns,
    Integers,
    Site,
    concatenate,
    items_of,
    offsets,
    select,
    sort_by_trace,
    take,
)
from ars.wire import Listed

__all__ = ["ESTIMATES", "differing", "known_tries", "with_estimates", "without_estimates"]

# What continuations count. Everything else about a loop's entry is the main run's.
ESTIMATES = (
    *("tries_q", "accepted_q", "runs_p", "tries_p", "s_pq_sum"),
    *("abandoned_p", "abandoned_q", "abandoned_tries"),
)

_ROUNDING = 1e-9  # relative: proposals are computed in batches, whose last bits may depend on who else was in them


def _unlike(one: Array, other: Array, skipped: Collection[str], *, rounded: bool) -> Booleans:
    """The items that differ in a field that counts."""
    odd = np.zeros(len(one), np.bool_)
    for field in one.dtype.names or ():
        if field in skipped:
            continue
        a, b = one[field], other[field]
        if a.dtype.kind != "f":
            odd |= a != b
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if rounded:
            with np.errstate(invalid="ignore"):
                least = 1.0 if field.startswith("log_") else 0.0  # sums of logarithms may cancel to nothing
                same |= np.abs(a - b) <= _ROUNDING * np.maximum(np.maximum(np.abs(a), np.abs(b)), least)
        odd |= ~same
    return odd


def differing(columns: Columns, again: Columns, *, rounded: bool) -> Booleans:
    """Which traces were other traces the second time.

    Parameters
    ----------
    columns : Columns
        The traces as they were first, in the order of their numbers.
    again : Columns
        Some of them, run again. Those that failed are left out.
    rounded : bool
        Whether floats may differ in their last digits: they may where proposals were asked for.

    Returns
    -------
    array of bool
        One per trace that was run again and completed.
    """
    after = select(again, again.traces["failure"] == 0)
    before = take(columns, np.searchsorted(columns.traces["trace"], after.traces["trace"]))
    skipped = {"traces": HOW["traces"], "loops": (*HOW["loops"], *ESTIMATES)}
    odd = _unlike(before.traces, after.traces, skipped["traces"], rounded=rounded)
    rows = np.flatnonzero(~odd)  # these have as many items in every column
    if odd.any():
        before, after = take(before, rows), take(after, rows)
    for column, starts in offsets(before)._asdict().items():
        one, other = getattr(before, column), getattr(after, column)
        if one.dtype.names is None:
            one, other = one.view([("", one.dtype)]), other.view([("", other.dtype)])
        unlike = np.flatnonzero(_unlike(one, other, skipped.get(column, ()), rounded=rounded))
        odd[rows[np.searchsorted(starts, unlike, side="right") - 1]] = True
    return odd


def with_estimates(columns: Columns, replayed: Columns) -> Columns:
    """The traces with what their replays estimated. A replay that failed takes the place of its trace."""
    failed = replayed.traces["failure"] != 0
    numbers = columns.traces["trace"]
    if failed.any():
        gone = np.isin(numbers, replayed.traces["trace"][failed])
        columns = sort_by_trace(concatenate([select(columns, ~gone), select(replayed, failed)]))
        replayed = select(replayed, ~failed)
        numbers = columns.traces["trace"]
    rows = np.searchsorted(numbers, replayed.traces["trace"])
    index = items_of(offsets(columns).loops, rows)
    loops, traces = columns.loops.copy(), columns.traces.copy()
    estimated = replayed.loops["runs_p"] > 0
    for field in (*ESTIMATES, *HOW["loops"]):
        loops[field][index[estimated]] = replayed.loops[field][estimated]
    traces["snapshots"][rows] += replayed.traces["snapshots"]
    return columns._replace(traces=traces, loops=loops)


def without_estimates(columns: Columns, sites: Sequence[Site], exact: Collection[str]) -> Columns:
    """The traces without the numbers that were estimated for loops whose factor is exactly 1."""
    ids = [site.id for site in sites if site.address in exact]
    mine = np.isin(columns.loops["site"], ids) & (columns.loops["runs_p"] > 0)
    if not mine.any():
        return columns
    loops = columns.loops.copy()
    for field in ESTIMATES:
        loops[field][mine] = 0
    return columns._replace(loops=loops)


def known_tries(columns: Columns, rows: Integers) -> Listed:
    """These traces for a second run, with the tries of their loops where a loop lies inside another: that run then
    leaves out loops in tries that will be rejected."""
    starts = offsets(columns).loops
    nested = np.zeros(len(columns.loops) + 1, np.int64)
    np.cumsum(columns.loops["parent"] >= 0, out=nested[1:])
    counts = np.where(nested[starts[rows + 1]] > nested[starts[rows]], starts[rows + 1] - starts[rows], 0)
    tries = columns.loops["tries"][items_of(starts, rows[counts > 0])]
    short = np.where(tries < 2**32, tries, 0).astype(np.uint32)  # 0: not known
    return Listed(columns.traces["trace"][rows].astype(np.uint64), counts.astype(np.uint32), short)

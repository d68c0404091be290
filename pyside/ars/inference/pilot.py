"""A pilot: which traces show what a loop's corrections cost and how noisy they are, and what they have shown.

Its continuations draw from streams of their own, and its numbers enter no weight. So a budget may be chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ars._native import ForkReason, LoopMethod, SiteKind
from ars.columns import Array, Booleans, Columns, Floats, Integers, Site, offsets
from ars.planning.choose import PilotLoop
from ars.planning.entries import Entries
from ars.wire import Wanted

__all__ = ["FIRST", "WANTED", "draws_per_trace", "first_traces", "pilot_loops", "pilot_rows"]

WANTED: Final = Wanted(runs_p=2, accepted_q=2)
FIRST: Final = (100, 1000)  # of the traces by number, a tenth, but at least and at most so many, can be in the pilot
_TRACES: Final = 64
_ENTRIES: Final = 256  # of loops, in all traces of the pilot together
_PER_LOOP: Final = 8

# Reasons to fork that hold on this machine for all traces, whoever runs them and whatever else is running.
_LASTING: Final = (ForkReason.SYSTEM, ForkReason.SYSCALL, ForkReason.THREADS, ForkReason.SHADOW_STACK)


def first_traces(total: int) -> int:
    """How many traces are run before the pilot."""
    least, most = FIRST
    return min(total, max(least, min(total // 10, most)))


def pilot_rows(log_a: Floats, entries: Entries) -> Integers:
    """The traces for the pilot: those with the largest uncorrected weights, and some for every loop.

    Returns
    -------
    array of int
        Rows, ascending. Empty if no trace of positive weight entered a loop that needs estimates.
    """
    counts = np.bincount(entries.rows, minlength=entries.n_traces)
    heaviest = np.argsort(-log_a, kind="stable")
    heaviest = heaviest[(log_a[heaviest] > -np.inf) & (counts[heaviest] > 0)]
    chosen = np.zeros(entries.n_traces, np.bool_)
    entered = np.cumsum(counts[heaviest])
    chosen[heaviest[:_TRACES][(entered <= _ENTRIES)[:_TRACES]]] = True
    chosen[heaviest[:1]] = True
    rank = np.full(entries.n_traces, len(heaviest), np.int64)
    rank[heaviest] = np.arange(len(heaviest))
    for loop in range(len(entries.addresses)):
        rows = np.unique(entries.rows[entries.loop == loop])
        rows = rows[rank[rows] < len(heaviest)]
        missing = _PER_LOOP - int(np.count_nonzero(chosen[rows]))
        others = rows[~chosen[rows]]
        if missing > 0:
            chosen[others[np.argsort(rank[others], kind="stable")][:missing]] = True
    return np.flatnonzero(chosen)


def _below(sites: Sequence[Site], address: str) -> Booleans:
    """By id, whether a site is a latent under this loop."""
    return np.array([site.kind is SiteKind.SAMPLE and site.address.startswith(f"{address}/") for site in sites])


def draws_per_trace(
    columns: Columns,
    sites: Sequence[Site],
    entries: Entries,
    proposes: Callable[[Site], bool],
    loops: Mapping[str, PilotLoop],
) -> tuple[float, float]:
    """Latents that an average trace draws, and requests that it makes. Rejected tries are counted as often as the pilot
    makes them likely: the main runs' own numbers of tries must not shape a budget."""
    complete = max(int(np.count_nonzero(columns.traces["failure"] == 0)), 1)
    asked = np.array([site.kind is SiteKind.SAMPLE and proposes(site) for site in sites], np.bool_)
    drawn = columns.samples["site"]
    draws, requests = len(drawn) / complete, float(np.count_nonzero(asked[drawn])) / complete
    for address, count in zip(entries.addresses, np.bincount(entries.loop).tolist(), strict=False):
        if address in loops:
            loop = loops[address]
            again = count / complete * (_tries(loop) - 1.0)
            while loop.outer is not None and loop.outer in loops:
                loop = loops[loop.outer]
                again *= _tries(loop)
            draws += again * loops[address].draws
            requests += again * loops[address].asked
    return draws, requests


def _tries(loop: PilotLoop) -> float:
    """Mean number of tries under q until one is accepted."""
    return loop.tries_q / loop.accepted_q if loop.accepted_q else 1.0


def pilot_loops(
    columns: Columns,
    sites: Sequence[Site],
    log_a: Floats,
    *,
    proposes: Callable[[Site], bool],
    forks: bool,
) -> Mapping[str, PilotLoop]:
    """What the pilot has shown of every loop that it estimated.

    Parameters
    ----------
    columns : Columns
        The pilot's traces; failed ones are left out.
    sites : sequence of Site
        By id.
    log_a : array
        Uncorrected log weight of each of these traces.
    proposes : function
        Whether a latent has a proposal.
    forks : bool
        Whether all continuations are forked.
    """
    rows = np.repeat(np.arange(len(columns.traces)), columns.traces["n_loops"])
    top = float(log_a.max(initial=-np.inf))
    # Traces count as in the second moment of the weights, and none for nothing: the largest may be yet to come.
    share = 0.1 + np.exp(2.0 * (log_a - top)) if np.isfinite(top) else np.ones(len(log_a))
    asked = np.array([site.kind is SiteKind.SAMPLE and proposes(site) for site in sites], np.bool_)
    starts = offsets(columns).loops
    found = {}
    for site in sites:
        mine = np.flatnonzero((columns.loops["site"] == site.id) & (columns.loops["runs_p"] > 0))
        if site.kind is not SiteKind.LOOP or not len(mine):
            continue
        entries, weight = columns.loops[mine], share[rows[mine]]
        entered = int(np.count_nonzero(columns.loops["site"] == site.id))
        drawn = columns.samples["site"][_below(sites, site.address)[columns.samples["site"]]]
        parent = int(entries["parent"][0])
        outer = None if parent < 0 else sites[int(columns.loops["site"][starts[rows[mine[0]]] + parent])].address
        found[site.address] = PilotLoop(
            runs_p=float(weight @ entries["runs_p"]),
            tries_p=float(weight @ entries["tries_p"]),
            accepted_q=float(weight @ entries["accepted_q"]),
            tries_q=float(weight @ entries["tries_q"]),
            draws=len(drawn) / entered,
            asked=max(float(np.count_nonzero(asked[drawn])) / entered - 1.0, 0.0),  # the first answer is kept for all
            method=_method(entries, forks),
            outer=outer,
        )
    return found


def _method(entries: Array, forks: bool) -> str:
    """How continuations of a loop run, by what does not depend on timing."""
    if (entries["method"] == LoopMethod.IN_PLACE).any():
        return "in place"
    return "fork" if forks or np.isin(entries["reason"], _LASTING).any() else "rewind"

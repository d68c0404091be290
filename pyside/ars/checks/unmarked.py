"""Rejection loops without marks, found by what they leave in a trace.

A rejection loop draws the same latents again and again, in a row, until they please it. So the number of rounds varies
from trace to trace as a negative binomial number does, or more if acceptance depends on the state; and the last round,
which was accepted, is distributed unlike the rounds before it. A loop that does something else with its rounds, such as
one particle per round, may look alike: someone who knows the simulator has to decide.

A loop whose end is marked before its test looks the same: its entries are all accepted at their first try. Such marks
count as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from ars._native import SiteKind
from ars.checks.findings import Finding
from ars.checks.replays import Ran
from ars.checks.statistics import same_distribution
from ars.columns import Booleans, Columns, Floats, Integers, Site, offsets, take

__all__ = ["Repeated", "call_paths", "find_repeated", "rejected", "unmarked"]

LEVEL: Final = 1e-6  # rate of false alarms per loop: rounds of one trace share a state, so they are not independent
_LEAST: Final = 25  # rounds that were not the last, below which nothing is said
_DISPERSED: Final = 0.6  # of the variance of a negative binomial number: a fixed or Poisson number of rounds has less
_MOST_LATENTS: Final = 6  # of a round whose pairs are looked at
_MOST_ROWS: Final = 20_000
_KIND: Final = re.compile(":[A-Za-z]+$")  # of distribution, at the end of an unnamed draw's address


class Repeated(NamedTuple):
    """Latents that are drawn together, in a row, a number of times that varies."""

    sites: tuple[int, ...]
    rounds: Integers  # of every row of rounds
    values: Floats  # rounds x latents, one row of rounds after another
    inside: int | None = None  # a marked loop around them that never rejected

    @property
    def last(self) -> Booleans:
        """Which rounds are the last of their row."""
        is_last = np.zeros(int(self.rounds.sum()), np.bool_)
        is_last[np.cumsum(self.rounds) - 1] = True
        return is_last


def rejected(columns: Columns, sites: Sequence[Site]) -> Iterator[Repeated]:
    """Find repeated draws that look like a rejection loop.

    Parameters
    ----------
    columns : Columns
        Complete traces of the prior.
    sites : sequence of Site
        Their sites.

    Yields
    ------
    Repeated
        The latents of one loop.
    """
    yield from (each for each in find_repeated(columns, sites) if _looks_rejected(each))


def unmarked(repeated: Repeated, sites: Sequence[Site], paths: Mapping[int, str]) -> Finding:
    """Say that a loop looks unmarked. ``paths``: where latents are drawn, as far as that is known."""
    names = ", ".join(f'"{sites[i].address}"' for i in repeated.sites)
    where = sorted({paths[i] for i in repeated.sites if i in paths and paths[i] != sites[i].address})
    place = f" (in {' and '.join(where)})" if where else ""
    if repeated.inside is not None:
        return _ended_too_early(repeated, names, sites)
    rounds = repeated.rounds
    is_or_are = "is" if len(repeated.sites) == 1 else "are"
    text = (
        f"{names}{place} {is_or_are} drawn {int(rounds.min())} to {int(rounds.max())} times in a row, "
        f"{rounds.mean():.3g} on average, and the last draw is distributed unlike those before it: this looks like a "
        "rejection loop without marks. If the draws before the last are discarded, mark the loop with rs_start and "
        "rs_end, or ars_loop_try and ars_loop_accept; without marks, naive weights count the rejected draws. If they "
        "are used, ignore this."
    )
    return Finding("marked", "suspect", text, sites[repeated.sites[0]].address)


def _ended_too_early(repeated: Repeated, names: str, sites: Sequence[Site]) -> Finding:
    loop = sites[repeated.inside or 0].address
    is_or_are, it = ("is", "it") if len(repeated.sites) == 1 else ("are", "them")
    text = (
        f'{names} {is_or_are} drawn again and again by a rejection loop, but the marked loop "{loop}" around {it} was '
        "accepted at its first try every time. Call rs_end or ars_loop_accept after the test, only for the try that "
        "passes it. If every round is used, remove the marks."
    )
    return Finding("marked", "suspect", text, loop)


def call_paths(named: Ran, by_path: Ran) -> dict[int, str]:
    """Where the latents are drawn, from a second run of some of the traces in which draws are named by their call path.

    Parameters
    ----------
    named : Ran
        Traces with the names that the program gives.
    by_path : Ran
        Some of the same traces.

    Returns
    -------
    dict
        Number of the site in ``named`` -> functions of the call path, of the traces that draw the same values in both.
    """
    first = take(named.columns, np.flatnonzero(np.isin(named.columns.traces["trace"], by_path.columns.traces["trace"])))
    again = take(by_path.columns, np.flatnonzero(np.isin(by_path.columns.traces["trace"], first.traces["trace"])))
    same = first.traces["n_samples"] == again.traces["n_samples"]
    one, other = (take(each, np.flatnonzero(same)).samples for each in (first, again))
    pairs = np.unique(np.stack([one["site"], other["site"]])[:, one["value"] == other["value"]], axis=1)
    found: dict[int, str] = {}
    for site, path in pairs.T.tolist():
        found.setdefault(site, _KIND.sub("", by_path.sites[path].address.rpartition("/")[2]))
    return found


# ---- what is repeated ------------------------------------------------------------------------------------------------


def find_repeated(columns: Columns, sites: Sequence[Site]) -> Iterator[Repeated]:
    """Latents that some trace draws several times in a row.

    Parameters
    ----------
    columns : Columns
        Complete traces.
    sites : sequence of Site
        Their sites.

    Yields
    ------
    Repeated
        Latents that are always drawn equally often are one group.
    """
    samples = columns.samples
    rows = np.repeat(np.arange(len(columns.traces)), np.diff(offsets(columns).samples))
    # Inside a marked loop the rounds of one entry belong together, outside of all loops those of the trace.
    around = _that_reject(columns, rows)
    _, context = np.unique(np.stack([rows, around]), axis=1, return_inverse=True)
    by_site = np.argsort(samples["site"], kind="stable")
    ends = np.searchsorted(samples["site"][by_site], np.arange(len(sites) + 1))
    groups: dict[bytes, list[Integers]] = {}
    for site in sites:
        at = by_site[ends[site.id] : ends[site.id + 1]]
        if site.kind is not SiteKind.SAMPLE or not len(at):
            continue
        there, counted = np.unique(context[at], return_counts=True)
        if counted.min() < counted.max():
            key = blake2b(np.stack([there, counted]).astype(np.int64).tobytes()).digest()
            groups.setdefault(key, []).append(at)
    varying = np.zeros(len(samples), np.bool_)
    for group in groups.values():
        for at in group:
            varying[at] = True
    for group in groups.values():
        found = _rows_of_rounds(columns, sorted(group, key=lambda at: int(at[0])), context, varying)
        first = group[0][0]
        if around[first] != samples["loop"][first]:
            loop = offsets(columns).loops[rows[first]] + samples["loop"][first]
            found = found._replace(inside=int(columns.loops["site"][loop]))
        yield found


def _that_reject(columns: Columns, rows: Integers) -> Integers:
    """For every sample, the innermost loop around it, counted in its trace, that has ever rejected a try; -1: none."""
    loops, begin = columns.loops, offsets(columns).loops
    inside = columns.samples["loop"].astype(np.int64)
    if not len(loops):
        return inside
    tries = np.zeros(int(loops["site"].max()) + 1, np.int64)
    np.maximum.at(tries, loops["site"], loops["tries"].astype(np.int64))
    rejects = tries[loops["site"]] > 1
    while True:
        at = begin[rows] + np.maximum(inside, 0)
        leave = (inside >= 0) & ~rejects[np.minimum(at, len(loops) - 1)]
        if not leave.any():
            return inside
        inside = np.where(leave, loops["parent"][np.minimum(at, len(loops) - 1)], inside)


def _rows_of_rounds(columns: Columns, at: list[Integers], context: Integers, varying: Booleans) -> Repeated:
    """A row of rounds ends where another latent of the same context, one that is not repeated, was drawn. ``at``: where
    each latent of the group is among the samples."""
    samples = columns.samples
    leader = at[0]
    order = np.argsort(context, kind="stable")
    other = np.zeros(len(samples), np.int64)
    other[order] = np.cumsum(~varying[order])
    breaks = np.ones(len(leader), np.bool_)
    same = (context[leader[1:]] == context[leader[:-1]]) & (other[leader[1:]] == other[leader[:-1]])
    breaks[1:] = ~same
    starts = np.flatnonzero(breaks)
    rounds = np.diff(np.append(starts, len(leader)))
    group = tuple(int(samples["site"][each[0]]) for each in at)
    return Repeated(group, rounds, np.stack([samples["value"][each] for each in at], axis=1))


# ---- what looks rejected ---------------------------------------------------------------------------------------------


def _looks_rejected(repeated: Repeated) -> bool:
    rounds, last = repeated.rounds, repeated.last
    if np.count_nonzero(~last) < _LEAST or rounds.min() == rounds.max():
        return False
    calls = int(rounds.min())  # of the loop in one row: it may be entered several times, one entry after another
    accepted = calls / float(rounds.mean())
    if float(rounds.var()) < _DISPERSED * calls * (1.0 - accepted) / accepted**2:
        return False
    features = list(_features(repeated.values))
    smallest = min(same_distribution(each[last][:_MOST_ROWS], each[~last][:_MOST_ROWS]) for each in features)
    return smallest * len(features) < LEVEL


def _features(values: Floats) -> Iterator[Floats]:
    """Numbers in which accepted and rejected rounds are likely to differ: every latent, how far out it is, and for
    pairs their sum, difference, product and radius."""
    centre, scale = values.mean(axis=0), values.std(axis=0)
    standard = (values - centre) / np.where(scale > 0.0, scale, 1.0)
    for column in standard.T:
        yield column
        yield np.abs(column)
    some = standard[:, :_MOST_LATENTS]
    for i, j in combinations(range(some.shape[1]), 2):
        a, b = some[:, i], some[:, j]
        yield a + b
        yield a - b
        yield a * b
        yield a * a + b * b
    if standard.shape[1] > 2:
        yield (standard**2).sum(axis=1)

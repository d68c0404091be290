"""Does a trace give the same bits whenever it is run: in another order, by another process, with continuations?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ars.columns import Columns, Integers, Site, renumber, select, take, value_starts
from ars.inference.replayed import differing

__all__ = ["Ran", "difference", "same_numbers"]


class Ran(NamedTuple):
    """The traces of one run."""

    columns: Columns
    sites: tuple[Site, ...]


def same_numbers(run: Ran, other: Ran) -> tuple[Columns, tuple[Site, ...]]:
    """The traces of ``other`` with the site numbers of ``run``, and the sites of both: another process may meet them in
    another order."""
    sites = list(run.sites)
    known = {(site.kind, site.address): site.id for site in sites}
    numbers = np.zeros(len(other.sites), np.int64)
    for site in other.sites:
        key = (site.kind, site.address)
        if key not in known:
            known[key] = len(sites)
            sites.append(site._replace(id=len(sites)))
        numbers[site.id] = known[key]
    return renumber(other.columns, numbers), tuple(sites)


def difference(run: Ran, other: Ran) -> str:
    """What differs between two runs of the same traces, in words; "" if nothing does."""
    again, sites = same_numbers(run, other)
    before = run.columns
    failed, failed_again = (each.traces["failure"] != 0 for each in (before, again))
    if np.any(failed != failed_again):
        number = int(before.traces["trace"][np.flatnonzero(failed != failed_again)[0]])
        return f"trace {number} fails in one run and completes in another"
    before, again = select(before, ~failed), select(again, ~failed)
    odd = differing(before, again, rounded=False)
    if not odd.any():
        return ""
    rows = np.flatnonzero(odd)
    one, two = (take(each, rows[:1].astype(np.int64)) for each in (before, again))
    share = f"{len(rows):,} of {len(odd):,} traces differ"
    return f"{share}; in trace {int(one.traces['trace'][0])}, {_first_difference(one, two, sites)}"


def _first_difference(one: Columns, two: Columns, sites: Sequence[Site]) -> str:
    """Of one trace, run twice: the first thing that differs."""
    n = min(len(one.samples), len(two.samples))
    for a, b in zip(one.samples[:n], two.samples[:n], strict=True):
        if (a["site"], a["instance"]) != (b["site"], b["instance"]):
            one_draws, two_draws = sites[a["site"]].address, sites[b["site"]].address
            return f'one run draws "{one_draws}" where the other draws "{two_draws}"'
        if a["value"] != b["value"]:
            return f'the latent "{sites[a["site"]].address}" is {a["value"]:.12g} and {b["value"]:.12g}'
    if len(one.samples) != len(two.samples):
        return f"{len(one.samples):,} and {len(two.samples):,} latents are drawn"
    for what, column in (("observation", "observes"), ("result", "results")):
        text = _values_differ(one, two, column)
        if text is not None:
            site, numbers = text
            return f'the {what} "{sites[site].address}" is {numbers}'
    return "loops take different numbers of tries, or nuisance draws differ"


def _values_differ(one: Columns, two: Columns, column: str) -> tuple[int, str] | None:
    items, others = getattr(one, column), getattr(two, column)
    starts: tuple[Integers, Integers] = (getattr(value_starts(one), column), getattr(value_starts(two), column))
    for i in range(min(len(items), len(others))):
        a = one.values[starts[0][i] : starts[0][i] + int(items["n"][i])]
        b = two.values[starts[1][i] : starts[1][i] + int(others["n"][i])]
        if len(a) != len(b):
            return int(items["site"][i]), f"a vector of {len(a)} and of {len(b)} numbers"
        if (where := np.flatnonzero(~((a == b) | (np.isnan(a) & np.isnan(b))))).size:
            return int(items["site"][i]), f"{a[where[0]]:.12g} and {b[where[0]]:.12g}"
    if len(items) != len(others):
        longer = items if len(items) > len(others) else others
        return int(longer["site"][min(len(items), len(others))]), "missing in one of the runs"
    return None

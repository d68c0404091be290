"""Parts of one run put together."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from ars._native import NO_SITE, SiteKind
from ars.budget import ChosenBudget
from ars.columns import Columns, Site, merge, renumber
from ars.failures import Failures
from ars.results.corrections import budget_of
from ars.results.recorded import DERIVED

if TYPE_CHECKING:
    from ars.posterior import Traces

__all__ = ["concat", "covered"]

_T = TypeVar("_T", bound="Traces")


def concat(cls: type[_T], parts: Sequence[_T], names: Sequence[str] = ()) -> _T:
    """``Traces.concat``. ``names``: what errors call the parts."""
    parts = list(parts)
    names = names or [f"part {i}" for i in range(len(parts))]
    if not parts:
        raise ValueError("concat needs at least one part")
    for i, part in enumerate(parts):
        if type(part) is not type(parts[0]) or not isinstance(part, cls):
            raise TypeError(f"{names[i]} is a {type(part).__name__}: all must be a {cls.__name__}, of one kind")
    for i, part in enumerate(parts[1:], start=1):
        if differences := _differences(parts[0], part):
            raise ValueError(f"{names[i]} is not of the same run as {names[0]}: {'; '.join(differences)}")
    _check_numbers(parts)
    sites = _all_sites([part.sites for part in parts])
    columns = merge([_renumbered(part.columns, part.sites, sites) for part in parts])
    first = parts[0]
    stats = _stats([part.stats for part in parts])
    known = all(part.run.ranges for part in parts)
    run = first.run._replace(exact=_exact(parts, names), ranges=covered(parts) if known else ())
    whole = type(first)(columns, sites, run=run, stats=stats, observed=first.observed)
    whole.failures = _failures([part.failures for part in parts])
    return whole


# ---- do they belong together? ----------------------------------------------------------------------------------------


_COMPARED_LATER = frozenset(
    {
        *("runs_p", "tries_q", "budget", "exact", "simulator", "proposals", "proposed", "build", "defensive"),
        *("refined", "ranges"),
    }
)


def _differences(one: Traces, other: Traces) -> list[str]:
    """Everything in which two parts cannot be parts of one run, in words."""
    found = [
        f"{name} is {mine!r} and {theirs!r}"
        for name, mine, theirs in zip(one.run._fields, one.run, other.run, strict=True)
        if mine != theirs and name not in _COMPARED_LATER
    ]
    if _named(one) != _named(other):
        found.append(f"simulator is {one.run.simulator!r} and {other.run.simulator!r}")
    budgets = [budget_of(one.run), budget_of(other.run)]
    if budgets[0] != budgets[1]:
        chosen = any(isinstance(budget, ChosenBudget) for budget in budgets)
        how = "s differ" if chosen else f" is {budgets[0]!r} and {budgets[1]!r}"
        found.append(f"the budget{how} (give budget=parts[0].budget to the other runs)")
    if one.run.proposals != other.run.proposals:
        found.append(_proposals(one.run.proposals, other.run.proposals))
    if one.run.build != other.run.build and one.run.build and other.run.build:
        found.append("the simulator was rebuilt in between, or its libraries were")
    for name in sorted(one.observed.keys() | other.observed.keys()):
        if name not in one.observed or name not in other.observed:
            found.append(f'"{name}" is observed in only one of them')
        elif not np.array_equal(one.observed[name], other.observed[name], equal_nan=True):
            found.append(f'the data of "{name}" differ')
    return found


def _named(part: Traces) -> tuple[str, ...]:
    """The command line, without the folder of an executable that the build identifies."""
    words = part.run.simulator
    return (os.path.basename(words[0]), *words[1:]) if words and part.run.build else words


def _proposals(one: str, other: str) -> str:
    """In which of their proposals two parts differ."""
    with contextlib.suppress(ValueError, AttributeError):
        networks = [json.loads(text).get("network") for text in (one, other)]
        if networks[0] != networks[1]:
            return "the networks differ" if all(networks) else "only one has a network"
    return "the proposals differ"


def covered(parts: Sequence[Traces]) -> tuple[tuple[int, int], ...]:
    """The trace numbers of all parts, as ascending ranges: first and count. Adjacent ranges are one.

    A part that does not say which traces were asked for has those that it holds.
    """
    ranges: list[tuple[int, int]] = []
    for part in parts:
        ranges += part.run.ranges or _held(part)
    found: list[tuple[int, int]] = []
    for first, count in sorted(ranges):
        if found and first <= sum(found[-1]):
            before = found[-1][0]
            found[-1] = (before, max(sum(found[-1]), first + count) - before)
        else:
            found.append((first, count))
    return tuple(found)


def _held(part: Traces) -> list[tuple[int, int]]:
    numbers = np.sort(part.columns.traces["trace"])
    if not len(numbers):
        return []
    edges = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [(int(run[0]), len(run)) for run in np.split(numbers, edges)]


def _check_numbers(parts: Sequence[Traces]) -> None:
    """Every trace must be there once: twice would count it twice."""
    numbers, counts = np.unique(np.concatenate([p.columns.traces["trace"] for p in parts]), return_counts=True)
    if twice := numbers[counts > 1].tolist():
        listed = ", ".join(str(number) for number in twice[:5]) + (", ..." if len(twice) > 5 else "")
        raise ValueError(
            f"{len(twice):,} traces are in more than one part: {listed}. Parts need different numbers: use first_trace="
        )


def _exact(parts: Sequence[Traces], names: Sequence[str]) -> tuple[str, ...]:
    """The loops in which no part proposed anything.

    A part that never met a loop does not know whether it is exact. If one part estimated a loop, something in it can be
    proposed: the entries in another part that took it for exact lack their corrections.
    """
    if all(part.run.exact == parts[0].run.exact for part in parts):
        return parts[0].run.exact
    loops = [_entered(part) for part in parts]
    proposed = set().union(*(met - set(part.run.exact) for met, part in zip(loops, parts, strict=True)))
    for i, part in enumerate(parts):
        ids = [s.id for s in part.sites if s.kind == SiteKind.LOOP and s.address in proposed & set(part.run.exact)]
        entered = np.intersect1d(part.columns.loops["site"], ids).tolist()
        if entered:
            listed = ", ".join(f'"{site.address}"' for site in part.sites if site.id in entered)
            raise ValueError(
                f"{names[i]} has no estimates for loop {listed}: it met no proposed latent there, and another part "
                "did. Run all traces in one run"
            )
    return tuple(sorted(set().union(*(part.run.exact for part in parts)) - proposed))


def _entered(part: Traces) -> set[str]:
    """The loops that traces of this part entered. It may know others by its sites, but says nothing about them."""
    ids = set(part.columns.loops["site"].tolist())
    return {site.address for site in part.sites if site.kind == SiteKind.LOOP and site.id in ids}


# ---- sites -----------------------------------------------------------------------------------------------------------


def _all_sites(tables: Sequence[Sequence[Site]]) -> tuple[Site, ...]:
    """One table with the sites of all. Their numbers depend on which was reached first, so they may differ."""
    longest = max(tables, key=len)
    if all(tuple(longest[: len(table)]) == tuple(table) for table in tables):
        return tuple(longest)
    found: dict[tuple[SiteKind, str], Site] = {}
    for table in filter(None, tables):
        (_, address), count = Counter((site.kind, site.address) for site in table).most_common(1)[0]
        if count > 1:
            raise ValueError(f'two sites have the address "{address}": the parts cannot be matched. Rename one of them')
        for site in table:
            same = found.setdefault((site.kind, site.address), site._replace(id=len(found)))
            if same.dist != site.dist:
                raise ValueError(
                    f'the parts are not of the same simulator: "{site.address}" has the distribution '
                    f"{_name(same)} in one and {_name(site)} in another"
                )
    return tuple(found.values())


def _name(site: Site) -> str:
    return site.dist.name.lower() if site.dist is not None else "none"


def _renumbered(columns: Columns, old: Sequence[Site], new: Sequence[Site]) -> Columns:
    """The same traces with the site numbers of another table."""
    if tuple(new[: len(old)]) == tuple(old):
        return columns
    numbers = {(site.kind, site.address): site.id for site in new}
    table = np.full(max(site.id for site in old) + 1, NO_SITE, np.int64)
    for site in old:
        table[site.id] = numbers[site.kind, site.address]
    return renumber(columns, table)


# ---- what else a run says --------------------------------------------------------------------------------------------


def _failures(parts: Sequence[Failures]) -> Failures:
    """Counts are sums; the examples are those of the first traces, as in one run."""
    counts: dict[str, int] = {}
    for part in parts:
        for kind, count in part.items():
            counts[kind] = counts.get(kind, 0) + count
    examples = sorted((example for part in parts for example in part.examples), key=lambda failure: failure.trace)
    return Failures.counted(counts, examples, [incident for part in parts for incident in part.incidents])


_NOT_SUMS: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"fewest_workers": min, "phases": max}


def _stats(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Counters and seconds are sums, and the fewest workers are the fewest of all. Rates follow from them, later.
    The error that a part has reached says nothing about that of all parts."""
    names = dict.fromkeys(name for part in parts for name in part if name not in (*DERIVED, "error_reached"))
    found: dict[str, float] = {}
    for name in names:
        known = [part[name] for part in parts if name in part]
        found[name] = _NOT_SUMS.get(name, sum)(known)
    return found

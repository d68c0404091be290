"""Parts of one run put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ars._native import NO_SITE, SiteKind
from ars.columns import Columns, Site, merge, renumber
from ars.failures import Failures
from ars.results.recorded import RATES

if TYPE_CHECKING:
    from ars.posterior import Traces

__all__ = ["concat"]

_T = TypeVar("_T", bound="Traces")


def concat(cls: type[_T], parts: Sequence[_T]) -> _T:
    """``Traces.concat``."""
    parts = list(parts)
    if not parts:
        raise ValueError("concat needs at least one part")
    for i, part in enumerate(parts):
        if type(part) is not type(parts[0]) or not isinstance(part, cls):
            raise TypeError(f"part {i} is a {type(part).__name__}: all must be a {cls.__name__}, of one kind")
    for i, part in enumerate(parts[1:], start=1):
        if differences := _differences(parts[0], part):
            raise ValueError(f"part {i} is not of the same run as part 0: {'; '.join(differences)}")
    _check_numbers(parts)
    sites = _all_sites([part.sites for part in parts])
    columns = merge([_renumbered(part.columns, part.sites, sites) for part in parts])
    first = parts[0]
    stats = _stats([part.stats for part in parts])
    whole = type(first)(columns, sites, run=first.run, stats=stats, observed=first.observed)
    whole.failures = _failures([part.failures for part in parts])
    return whole


# ---- do they belong together? ----------------------------------------------------------------------------------------


_NAMES = {"runs_p": "M of the budget", "tries_q": "N of the budget"}  # fields of RunInfo, as the user knows them


def _differences(one: Traces, other: Traces) -> list[str]:
    """Everything in which two parts cannot be parts of one run, in words."""
    found = [
        f"{_NAMES.get(name, name)} is {mine!r} and {theirs!r}"
        for name, mine, theirs in zip(one.run._fields, one.run, other.run, strict=True)
        if mine != theirs and name not in ("proposals", "proposed", "build")
    ]
    if one.run.proposals != other.run.proposals:
        found.append("the proposals differ")
    if one.run.build != other.run.build and one.run.build and other.run.build:
        found.append("the simulator was rebuilt in between, or its libraries were")
    for name in sorted(one.observed.keys() | other.observed.keys()):
        if name not in one.observed or name not in other.observed:
            found.append(f'"{name}" is observed in only one of them')
        elif not np.array_equal(one.observed[name], other.observed[name], equal_nan=True):
            found.append(f'the data of "{name}" differ')
    return found


def _check_numbers(parts: Sequence[Traces]) -> None:
    """Every trace must be there once: twice would count it twice."""
    numbers, counts = np.unique(np.concatenate([p.columns.traces["trace"] for p in parts]), return_counts=True)
    if twice := numbers[counts > 1].tolist():
        listed = ", ".join(str(number) for number in twice[:5]) + (", ..." if len(twice) > 5 else "")
        raise ValueError(
            f"{len(twice):,} traces are in more than one part: {listed}. Parts need different numbers: use first_trace="
        )


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


def _stats(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Counters and seconds are sums, and the fewest workers are the fewest of all. Rates follow from them, later."""
    names = dict.fromkeys(name for part in parts for name in part if name not in RATES)
    found: dict[str, float] = {}
    for name in names:
        known = [part[name] for part in parts if name in part]
        found[name] = min(known) if name == "fewest_workers" else sum(known)
    return found

"""Traces as columns: the arrays that the host sends, and the questions that the rest asks of them.

A million traces are nine arrays, not a million objects. Nothing here loops over traces in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ars._native import DTYPES, DistKind, SiteKind

__all__ = [
    "Columns",
    "Key",
    "Offsets",
    "Site",
    "concatenate",
    "empty",
    "find_site",
    "instances_of",
    "merge",
    "offsets",
    "select",
    "sort_by_trace",
    "take",
    "trace_of",
    "value_starts",
    "values_of",
]

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]

# "x", "loop/x" (an address), "x[2]" or ("x", 2): the instance that is third to be drawn in its trace.
Key: TypeAlias = str | tuple[str, int]


class Site(NamedTuple):
    """A place in the simulator: a latent, an observation, a result or a loop."""

    id: int
    kind: SiteKind
    dist: DistKind | None
    address: str  # the names of the enclosing loops, then its own: "outer/inner/x"

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]


class Columns(NamedTuple):
    """The columns of a TRACES message (wire.h); counts in ``traces`` say how many items of the others are whose."""

    traces: Array
    samples: Array
    observes: Array
    results: Array
    loops: Array
    values: Floats
    failures: Array
    tries: Array = np.empty(0, DTYPES["try"])  # of runs that record rejected tries; else none
    rejected: Array = np.empty(0, DTYPES["sample"])  # what those tries drew


class Offsets(NamedTuple):
    """Where each trace's items begin in every column; one more entry than traces, so that the next one is the end."""

    samples: Integers
    observes: Integers
    results: Integers
    loops: Integers
    values: Integers
    tries: Integers
    rejected: Integers


class ValueStarts(NamedTuple):
    """Where the doubles of every observe, result and sample (its prior's parameters) begin in the values column, and
    those of every rejected sample."""

    observes: Integers
    results: Integers
    samples: Integers
    rejected: Integers


_ITEMS = {
    "traces": "trace",
    "samples": "sample",
    "observes": "values",
    "results": "values",
    "loops": "loop",
    "failures": "failure",
    "tries": "try",
    "rejected": "sample",
}


def empty() -> Columns:
    """No traces."""
    return Columns(
        **{column: np.empty(0, DTYPES[item]) for column, item in _ITEMS.items()}, values=np.empty(0, np.float64)
    )


def concatenate(parts: Sequence[Columns]) -> Columns:
    """The traces of all parts, in their order."""
    if not parts:
        return empty()
    if len(parts) == 1:
        return parts[0]
    return Columns(*(np.concatenate([part[i] for part in parts]) for i in range(len(Columns._fields))))


def _starts(counts: Array) -> Integers:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def offsets(columns: Columns) -> Offsets:
    """Where each trace's items begin in every column."""
    counted = {column: _starts(columns.traces[f"n_{column}"]) for column in Offsets._fields if column != "rejected"}
    return Offsets(**counted, rejected=_starts(columns.tries["n_samples"])[counted["tries"]])


def trace_of(starts: Integers, items: Integers) -> Integers:
    """The row of the trace that each of these items belongs to, given where the traces' items begin."""
    return np.searchsorted(starts, items, side="right") - 1


def _gather(columns: Columns, order: Integers, failures: Array) -> Columns:
    """The traces in ``order``, each with its items."""
    taken = {"traces": columns.traces[order], "failures": failures}
    for column, begin in offsets(columns)._asdict().items():
        taken[column] = _reordered(getattr(columns, column), begin, order)
    return Columns(**taken)


def _reordered(items: Array, begin: Integers, order: Integers) -> Array:
    """The items of traces in this order; they begin at these."""
    if not len(items):
        return items
    starts = begin[:-1][order]
    counts = begin[1:][order] - starts
    # item i of the new column is item i + (old start - new start) of the old one
    index = np.repeat(starts - _starts(counts)[:-1], counts)
    index += np.arange(len(index), dtype=np.int64)
    return items[index]


def merge(parts: list[Columns]) -> Columns:
    """The traces of all parts in the order of their numbers. The list is emptied: pieces are let go of as they are put
    together, column by column, so that this takes little more memory than the traces have."""
    if len(parts) == 1:
        return sort_by_trace(parts.pop())
    if not parts:
        return empty()
    pieces = {name: [part[i] for part in parts] for i, name in enumerate(Columns._fields)}
    parts.clear()
    traces, failures = np.concatenate(pieces.pop("traces")), np.concatenate(pieces.pop("failures"))
    numbers = traces["trace"]
    in_order = not np.any(numbers[1:] < numbers[:-1])
    order = np.argsort(numbers, kind="stable")
    merged = {"traces": traces if in_order else traces[order]}
    merged["failures"] = failures[np.argsort(failures["trace"], kind="stable")]
    begin_rejected: Integers = np.zeros(0, np.int64)
    for name in ("tries", *(field for field in Offsets._fields if field != "tries")):
        whole = np.concatenate(pieces.pop(name))
        begin = begin_rejected if name == "rejected" else _starts(traces[f"n_{name}"])
        if name == "tries":
            begin_rejected = _starts(whole["n_samples"])[begin]
        merged[name] = whole if in_order else _reordered(whole, begin, order)
    return Columns(**merged)


def take(columns: Columns, rows: Integers) -> Columns:
    """The traces in these rows, in this order, each with its items but without failures."""
    return _gather(columns, rows, columns.failures[:0])


def sort_by_trace(columns: Columns) -> Columns:
    """The same traces in the order of their numbers; columns already in order are returned as they are."""
    numbers = columns.traces["trace"]
    failed = columns.failures["trace"]
    failures = columns.failures
    if len(failures) > 1 and np.any(failed[1:] < failed[:-1]):
        failures = failures[np.argsort(failed, kind="stable")]
    if len(numbers) < 2 or not np.any(numbers[1:] < numbers[:-1]):
        return columns._replace(failures=failures)
    return _gather(columns, np.argsort(numbers, kind="stable"), failures)


def select(columns: Columns, mask: npt.ArrayLike) -> Columns:
    """The traces where the mask is true, with their items and failures."""
    wanted = np.asarray(mask)
    if wanted.dtype != np.bool_ or wanted.shape != (len(columns.traces),):
        raise ValueError(
            f"the mask must be {len(columns.traces)} booleans, one per trace, not {wanted.dtype} {wanted.shape}"
        )
    if wanted.all():
        return columns
    order = np.flatnonzero(wanted)
    kept = np.isin(columns.failures["trace"], columns.traces["trace"][order])
    return _gather(columns, order, columns.failures[kept])


def value_starts(columns: Columns) -> ValueStarts:
    """Where the doubles of every item begin. A trace's values are: observes, results, prior parameters of samples,
    and of rejected samples."""
    where = offsets(columns)
    begin = where.values[:-1]
    found = []
    for column, size in (("observes", "n"), ("results", "n"), ("samples", "n_params"), ("rejected", "n_params")):
        starts: Integers = getattr(where, column)
        before = _starts(getattr(columns, column)[size])
        counts = np.diff(starts)
        found.append(before[:-1] + np.repeat(begin - before[starts[:-1]], counts))
        begin = begin + before[starts[1:]] - before[starts[:-1]]
    return ValueStarts(*found)


# ---- names ------------------------------------------------------------------------------------------------------

_INSTANCE = re.compile(r"(?P<name>.+)\[(?P<instance>\d+)\]")


def _listed(sites: Iterable[Site]) -> str:
    return ", ".join(f'"{address}"' for address in sorted({site.address for site in sites})) or "none"


def _matches(sites: Sequence[Site], name: str) -> list[Site]:
    """An exact address wins over a name, and a result over a latent; then over an observation or a loop."""
    by_address = [site for site in sites if site.address == name]
    by_name = [site for site in sites if site.name == name]
    for kind in (SiteKind.RESULT, SiteKind.SAMPLE, SiteKind.OBSERVE, SiteKind.LOOP):
        if found := [site for site in by_address if site.kind == kind]:
            return found
    for kind in (SiteKind.RESULT, SiteKind.SAMPLE, SiteKind.OBSERVE, SiteKind.LOOP):
        if found := [site for site in by_name if site.kind == kind]:
            return found
    return []


def find_site(sites: Sequence[Site], key: Key) -> tuple[Site, int]:
    """The site that a key names, and the instance it asks for (0, the first, unless it says more).

    Looked up in this order: the exact address, results by name, latents by name. A name that several sites share is
    a KeyError that lists their addresses.
    """
    name, instance = (key, 0) if isinstance(key, str) else key
    if instance < 0:
        raise KeyError(f'instance {instance} of "{name}": instances count from 0')
    found = _matches(sites, name)
    if not found and isinstance(key, str) and (split := _INSTANCE.fullmatch(key)):
        name, instance = split["name"], int(split["instance"])
        found = _matches(sites, name)
    if not found:
        raise KeyError(f'"{name}" was not recorded; the addresses are: {_listed(sites)}')
    if len(found) > 1:
        raise KeyError(f'"{name}" is the name of several sites, use one of their addresses: {_listed(found)}')
    return found[0], instance


# ---- values -----------------------------------------------------------------------------------------------------


def values_of(columns: Columns, sites: Sequence[Site], key: Key) -> Floats:
    """The values of a latent, result or observation: a row per trace, NaN in a trace that does not have it.

    A latent gives one number per trace. A result gives one, or as many columns as its longest vector has elements.
    The values of an observation are all that a trace observed under that name, in order.
    """
    site, instance = find_site(sites, key)
    if site.kind == SiteKind.SAMPLE:
        return _sample_values(columns, site.id, instance)
    if site.kind == SiteKind.RESULT:
        return _vectors(columns, "results", site.id, instance)
    if site.kind == SiteKind.OBSERVE:
        if instance:
            raise KeyError(f'"{site.address}" is an observation: it has columns, not instances')
        return _vectors(columns, "observes", site.id, None)
    raise KeyError(f'"{site.address}" is a loop: it has no value; see .loops')


def instances_of(columns: Columns, site: Site) -> int:
    """How many instances of a latent or a result the trace with the most of them has; 0 if none has any."""
    if site.kind == SiteKind.SAMPLE:
        mine = columns.samples["instance"][columns.samples["site"] == site.id]
        return int(mine.max()) + 1 if len(mine) else 0
    column = "results" if site.kind == SiteKind.RESULT else "observes"
    index = np.flatnonzero(getattr(columns, column)["site"] == site.id)
    rows = trace_of(getattr(offsets(columns), column), index)
    return int(_rank(rows).max()) + 1 if len(rows) else 0


def _sample_values(columns: Columns, site: int, instance: int) -> Floats:
    samples = columns.samples
    index = np.flatnonzero((samples["site"] == site) & (samples["instance"] == instance))
    out = np.full(len(columns.traces), np.nan)
    out[trace_of(_starts(columns.traces["n_samples"]), index)] = samples["value"][index]
    return out


def _rank(rows: Integers) -> Integers:
    """For ascending rows, how many earlier entries have the same row."""
    first = np.searchsorted(rows, rows, side="left")
    return np.arange(len(rows), dtype=np.int64) - first


def _vectors(columns: Columns, column: str, site: int, instance: int | None) -> Floats:
    """The doubles of one site's items; with an instance, of that item in each trace, else of all, end to end."""
    items: Array = getattr(columns, column)
    index = np.flatnonzero(items["site"] == site)
    rows = trace_of(getattr(offsets(columns), column), index)
    if instance is not None:
        wanted = _rank(rows) == instance
        index, rows = index[wanted], rows[wanted]
    sizes = items["n"][index].astype(np.int64)
    starts: Integers = getattr(value_starts(columns), column)[index]
    inside = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(_starts(sizes)[:-1], sizes)
    source = np.repeat(starts, sizes) + inside
    target_row = np.repeat(rows, sizes)
    target_column = _rank(target_row)
    width = int(target_column.max()) + 1 if len(target_column) else 1
    out = np.full((len(columns.traces), width), np.nan)
    out[target_row, target_column] = columns.values[source]
    return out[:, 0] if width == 1 else out

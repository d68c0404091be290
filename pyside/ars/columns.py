"""Traces as columns: the arrays that the host sends, and the questions that the rest asks of them.

A million traces are nine arrays, not a million objects. Nothing here loops over traces in Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ars._native import DTYPES, DistKind, SiteKind

__all__ = [
    "HOW",
    "Axes",
    "Blocks",
    "Columns",
    "Key",
    "Offsets",
    "Site",
    "concatenate",
    "empty",
    "find_site",
    "items_of",
    "merge",
    "offsets",
    "renumber",
    "select",
    "sort_by_trace",
    "squeezed",
    "take",
    "trace_of",
    "value_starts",
    "values_of",
]

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]

Axes: TypeAlias = tuple[int, ...] | None  # of a result; None: it has no shape

# "x", "loop/x" (an address), "x[2]" or ("x", 2): the instance that is third to be drawn in its trace. "v[2]" is the
# third element of a vector that no trace has twice, "v[1][2]" or ("v", 1, 2) that of the second instance. "h[2,0]" is
# an element of a result with two axes.
Key: TypeAlias = str | tuple[str, int] | tuple[str, int, int]


class Site(NamedTuple):
    """A place in the simulator: a latent, an observation, a result or a loop."""

    id: int
    kind: SiteKind
    dist: DistKind | None
    address: str  # the names of the enclosing loops, then its own: "outer/inner/x"

    @property
    def name(self) -> str:
        """Its own name. No loop encloses an observation, so a "/" is part of its name, as in "dE/dx"."""
        return self.address if self.kind is SiteKind.OBSERVE else self.address.rpartition("/")[2]


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
    "results": "result",
    "loops": "loop",
    "failures": "failure",
    "tries": "try",
    "rejected": "sample",
}


# Fields that say how a trace was computed, not what it is. They may differ between two runs of the same trace.
HOW: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"traces": ("snapshots",), "loops": ("forks", "rewinds", "method", "reason", "detail", "pages")}
)


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


def items_of(begin: Integers, rows: Integers) -> Integers:
    """The positions of the items of these traces, in this order; the traces' items begin at ``begin``."""
    starts = begin[:-1][rows]
    counts = begin[1:][rows] - starts
    # item i of the new column is item i + (old start - new start) of the old one
    index = np.repeat(starts - _starts(counts)[:-1], counts)
    index += np.arange(len(index), dtype=np.int64)
    return index


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
    return items[items_of(begin, order)]


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


def renumber(columns: Columns, numbers: Integers | None) -> Columns:
    """The same traces with other numbers for their sites; without numbers, the columns as they are."""
    if numbers is None:
        return columns
    items = ("samples", "observes", "results", "loops", "tries", "rejected")
    changed = {name: _renumbered(getattr(columns, name), ("site",), numbers) for name in items}
    return columns._replace(**changed, failures=_renumbered(columns.failures, ("site", "loop"), numbers))


def _renumbered(items: Array, fields: Sequence[str], numbers: Integers) -> Array:
    changed = items.copy()
    for field in fields:
        known = items[field] < len(numbers)  # a failure may name none, or one that was not announced
        changed[field][known] = numbers[items[field][known]]
    return changed


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

_ELEMENT = re.compile(r"(?P<name>.+?)(?:\[(?P<instance>\d+)\])?\[(?P<element>\d+(?:,\d+)+)\]")
_INDEXED = re.compile(r"(?P<name>.+)\[(?P<index>\d+)\]")


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


def find_site(sites: Sequence[Site], key: Key) -> tuple[Site, tuple[int, ...]]:
    """The site that a key names, and the index that follows the name: (), (2,) or (1, 2).

    Looked up in this order: the exact address, results by name, latents by name. A name that several sites share is
    a KeyError that lists their addresses. A name that itself ends in "[2]" is a name first.
    """
    name: str
    index: tuple[int, ...]
    name, index = (key, ()) if isinstance(key, str) else (key[0], tuple(key[1:]))
    if len(index) > 2:
        raise KeyError(f'"{name}": an index has at most an instance and an element, not {index}')
    if any(i < 0 for i in index):
        raise KeyError(f'instance {min(index)} of "{name}": instances count from 0')
    found = _matches(sites, name)
    if not found and isinstance(key, str):
        stem, numbers = key, list[int]()
        while not found and len(numbers) < 2 and (split := _INDEXED.fullmatch(stem)):
            stem, numbers = split["name"], [int(split["index"]), *numbers]
            found = _matches(sites, stem)
        if numbers:
            name, index = stem, tuple(numbers)
    if not found:
        raise KeyError(f'"{name}" was not recorded; the addresses are: {_listed(sites)}')
    if len(found) > 1:
        raise KeyError(f'"{name}" is the name of several sites, use one of their addresses: {_listed(found)}')
    return found[0], index


# ---- values -----------------------------------------------------------------------------------------------------


def values_of(columns: Columns, sites: Sequence[Site], key: Key) -> Floats:
    """The values of a latent, result or observation: a row per trace, NaN where a trace does not have it.

    A site that every trace has at most once gives one number per trace, or a row of elements if it is a vector. A site
    that a trace has more often gives traces x instances, for vectors traces x instances x elements. A result with a
    shape has its axes instead of the elements. A key with an index gives that instance alone, or an element; see
    ``Key``. The values of an observation are all that a trace observed under that
    name, in order.
    """
    if isinstance(key, str) and (split := _ELEMENT.fullmatch(key)) and not _matches(sites, key):
        return _element(columns, sites, split)
    site, index = find_site(sites, key)
    if site.kind == SiteKind.OBSERVE:
        if index:
            raise KeyError(f'"{site.address}" is an observation: it has columns, not instances')
        return _end_to_end(columns, site.id)
    if site.kind == SiteKind.LOOP:
        raise KeyError(f'"{site.address}" is a loop: it has no value; see .loops')
    if site.kind == SiteKind.SAMPLE and len(index) == 1:
        return _sample_values(columns, site.id, index[0])
    block, axes = Blocks(columns).shaped(site)
    if not index:
        return squeezed(block, axes)
    if isinstance(key, str) and len(index) == 1 and block.shape[1] == 1 and block.shape[2] > 1:
        index = (0, *index)  # as the columns of a table are called: "v[2]", not "v[0][2]"
    inside = all(i < size for i, size in zip(index, block.shape[1:], strict=False))
    if len(index) == 2:
        return block[:, index[0], index[1]] if inside else np.full(len(block), np.nan)
    part = block[:, index[0]] if inside else np.full((len(block), 1), np.nan)
    there = np.flatnonzero(~np.isnan(part).all(axis=0))
    width = int(there[-1]) + 1 if len(there) else 1  # other instances may be longer
    return part[:, 0] if width == 1 else part[:, :width]


def _element(columns: Columns, sites: Sequence[Site], split: re.Match[str]) -> Floats:
    """An element of a result with a shape: "h[2,0]", or "h[3][2,0]" of an instance."""
    site, _ = find_site(sites, split["name"])
    block, axes = Blocks(columns).shaped(site) if site.kind == SiteKind.RESULT else (None, None)
    element = tuple(int(i) for i in split["element"].split(","))
    if block is None or axes is None or len(axes) != len(element):
        raise KeyError(f'"{split[0]}": "{site.address}" has no {len(element)} axes')
    instance = int(split["instance"] or 0)
    if instance >= block.shape[1] or any(i >= length for i, length in zip(element, axes, strict=True)):
        return np.full(len(block), np.nan)
    return block[:, instance, int(np.ravel_multi_index(element, axes))]


def squeezed(block: Floats, axes: Axes = None) -> Floats:
    """A block without the axis of instances if there is one instance, and without that of elements if there is one; or
    with these axes instead of the elements."""
    rows, count, width = block.shape
    if axes is not None:
        return block.reshape((rows, *axes) if count == 1 else (rows, count, *axes))
    if width == 1:
        return block[:, 0, 0] if count == 1 else block[:, :, 0]
    return block[:, 0] if count == 1 else block


class Blocks:
    """The values of latents and results, one site after another, as traces x instances x elements with NaN elsewhere.

    ``many``: sorts the items by site first, so that all sites together cost little more than one.
    """

    def __init__(self, columns: Columns, *, many: bool = False) -> None:
        self._columns = columns
        self._many = many

    def of(self, site: Site) -> Floats:
        """All values of one site. A site that no trace has gives one instance of one element. The elements of a result
        with a shape lie row by row."""
        return self.shaped(site)[0]

    def shaped(self, site: Site) -> tuple[Floats, Axes]:
        """The same, and the lengths of its axes, if it is a result with a shape.

        Where the shapes of traces differ, each axis is as long as its longest one, and elements that a trace does not
        have are NaN. Results with different numbers of axes have no shape: their elements are in a row."""
        column = "samples" if site.kind == SiteKind.SAMPLE else "results"
        index = self._items(column, site.id)
        rows = trace_of(getattr(self._where, column), index)
        if site.kind == SiteKind.SAMPLE:
            drawn = self._columns.samples[index]
            instances = drawn["instance"].astype(np.int64)
            out = self._blank(instances, 1)
            out[rows, instances, 0] = drawn["value"]
            return out, None
        instances = _rank(rows)
        n_dims = self._columns.results["n_dims"][index].astype(np.int64)
        sizes = self._columns.results["n"][index].astype(np.int64) - n_dims
        starts = self._values.results[index]
        inside = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(_starts(sizes)[:-1], sizes)
        source = np.repeat(starts + n_dims, sizes) + inside
        width, axes = int(sizes.max(initial=1)), None
        if len(n_dims) and n_dims[0] > 0 and (n_dims == n_dims[0]).all():
            lengths = self._columns.values[starts[:, None] + np.arange(n_dims[0])].astype(np.int64)
            axes = tuple(lengths.max(axis=0).tolist())
            width = math.prod(axes)
            if not (lengths == axes).all():
                inside = _padded(inside, lengths, sizes, axes)
        out = self._blank(instances, width)
        out[np.repeat(rows, sizes), np.repeat(instances, sizes), inside] = self._columns.values[source]
        return out, axes

    def _blank(self, instances: Integers, width: int) -> Floats:
        return np.full((len(self._columns.traces), int(instances.max(initial=0)) + 1, width), np.nan)

    @cached_property
    def _where(self) -> Offsets:
        return offsets(self._columns)

    @cached_property
    def _values(self) -> ValueStarts:
        return value_starts(self._columns)

    @cached_property
    def _by_site(self) -> dict[str, Integers]:
        columns = {"samples": self._columns.samples, "results": self._columns.results}
        return {name: np.argsort(items["site"], kind="stable") for name, items in columns.items()}

    @cached_property
    def _sorted_sites(self) -> dict[str, Integers]:
        columns = {"samples": self._columns.samples, "results": self._columns.results}
        return {name: items["site"][self._by_site[name]].astype(np.int64) for name, items in columns.items()}

    def _items(self, column: str, site: int) -> Integers:
        """The positions of a site's items in their column, ascending."""
        if not self._many:
            return np.flatnonzero(getattr(self._columns, column)["site"] == site)
        first, last = np.searchsorted(self._sorted_sites[column], np.array([site, site + 1]))
        return self._by_site[column][first:last]


def _padded(inside: Integers, lengths: Integers, sizes: Integers, axes: tuple[int, ...]) -> Integers:
    """Where elements, numbered row by row in arrays of these lengths, lie in arrays with these longer axes."""
    left, found, stride = inside.copy(), np.zeros_like(inside), 1
    for axis in range(len(axes) - 1, -1, -1):
        length = np.repeat(lengths[:, axis], sizes)
        found += left % length * stride
        left //= length
        stride *= axes[axis]
    return found


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


def _end_to_end(columns: Columns, site: int) -> Floats:
    """Everything that a trace observed at one site, in order."""
    index = np.flatnonzero(columns.observes["site"] == site)
    rows = trace_of(offsets(columns).observes, index)
    sizes = columns.observes["n"][index].astype(np.int64)
    starts = value_starts(columns).observes[index]
    inside = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(_starts(sizes)[:-1], sizes)
    source = np.repeat(starts, sizes) + inside
    target_row = np.repeat(rows, sizes)
    target_column = _rank(target_row)
    width = int(target_column.max(initial=0)) + 1
    out = np.full((len(columns.traces), width), np.nan)
    out[target_row, target_column] = columns.values[source]
    return out[:, 0] if width == 1 else out

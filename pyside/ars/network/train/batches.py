"""From the columns that the host sends to the padded tensors that a network is trained on. No loop over traces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from ars._native import DistKind, SiteKind
from ars.columns import (
    Array,
    Columns,
    Floats,
    Integers,
    Offsets,
    Site,
    offsets,
    select,
    trace_of,
    value_starts,
    values_of,
)
from ars.errors import BatchError
from ars.network.model.trace_batch import Batch, TraceBatch, TreeBatch
from ars.network.model.vocabulary import SiteSpec, Vocabulary
from ars.network.train.trees import tree_of

__all__ = ["Batcher", "between", "complete", "observation_shapes", "observed_values", "split"]

_WIDTH: Final = 4  # parameters of a prior that is not Categorical
_LARGEST_TREE: Final = 65_536  # draws of one trace with its rejected tries
Shape = tuple[int, ...]


# ---- traces ----------------------------------------------------------------------------------------------------------


def complete(columns: Columns) -> Columns:
    """Without the traces that failed."""
    return select(columns, columns.traces["failure"] == 0)


def split(columns: Columns, size: int) -> Iterator[Columns]:
    """The traces in parts of this size, the last may be smaller. The parts share the memory of the whole."""
    where = offsets(columns)
    for first in range(0, len(columns.traces), size):
        yield _between(columns, where, first, min(first + size, len(columns.traces)))


def between(columns: Columns, first: int, last: int) -> Columns:
    """The traces in these rows, from the first to before the last. They share the memory of the whole."""
    return _between(columns, offsets(columns), first, last)


def _between(columns: Columns, where: Offsets, first: int, last: int) -> Columns:
    parts: dict[str, Array] = {"traces": columns.traces[first:last], "failures": columns.failures[:0]}
    for name, starts in where._asdict().items():
        parts[name] = getattr(columns, name)[starts[first] : starts[last]]
    return Columns(**parts)


# ---- observations ----------------------------------------------------------------------------------------------------


def observed_values(columns: Columns, sites: Sequence[Site]) -> dict[str, Floats]:
    """What every trace observed, name -> [B, n]. All traces must observe the same names, with the same sizes."""
    addresses = {site.id: site.address for site in sites if site.kind == SiteKind.OBSERVE}
    rows = len(columns.traces)
    items = columns.observes
    per_trace = columns.traces["n_observes"]
    if not rows or not len(items):
        return {}
    width = int(per_trace[0])
    if (per_trace == width).all():
        table = items.reshape(rows, width)
        if (table["site"] == table["site"][0]).all() and (table["n"] == table["n"][0]).all():
            return _same_layout(columns, table[0], addresses)
    return _any_layout(columns, sites, [addresses[i] for i in np.unique(items["site"]).tolist()])


def _same_layout(columns: Columns, layout: Array, addresses: Mapping[int, str]) -> dict[str, Floats]:
    """Every trace has the same observes in the same order: its values begin with one block of the same layout."""
    sizes = layout["n"].astype(np.int64)
    ends = np.cumsum(sizes)
    begin = offsets(columns).values[:-1]
    block = columns.values[begin[:, None] + np.arange(int(ends[-1]))]
    found: dict[str, list[Floats]] = {}
    for site, size, end in zip(layout["site"].tolist(), sizes.tolist(), ends.tolist(), strict=True):
        found.setdefault(addresses[site], []).append(block[:, end - size : end])
    return {name: parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1) for name, parts in found.items()}


def _any_layout(columns: Columns, sites: Sequence[Site], names: Sequence[str]) -> dict[str, Floats]:
    observed = [site for site in sites if site.kind == SiteKind.OBSERVE]
    starts = offsets(columns).observes
    found: dict[str, Floats] = {}
    for name in names:
        wanted = next(site.id for site in observed if site.address == name)
        index = np.flatnonzero(columns.observes["site"] == wanted)
        sizes = np.bincount(
            trace_of(starts, index), weights=columns.observes["n"][index], minlength=len(columns.traces)
        ).astype(np.int64)
        if (sizes != sizes[0]).any():
            other = int(np.flatnonzero(sizes != sizes[0])[0])
            numbers = columns.traces["trace"]
            raise BatchError(
                f"trace {int(numbers[0])} observes {sizes[0]} numbers under {name!r}, trace {int(numbers[other])} "
                f"{sizes[other]}. A network needs the same observations, with the same sizes, in every trace"
            )
        found[name] = values_of(columns, observed, name).reshape(len(columns.traces), -1)
    return found


def observation_shapes(
    columns: Columns, sites: Sequence[Site], given: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Shape]:
    """The shape of every observation: as given, such as (20, 20) for an image, else a flat vector of its size."""
    sizes = {name: values.shape[1] for name, values in observed_values(columns, sites).items()}
    shapes: dict[str, Shape] = {name: (size,) for name, size in sizes.items()}
    for name, wanted in (given or {}).items():
        shape = tuple(int(n) for n in wanted)
        if name not in sizes:
            known = ", ".join(repr(n) for n in sorted(sizes)) or "nothing"
            raise BatchError(f"a shape was given for the observation {name!r}, but the simulator observes {known}")
        if math.prod(shape) != sizes[name] or min(shape, default=1) < 1:
            raise BatchError(f"observation {name!r}: the shape {shape} does not hold its {sizes[name]} numbers")
        shapes[name] = shape or (1,)
    return shapes


# ---- batches ---------------------------------------------------------------------------------------------------------


class Batcher:
    """Makes batches, and keeps the vocabulary: sites that a batch is the first to have are appended to it, in the order
    in which the batch has them, which does not depend on the numbers that a host gave them.

    With ``rejected``, batches hold what rejected tries drew, too. With ``data``, name -> [1, *shape], all traces are
    given the same data, whatever they observed: one row serves them all."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        shapes: Mapping[str, Shape],
        *,
        rejected: bool = False,
        data: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.shapes = dict(shapes)
        self.rejected = rejected
        self.data = data
        self._sites: tuple[Site, ...] = ()
        self._index = np.empty(0, np.int64)  # a site's number in the traces -> its index in the vocabulary, or -1
        self._kind = np.empty(0, np.int64)  # by index in the vocabulary
        self._n_params = np.empty(0, np.int64)
        self._refresh()

    def meet(self, columns: Columns, sites: Sequence[Site]) -> bool:
        """Appends the sites of these traces to the vocabulary, without a batch; whether it changed."""
        self._know(sites)
        return self._extend(columns.samples)

    def __call__(self, columns: Columns, sites: Sequence[Site]) -> tuple[Batch, bool]:
        """A batch of these complete traces, and whether the vocabulary changed."""
        if not len(columns.traces):
            raise BatchError("a batch needs at least one trace")
        if columns.traces["failure"].any():
            raise BatchError("a batch cannot hold failed traces")
        self._know(sites)
        if self.rejected:
            samples = np.concatenate([columns.samples, columns.rejected]) if len(columns.rejected) else columns.samples
            changed = self._extend(samples)
            return self._tree(columns, samples, sites), changed
        changed = self._extend(columns.samples)
        return self._padded(columns, sites), changed

    def _padded(self, columns: Columns, sites: Sequence[Site]) -> TraceBatch:
        counts = columns.traces["n_samples"].astype(np.int64)
        rows = len(counts)
        steps = max(int(counts.max()), 1)
        starts = offsets(columns).samples[:-1]
        trace = np.repeat(np.arange(rows), counts)
        step = np.arange(len(trace)) - np.repeat(starts, counts)
        at = step * rows + trace
        samples = columns.samples

        def padded(values: npt.ArrayLike, fill: float, dtype: npt.DTypeLike) -> torch.Tensor:
            out = np.full(steps * rows, fill, dtype)
            out[at] = values
            return torch.from_numpy(out.reshape(steps, rows))

        numbers = self._priors(samples, columns.values, value_starts(columns).samples, at, steps * rows)
        prior, categories, n_categories = numbers
        mask = np.zeros(steps * rows, np.bool_)
        mask[at] = True
        return TraceBatch(
            site=padded(self._index[samples["site"]], -1, np.int64),
            instance=padded(samples["instance"], 0, np.int64),
            value=padded(samples["value"], 0.0, np.float64),
            prior=torch.from_numpy(prior.reshape(steps, rows, _WIDTH)),
            categories=None if categories is None else torch.from_numpy(categories.reshape(steps, rows, -1)),
            n_categories=torch.from_numpy(n_categories.reshape(steps, rows)),
            mask=torch.from_numpy(mask.reshape(steps, rows)),
            observation=self._observation(columns, sites),
        )

    def _tree(self, columns: Columns, samples: Array, sites: Sequence[Site]) -> TreeBatch:
        tree = tree_of(columns)
        sizes = np.bincount(tree.trace, minlength=len(columns.traces))
        if sizes.max(initial=0) > _LARGEST_TREE:
            row = int(sizes.argmax())
            raise BatchError(
                f"trace {int(columns.traces['trace'][row])} has {int(sizes[row]):,} draws with those of its rejected "
                f"tries, more than the {_LARGEST_TREE:,} that can be trained on at once: lower max_rejected"
            )
        order = np.argsort(tree.depth, kind="stable")
        place = np.empty(len(order) + 1, np.int64)  # of a draw in that order; the last entry is for -1
        place[order] = np.arange(len(order))
        place[-1] = -1
        starts = value_starts(columns)
        start = np.concatenate([starts.samples, starts.rejected])
        prior, categories, n_categories = self._priors(samples, columns.values, start, place[:-1], len(order))
        return TreeBatch(
            site=torch.from_numpy(self._index[samples["site"][order]]),
            instance=torch.from_numpy(samples["instance"][order].astype(np.int64)),
            value=torch.from_numpy(samples["value"][order]),
            prior=torch.from_numpy(prior),
            categories=None if categories is None else torch.from_numpy(categories),
            n_categories=torch.from_numpy(n_categories),
            previous=torch.from_numpy(place[tree.previous[order]]),
            trace=torch.from_numpy(tree.trace[order]),
            weight=torch.from_numpy(tree.weight[order]),
            levels=tuple(np.bincount(tree.depth).tolist()),
            observation=self._observation(columns, sites),
            traces=len(columns.traces),
        )

    # ---- sites -------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        self._kind = np.array([int(site.kind) for site in self.vocabulary], np.int64)
        self._n_params = np.array([site.n_params for site in self.vocabulary], np.int64)

    def _know(self, sites: Sequence[Site]) -> None:
        """Traces of another host come with other numbers for the same sites."""
        table = tuple(sites)
        known = len(self._sites)
        if table[:known] == self._sites:
            more = len(table) - known
        else:
            known, more = 0, len(table)
        self._sites = table
        if more:
            top = max((site.id for site in table), default=-1) + 1
            index = np.full(top, -1, np.int64)
            keep = self._index[:top] if known else self._index[:0]
            index[: len(keep)] = keep
            self._index = index

    def _extend(self, samples: Array) -> bool:
        """Appends new sites to the vocabulary, and widens Categorical ones."""
        if not len(samples):
            return False
        n_params = samples["n_params"].astype(np.int64)
        if not n_params.all():
            raise BatchError("these traces were drawn without the parameters of their priors (RECORD_PRIORS)")
        index = self._index[samples["site"]]
        new = index < 0
        wider = ~new & (n_params > self._n_params[index]) if len(self._n_params) else new
        changed = bool(new.any() or wider.any())
        if changed:
            odd = np.flatnonzero(new | wider)
            ids, first = np.unique(samples["site"][odd], return_index=True)
            by_id = {site.id: site for site in self._sites}
            before = self.vocabulary.copy()
            for site_id in ids[np.argsort(first)].tolist():
                mine = samples["site"] == site_id
                kind = DistKind(int(samples["prior"][mine][0]))
                spec = SiteSpec(by_id[site_id].address, kind, int(n_params[mine].max()))
                try:
                    self._index[site_id] = self.vocabulary.add(spec)
                except ValueError as error:
                    raise BatchError(str(error)) from error
            self._refresh()
            index = self._index[samples["site"]]
            changed = before != self.vocabulary
        if (self._kind[index] != samples["prior"]).any():
            row = int(np.flatnonzero(self._kind[index] != samples["prior"])[0])
            known = self.vocabulary[int(index[row])]
            raise BatchError(
                f"{known.address!r} has a {DistKind(int(samples['prior'][row])).name} prior in a trace, but had a "
                f"{known.kind.name} prior before: a site keeps its kind of prior"
            )
        return changed

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def _priors(
        self, samples: Array, values: Floats, start: Integers, at: Integers, size: int
    ) -> tuple[Floats, npt.NDArray[np.float32] | None, Integers]:
        """The parameters of the samples' priors, which begin at ``start`` in the values, in rows ``at``."""
        n_params = samples["n_params"].astype(np.int64)
        categorical = samples["prior"] == DistKind.CATEGORICAL
        prior = np.zeros((size, _WIDTH))
        n_categories = np.zeros(size, np.int64)
        if (n_params[~categorical] > _WIDTH).any():
            raise BatchError(f"a prior has more than {_WIDTH} parameters")
        for j in range(_WIDTH):
            has = np.flatnonzero(~categorical & (n_params > j))
            prior[at[has], j] = values[start[has] + j]
        which = np.flatnonzero(categorical)
        if not len(which):
            return prior, None, n_categories
        k = n_params[which]
        n_categories[at[which]] = k
        categories = np.zeros((size, int(k.max())), np.float32)
        inside = np.arange(int(k.sum())) - np.repeat(np.cumsum(k) - k, k)
        categories[np.repeat(at[which], k), inside] = values[np.repeat(start[which], k) + inside]
        return prior, categories, n_categories

    def _observation(self, columns: Columns, sites: Sequence[Site]) -> dict[str, torch.Tensor]:
        if self.data is not None:
            return dict(self.data)
        values = observed_values(columns, sites)
        if set(values) != set(self.shapes):
            odd = sorted(set(values) ^ set(self.shapes))
            raise BatchError(
                f"the observation {odd[0]!r} is in some traces and not in others. A network needs the same "
                "observations in every trace"
            )
        out: dict[str, torch.Tensor] = {}
        for name, shape in self.shapes.items():
            given = values[name]
            if given.shape[1] != math.prod(shape):
                raise BatchError(
                    f"observation {name!r} has {given.shape[1]} numbers in trace {int(columns.traces['trace'][0])}, "
                    f"but had {math.prod(shape)} before. A network needs the same sizes in every trace"
                )
            if not np.isfinite(given).all():
                row = int(np.flatnonzero(~np.isfinite(given).all(axis=1))[0])
                raise BatchError(
                    f"observation {name!r} of trace {int(columns.traces['trace'][row])} has a NaN or infinite number"
                )
            out[name] = torch.from_numpy(given.astype(np.float32).reshape(len(given), *shape))
        return out

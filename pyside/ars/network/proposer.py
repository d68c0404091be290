"""The network as a proposer: everything that waits is answered in one batch, without a loop over rows.

A state is the LSTM's state after it has seen a latent's site and prior, and a note of which latent that was. Its value
comes with the next request: it is then "the value before" of the next step, as in training. Latents that were not asked
about (inside loops with in_loops="prior", and where the network does not know the site) are told together; the LSTM is
taken through them one after another, so that it has seen the same trace as in training.

The same question has the same answer, to the last bit, whatever else is in the batch: equal rows are computed once, and
all is computed for a multiple of BLOCK rows, some of them repeated. For less than four rows BLAS takes other paths, and
what is left over after whole vectors of a processor is computed in another way than these. (Measured with MKL; with
other libraries the last bits may differ, and with them, rarely, a trace.)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ars._native import DTYPES, DistKind, ReplyFlag, SiteKind
from ars.columns import Columns, Site
from ars.errors import NetworkWarning, ObservationError, ProposalError, ProtocolError
from ars.network.batches import Batcher, complete
from ars.network.core import Group, ProposalNetwork, State
from ars.network.embeddings import ObservationShapeError
from ars.network.pool import DEFAULT_MEMORY, Slots, StatePool
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

__all__ = ["BLOCK", "NetworkProposer", "UsualPriors", "usual_priors"]

BLOCK: Final = 8
_DIST: Final = DTYPES["dist"]
_WIDTH: Final = 4  # parameters of a prior that is not Categorical
_LISTED: Final = 20  # addresses in a warning

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

# The latest latent that a state has seen.
_NOTE: Final = np.dtype(
    [
        ("site", np.int64),  # its number on the wire
        ("instance", np.int64),
        ("index", np.int64),  # in the vocabulary, -1 if it is not known there, or if there is no latent yet
        ("prior", np.float64, (_WIDTH,)),
        ("value", np.float64),
        ("pending", np.bool_),  # its value has not been told
    ]
)
_START: Final = np.array((-1, 0, -1, (0.0,) * _WIDTH, 0.0, False), dtype=_NOTE)


class UsualPriors(NamedTuple):
    """By index in the vocabulary: parameters of priors, for latents that are told without having been asked about."""

    prior: Floats  # [V, 4]
    categories: Floats  # [V, C]


def usual_priors(network: ProposalNetwork, columns: Columns, sites: Sequence[Site]) -> UsualPriors:
    """The priors that these traces have, the first of each site; 0 for sites that they do not have."""
    known = network.vocabulary
    usual = UsualPriors(np.zeros((len(known), _WIDTH)), np.zeros((len(known), known.categories)))
    columns = complete(columns)
    if not len(columns.traces):
        return usual
    batch, _ = Batcher(known.copy(), network.observation_shapes)(columns, sites)
    index, first = np.unique(batch.site.numpy().reshape(-1), return_index=True)
    here = (index >= 0) & (index < len(known))
    index, first = index[here], first[here]
    usual.prior[index] = batch.prior.numpy().reshape(-1, _WIDTH)[first]
    if batch.categories is not None:
        found = batch.categories.numpy().reshape(batch.site.numel(), -1)[first, : known.categories]
        usual.categories[index, : found.shape[1]] = found
    return usual


# ---- requests --------------------------------------------------------------------------------------------------------


class _Requests(NamedTuple):
    """Requests as arrays, one row each. What is shorter than the widest is padded with 0."""

    slot: Slots  # -1: the start
    site: Integers  # number on the wire; -1: only tells
    instance: Integers
    n_told: Integers
    told_site: Integers  # [n, T]
    told_instance: Integers
    told_value: Floats
    prior: Floats  # [n, 4]; 0 for Categorical
    n_categories: Integers
    categories: Floats  # [n, C]

    def take(self, rows: Integers) -> _Requests:
        columns: Any = (column[rows] for column in self)
        return _Requests(*columns)

    def distinct(self) -> tuple[Integers, Integers]:
        """Rows such that no two are equal, and for every row which of those it equals."""
        n = len(self.slot)
        if n < 2:
            return np.arange(n), np.zeros(n, np.int64)
        key = np.concatenate([column.reshape(n, -1).view(np.int64) for column in self], axis=1)
        _, first, inverse = np.unique(_as_items(key), return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)


def _as_items(table: Integers) -> Array:
    """Each row of a table as one item that can be compared."""
    table = np.ascontiguousarray(table)
    return table.view(np.dtype((np.void, table.shape[1] * table.itemsize))).reshape(-1)


def _ragged(offsets: Integers, values: Array, width: int) -> Array:
    """Rows of different lengths as a table, padded with 0."""
    sizes = np.diff(offsets)
    out = np.zeros((len(sizes), width), values.dtype)
    row = np.repeat(np.arange(len(sizes)), sizes)
    out[row, np.arange(len(row)) - np.repeat(offsets[:-1] - offsets[0], sizes)] = values
    return out


def _requests(batch: StepBatch, slots: Slots, categories: int) -> _Requests:
    """categories: the least width of the table of probabilities."""
    n_told = np.diff(batch.told_offsets)
    width = int(n_told.max(initial=0))
    asks = batch.asks
    n_params = np.diff(batch.prior_offsets)
    categorical = batch.prior_kind == DistKind.CATEGORICAL
    n_categories = np.where(categorical, n_params, 0)
    n_plain = np.where(categorical, 0, n_params)
    if (n_plain > _WIDTH).any():
        raise ProtocolError(f"STEPS: a prior has {int(n_plain.max())} parameters, at most {_WIDTH}")
    of_categorical = np.repeat(categorical, n_params)

    def table(counts: Integers, values: Floats, at_least: int) -> Floats:
        return _ragged(np.concatenate([[0], np.cumsum(counts)]), values, max(at_least, int(counts.max(initial=0))))

    return _Requests(
        slots,
        np.where(asks, batch.site.astype(np.int64), -1),
        batch.instance.astype(np.int64),
        n_told,
        _ragged(batch.told_offsets, batch.told_site.astype(np.int64), width),
        _ragged(batch.told_offsets, batch.told_instance.astype(np.int64), width),
        _ragged(batch.told_offsets, batch.told_value, width),
        table(n_plain, batch.prior_values[~of_categorical], _WIDTH),
        n_categories,
        table(n_categories, batch.prior_values[of_categorical], categories),
    )


# ---- answers ---------------------------------------------------------------------------------------------------------


class _Answers(NamedTuple):
    """One row per distinct request."""

    state: State
    notes: Array
    proposals: list[bytes]  # b"" where it only tells
    known: npt.NDArray[np.bool_]  # whether the network proposed


def _in_blocks(rows: Integers) -> Integers:
    """The rows, and as many of them again as make whole blocks."""
    return np.resize(rows, len(rows) + -len(rows) % BLOCK)


def _packed(group: Group, sizes: Integers, out: list[bytes]) -> None:
    """Writes a group's proposals to their rows. sizes: by row, how many doubles; -1 for all."""
    rows = group.rows.cpu().numpy()
    params = group.params.cpu().numpy()
    counts = sizes[rows]
    counts = np.where(counts < 0, params.shape[1], counts)
    headers = np.zeros(len(rows), _DIST)
    headers["kind"] = int(group.kind)
    headers["n"] = counts
    table = np.concatenate([headers.view(np.uint64)[:, None], params.view(np.uint64)], axis=1)
    raw = table.tobytes()
    begins = np.arange(len(rows)) * (8 * table.shape[1])
    ends = begins + 8 * (1 + counts)
    for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
        out[row] = raw[begin:end]  # nothing but the cutting of one buffer


class NetworkProposer:
    """Answers the requests of one run. A site that the network does not know is left to the prior.

    observed: the data, name -> array. memory: bytes that states may take.
    """

    def __init__(
        self, network: ProposalNetwork, observed: Mapping[str, npt.ArrayLike], *, memory: int = DEFAULT_MEMORY
    ) -> None:
        self._network = network.eval()
        self._device = network.sites.weight.device
        known = network.vocabulary
        self._usual = UsualPriors(np.zeros((len(known), _WIDTH)), np.zeros((len(known), known.categories)))
        self._index = np.zeros(0, np.int64)  # number on the wire -> index in the vocabulary, or -1
        self.pool = StatePool(network.config.lstm_depth, network.config.lstm_dim, _NOTE, memory=memory,
                              device=self._device)  # fmt: skip
        self.answered = 0  # distinct requests
        with torch.inference_mode():
            self._observation = self._observe(observed)

    def _observe(self, observed: Mapping[str, npt.ArrayLike]) -> Tensor:
        """The embedding of the data, [1, E]."""
        shapes = self._network.observation_shapes
        tensors: dict[str, Tensor] = {}
        for name, value in observed.items():
            array = np.asarray(value, dtype=np.float64)
            flat = array.ndim < 2 or len(shapes.get(name, ())) < 2
            tensors[name] = torch.from_numpy(array.astype(np.float32).reshape((1, -1) if flat else (1, *array.shape)))
        try:
            return self._network.observe({name: tensor.to(self._device) for name, tensor in tensors.items()})
        except ObservationShapeError as error:
            raise ObservationError(f"the observed data do not fit the network: {error}") from error

    def expect(self, usual: UsualPriors) -> None:
        """Priors of latents that will be told without having been asked about: what is told has no priors."""
        self._usual = usual

    # ---- sites -------------------------------------------------------------------------------------------------------

    def _know(self, sites: SiteTable) -> None:
        """Sites are numbered as they are met; finds the new ones in the vocabulary."""
        if len(sites) > len(self._index):
            new = [self._find(site) for site in sites.all()[len(self._index) :]]
            self._index = np.concatenate([self._index, np.array(new, np.int64)])

    def _find(self, site: Site) -> int:
        index = self._network.vocabulary.index(site.address) if site.kind is SiteKind.SAMPLE else -1
        return index if index >= 0 and self._network.vocabulary[index].kind is site.dist else -1

    def warn_of_unknown(self, columns: Columns, sites: Sequence[Site]) -> None:
        """After a run: which of the latents drawn the network did not know."""
        counts = np.bincount(columns.samples["site"].astype(np.int64), minlength=len(sites))
        drawn = [site for site in sites if counts[site.id]]
        unknown = sorted((site for site in drawn if self._find(site) < 0), key=lambda site: -int(counts[site.id]))
        if not unknown:
            return
        total = sum(int(counts[site.id]) for site in unknown)
        listed = [f"{site.address!r} ({int(counts[site.id]):,}{self._why(site)})" for site in unknown[:_LISTED]]
        more = f", and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        warnings.warn(
            f"the network does not know {len(unknown)} of the {len(drawn)} latents that were drawn, so their prior "
            f"proposed them, in {total:,} draws: {', '.join(listed)}{more}. The weights are right, but the effective "
            "sample size may be small: train on more traces, or on this version of the simulator",
            NetworkWarning,
            stacklevel=4,
        )

    def _why(self, site: Site) -> str:
        index = self._network.vocabulary.index(site.address)
        if index < 0:
            return ""
        here = site.dist.name if site.dist else "unknown"
        return f", with a {here} prior; the network has {self._network.vocabulary[index].kind.name}"

    # ---- the protocol ------------------------------------------------------------------------------------------------

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        self._know(sites)
        slots = self.pool.slots(batch.state, batch.trace)
        requests = _requests(batch, slots, self._network.vocabulary.categories)
        first, which = requests.distinct()
        self.answered += len(first)
        with torch.inference_mode():
            answers = self._answer(requests.take(first))
            # Equal requests share an answer, and those of one trace share the new state.
            pairs = np.stack([which, batch.trace.view(np.int64)], axis=1)
            _, owner, new = np.unique(_as_items(pairs), return_index=True, return_inverse=True)
            made = self.pool.allocate(batch.trace[owner])
            at = torch.from_numpy(which[owner]).to(self._device)
            self.pool.put(made, *(part.index_select(1, at) for part in answers.state))
            self.pool.notes[made] = answers.notes[which[owner]]
        unknown = batch.asks & ~answers.known[which]
        flags = np.where(unknown, int(ReplyFlag.ALWAYS_PRIOR), 0).astype(np.uint32)
        return Replies(
            self.pool.numbers(made)[new.reshape(-1)], flags, [answers.proposals[row] for row in which.tolist()]
        )

    def end_trace(self, traces: Array) -> None:
        self.pool.release(traces)

    # ---- one batch ---------------------------------------------------------------------------------------------------

    def _answer(self, requests: _Requests) -> _Answers:
        h, c = self.pool.get(requests.slot)
        notes = self.pool.notes[requests.slot]
        notes[requests.slot < 0] = _START
        self._tell(requests, notes, h, c)
        proposals = [b""] * len(notes)
        known = np.zeros(len(notes), np.bool_)
        asks = np.flatnonzero(requests.site >= 0)
        if not len(asks):
            return _Answers((h, c), notes, proposals, known)
        index = self._index[requests.site]  # of a row that asks
        known[asks] = index[asks] >= 0
        prior = np.where(known[:, None], requests.prior, 0.0)
        categories = np.where(known[:, None], requests.categories, 0.0)
        rows = self._padded(asks, index)
        out = self._advance(rows, index[rows], requests.instance[rows], prior[rows], categories[rows], notes, h, c)
        computed = [b""] * len(rows)
        kinds, probabilities = self._tensor(index[rows]), self._categories(categories[rows])
        sizes = np.where(requests.n_categories[rows] > 0, requests.n_categories[rows], -1)
        for group in self._network.propose(out, kinds, self._tensor(prior[rows]), probabilities):
            if bool(torch.isnan(group.params).any()):
                raise ProposalError("the network's proposals are not numbers (NaN): its weights are damaged")
            _packed(group, sizes, computed)
        for row, proposal in zip(asks.tolist(), computed, strict=False):  # what was repeated comes last
            proposals[row] = proposal or PRIOR
        notes["site"][asks] = requests.site[asks]
        notes["instance"][asks] = requests.instance[asks]
        notes["index"][asks] = index[asks]
        notes["prior"][asks] = prior[asks]
        notes["value"][asks] = 0.0
        notes["pending"][asks] = True
        return _Answers((h, c), notes, proposals, known)

    def _tell(self, requests: _Requests, notes: Array, h: Tensor, c: Tensor) -> None:
        """Takes notes, h and c through what was told. They are changed in place."""
        pending = notes["pending"].copy()
        if pending.any():
            some = requests.n_told > 0
            same = np.zeros(len(some), np.bool_)
            if requests.told_site.shape[1]:
                same = (requests.told_site[:, 0] == notes["site"]) & (requests.told_instance[:, 0] == notes["instance"])
                notes["value"][pending] = requests.told_value[pending, 0]
            if (pending & ~(some & same)).any():
                raise ProtocolError("STEPS: the first value told is not that of the latent that was last asked about")
            notes["pending"] = False
        done = pending.astype(np.int64)
        while len(rows := np.flatnonzero(requests.n_told > done)):
            at = done[rows]
            site = requests.told_site[rows, at]
            instance = requests.told_instance[rows, at]
            index = self._index[site]
            known = (index >= 0)[:, None]
            prior = np.where(known, self._usual.prior[index] if len(self._usual.prior) else 0.0, 0.0)
            categories = np.where(known, self._usual.categories[index] if len(self._usual.prior) else 0.0, 0.0)
            each = _in_blocks(np.arange(len(rows)))
            self._advance(rows[each], index[each], instance[each], prior[each], categories[each], notes, h, c)
            notes["site"][rows] = site
            notes["instance"][rows] = instance
            notes["index"][rows] = index
            notes["prior"][rows] = prior
            notes["value"][rows] = requests.told_value[rows, at]
            done[rows] += 1

    def _padded(self, asks: Integers, index: Integers) -> Integers:
        """The rows that ask, then repetitions, so that every family of priors has whole blocks."""
        kinds = self._network.kinds.cpu().numpy()[index[asks] + 1]
        parts = [asks]
        for kind in np.unique(kinds).tolist():  # families, not rows
            rows = asks[kinds == kind]
            parts.append(_in_blocks(rows)[len(rows) :])
        return np.concatenate(parts)

    def _advance(
        self,
        rows: Integers,
        index: Integers,
        instance: Integers,
        prior: Floats,
        categories: Floats,
        notes: Array,
        h: Tensor,
        c: Tensor,
    ) -> Tensor:
        """One step of the LSTM for these rows (a row may be repeated), whose h and c are replaced."""
        before = notes[rows]
        x = self._network.inputs(
            self._observation,
            self._tensor(index),
            self._tensor(instance),
            self._tensor(prior),
            self._categories(categories),
            self._tensor(before["index"]),
            self._tensor(before["value"]),
            self._tensor(before["prior"]),
        )
        at = self._tensor(rows)
        out, (new_h, new_c) = self._network.advance(x, (h.index_select(1, at), c.index_select(1, at)))
        h.index_copy_(1, at, new_h)
        c.index_copy_(1, at, new_c)
        return out

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _categories(self, categories: Floats) -> Tensor | None:
        return self._tensor(categories) if categories.shape[1] else None

"""The network as a proposer: everything that waits is answered in one batch.

A state is the LSTM's state after it has seen a latent's site and prior, and a note of which latent that was. Its value
comes with the next request: it is then "the value before" of the next step, as in training. Latents that were not asked
about (inside loops with in_loops="prior", and where the network does not know the site) are told together; the LSTM is
taken through them one after another, so that it has seen the same trace as in training.

The same question has the same answer, to the last bit, whatever else is in the batch (see serving.py). Equal ones are
answered once: those of one batch, and in the whole run those that do not depend on the trace, such as its first one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ars._native import DISCRETE, DTYPES, DistKind, ReplyFlag, SiteKind
from ars.columns import Columns, Site
from ars.errors import NetworkWarning, ObservationError, ObservationShapeError, ProtocolError
from ars.network.model.core import ProposalNetwork
from ars.network.serve.pool import DEFAULT_MEMORY, SHARED, Slots, StatePool
from ars.network.serve.serving import Asked, Previous, ServingNetwork, in_blocks
from ars.network.train.batches import Batcher, complete
from ars.outside import outside
from ars.wire import Replies, SiteTable, StepBatch

__all__ = ["NetworkProposer", "UsualPriors", "usual_priors"]

_WIDTH: Final = 4  # parameters of a prior that is not Categorical
_LISTED: Final = 20  # addresses in a warning
_REMEMBERED: Final = 1024  # answers that do not depend on the trace

# A question's bytes: its state (8), its site and instance, how many values it tells (8), these, and the prior.
_ASKED: Final = slice(8, 16)
_TOLD_AT: Final = 24
_TOLD_SIZE: Final = DTYPES["told"].itemsize

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

# The latest latent that a state has seen, and the one before it.
_NOTE: Final = np.dtype(
    [
        ("site", np.int64),  # its number on the wire
        ("instance", np.int64),
        ("index", np.int64),  # in the vocabulary, -1 if it is not known there, or if there is no latent yet
        ("kind", np.int64),  # of its prior; 0 if it is not known
        ("prior", np.float64, (_WIDTH,)),
        ("value", np.float64),
        ("pending", np.bool_),  # its value has not been told
        ("recurrent", np.int64),  # for serving.py
        ("earlier_kind", np.int64),  # of the latent before the latest
        ("earlier_prior", np.float64, (_WIDTH,)),
        ("earlier_value", np.float64),
    ]
)
_START: Final = np.array(
    (-1, 0, -1, 0, (0.0,) * _WIDTH, 0.0, False, 0, 0, (0.0,) * _WIDTH, 0.0),
    dtype=_NOTE,
)


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


class _Answers(NamedTuple):
    """One row each."""

    state: npt.NDArray[np.uint64]
    owner: npt.NDArray[np.uint64]  # the state's: a trace, or SHARED
    flags: npt.NDArray[np.uint32]
    proposals: Sequence[bytes]  # b"" where it only tells

    def take(self, rows: Sequence[int]) -> _Answers:
        return _Answers(self.state[rows], self.owner[rows], self.flags[rows], [self.proposals[row] for row in rows])


def _together(answers: Sequence[_Answers]) -> _Answers:
    if len(answers) == 1:
        return answers[0]
    return _Answers(
        np.concatenate([some.state for some in answers]),
        np.concatenate([some.owner for some in answers]),
        np.concatenate([some.flags for some in answers]),
        [proposal for some in answers for proposal in some.proposals],
    )


class NetworkProposer:
    """Answers the requests of one run. A site that the network does not know is left to the prior.

    observed: the data, name -> array. memory: bytes that states may take.
    """

    asks = True

    def __init__(
        self, network: ProposalNetwork, observed: Mapping[str, npt.ArrayLike], *, memory: int = DEFAULT_MEMORY
    ) -> None:
        self._network = network.eval()
        known = network.vocabulary
        self._usual = UsualPriors(np.zeros((len(known), _WIDTH)), np.zeros((len(known), known.categories)))
        self._index = np.zeros(0, np.int64)  # number on the wire -> index in the vocabulary, or -1
        self._discrete = np.zeros(0, np.bool_)  # by number on the wire
        self._remembered: dict[bytes, _Answers] = {}  # of one row
        self.pool = StatePool(network.config.lstm_depth, network.config.lstm_dim, _START, memory=memory)
        self.answered = 0  # questions that were computed
        with torch.inference_mode():
            self._serving = ServingNetwork(network, self._observe(observed))

    def _observe(self, observed: Mapping[str, npt.ArrayLike]) -> Tensor:
        """The embedding of the data, [1, E]."""
        shapes, device = self._network.observation_shapes, self._network.sites.weight.device
        tensors: dict[str, Tensor] = {}
        for name, value in observed.items():
            array = np.asarray(value, dtype=np.float64)
            flat = array.ndim < 2 or len(shapes.get(name, ())) < 2
            tensors[name] = torch.from_numpy(array.astype(np.float32).reshape((1, -1) if flat else (1, *array.shape)))
        try:
            return self._network.observe({name: tensor.to(device) for name, tensor in tensors.items()})
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
            self._discrete = np.isin(sites.dists, list(DISCRETE))

    def _find(self, site: Site) -> int:
        index = self._network.vocabulary.index(site.address) if site.kind is SiteKind.SAMPLE else -1
        return index if index >= 0 and self._network.vocabulary[index].kind is site.dist else -1

    def proposes(self, site: Site) -> bool:
        """Whether the network knows this latent."""
        return self._find(site) >= 0

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Names the latents drawn that the network did not know."""
        counts = np.bincount(columns.samples["site"].astype(np.int64), minlength=len(sites))
        drawn = [site for site in sites if counts[site.id]]
        unknown = sorted((site for site in drawn if self._find(site) < 0), key=lambda site: -int(counts[site.id]))
        if not unknown:
            return
        total = sum(int(counts[site.id]) for site in unknown)
        listed = [f"{site.address!r} ({int(counts[site.id]):,}{self._why(site)})" for site in unknown[:_LISTED]]
        more = f", and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        warnings.warn(
            f"the network does not know {len(unknown)} of the {len(drawn)} latents that were drawn, so the prior "
            f"proposed them, in {total:,} draws: {', '.join(listed)}{more}. The weights are correct, but the effective "
            "sample size may be small: train on more traces, or on this version of the simulator",
            NetworkWarning,
            stacklevel=outside(),
        )

    def _why(self, site: Site) -> str:
        index = self._network.vocabulary.index(site.address)
        if index < 0:
            return ""
        here = site.dist.name if site.dist else "unknown"
        return f", with a {here} prior; the network has {self._network.vocabulary[index].kind.name}"

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        self._know(sites)
        slots = self.pool.slots(batch.state, batch.trace)
        questions = batch.questions
        asked = dict(zip(questions, range(len(questions)), strict=True))  # each once, with a row that asks it
        known = asked.keys() & self._remembered.keys()
        answers = [self._remembered[question] for question in known]
        for question in known:
            del asked[question]
        if asked:
            self.answered += len(asked)
            rows = np.fromiter(asked.values(), np.int64, len(asked))
            answers.insert(0, self._answer(batch, slots, list(asked), rows))
        found = _together(answers)
        if len(asked) < len(questions):
            place = {question: i for i, question in enumerate([*asked, *known])}
            found = found.take([place[question] for question in questions])
        return Replies(self._own(batch.trace, found), found.flags, found.proposals)

    def end_trace(self, traces: Array) -> None:
        self.pool.release(traces)

    def close(self) -> None:
        """Its states go with it."""

    def _own(self, traces: Array, answers: _Answers) -> npt.NDArray[np.uint64]:
        """The states for these traces. One that was given another's answer gets a copy of the state, to keep for its
        own time."""
        others = np.flatnonzero((answers.owner != traces) & (answers.owner != SHARED))
        if not len(others):
            return answers.state
        wanted = np.stack([traces[others], answers.state[others]])
        (owners, given), first, which = np.unique(wanted, axis=1, return_index=True, return_inverse=True)
        made = self.pool.allocate(owners)
        self.pool.copy(self.pool.slots(given, answers.owner[others[first]]), made)
        states = answers.state.copy()
        states[others] = self.pool.numbers(made)[which]
        return states

    # ---- one batch ---------------------------------------------------------------------------------------------------

    def _answer(self, batch: StepBatch, slots: Slots, questions: Sequence[bytes], rows: Integers) -> _Answers:
        """Answers to these questions, each with a row that asks it."""
        shared = self._independent(batch, slots, rows)
        at, notes, scratch = self._told(batch, slots[rows], rows)
        owners = np.where(shared, SHARED, batch.trace[rows])
        made = self.pool.allocate(owners)
        asks = batch.asks[rows]
        if asks.all():
            proposals, notes = self._propose(batch, rows, questions, at, made, notes)
        else:
            proposals = [b""] * len(rows)
            self.pool.copy(at[~asks], made[~asks])
            mine = np.flatnonzero(asks)
            if len(mine):
                those = [questions[i] for i in mine.tolist()]
                found, notes[mine] = self._propose(batch, rows[mine], those, at[mine], made[mine], notes[mine])
                for i, proposal in zip(mine.tolist(), found, strict=True):
                    proposals[i] = proposal
        notes["recurrent"] = 0
        self.pool.notes[made] = notes
        self.pool.free(scratch)
        always = np.where(asks & (notes["kind"] == 0), np.uint32(ReplyFlag.ALWAYS_PRIOR), np.uint32(0))
        answers = _Answers(self.pool.numbers(made), owners, always, proposals)
        for row in np.flatnonzero(shared).tolist():
            self._remembered[questions[row]] = answers.take([row])
        return answers

    def _independent(self, batch: StepBatch, slots: Slots, rows: Integers) -> npt.NDArray[np.bool_]:
        """Which questions may well be asked in other traces too: those from a shared state, with nothing told but
        discrete values. As many as there is room to remember."""
        shared = self.pool.is_shared(slots[rows])
        if shared.any():
            continuous = np.concatenate([[0], np.cumsum(~self._discrete[batch.told_site])])
            shared &= continuous[batch.told_offsets[rows + 1]] == continuous[batch.told_offsets[rows]]
            shared &= np.cumsum(shared) <= _REMEMBERED - len(self._remembered)
        return shared

    def _propose(
        self, batch: StepBatch, rows: Integers, questions: Sequence[bytes], at: Slots, to: Slots, notes: Array
    ) -> tuple[list[bytes], Array]:
        """Steps to the latents that are asked about, and proposes them: the proposals, and the new notes."""
        n_told = (batch.told_offsets[rows + 1] - batch.told_offsets[rows]).tolist()
        keys = [q[_ASKED] + q[_TOLD_AT + _TOLD_SIZE * n :] for q, n in zip(questions, n_told, strict=True)]
        asked = self._serving.questions(keys, lambda places: self._asked(batch, rows[places]))
        order = _padded(self._serving.kind_of(asked))
        seen = self._step(at, to, asked, notes, order)
        proposals = self._serving.propose(seen, asked[order], len(rows))
        new = self._noted(batch.site[rows], batch.instance[rows], asked, notes)
        new["pending"] = True
        return proposals, new

    def _noted(self, site: Array, instance: Array, asked: Integers, before: Array) -> Array:
        """Notes of states that have seen these latents; ``before``: the notes of the states that they came from."""
        new = np.zeros(len(site), _NOTE)
        for name in ("kind", "prior", "value"):
            new[f"earlier_{name}"] = before[name]
        new["site"], new["instance"], new["index"] = site, instance, self._index[site]
        new["kind"], new["prior"] = self._serving.kind_of(asked), self._serving.prior_of(asked)
        return new

    def _asked(self, batch: StepBatch, rows: Integers) -> Asked:
        """Questions that have not been met before, as arrays."""
        index = self._index[batch.site[rows]]
        n_params = batch.prior_offsets[rows + 1] - batch.prior_offsets[rows]
        categorical = batch.prior_kind[rows] == DistKind.CATEGORICAL
        known = index >= 0
        prior = _table(batch, rows, np.where(known & ~categorical, n_params, 0), _WIDTH)
        n_categories = np.where(known & categorical, n_params, 0)
        categories = _table(batch, rows, n_categories, self._network.vocabulary.categories)
        return Asked(index, batch.instance[rows].astype(np.int64), prior, categories, n_categories)

    def _step(self, at: Slots, to: Slots, asked: Integers, notes: Array, order: Integers) -> Tensor:
        """One step of the LSTM, computed in this order of rows: what proposals are made from, in that order."""
        before = notes[order]
        earlier = before["earlier_kind"], before["earlier_prior"], before["earlier_value"]
        value = self._serving.value(
            Previous(before["kind"], before["index"], before["prior"], before["value"], earlier)
        )
        return self._serving.advance(self.pool, at[order], to, asked[order], value)

    # ---- what was told -----------------------------------------------------------------------------------------------

    def _told(self, batch: StepBatch, at: Slots, rows: Integers) -> tuple[Slots, Array, Slots]:
        """Where these rows stand after what they tell: their slots and notes, and slots to be freed when done."""
        notes = self.pool.notes[at]
        begin, end = batch.told_offsets[rows], batch.told_offsets[rows + 1]
        pending = np.flatnonzero(notes["pending"])
        if len(pending):
            first = begin[pending]
            if (first >= end[pending]).any() or not (
                (batch.told_site[first] == notes["site"][pending])
                & (batch.told_instance[first] == notes["instance"][pending])
            ).all():
                raise ProtocolError("STEPS: the first value told is not that of the latent that was last asked about")
            notes["value"][pending] = batch.told_value[first]
            notes["pending"][pending] = False
            begin = begin.copy()
            begin[pending] += 1
        scratch = np.zeros(0, np.int64)
        while len(some := np.flatnonzero(begin < end)):
            if not len(scratch):
                at, begin = at.copy(), begin.copy()
            to = self.pool.allocate(batch.trace[rows[some]])
            notes[some] = self._pass(batch, begin[some], at[some], to, notes[some])
            passed = np.intersect1d(at[some], scratch)
            self.pool.free(passed)
            scratch = np.concatenate([np.setdiff1d(scratch, passed), to])
            at[some] = to
            begin[some] += 1
        return at, notes, scratch

    def _pass(self, batch: StepBatch, told: Integers, at: Slots, to: Slots, notes: Array) -> Array:
        """Steps past latents that were not asked about; the new notes."""
        site, instance = batch.told_site[told], batch.told_instance[told]
        keys = [b"told %d %d" % pair for pair in zip(site.tolist(), instance.tolist(), strict=True)]
        asked = self._serving.questions(keys, lambda places: self._usually(site[places], instance[places]))
        self._step(at, to, asked, notes, in_blocks(np.arange(len(told))))
        new = self._noted(site, instance, asked, notes)
        new["value"] = batch.told_value[told]
        return new

    def _usually(self, site: Array, instance: Array) -> Asked:
        """What would have been asked about latents that are told without a prior."""
        index = self._index[site]
        known = index >= 0
        prior, categories = (np.zeros((len(site), table.shape[1])) for table in self._usual)
        prior[known], categories[known] = self._usual.prior[index[known]], self._usual.categories[index[known]]
        return Asked(index, instance.astype(np.int64), prior, categories, np.count_nonzero(categories, axis=1))


def _padded(kinds: Integers) -> Integers:
    """All rows, then repetitions, so that every family of priors has whole blocks."""
    rows = np.arange(len(kinds))
    if (kinds == kinds[0]).all():
        return in_blocks(rows)
    families = [rows[kinds == kind] for kind in np.unique(kinds).tolist()]
    return np.concatenate([rows, *(in_blocks(family)[len(family) :] for family in families)])


def _table(batch: StepBatch, rows: Integers, counts: Integers, width: int) -> Floats:
    """The first so many parameters of these rows' priors, padded with 0 to this width or more."""
    out = np.zeros((len(rows), max(width, int(counts.max(initial=0)))))
    row = np.repeat(np.arange(len(rows)), counts)
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    out[row, column] = batch.prior_values[np.repeat(batch.prior_offsets[rows], counts) + column]
    return out

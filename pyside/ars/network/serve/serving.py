"""The network's step for one observation, arranged so that a small batch costs little.

The same function as ``ProposalNetwork.advance`` and ``propose``, up to rounding. What goes into a step is a sum: of
what depends on the question alone (observation, site, instance, prior), of what depends on the state that it is asked
from, and of the value drawn before. The first two are kept: a question is asked in many traces, and the tries of a loop
all start from one state. What is left for a row is the product of the value's embedding and the head.

A row's numbers are the same, to the last bit, whatever else is in the batch. What is not a matrix product or a function
of all elements alike is computed row by row (in C). The rest is computed for a multiple of BLOCK rows, some of them
repeated: for fewer rows BLAS takes other paths, and what is left over after whole vectors of a processor is computed in
another way than these. (Measured with MKL; with other libraries the last bits may differ, and with them, rarely, a
trace.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from ars import _kernels as kernels
from ars._native import DistKind
from ars.errors import ProposalError
from ars.network.model import features
from ars.network.model.core import ProposalNetwork
from ars.network.model.layers import FamilyHead
from ars.network.serve.pool import Slots, StatePool
from ars.wire import PRIOR

__all__ = ["BLOCK", "Asked", "Previous", "ServingNetwork", "in_blocks"]

BLOCK: Final = 16
_COLUMNS: Final = 4  # a multiple of them: MKL computes 5 to 7 and 9 to 11 in another way at another place in the batch
_KEPT_QUESTIONS: Final = 64 << 20  # bytes, of which only those in use take memory
_KEPT_STATES: Final = 1024  # whose recurrent product is known

Floats: TypeAlias = npt.NDArray[np.float64]
Products: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]


class Asked(NamedTuple):
    """Questions as arrays, one row each."""

    site: Integers  # in the vocabulary, -1 if it is not known there
    instance: Integers
    prior: Floats  # [n, 4]; 0 for Categorical
    categories: Floats  # [n, C]
    n_categories: Integers


class Previous(NamedTuple):
    """The latents drawn before, one row each, and those drawn before these."""

    kind: Integers  # of the prior; 0: there is none, or it is not known
    site: Integers
    prior: Floats  # [n, 4]
    value: Floats
    earlier: kernels.DrawnValues


class _Head(NamedTuple):
    """One family's: products from the left, so that rows stay rows."""

    question: Tensor  # [Q, hidden]
    bias: Tensor
    body: Tensor  # [H + V, hidden]: of the LSTM's output and the value
    last: Tensor
    last_bias: Tensor
    columns: int  # of the last layer, before it was filled up


def in_blocks(rows: Integers) -> Integers:
    """The rows, and as many of them again as make whole blocks."""
    return np.resize(rows, len(rows) + -len(rows) % BLOCK)


def _index(array: Integers) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


class ServingNetwork:
    """observation: what the network makes of the data, [1, E + tokens]. Most weights are copied: training may go on."""

    def __init__(self, network: ProposalNetwork, observation: Tensor) -> None:
        config = network.config
        self.network = network
        self.depth, self.width = config.lstm_depth, config.lstm_dim
        self._settings = network._settings
        self._kinds = network.kinds.cpu().numpy()
        self._observation = observation.cpu()
        self._series = _Series(network, self._observation) if network.series.names else None
        with torch.inference_mode():
            self._sites = network.sites.weight.detach().cpu().clone()
            self._categories = network.categories.weight.detach().cpu().clone()
            self._split_value(network)
            self._split_lstm(network)
            self._heads = {kind: self._split_head(network, kind) for kind in network._families}
        hidden = config.head_hidden
        self._questions = _Questions(4 * self.width, hidden, self._settings.categories)
        self._recurrent_of = _Recurrent(self.depth, 4 * self.width)

    # ---- the weights, taken apart ------------------------------------------------------------------------------------

    def _split_value(self, network: ProposalNetwork) -> None:
        """The first layer of a value's embedding: features, and tables of what categories and sites add."""
        first, second = network.value[0], network.value[2]
        assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
        weight = first.weight.detach().cpu().t()
        category = features.VALUE_FEATURES + network.config.category_dim
        self._value_first = weight[: features.VALUE_FEATURES].contiguous()
        self._value_category = self._categories @ weight[features.VALUE_FEATURES : category]
        self._value_site = self._sites @ weight[category:] + first.bias.detach().cpu()
        if len(self._categories) == 1:  # nothing is a category, and every value is seen as none
            self._value_site += self._value_category
        self._value_second = second.weight.detach().cpu().t().contiguous()
        self._value_second_bias = second.bias.detach().cpu().clone()
        pairs = network.pairs
        self._pair_layers: tuple[Tensor, Tensor] | None = None
        if pairs is not None:
            hidden, last = (layer.weight.detach().cpu().t().contiguous() for layer in (pairs.hidden, pairs.last))
            self._pair_layers = hidden, last

    @property
    def _question_dim(self) -> int:
        return self.network.input_dim - features.VALUE_FEATURES - self.network.config.value_dim

    def _split_lstm(self, network: ProposalNetwork) -> None:
        """tanh(x) is 2 sigmoid(2x) - 1, so with the cell gate's weights doubled one sigmoid serves all four gates: as
        kernels.lstm_cells wants them."""
        h = self.width
        inputs, recurrent, biases = [], [], []
        for w_ih, w_hh, b_ih, b_hh in network.lstm.all_weights:
            double = torch.ones(4 * h)
            double[2 * h : 3 * h] = 2.0
            inputs.append((w_ih.detach().cpu() * double[:, None]).t().contiguous())
            recurrent.append((w_hh.detach().cpu() * double[:, None]).t().contiguous())
            biases.append((b_ih + b_hh).detach().cpu() * double)
        self._question_gates = inputs[0][: self._question_dim].contiguous()
        self._value_gates = inputs[0][self._question_dim :].contiguous()
        self._question_bias = biases[0]
        self._upper = [(weight, bias[None]) for weight, bias in zip(inputs[1:], biases[1:], strict=True)]
        self._recurrent = recurrent

    def _split_head(self, network: ProposalNetwork, kind: DistKind) -> _Head:
        head = network.heads[kind.name]
        assert isinstance(head, FamilyHead)
        weight = head.hidden.weight.detach().cpu().t()  # of the LSTM's output, the question, the value
        begin, end = self.width, self.width + self._question_dim
        columns = head.last.out_features
        more = -columns % _COLUMNS
        return _Head(
            weight[begin:end].contiguous(),
            head.hidden.bias.detach().cpu().clone(),
            torch.cat([weight[:begin], weight[end:]]),
            pad(head.last.weight.detach().cpu().t(), (0, more)).contiguous(),
            pad(head.last.bias.detach().cpu(), (0, more)).clone(),
            columns,
        )

    # ---- questions ---------------------------------------------------------------------------------------------------

    def questions(self, keys: Sequence[bytes], describe: Callable[[Integers], Asked]) -> Integers:
        """Where what these questions add is kept. Equal keys are equal questions; ``describe`` is asked about those
        that are new, by their places in ``keys``."""
        table = self._questions
        missing = table.missing(keys)
        if len(missing):
            asked = describe(missing)
            rows = table.add([keys[i] for i in missing.tolist()], asked, self._kinds[asked.site + 1])
            self._fill(rows, asked)
        return table.find(keys)

    def _fill(self, rows: Integers, asked: Asked) -> None:
        each = in_blocks(np.arange(len(rows)))
        x = torch.cat(
            [
                self._seen(asked.site[each], asked.instance[each]),
                self._sites.index_select(0, _index(asked.site[each] + 1)),
                features.instance_features(_index(asked.instance[each])),
                features.prior_features(torch.from_numpy(asked.prior[each])),
                self._prior_categories(asked.categories[each]),
            ],
            dim=-1,
        )
        table, to = self._questions, _index(rows)
        table.gates.index_copy_(0, to, torch.addmm(self._question_bias, x, self._question_gates)[: len(rows)])
        kinds = self._kinds[asked.site + 1]
        for kind, head in self._heads.items():
            mine = np.flatnonzero(kinds == kind)
            if len(mine):
                hidden = torch.addmm(head.bias, x.index_select(0, _index(in_blocks(mine))), head.question)
                table.hidden.index_copy_(0, _index(rows[mine]), hidden[: len(mine)])

    def _seen(self, site: Integers, instance: Integers) -> Tensor:
        """What questions see of the data."""
        embedding = self._observation[:, : self.network.config.observe_dim].expand(len(site), -1)
        if self._series is None:
            return embedding
        return torch.cat([embedding, self._series.read(site, instance)], dim=-1)

    def _prior_categories(self, probabilities: Floats) -> Tensor:
        known = min(probabilities.shape[1], len(self._categories) - 1)
        return torch.from_numpy(probabilities[:, :known]).to(torch.float32) @ self._categories[1 : known + 1]

    # ---- steps -------------------------------------------------------------------------------------------------------

    def value(self, previous: Previous) -> Tensor:
        """What a step sees of the values drawn before, [n, V]."""
        drawn = (previous.kind, previous.prior, previous.value)
        seen = torch.from_numpy(kernels.value_features(drawn, wrap=self._settings.wrap))
        first = self._value_site.index_select(0, _index(previous.site + 1))
        categories = len(self._categories) - 1
        if categories:
            value, is_one = previous.value, previous.kind == DistKind.CATEGORICAL
            known = is_one & (value >= 0) & (value < categories)
            row = np.where(known, np.where(known, value, 0.0).astype(np.int64) + 1, 0)
            first.add_(self._value_category.index_select(0, _index(row)))
        first.addmm_(seen, self._value_first)
        pair = self._pair(previous)
        if pair is not None:
            first.addmm_(pair[0], pair[1])
        second = silu(torch.addmm(self._value_second_bias, silu(first), self._value_second))
        if pair is not None:
            second.addmm_(pair[0], pair[2])
        return torch.cat([seen, second], dim=-1)

    def _pair(self, previous: Previous) -> tuple[Tensor, Tensor, Tensor] | None:
        """What the network sees of pairs of values, and the two layers that see it; None if no row has a pair, which
        would add nothing."""
        if self._pair_layers is None:
            return None
        drawn = (previous.kind, previous.prior, previous.value)
        found = kernels.pair_features(previous.earlier, drawn, wrap=self._settings.wrap)
        return (torch.from_numpy(found), *self._pair_layers) if found.any() else None

    def advance(self, pool: StatePool, slots: Slots, to: Slots, questions: Integers, value: Tensor) -> Tensor:
        """One step from the states in ``slots`` (whole blocks of rows). Those of the first rows are put in ``to``.
        Returns what proposals are made from, [n, H + V]: the last layer's h, and the value."""
        recurrent, row = self._recurrent_of.get(pool, slots, self._recurrent)
        seen = torch.empty((len(slots), self.width + value.shape[1]))
        seen[:, self.width :] = value
        h = torch.empty((len(slots), self.width))
        for layer in range(self.depth):
            if layer:
                weight, bias = self._upper[layer - 1]
                product, added, added_row = torch.mm(h, weight), bias, None
            else:
                product, added, added_row = torch.mm(value, self._value_gates), self._questions.gates, questions
            tables = kernels.StepTables(product.numpy(), recurrent[layer], row, added.numpy(), added_row)
            new = seen if layer == self.depth - 1 else h
            kernels.lstm_cells(tables, *pool.layer(layer), slots, to, new.numpy())
        return seen

    def propose(self, seen: Tensor, questions: Integers, n: int) -> list[bytes]:
        """Proposals, encoded, for the first n rows; the prior where the site is not known. seen: from ``advance``.
        Every family of priors has whole blocks of rows."""
        table = self._questions
        kinds = table.kind[questions]
        out = [PRIOR] * n
        for kind, head in self._heads.items():
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            asked = questions[rows]
            mine = seen if len(rows) == len(kinds) else seen.index_select(0, _index(rows))
            hidden = silu(table.hidden.index_select(0, _index(asked)).addmm_(mine, head.body))
            wanted = rows[rows < n]
            raw = torch.addmm(head.last_bias, hidden, head.last)[: len(wanted), : head.columns].numpy()
            proposals = self._encode(kind, raw, asked[: len(wanted)])
            if len(wanted) == n:
                return proposals
            for row, proposal in zip(wanted.tolist(), proposals, strict=True):
                out[row] = proposal
        return out

    def _encode(self, kind: DistKind, raw: npt.NDArray[np.float32], questions: Integers) -> list[bytes]:
        table = self._questions
        try:
            return kernels.propose(
                kind,
                self._settings.components,
                self._settings.defensive,
                np.ascontiguousarray(raw),
                table.prior[questions],
                table.categories[questions],
                table.n_categories[questions],
                wrap=self._settings.wrap,
            )
        except FloatingPointError as error:
            raise ProposalError("the network's proposals are not numbers (NaN): its weights are damaged") from error

    def kind_of(self, questions: Integers) -> Integers:
        """The kinds of the priors; 0 where the site is not known."""
        return np.asarray(self._questions.kind[questions])

    def prior_of(self, questions: Integers) -> Floats:
        return np.asarray(self._questions.prior[questions])


class _Series:
    """What questions read of the series in the data. It depends on their site and instance, so that it is computed once
    for each of these, whatever the prior."""

    def __init__(self, network: ProposalNetwork, observation: Tensor) -> None:
        self._readers = copy.deepcopy(network.series).cpu()
        self._sites = network.sites.weight.detach().cpu().clone()
        self._tokens = observation[:, network.config.observe_dim :]
        self._rows: dict[tuple[int, int], int] = {}
        self._table = torch.empty((BLOCK, self._readers.outputs))

    def read(self, site: Integers, instance: Integers) -> Tensor:
        """[n, outputs] of questions [n]."""
        asked = list(zip(site.tolist(), instance.tolist(), strict=True))
        if new := [one for one in dict.fromkeys(asked) if one not in self._rows]:
            self._add(new)
        return self._table.index_select(0, torch.tensor([self._rows[one] for one in asked]))

    def _add(self, new: Sequence[tuple[int, int]]) -> None:
        begin, end = len(self._rows), len(self._rows) + len(new)
        while end > len(self._table):
            self._table = torch.cat([self._table, torch.empty_like(self._table)])
        columns = np.array(new, np.int64)[in_blocks(np.arange(len(new)))]
        each = torch.arange(len(columns))
        sites, instances = self._sites.index_select(0, _index(columns[:, 0] + 1)), _index(columns[:, 1])
        read = self._readers.read(self._tokens, torch.zeros_like(each), sites, instances, each)
        self._table[begin:end] = read[: len(new)]
        self._rows.update(zip(new, range(begin, end), strict=True))


class _Questions:
    """What questions add to a step, by their bytes. When the table is full it is begun anew, so it should hold all
    questions of a trace: its sites, if their priors are the same in every trace."""

    def __init__(self, gates: int, hidden: int, categories: int) -> None:
        self._rows: dict[bytes, int] = {}
        row = 4 * (gates + hidden) + 8 * (6 + categories)
        self._allocate(max(_KEPT_QUESTIONS // row, 1), gates, hidden, categories)

    def _allocate(self, capacity: int, gates: int, hidden: int, categories: int) -> None:
        # Not filled with anything, so that a page has no memory before a question is put there.
        self.gates = torch.empty((capacity, gates))
        self.hidden = torch.empty((capacity, hidden))  # of the head's hidden layer, if the site is known
        self.kind = np.zeros(capacity, np.int64)
        self.prior = np.zeros((capacity, 4))
        self.categories = np.zeros((capacity, categories))
        self.n_categories = np.zeros(capacity, np.int64)

    def missing(self, keys: Sequence[bytes]) -> Integers:
        """The places of new keys, each once. There is room for them."""
        places = dict(zip(keys, range(len(keys)), strict=True))
        new = [key for key in places if key not in self._rows]
        if len(self._rows) + len(new) > len(self.kind):
            self._rows.clear()
            new = list(places)
            if len(new) > len(self.kind):
                self._allocate(2 * len(new), self.gates.shape[1], self.hidden.shape[1], self.categories.shape[1])
        return np.array([places[key] for key in new], np.int64)

    def add(self, keys: Sequence[bytes], asked: Asked, kind: Integers) -> Integers:
        """Rows for keys that are missing."""
        begin = len(self._rows)
        rows = np.arange(begin, begin + len(keys))
        self._rows.update(zip(keys, rows.tolist(), strict=True))
        widest = asked.categories.shape[1]
        if widest > self.categories.shape[1]:  # than the network has seen
            wider = np.zeros((len(self.categories), widest))
            wider[:, : self.categories.shape[1]] = self.categories
            self.categories = wider
        self.kind[rows] = kind
        self.prior[rows] = asked.prior
        self.categories[rows] = 0.0
        self.categories[rows, :widest] = asked.categories
        self.n_categories[rows] = asked.n_categories
        return rows

    def find(self, keys: Sequence[bytes]) -> Integers:
        return np.fromiter(map(self._rows.__getitem__, keys), np.int64, len(keys))


class _Recurrent:
    """Products of states and the recurrent weights, by the states' numbers. Row 0 is that of the start: h is 0."""

    def __init__(self, depth: int, gates: int) -> None:
        self._rows = torch.zeros((depth, _KEPT_STATES, gates))
        self._number = np.zeros(_KEPT_STATES, np.uint64)
        self._used = 1

    def get(self, pool: StatePool, slots: Slots, weights: Sequence[Tensor]) -> tuple[Products, Integers]:
        """A table, [depth, .., 4 H], and the rows there."""
        numbers = pool.numbers(slots)
        at = pool.notes["recurrent"][slots]
        missing = np.unique(slots[self._number[at] != numbers])
        if len(missing):
            if self._used + len(missing) > len(self._number):
                self._forget(1 + len(np.unique(slots)))
                missing = np.unique(slots[slots > 0])
            self._compute(pool, missing, weights)
            at = pool.notes["recurrent"][slots]
        return self._rows.numpy(), at

    def _forget(self, wanted: int) -> None:
        self._used = 1
        self._number[:] = 0
        if wanted > len(self._number):
            depth, _, gates = self._rows.shape
            self._rows = torch.zeros((depth, 2 * wanted, gates))
            self._number = np.zeros(2 * wanted, np.uint64)

    def _compute(self, pool: StatePool, slots: Slots, weights: Sequence[Tensor]) -> None:
        h = pool.hidden(in_blocks(slots))
        rows = np.arange(self._used, self._used + len(slots))
        for layer, weight in enumerate(weights):
            self._rows[layer, self._used : self._used + len(slots)] = torch.mm(h[layer], weight)[: len(slots)]
        self._number[rows] = pool.numbers(slots)
        pool.notes["recurrent"][slots] = rows
        self._used += len(slots)

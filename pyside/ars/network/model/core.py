"""The proposal network: an LSTM over the latents of a trace, and a proposal for the next one.

The network holds weights and nothing else: no state of a trace. A site is a row of an embedding, and heads are shared
by all sites whose priors are of one family, so the cost does not depend on how many sites there are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, NamedTuple

import torch
from torch import Tensor, nn

from ars._native import N_PARAMS, DistKind
from ars.config import NetworkConfig
from ars.network.model import features
from ars.network.model.attention import SeriesReaders, series_of
from ars.network.model.embeddings import ObservationEncoder, Standardiser
from ars.network.model.heads import HEADS, Head, HeadSettings, Proposal, divided
from ars.network.model.inputs import Inputs, distinct
from ars.network.model.layers import FamilyHead, PairLayers
from ars.network.model.proposals import prior_log_probs
from ars.network.model.recurrence import run_lstm, run_lstm_on_trees
from ars.network.model.trace_batch import Batch, TraceBatch, TreeBatch
from ars.network.model.vocabulary import SiteSpec, Vocabulary

__all__ = ["Group", "Growth", "ProposalNetwork", "State"]

State = tuple[Tensor, Tensor]  # h and c, each [depth, n, lstm_dim]
_Asked = tuple[Tensor, Tensor, Tensor, Tensor | None]  # site, instance [n], prior [n, 4], categories [n, C]
_Latents = tuple[Tensor, Tensor, Tensor]  # site [n], -1: none; value [n], prior [n, 4]

_SITE_SCALE: Final = 0.5


class Group(NamedTuple):
    """Proposals of one wire kind and size."""

    kind: DistKind  # on the wire: MIXTURE, CATEGORICAL or BERNOULLI
    rows: Tensor  # int64 [m]: the rows of the batch that these are for, ascending
    params: Tensor  # float64 [m, width]: the doubles that follow the header of an ars_wire_dist


class Growth(NamedTuple):
    """What grow() changed, for an optimizer. A resized parameter is the same object, with rows appended."""

    resized: dict[str, int]  # name -> rows that it had before
    added: list[str]  # names of new parameters

    def __bool__(self) -> bool:
        return bool(self.resized or self.added)


@contextmanager
def _seeded(*parts: object) -> Iterator[None]:
    """Inside, torch's generator is seeded from these, whatever happened before; afterwards it is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(zlib.crc32(repr(parts).encode()))
        yield


class ProposalNetwork(nn.Module):
    """See the module. ``embeddings`` are the user's own modules, by the name of the observation; others are chosen by
    shape. ``seed`` decides the initial weights; those of sites met later do not depend on when they are met.

    Rows are given in parallel tensors. A site is an index of the vocabulary; -1 is no site, or one not known.
    """

    by_kind: ClassVar[Mapping[DistKind, Head]] = HEADS  # a subclass that is only trained may have others
    kinds: Tensor

    def __init__(
        self,
        config: NetworkConfig,
        vocabulary: Vocabulary,
        observation_shapes: Mapping[str, tuple[int, ...]],
        embeddings: Mapping[str, nn.Module] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = config
        self.seed = seed
        self.vocabulary = Vocabulary()
        c = config
        with _seeded(seed, "network"):
            masked = c.missing_data == "masked"
            self.observer = ObservationEncoder(
                observation_shapes, embeddings or {}, c.observe_dim, c.observe_hidden, masked
            )
            series = series_of(c.series, self.observer.shapes, self.observer.image_names, self.observer.user_names)
            with _seeded(seed, "series"):
                self.series = SeriesReaders(series, c.site_dim, c.series_dim, c.series_heads)
            self.sites = nn.Embedding(1, c.site_dim)  # row 0: no site; row i + 1: site i
            self.categories = nn.Embedding(1, c.category_dim)  # row 0: not a category; row i + 1: category i
            self.value = nn.Sequential(
                nn.Linear(features.VALUE_FEATURES + c.category_dim + c.site_dim, c.value_dim),
                nn.SiLU(),
                nn.Linear(c.value_dim, c.value_dim),
                nn.SiLU(),
            )
            self.lstm = nn.LSTM(self.input_dim, c.lstm_dim, c.lstm_depth)
        with _seeded(seed, "pairs"):
            self.pairs = PairLayers(c.value_dim) if c.pairs == "azimuth" else None
        with torch.no_grad():
            self.sites.weight.zero_()
            self.categories.weight.zero_()
        self.heads = nn.ModuleDict()  # by the name of the prior's kind
        self.register_buffer("kinds", torch.zeros(1, dtype=torch.int64), persistent=False)
        self._families: tuple[DistKind, ...] = ()
        self._left_to_prior: tuple[DistKind, ...] = ()  # kinds without a head
        self.grow(vocabulary)

    # ---- sizes -----------------------------------------------------------------------------------------------------

    @property
    def input_dim(self) -> int:
        """I, the width of what goes into the LSTM."""
        c = self.config
        return (
            c.observe_dim
            + self.series.outputs
            + c.site_dim
            + features.INSTANCE_FEATURES
            + features.PRIOR_FEATURES
            + c.category_dim
            + features.VALUE_FEATURES
            + c.value_dim
        )

    @property
    def output_dim(self) -> int:
        """The width of what propose() and log_prob() take: the LSTM's output, and its input, for sharpness."""
        return self.config.lstm_dim + self.input_dim

    @property
    def observation_shapes(self) -> dict[str, tuple[int, ...]]:
        return dict(self.observer.shapes)

    @property
    def custom_embeddings(self) -> tuple[str, ...]:
        """The names of observations that the user's own modules embed."""
        return self.observer.user_names

    @property
    def _settings(self) -> HeadSettings:
        c = self.config
        return HeadSettings(c.components, self.categories.num_embeddings - 1, c.defensive, c.wrap == "auto")

    def initial_state(self, rows: int) -> State:
        """The state at the start of a trace, once per row."""
        shape = (self.config.lstm_depth, rows, self.config.lstm_dim)
        zeros = self.sites.weight.new_zeros(shape)
        return zeros, zeros.clone()

    # ---- growing ---------------------------------------------------------------------------------------------------

    def grow(self, vocabulary: Vocabulary) -> Growth:
        """Learns of the sites that were appended to the vocabulary. What it computed for known sites stays the same."""
        for known, given in zip(self.vocabulary, vocabulary, strict=False):
            if (known.address, known.kind) != (given.address, given.kind):
                raise ValueError(f"the vocabulary has {given.address!r} where the network has {known.address!r}")
        if len(vocabulary) < len(self.vocabulary):
            raise ValueError(f"the vocabulary has {len(vocabulary)} sites, the network {len(self.vocabulary)} already")
        before = {name: (parameter, len(parameter)) for name, parameter in self.named_parameters()}
        new = list(vocabulary)[len(self.vocabulary) :]
        self.vocabulary = vocabulary.copy()
        self._grow_sites(new)
        self._grow_categories(vocabulary.categories)
        present = sorted({site.kind for site in vocabulary})
        self._families = tuple(kind for kind in present if kind in self.by_kind)
        self._left_to_prior = tuple(kind for kind in present if kind not in self.by_kind)
        for kind in self._families:
            if kind.name not in self.heads:
                with _seeded(self.seed, "head", kind.name):
                    bias = self.by_kind[kind].bias(self._settings)
                    head = FamilyHead(self.output_dim, self.config.head_hidden, bias)
                self.heads[kind.name] = head.to(self.sites.weight.device).train(self.training)
        resized, added = {}, []
        for name, parameter in self.named_parameters():
            if name not in before:
                added.append(name)
            elif before[name][1] != len(parameter):
                resized[name] = before[name][1]
        return Growth(resized, added)

    def _grow_sites(self, new: list[SiteSpec]) -> None:
        if unknown := [site for site in new if site.kind not in N_PARAMS]:
            raise ValueError(f"{unknown[0].address!r}: no proposals are known for a {unknown[0].kind.name} prior")
        rows = []
        for site in new:
            with _seeded(self.seed, "site", site.address):
                rows.append(_SITE_SCALE * torch.randn(self.config.site_dim))
        _append(self.sites, rows)
        kinds = torch.tensor([int(site.kind) for site in new], dtype=torch.int64, device=self.kinds.device)
        self.kinds = torch.cat([self.kinds, kinds])

    def _grow_categories(self, wanted: int) -> None:
        """In steps of a factor of two, so that it happens rarely."""
        have = self.categories.num_embeddings - 1
        if wanted <= have:
            return
        size = 1 << (wanted - 1).bit_length()
        rows = []
        for category in range(have, size):
            with _seeded(self.seed, "category", category):
                rows.append(_SITE_SCALE * torch.randn(self.config.category_dim))
        _append(self.categories, rows)
        if DistKind.CATEGORICAL.name in self.heads:
            head = self.heads[DistKind.CATEGORICAL.name]
            assert isinstance(head, FamilyHead)
            for parameter in (head.last.weight, head.last.bias):
                more = parameter.data.new_zeros((size - have, *parameter.shape[1:]))
                parameter.data = torch.cat([parameter.data, more])
                parameter.grad = None
            head.last.out_features = size

    # ---- the trace -------------------------------------------------------------------------------------------------

    def learn_scales(self, observation: Mapping[str, Tensor]) -> None:
        """Takes these data into account for the scales of observations, unless enough have been seen."""
        observation = self.observer.checked(observation)
        self.observer.learn(observation)
        self.series.learn(observation)

    def knows_scales(self) -> bool:
        """Whether enough data have been seen, so that ``learn_scales`` changes nothing."""
        return all(module.known() for module in self.modules() if isinstance(module, Standardiser))

    def observe(self, observation: Mapping[str, Tensor]) -> Tensor:
        """What is to be known of data, name -> [B, *shape]: their embedding and the tokens of series, [B, E + tokens].
        Without observations, one row that serves all."""
        tokens = self.series(self.observer.checked(observation)) if self.series.names else []
        out = torch.cat([self.observer(observation), *tokens], dim=-1)
        return out.to(self.sites.weight.device)

    def seen_of(self, obs: Tensor, trace: Tensor, site: Tensor, instance: Tensor) -> Tensor:
        """[n, E + outputs of series]: what questions see of the data ``obs``, from ``observe``: the embedding, and what
        they read of series. trace [n]: the rows of ``obs`` that they are about."""
        if not self.series.names:
            return obs.index_select(0, trace)
        which, question = distinct(site, instance)
        embedding, tokens = obs.split([self.config.observe_dim, obs.shape[1] - self.config.observe_dim], dim=-1)
        read = self.series.read(tokens, trace, self.sites(site[which] + 1), instance[which], question)
        return torch.cat([embedding.index_select(0, trace), read], dim=-1)

    def inputs(
        self,
        obs: Tensor,
        site: Tensor,
        instance: Tensor,
        prior: Tensor,
        categories: Tensor | None,
        previous_site: Tensor,
        previous_value: Tensor,
        previous_prior: Tensor,
        earlier: _Latents,
    ) -> Tensor:
        """The input of the LSTM, [*, I]: from obs [*, E + tokens] or one row of it, site, instance [*], prior [*, 4],
        categories [*, C] or None.

        The latent drawn before is previous_site [*] (-1 at the start), previous_value [*], previous_prior [*, 4]; the
        one before that is ``earlier``, likewise.
        """
        shape = site.shape
        rows = site.numel()
        if categories is not None:
            categories = categories.reshape(rows, -1)
        every = obs.expand(*shape, -1).reshape(rows, -1)
        parts = [
            self.seen_of(every, torch.arange(rows, device=obs.device), site.reshape(-1), instance.reshape(-1)),
            self._question(site.reshape(-1), instance.reshape(-1), prior.reshape(-1, 4), categories),
            self._value(_flat(previous_site, previous_value, previous_prior), _flat(*earlier)),
        ]
        return torch.cat(parts, dim=-1).reshape(*shape, -1)

    def _question(self, site: Tensor, instance: Tensor, prior: Tensor, categories: Tensor | None) -> Tensor:
        """What a step sees of the site that is asked for, [n, Q]."""
        parts = [
            self.sites(site + 1),
            features.instance_features(instance),
            features.prior_features(prior),
            self._prior_categories(categories, len(site)),
        ]
        return torch.cat(parts, dim=-1)

    def _value(self, before: _Latents, earlier: _Latents | None) -> Tensor:
        """What a step sees of the latents drawn before, and of the pairs that they make with earlier ones, [n, V]."""
        site, value, prior = before
        kind = self.kinds[site + 1]
        drawn = (kind, prior, value)
        seen = features.value_features(drawn, wrap=self._settings.wrap)
        category = self._category_rows(kind, value)
        described = torch.cat([seen, self.categories(category), self.sites(site + 1)], dim=-1)
        if self.pairs is None or earlier is None:
            return torch.cat([seen, self.value(described)], dim=-1)
        first = (self.kinds[earlier[0] + 1], earlier[2], earlier[1])
        pair = features.pair_features(first, drawn, wrap=self._settings.wrap)
        hidden = self.value[0](described) + self.pairs.hidden(pair)
        return torch.cat([seen, self.value[1:](hidden) + self.pairs.last(pair)], dim=-1)

    def _start(self) -> Tensor:
        """The same where nothing was drawn before, [1, V]."""
        device = self.kinds.device
        nothing = torch.zeros(1, dtype=torch.float64, device=device)
        return self._value((torch.full((1,), -1, device=device), nothing, nothing.expand(1, 4)), None)

    def _category_rows(self, kind: Tensor, value: Tensor) -> Tensor:
        """The row of a category's embedding; 0 for what is not a category, or one never seen."""
        if DistKind.CATEGORICAL not in self._families:
            return torch.zeros_like(kind)
        known = (kind == int(DistKind.CATEGORICAL)) & (value >= 0) & (value < self.categories.num_embeddings - 1)
        return torch.where(known, torch.where(known, value, 0.0).to(torch.int64) + 1, 0)

    def _prior_categories(self, categories: Tensor | None, rows: int) -> Tensor:
        """A Categorical prior: the mean of its categories' embeddings."""
        table = self.categories.weight[1:]
        if categories is None or not len(table):
            return table.new_zeros((rows, self.config.category_dim))
        p = categories.to(table.dtype)
        k = min(p.shape[-1], len(table))
        return p[:, :k] @ table[:k]

    def advance(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step for n rows: x [n, I], state of n rows -> what propose() needs [n, output_dim], and new states."""
        # Cell by cell: for one step nn.LSTM would spend most of its time on rearranging the weights.
        below, new_h, new_c = x, [], []
        for h, c, weights in zip(state[0], state[1], self.lstm.all_weights, strict=True):
            below, c = torch.lstm_cell(below, (h, c), *weights)
            new_h.append(below)
            new_c.append(c)
        return torch.cat([below, x], dim=-1), (torch.stack(new_h), torch.stack(new_c))

    # ---- proposals -------------------------------------------------------------------------------------------------

    def _proposals(
        self, out: Tensor, site: Tensor, prior: Tensor, categories: Tensor | None
    ) -> Iterator[tuple[Tensor, Proposal]]:
        """By family of priors: the rows, and their proposals. The loop is over families, not over sites or rows."""
        kind = self.kinds[site + 1]
        for family in self._families:
            rows = torch.nonzero(kind == int(family)).squeeze(-1)
            if not len(rows):
                continue
            every = len(rows) == len(site)
            raw = self.heads[family.name](out if every else out[rows]).to(torch.float64)
            probabilities = None
            if family is DistKind.CATEGORICAL and categories is not None:
                probabilities = categories[rows]
            asked = prior[rows].to(torch.float64)
            for head, some in divided(family, asked, self._settings, self.by_kind):
                if some is None:
                    yield rows, head.build(raw, asked, probabilities, self._settings)
                else:
                    yield rows[some], head.build(raw[some], asked[some], None, self._settings)

    def propose(self, out: Tensor, site: Tensor, prior: Tensor, categories: Tensor | None) -> list[Group]:
        """Proposals for n rows: out [n, output_dim], site [n], prior [n, 4], categories [n, C] or None.

        A row whose site is -1, or whose prior has no head, is in no group: the prior proposes there.
        """
        return [
            Group(proposal.kind, rows, proposal.doubles())
            for rows, proposal in self._proposals(out, site, prior, categories)
        ]

    def log_prob(self, out: Tensor, site: Tensor, prior: Tensor, categories: Tensor | None, value: Tensor) -> Tensor:
        """log q of one value per row, float64 [n]."""
        parts: list[tuple[Tensor, Callable[[Tensor], Tensor]]]
        parts = [(rows, each.log_prob) for rows, each in self._proposals(out, site, prior, categories)]
        parts += prior_log_probs(self._left_to_prior, self.kinds[site + 1], prior)
        if sum(len(rows) for rows, _ in parts) != len(site):
            raise ValueError("log_prob: a row has site -1; let the network grow() before it is trained on new sites")
        value = value.to(torch.float64)
        if len(parts) == 1:
            return parts[0][1](value)
        result = torch.zeros(len(site), dtype=torch.float64, device=value.device)
        for rows, log_prob in parts:
            result = result.index_copy(0, rows, log_prob(value[rows]))
        return result

    # ---- training --------------------------------------------------------------------------------------------------

    def log_probs(self, batch: Batch) -> Tensor:
        """log q of every latent, float64: [T, B] for a TraceBatch, 0 where padded; [N] for a TreeBatch."""
        return self._tree_log_probs(batch) if isinstance(batch, TreeBatch) else self._trace_log_probs(batch)

    def _inputs(self, obs: Tensor, asked: _Asked, before: _Latents, earlier: _Latents) -> Inputs:
        """For N latents, those that begin a trace first; ``before``: the latents before the others, ``earlier``: those
        before these."""
        which, question = distinct(*(column for column in asked if column is not None))
        site, instance, prior, categories = asked
        categories = None if categories is None else categories[which]
        questions = self._question(site[which], instance[which], prior[which], categories)
        return Inputs(obs, questions, question, self._start(), self._value(before, earlier))

    def _tree_log_probs(self, batch: TreeBatch) -> Tensor:
        if not len(batch.site):
            return batch.weight.clone()
        site, value, prior, categories = batch.site, batch.value, batch.prior, batch.categories
        before = batch.previous[batch.levels[0] :]
        obs = self.observe(batch.observation).expand(batch.traces, -1)
        obs = self.seen_of(obs, batch.trace, site, batch.instance)
        asked = (site, batch.instance, prior, categories)
        drawn = (site, value, prior)
        x = self._inputs(obs, asked, _latents(drawn, before), _latents(drawn, batch.previous[before]))
        h = run_lstm_on_trees(self.lstm, x.product, batch.levels, batch.previous)
        return self.log_prob(torch.cat([h, x.whole()], dim=-1), site, prior, categories, value)

    def _trace_log_probs(self, batch: TraceBatch) -> Tensor:
        steps, traces = batch.site.shape
        at, levels = batch.packed()
        if not len(at):
            return batch.value.new_zeros((steps, traces))
        log_q = self._packed_log_probs(self._outputs(batch, at, levels), batch, at, levels)
        return log_q.new_zeros(steps * traces).index_copy(0, at, log_q).reshape(steps, traces)

    def _packed_log_probs(self, out: Tensor, batch: TraceBatch, at: Tensor, levels: tuple[int, ...]) -> Tensor:
        """log q of the latents at these places, from what the heads need [N, output_dim]."""
        del levels
        categories = None if batch.categories is None else batch.categories.flatten(0, 1)[at]
        site, prior, value = batch.site.reshape(-1), batch.prior.reshape(-1, 4), batch.value.reshape(-1)
        return self.log_prob(out, site[at], prior[at], categories, value[at])

    def _outputs(self, batch: TraceBatch, at: Tensor, levels: tuple[int, ...]) -> Tensor:
        """What the heads need [N, output_dim] for the latents at these places, as ``TraceBatch.packed`` has them."""
        traces = batch.traces
        site, value, prior = batch.site.reshape(-1), batch.value.reshape(-1), batch.prior.reshape(-1, 4)
        categories = None if batch.categories is None else batch.categories.flatten(0, 1)[at]
        before = at[levels[0] :] - traces  # the latent before is the one above: time comes first
        instance = batch.instance.reshape(-1)[at]
        obs = self.seen_of(self.observe(batch.observation).expand(traces, -1), at % traces, site[at], instance)
        asked = (site[at], instance, prior[at], categories)
        drawn = (site, value, prior)
        x = self._inputs(obs, asked, _latents(drawn, before), _latents(drawn, before - traces))
        h = run_lstm(self.lstm, x.product, levels)
        return torch.cat([h, x.whole()], dim=-1)

    def minus_log_q(self, batch: Batch) -> Tensor:
        """Minus the log density of all latents of all traces. In a TreeBatch each counts with its weight."""
        log_q = self.log_probs(batch)
        return -(log_q * batch.weight).sum() if isinstance(batch, TreeBatch) else -log_q.sum()

    def loss(self, batch: Batch) -> Tensor:
        """Minus the mean over traces of the log density of all their latents. In training mode the scales of the
        observations are learnt from the first batches."""
        if self.training:
            self.learn_scales(batch.observation)
        return self.minus_log_q(batch) / batch.traces


def _flat(site: Tensor, value: Tensor, prior: Tensor) -> _Latents:
    return site.reshape(-1), value.reshape(-1), prior.reshape(-1, 4)


def _latents(drawn: _Latents, rows: Tensor) -> _Latents:
    """These rows of the latents of a batch; a row below 0 is none."""
    site, value, prior = drawn
    some = rows.clamp(min=0)
    return torch.where(rows >= 0, site[some], -1), value[some], prior[some]


def _append(table: nn.Embedding, rows: list[Tensor]) -> None:
    """More rows for an embedding, whose parameter stays the same object."""
    if not rows:
        return
    weight = table.weight
    weight.data = torch.cat([weight.data, torch.stack(rows).to(weight.device, weight.dtype)])
    weight.grad = None
    table.num_embeddings = len(weight)

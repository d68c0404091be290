"""Full-covariance mixtures over consecutive draws, to be measured against libars, which proposes draw by draw.

Consecutive draws with continuous priors form blocks. A component is a Normal over a whole block, written as a
regression: given the draws before it in the block, a draw is Normal around a linear function of them. So what is
proposed for one draw is again a mixture in one dimension. Its weights are those that the components have after the
earlier draws. Coordinates are standardised by the prior; where a prior is bounded, each Normal is truncated to it.

All parameters of a block come from the state before its first draw. In ``CarriedNetwork`` each draw has its own, from a
network that has seen the draws before, and only weights and regressions are carried along. Both can be trained and
judged, not served. ``PlainNetwork`` has blocks of one draw: the same components without any covariance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import torch
from torch import Tensor

from ars._native import DistKind
from ars.network.model.angles import is_angle
from ars.network.model.core import ProposalNetwork
from ars.network.model.heads import HEADS, Head, HeadSettings, Proposal
from ars.network.model.mixtures import NARROWEST, bounded, grid
from ars.network.model.trace_batch import TraceBatch
from ars_lab.ablation.splines import coordinate, log_base

__all__ = ["Carried", "CarriedNetwork", "Draw", "PairNetwork", "PlainNetwork", "TripleNetwork"]

_KINDS: Final = (DistKind.UNIFORM, DistKind.BETA, DistKind.EXPONENTIAL, DistKind.NORMAL, DistKind.LOGNORMAL)
_WIDEST: Final = 4.0  # log of a component's width over its initial width
_BEYOND: Final = 3.0  # how far outside of the support a component's mean may lie, in units of the prior's spread
_FAR: Final = 1e4  # stands for infinity
_STRIDES: Final = (0.0, (math.sqrt(5) - 1) / 2, math.sqrt(2) - 1)  # scatter the components of later draws


# ---- one block -------------------------------------------------------------------------------------------------------


class Draw(NamedTuple):
    """The components of one draw of a block, and where it lies: [n, K], the bounds and the value [n, 1]."""

    location: Tensor
    scale: Tensor
    slopes: tuple[Tensor, ...]  # by each of the draws before it in the block
    low: Tensor
    high: Tensor
    value: Tensor


class Carried(NamedTuple):
    """What the draws of a block leave for those that follow."""

    log_weights: Tensor  # [n, K], not normalised
    residuals: tuple[Tensor, ...] = ()  # [n, K]: of each draw, from the location of each component

    def then(self, draw: Draw) -> tuple[Tensor, Carried]:
        """The log density of the next draw given those before it, [n], and what is carried on."""
        mean = draw.location
        for slope, residual in zip(draw.slopes, self.residuals, strict=True):
            mean = mean + slope * residual
        mean = torch.minimum(torch.maximum(mean, draw.low - _BEYOND), draw.high + _BEYOND)
        terms = self.log_weights + _log_truncated(draw, mean)
        log_q = torch.logsumexp(terms, dim=-1) - torch.logsumexp(self.log_weights, dim=-1)
        return log_q, Carried(terms, (*self.residuals, draw.value - draw.location))

    def of(self, rows: Tensor) -> Carried:
        return Carried(self.log_weights[rows], tuple(each[rows] for each in self.residuals))


def _log_truncated(draw: Draw, mean: Tensor) -> Tensor:
    """The log density of Normals truncated to [low, high]."""
    z, low, high = ((x - mean) / draw.scale for x in (draw.value, draw.low, draw.high))
    flip = low + high > 0  # towards the lower tail, which keeps its digits
    log_low = torch.special.log_ndtr(torch.where(flip, -high, low))
    log_high = torch.special.log_ndtr(torch.where(flip, -low, high))
    log_mass: Tensor = log_high + torch.log1p(-torch.exp(log_low - log_high))
    return -0.5 * z * z - torch.log(draw.scale) - 0.5 * math.log(2 * math.pi) - log_mass


# ---- coordinates -----------------------------------------------------------------------------------------------------


class _Standard(NamedTuple):
    """Draws in units of their prior, [n] each, and where the components start."""

    at: Tensor
    log_slope: Tensor
    low: Tensor
    high: Tensor
    log_prior: Tensor  # of the value itself
    start: Tensor  # [n, K]
    width: Tensor  # [n]


def _standard(kind: DistKind, prior: Tensor, value: Tensor, quantiles: Tensor) -> _Standard:
    """``quantiles`` [K]: of the prior, roughly, where the components start."""
    x, log_slope = coordinate(kind, prior, value)
    log_prior = log_slope + log_base(kind, prior, x)
    spread_out, components = torch.special.ndtri(quantiles), len(quantiles)
    width = math.sqrt(max(1 - float((spread_out**2).mean()), 0.1))
    middle, unit = torch.zeros_like(x), torch.ones_like(x)
    low, high = torch.full_like(x, -_FAR), torch.full_like(x, _FAR)
    if kind is DistKind.EXPONENTIAL:  # not its place in [0, 1], but in units of the mean
        x, log_slope = prior[:, 0] * value - 1, torch.log(prior[:, 0])
        low, spread_out = -unit, -torch.log1p(-quantiles) - 1
    elif kind is DistKind.UNIFORM:
        middle, unit = 0.5 * unit, unit / math.sqrt(12)
        spread_out, width = math.sqrt(12) * (quantiles - 0.5), 0.7 * math.sqrt(12) / components
    elif kind is DistKind.BETA:
        a, b = prior[:, 0], prior[:, 1]
        middle, unit = a / (a + b), torch.sqrt(a * b / (a + b + 1)) / (a + b)
    if kind in (DistKind.UNIFORM, DistKind.BETA):
        low, high = -middle / unit, (1 - middle) / unit
        x, log_slope = (x - middle) / unit, log_slope - torch.log(unit)
    return _Standard(x, log_slope, low, high, log_prior, spread_out.expand(len(x), -1), torch.full_like(x, width))


# ---- networks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BlockHead:
    """The raw numbers of a block, or with ``own`` of one draw in it. Proposals are made by the network."""

    kind: DistKind
    length: int
    own: bool

    def size(self, settings: HeadSettings) -> int:
        per_component = self.length + 2 if self.own else 1 + sum(2 + place for place in range(self.length))
        # An angle keeps the head of libars, and heads are shared by all priors of a kind.
        return max(per_component * settings.components, HEADS[self.kind].size(settings))

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        raise NotImplementedError("a block cannot be served: its proposals depend on the draws before")


def _heads(length: int, *, own: bool) -> Mapping[DistKind, Head]:
    return MappingProxyType({**HEADS, **{kind: _BlockHead(kind, length, own) for kind in _KINDS}})


class PairNetwork(ProposalNetwork):
    """Blocks of two draws, all parameters of which come before the first."""

    length: ClassVar[int] = 2
    own: ClassVar[bool] = False
    by_kind: ClassVar[Mapping[DistKind, Head]] = _heads(2, own=False)

    def _packed_log_probs(self, out: Tensor, batch: TraceBatch, at: Tensor, levels: tuple[int, ...]) -> Tensor:
        site, value = batch.site.reshape(-1)[at], batch.value.reshape(-1)[at]
        prior, kind = batch.prior.reshape(-1, 4)[at], self.kinds[site + 1]
        place = self._places(kind, prior, levels)
        result = torch.zeros(len(at), dtype=torch.float64)
        alone = torch.nonzero(place < 0).squeeze(-1)
        if len(alone):
            categories = None if batch.categories is None else batch.categories.flatten(0, 1)[at][alone]
            log_q = self.log_prob(out[alone], site[alone], prior[alone], categories, value[alone])
            result = result.index_copy(0, alone, log_q)
        for rows, log_q in self._blocks(self._raw(out, kind, place), kind, prior, value, place, levels):
            result = result.index_copy(0, rows, log_q)
        return result

    def _places(self, kind: Tensor, prior: Tensor, levels: tuple[int, ...]) -> Tensor:
        """Where in its block every draw is, from 0; -1: in none."""
        inside = torch.isin(kind, kind.new_tensor([int(each) for each in _KINDS]))
        if self._settings.wrap:
            inside &= ~((kind == int(DistKind.UNIFORM)) & is_angle(prior))
        place, low = torch.full_like(kind, -1), 0
        before = place[:0]
        for size in levels:
            rows = slice(low, low + size)
            following = (before[:size] + 1) % self.length if len(before) else torch.zeros_like(place[rows])
            place[rows] = torch.where(inside[rows], following, -1)
            before, low = place[rows], low + size
        return place

    def _raw(self, out: Tensor, kind: Tensor, place: Tensor) -> Tensor:
        """The raw numbers [N, size] of the draws that have some."""
        width = (self.length + 2 if self.own else 1 + sum(2 + j for j in range(self.length))) * self.config.components
        raw = torch.zeros((len(out), width), dtype=torch.float64)
        for each in _KINDS:
            asked = (place >= 0 if self.own else place == 0) & (kind == int(each))
            rows = torch.nonzero(asked).squeeze(-1)
            if len(rows):
                raw = raw.index_copy(0, rows, self.heads[each.name](out[rows])[:, :width].to(torch.float64))
        return raw

    def _blocks(
        self, raw: Tensor, kind: Tensor, prior: Tensor, value: Tensor, place: Tensor, levels: tuple[int, ...]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows that have the same place in their blocks, and their log q, place by place."""
        sizes = torch.tensor([0, *levels[:-1]]).repeat_interleave(torch.tensor(levels))
        before = torch.arange(len(kind)) - sizes  # the row of the draw before
        number = torch.empty_like(kind)  # among the rows of its place
        first = raw[place == 0]
        carried: Carried | None = None
        share = self.config.defensive
        for j in range(self.length):
            rows = torch.nonzero(place == j).squeeze(-1)
            if not len(rows):
                return
            number[rows] = torch.arange(len(rows))
            parent = number[before[rows]] if j else number[rows]
            first = first[parent]
            mine = raw[rows] if self.own else first
            logits, parts = self._split(mine, j)
            carried = Carried(logits) if carried is None else carried.of(parent)
            if j and self.own:
                carried = carried._replace(log_weights=carried.log_weights + logits)
            known = self._standards(kind[rows], prior[rows], value[rows], j)
            log_q, carried = carried.then(_draw(known, parts))
            mixed = math.log1p(-share) + log_q + known.log_slope
            yield rows, torch.logaddexp(mixed, math.log(share) + known.log_prior)

    def _split(self, raw: Tensor, place: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The logits, and location, scale and slopes of the draw at this place of its block."""
        parts = raw.split(self.config.components, dim=-1)
        begin = 1 if self.own else 1 + sum(2 + j for j in range(place))
        return parts[0], parts[begin : begin + 2 + place]

    def _standards(self, kind: Tensor, prior: Tensor, value: Tensor, place: int) -> _Standard:
        components = self.config.components
        quantiles = grid(components)
        if place:
            quantiles = ((torch.arange(components) + 0.5) * _STRIDES[place]).to(torch.float64) % 1.0
        order, found = [], []
        for each in _KINDS:
            rows = torch.nonzero(kind == int(each)).squeeze(-1)
            if len(rows):
                order.append(rows)
                found.append(_standard(each, prior[rows].to(torch.float64), value[rows].to(torch.float64), quantiles))
        back = torch.argsort(torch.cat(order))
        return _Standard(*(torch.cat(columns)[back] for columns in zip(*found, strict=True)))


def _draw(known: _Standard, parts: tuple[Tensor, ...]) -> Draw:
    shift, widen, *slopes = parts
    scale = known.width.unsqueeze(-1) * torch.exp(bounded(widen, NARROWEST, _WIDEST))
    low, high, at = (each.unsqueeze(-1) for each in (known.low, known.high, known.at))
    return Draw(known.start + shift, scale, tuple(slopes), low, high, at)


class TripleNetwork(PairNetwork):
    """Blocks of three."""

    length = 3
    by_kind = _heads(3, own=False)


class CarriedNetwork(PairNetwork):
    """Blocks of three in which every draw has parameters of its own, besides what is carried along."""

    length = 3
    own = True
    by_kind = _heads(3, own=True)


class PlainNetwork(PairNetwork):
    """Blocks of one: no covariance."""

    length = 1
    by_kind = _heads(1, own=False)

"""Proposals by spline flows, to be measured against the mixtures of libars. They cannot be served: the wire has none.

A latent's coordinate is moved and scaled, bent by a monotone rational-quadratic spline (Durkan et al. 2019), and then
has the distribution of the prior's coordinate. So raw numbers of 0 propose the prior. The coordinate of a bounded prior
is in [0, 1], that of a real one in units of the prior's spread. As in libars the prior itself has a small fixed share,
and other families (counts, categories, angles) have the heads of libars.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad, softplus

from ars._native import DistKind
from ars.network.model.core import ProposalNetwork
from ars.network.model.heads import HEADS, Head, HeadSettings, Proposal
from ars.network.model.mixtures import bounded

__all__ = ["BINS", "Coordinate", "Spline", "SplineNetwork", "coordinate", "log_base", "spline_of"]

BINS: Final = 10
_NARROWEST: Final = 1e-4  # bin, as a share of the interval
_FLATTEST: Final = 1e-4  # slope at a knot
_SLOPE_AT_ZERO: Final = math.log(math.expm1(1 - _FLATTEST))
_REACH: Final = 5.0  # the spline of a real coordinate covers [-5, 5], and is the identity beyond
_EDGE: Final = 1e-12
_SCALES: Final = (-0.7, 16.0)  # log of how much sharper than the prior, before the spline
_BOUNDED: Final = (DistKind.UNIFORM, DistKind.BETA, DistKind.EXPONENTIAL)
_REAL: Final = (DistKind.NORMAL, DistKind.LOGNORMAL)


# ---- the spline ------------------------------------------------------------------------------------------------------


class Spline(NamedTuple):
    """Monotone and continuously differentiable, one per row; [n, bins + 1] each."""

    x: Tensor
    y: Tensor
    slope: Tensor  # at the knots

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """y [n], and the log of the derivative [n]; the identity outside of the knots."""
        inside = (x > self.x[:, 0]) & (x < self.x[:, -1])
        x0, width, y0, height, d0, d1 = self._bin(self.x, torch.where(inside, x, self.x[:, 0]))
        at = torch.where(inside, (x - x0) / width, 0.0)
        mean, product = height / width, at * (1 - at)
        below = mean + (d0 + d1 - 2 * mean) * product
        y = y0 + height * (mean * at * at + d0 * product) / below
        above = d1 * at * at + 2 * mean * product + d0 * (1 - at) ** 2
        log_slope = 2 * torch.log(mean) + torch.log(above) - 2 * torch.log(below)
        return torch.where(inside, y, x), torch.where(inside, log_slope, 0.0)

    def inverse(self, y: Tensor) -> Tensor:
        """x [n]"""
        inside = (y > self.y[:, 0]) & (y < self.y[:, -1])
        x0, width, y0, height, d0, d1 = self._bin(self.y, torch.where(inside, y, self.y[:, 0]))
        mean, up = height / width, torch.where(inside, y - y0, 0.0)
        bend = up * (d0 + d1 - 2 * mean)
        a, b, c = height * (mean - d0) + bend, height * d0 - bend, -mean * up
        root = torch.sqrt(torch.clamp(b * b - 4 * a * c, min=0.0))
        return torch.where(inside, x0 - 2 * c / (b + root) * width, y)

    def _bin(self, knots: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """Of the bin of every row: begin and width in x, begin and height in y, the slopes at its ends."""
        low = torch.searchsorted(knots.detach().contiguous(), at.detach().unsqueeze(-1), right=True) - 1
        low = torch.clamp(low, 0, knots.shape[1] - 2)
        x0, x1, y0, y1, d0, d1 = (column.gather(1, low + step).squeeze(1) for column in self for step in (0, 1))
        return x0, x1 - x0, y0, y1 - y0, d0, d1


def spline_of(raw: Tensor, low: float, high: float) -> Spline:
    """From raw [n, 3 bins + 1] to a spline of [low, high] onto itself; raw numbers of 0 give the identity."""
    bins = (raw.shape[1] - 1) // 3
    widths, heights, slopes = raw.split([bins, bins, bins + 1], dim=1)
    return Spline(_knots(widths, low, high), _knots(heights, low, high), _FLATTEST + softplus(slopes + _SLOPE_AT_ZERO))


def _knots(raw: Tensor, low: float, high: float) -> Tensor:
    shares = _NARROWEST + (1 - raw.shape[1] * _NARROWEST) * torch.softmax(raw, dim=1)
    inner = low + (high - low) * torch.cumsum(shares, dim=1)[:, :-1]
    return pad(pad(inner, (1, 0), value=low), (0, 1), value=high)


# ---- coordinates -----------------------------------------------------------------------------------------------------


class Coordinate(NamedTuple):
    """A value in units of its prior."""

    at: Tensor  # [n]
    log_slope: Tensor  # [n]: log of its derivative by the value; -inf outside of the support


def coordinate(kind: DistKind, prior: Tensor, value: Tensor) -> Coordinate:
    """A value's place in [0, 1], or among the real numbers, by the kind of its prior [n, 4]."""
    a, b = prior[:, 0], prior[:, 1]
    if kind is DistKind.NORMAL:
        return Coordinate((value - a) / b, -torch.log(b))
    if kind is DistKind.LOGNORMAL:
        log_value = torch.log(torch.where(value > 0, value, 1.0))
        slope = torch.where(value > 0, -torch.log(b) - log_value, -math.inf)
        return Coordinate((log_value - a) / b, slope)
    if kind is DistKind.EXPONENTIAL:
        at, slope = -torch.expm1(-a * torch.clamp(value, min=0.0)), torch.log(a) - a * value
        return Coordinate(at, torch.where(value >= 0, slope, -math.inf))
    low, high = (a, b) if kind is DistKind.UNIFORM else (torch.zeros_like(a), torch.ones_like(a))
    possible = (value >= low) & (value <= high)
    return Coordinate((value - low) / (high - low), torch.where(possible, -torch.log(high - low), -math.inf))


def log_base(kind: DistKind, prior: Tensor, at: Tensor) -> Tensor:
    """The log density of the prior's coordinate."""
    if kind in _REAL:
        return -0.5 * at * at - 0.5 * math.log(2 * math.pi)
    if kind is DistKind.BETA:
        a, b = prior[:, 0], prior[:, 1]
        inside = torch.clamp(at, _EDGE, 1 - _EDGE)
        normaliser = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
        return (a - 1) * torch.log(inside) + (b - 1) * torch.log1p(-inside) - normaliser
    return torch.zeros_like(at)


# ---- the head --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SplineProposal:
    spline_kind: DistKind
    raw: Tensor
    prior: Tensor
    share: float  # of the prior

    @property
    def kind(self) -> DistKind:
        raise NotImplementedError("a spline flow cannot be served: the wire has no such proposal")

    def doubles(self) -> Tensor:
        raise NotImplementedError("a spline flow cannot be served: the wire has no such proposal")

    def log_prob(self, value: Tensor) -> Tensor:
        kind, raw = self.spline_kind, self.raw
        x, outer = coordinate(kind, self.prior, value.to(torch.float64))
        shift, log_scale = raw[:, 0], bounded(raw[:, 1], *_SCALES) - bounded(raw.new_zeros(()), *_SCALES)
        if kind in _REAL:
            moved, log_slope = (x - shift) * torch.exp(log_scale), log_scale
            spline = spline_of(raw[:, 2:], -_REACH, _REACH)
            spline = spline._replace(slope=pad(pad(spline.slope[:, 1:-1], (1, 0), value=1.0), (0, 1), value=1.0))
        else:
            inside = torch.clamp(x, _EDGE, 1 - _EDGE)
            logit = torch.logit(inside)
            to = (logit - shift) * torch.exp(log_scale)
            moved = torch.sigmoid(to)
            log_slope = log_scale + logsigmoid(to) + logsigmoid(-to) - logsigmoid(logit) - logsigmoid(-logit)
            spline = spline_of(raw[:, 2:], 0.0, 1.0)
        y, bent = spline.forward(moved)
        log_flow = log_base(kind, self.prior, y) + bent + log_slope
        log_prior = log_base(kind, self.prior, x)
        return outer + torch.logaddexp(math.log1p(-self.share) + log_flow, math.log(self.share) + log_prior)


@dataclass(frozen=True)
class _SplineHead:
    """Raw numbers: shift and log scale; then widths, heights and slopes."""

    kind: DistKind

    def size(self, settings: HeadSettings) -> int:
        # An angle keeps the head of libars, and heads are shared by all priors of a kind.
        return max(2 + 3 * BINS + 1, HEADS[self.kind].size(settings))

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        return _SplineProposal(self.kind, raw[:, : 2 + 3 * BINS + 1], prior, settings.defensive)


class SplineNetwork(ProposalNetwork):
    """The network of libars with spline flows for Uniform, Beta, Exponential, Normal and LogNormal priors."""

    by_kind: ClassVar[Mapping[DistKind, Head]] = MappingProxyType(
        {**HEADS, **{kind: _SplineHead(kind) for kind in (*_BOUNDED, *_REAL)}}
    )

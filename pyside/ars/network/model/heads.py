"""From the numbers that a network gives to a proposal, one head per family of priors.

A head is a pure function of raw numbers and the prior. It is written so that raw numbers of 0 propose the prior or
something very near to it, with components spread over the prior's range; training moves them from there. Every
proposal covers its prior: mixtures hold the prior itself as their last component, with a small fixed share, so a weight
p/q is never above 1 / share.

All of this is float64. ``Proposal.doubles`` are the numbers that go on the wire, and ``Proposal.log_prob`` is computed
from the same ones: the C code, given those bytes, finds the same density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from ars._native import MAX_COMPONENTS, DistKind
from ars.network.model.angles import WrappedHead, is_angle
from ars.network.model.mixtures import NARROWEST, HeadSettings, bounded, columns_of, grid, mixture, split
from ars.network.model.proposals import BernoulliProposal, CategoricalProposal, Proposal

__all__ = ["HEADS", "Head", "HeadSettings", "Proposal", "divided"]


class Head(Protocol):
    """What the network must give for a family, and what becomes of it."""

    def size(self, settings: HeadSettings) -> int:
        """How many raw numbers per row."""

    def bias(self, settings: HeadSettings) -> Tensor:
        """The raw numbers [size] that an untrained network gives."""

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        """raw [n, size], prior float64 [n, 4], categories [n, C] -> proposals."""


@dataclass(frozen=True)
class _MixtureHead:
    """Raw numbers: for each component the logit of its weight, and two more."""

    kind: DistKind  # of the prior

    def size(self, settings: HeadSettings) -> int:
        return 3 * settings.components

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))


# ---- location and scale: Normal, StudentT, LogNormal, Weibull, TruncatedNormal -------------------------------------

_WIDEST: Final = 4.0  # log of a component's width over its initial width
_STUDENT_SPREAD: Final = 0.6  # of the components' start, where a Normal's is 1


def _normal_grid(components: int) -> tuple[Tensor, float]:
    """Where the components of a standard Normal start, and the width with which they make up its variance."""
    z = torch.special.ndtri(grid(components))
    return z, math.sqrt(1 - float((z * z).mean()))


def _moved(raw: tuple[Tensor, ...], start: Tensor, unit: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Locations moved from their start in units of the prior's spread, and scales."""
    location = start + unit * raw[1]
    scale = unit * width * torch.exp(bounded(raw[2], NARROWEST, _WIDEST))
    return location, scale


class _NormalHead(_MixtureHead):
    component = DistKind.NORMAL

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        parts = split(raw, 3)
        z, width = _normal_grid(settings.components)
        mean, std = prior[:, 0:1], prior[:, 1:2]
        location, scale = _moved(parts, mean + std * z.to(raw.device), std, width)
        return mixture(parts[0], [(self.component, columns_of(location, scale))], self.kind, prior, settings.defensive)


class _StudentTHead(_MixtureHead):
    """The same, with the prior's degrees of freedom: every component has its tails. They start closer together, for
    narrow components far apart would have lighter tails than the prior."""

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        parts = split(raw, 3)
        z, width = _normal_grid(settings.components)
        width = math.sqrt(1 - _STUDENT_SPREAD**2 * (1 - width**2))
        df, loc, unit = (prior[:, i : i + 1] for i in range(3))
        location, scale = _moved(parts, loc + _STUDENT_SPREAD * unit * z.to(raw.device), unit, width)
        component = columns_of(df, location, scale)
        return mixture(parts[0], [(self.kind, component)], self.kind, prior, settings.defensive)


class _LogNormalHead(_NormalHead):
    """The same, for the logarithm."""

    component = DistKind.LOGNORMAL


class _WeibullHead(_MixtureHead):
    """The logarithm of a Weibull is location and scale too; LogNormal components at its quantiles."""

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        parts = split(raw, 3)
        g = torch.log(-torch.log1p(-grid(settings.components)))
        spread = math.pi / math.sqrt(6)
        width = math.sqrt(max(0.1, 1 - float(g.var(correction=0)) / spread**2))
        scale, shape = prior[:, 0:1], prior[:, 1:2]
        start = torch.log(scale) + g.to(raw.device) / shape
        mu, sigma = _moved(parts, start, spread / shape, width)
        component = columns_of(mu, sigma)
        return mixture(parts[0], [(DistKind.LOGNORMAL, component)], self.kind, prior, settings.defensive)


def truncated_quantile(prior: Tensor, u: Tensor) -> Tensor:
    """Quantiles [n, len(u)] of TruncatedNormals, good enough to place components, at any distance from the mean."""
    mean, std, low, high = (prior[:, i : i + 1] for i in range(4))
    alpha, beta = (low - mean) / std, (high - mean) / std
    flip = alpha + beta < 0  # work on the side where the interval lies, or reaches further
    a, b = torch.where(flip, -beta, alpha), torch.where(flip, -alpha, beta)
    v = torch.where(flip, 1 - u, u)
    # Upper tails, so that what is far out keeps its digits.
    tail_a, tail_b = torch.special.ndtr(-a), torch.special.ndtr(-b)
    central = -torch.special.ndtri(torch.clamp(tail_a + v * (tail_b - tail_a), 1e-300, 1.0))
    far = torch.clamp(a, min=0.0)
    gap = torch.expm1(-0.5 * (b - far) * (b + far))  # minus the share of the tail that lies before b
    tail = torch.sqrt(far * far - 2 * torch.log1p(v * gap))
    z = torch.where(a > 4, tail, central)
    z = torch.minimum(torch.maximum(z, a), b)
    return mean + std * torch.where(flip, -z, z)


class _TruncatedNormalHead(_MixtureHead):
    """Components on the prior's interval, at its quantiles; their spread is that of the middle 68%."""

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        parts = split(raw, 3)
        _, width = _normal_grid(settings.components)
        low, high = prior[:, 2:3], prior[:, 3:4]
        u = torch.cat([grid(settings.components), torch.tensor([0.15865, 0.84135], dtype=torch.float64)])
        start = truncated_quantile(prior, u.to(raw.device))
        unit = 0.5 * (start[:, -1:] - start[:, -2:-1])
        location, scale = _moved(parts, start[:, :-2], unit, width)
        # Further out than this a component looks like an exponential at the end, whatever its location.
        reach = 30 * unit
        location = torch.minimum(torch.maximum(location, low - reach), high + reach)
        component = columns_of(location, scale, low, high)
        return mixture(parts[0], [(self.kind, component)], self.kind, prior, settings.defensive)


# ---- Beta and Uniform ----------------------------------------------------------------------------------------------

_LOG_SHARPEST: Final = math.log(1e7)
_EDGE: Final = 0.05  # of a count: keeps a component that starts at an end of the interval movable


class _BetaHead(_MixtureHead):
    """Beta(a + k m, b + k (1 - m)): the prior after k observations of which a share m was positive.

    At 0 and 1 such a density is never steeper than the prior, and k = 0 is the prior. Started with the k + 1 possible
    outcomes under their probabilities, the mixture is exactly the prior. A Uniform is a Beta(1, 1) on [low, high], a
    coordinate of a Dirichlet is a Beta on what the others leave.
    """

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        logits, shift, sharpen = split(raw[:, : 3 * settings.components], 3)
        uniform = self.kind is DistKind.UNIFORM
        ends = {DistKind.UNIFORM: prior[:, 0:2], DistKind.DIRICHLET: prior[:, 2:4]}.get(self.kind)
        a, b = (torch.ones_like(prior[:1, :1]),) * 2 if uniform else (prior[:, 0:1], prior[:, 1:2])
        n, j, log_start = self._start(a, b, settings.components)
        m = torch.sigmoid(torch.log(j) - torch.log(n - j) + shift)
        limit = torch.log(torch.clamp(a + b, min=2.0) / 2)  # sharp priors have sharper posteriors
        k = torch.exp(limit + bounded(torch.log(n) - limit - 2 * sharpen, -8.0, _LOG_SHARPEST))
        shapes = (a + k * m, b + k * (1 - m))
        if ends is not None:
            component = (DistKind.SCALED_BETA, columns_of(*shapes, ends[:, 0:1], ends[:, 1:2]))
        else:
            component = (DistKind.BETA, columns_of(*shapes))
        return mixture(logits + log_start, [component], self.kind, prior, settings.defensive)

    @staticmethod
    def _start(a: Tensor, b: Tensor, components: int) -> tuple[Tensor, Tensor, Tensor]:
        """The number of observations n, the numbers of positive ones j, and the log probabilities of those."""
        total = a + b
        n = max(components - 1, 0.5) * total / 2
        mean = n * a / total
        spread = 2.5 * torch.sqrt(mean * b / total * (total + n) / (total + 1))
        low, high = torch.clamp(mean - spread, min=0.0), torch.minimum(mean + spread, n)
        places = (
            torch.linspace(0, 1, components, dtype=a.dtype, device=a.device) if components > 1 else a.new_tensor([0.5])
        )
        j = low + places * (high - low)
        log_p = (
            torch.lgamma(a + j) + torch.lgamma(b + n - j) - torch.lgamma(j + 1) - torch.lgamma(n - j + 1)
        )  # and what does not depend on j
        edge = _EDGE * torch.clamp(n, max=1.0)
        return n, torch.minimum(torch.maximum(j, edge), n - edge), log_p


# ---- Gamma and Exponential -----------------------------------------------------------------------------------------


class _GammaHead(_MixtureHead):
    """Gamma components whose shape is at least the prior's, so none is steeper at 0.

    They start as the prior after having counted, for three times as long as it weighs, j events; the weights are the
    probabilities of j. So the start is nearly the prior.
    """

    weight: Final = 3.0

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        logits, shift, sharpen = split(raw, 3)
        exponential = self.kind is DistKind.EXPONENTIAL
        shape = torch.ones_like(prior[:, 0:1]) if exponential else prior[:, 0:1]
        rate = prior[:, 0:1] if exponential else prior[:, 1:2]
        mean = self.weight * shape
        spread = 2.5 * torch.sqrt(mean * (1 + self.weight))
        low, high = torch.clamp(mean - spread, min=0.0), mean + spread
        count = settings.components
        places = torch.linspace(0, 1, count, dtype=raw.dtype, device=raw.device) if count > 1 else raw.new_tensor([0.5])
        j = low + places * (high - low)
        log_start = torch.lgamma(shape + j) - torch.lgamma(j + 1) + j * math.log(self.weight / (1 + self.weight))
        log_unit = torch.log(torch.clamp(shape, min=1.0))
        log_j = torch.log(torch.clamp(j, min=_EDGE))
        more = torch.exp(log_unit + bounded(log_j - log_unit - 2 * sharpen, -8.0, _LOG_SHARPEST))
        component_shape = shape + more
        component_mean = (shape + j) / (1 + self.weight) * torch.exp(bounded(shift, -40.0, 40.0)) / rate
        component = columns_of(component_shape, component_shape / component_mean)
        return mixture(logits + log_start, [(DistKind.GAMMA, component)], self.kind, prior, settings.defensive)


# ---- whole numbers -------------------------------------------------------------------------------------------------

_NARROW_LOGIT: Final = -3.0  # narrow components start with little weight
_MAX_COUNT: Final = 4294967295.0
_MAX_RATE: Final = 1e15
_MAX_MEAN: Final = 9e14  # of a NegativeBinomial; 1e15 is the limit, and sums are rounded


@dataclass(frozen=True)
class _CountHead:
    """Components like the prior with their means moved, and Binomials of various n, which can be narrower than it:
    as its p goes to 1, a Binomial becomes the single number n. Each has a weight and one parameter."""

    kind: DistKind

    @staticmethod
    def _count(settings: HeadSettings) -> int:
        return min(settings.components, (MAX_COMPONENTS - 1) // 2)

    def size(self, settings: HeadSettings) -> int:
        return 4 * self._count(settings)

    def bias(self, settings: HeadSettings) -> Tensor:
        bias = torch.zeros(4, self._count(settings))
        bias[1] = 0.2 * torch.special.ndtri(grid(self._count(settings)))
        bias[2] = _NARROW_LOGIT
        bias[3] = 1.0
        return bias.reshape(-1)

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        wide_logit, wide, narrow_logit, narrow = split(raw, 4)
        steps = torch.arange(1, wide.shape[-1] + 1, dtype=raw.dtype, device=raw.device)
        if self.kind is DistKind.NEGATIVE_BINOMIAL:
            same, n, single = self._negative_binomial(prior, wide, steps)
        elif self.kind is DistKind.POISSON:
            rate = prior[:, 0:1]
            # In units of the prior's spread where it is narrow, else in powers of e.
            moved = rate * torch.exp(bounded(wide / torch.sqrt(torch.clamp(rate, min=1.0)), -40.0, 40.0))
            same = columns_of(torch.clamp(moved, max=_MAX_RATE))
            n = steps * torch.ceil((rate + 6 * torch.sqrt(rate) + 6) / len(steps))
            single = rate <= 0
        else:
            total, p = prior[:, 0:1], prior[:, 1:2]
            unit = torch.sqrt(torch.clamp(total * p * (1 - p), min=1.0))
            moved = torch.sigmoid(torch.logit(p) + bounded(wide / unit, -40.0, 40.0))
            same = columns_of(total.expand_as(moved), moved)
            n = torch.ceil(total * steps / len(steps))
            single = (total <= 0) | (p <= 0) | (p >= 1)
        n = torch.clamp(n, max=_MAX_COUNT)
        other = columns_of(*torch.broadcast_tensors(n, torch.sigmoid(narrow)))
        # A prior with a single possible value needs no others.
        narrow_logit = torch.where(single, -math.inf, narrow_logit)
        logits = torch.cat([wide_logit, narrow_logit], dim=-1)
        parts = [(self.kind, same), (DistKind.BINOMIAL, other)]
        return mixture(logits, parts, self.kind, prior, settings.defensive)

    @staticmethod
    def _negative_binomial(prior: Tensor, wide: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Components with other means, the n of the Binomials, and whether the prior has a single value."""
        r, p = prior[:, 0:1], prior[:, 1:2]
        mean = r * (1 - p) / p
        spread = torch.sqrt(mean / p)
        # The mean is r exp(-logit p), so it moves by powers of e, or in units of the prior's spread where it is narrow.
        unit = torch.sqrt(torch.clamp(r * (1 - p), min=1.0))
        lowest = torch.log(r) - math.log(_MAX_MEAN)
        moved = torch.maximum(torch.logit(p) - bounded(wide / unit, -40.0, 40.0), lowest)
        n = steps * torch.ceil((mean + 6 * spread + 6) / len(steps))
        return columns_of(*torch.broadcast_tensors(r, torch.sigmoid(moved))), n, p >= 1


@dataclass(frozen=True)
class _BernoulliHead:
    def size(self, settings: HeadSettings) -> int:
        del settings
        return 1

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del categories
        p = prior[:, 0]
        moved = torch.sigmoid(torch.logit(p) + raw[:, 0])
        return BernoulliProposal((1 - settings.defensive) * moved + settings.defensive * p)


@dataclass(frozen=True)
class _CategoricalHead:
    """The prior's log probabilities, moved. A category that the network never saw is not moved."""

    def size(self, settings: HeadSettings) -> int:
        return settings.categories

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> Proposal:
        del prior
        if categories is None:
            raise ValueError("categories is None, but there are rows with a Categorical prior: give its probabilities")
        p = categories.to(raw.dtype)
        p = p / p.sum(dim=-1, keepdim=True)
        k = p.shape[-1]
        raw = pad(raw[:, :k], (0, max(k - raw.shape[-1], 0)))
        moved = torch.softmax(torch.log(p) + raw, dim=-1)
        return CategoricalProposal((1 - settings.defensive) * moved + settings.defensive * p)


@dataclass(frozen=True)
class _UniformHead(_BetaHead):
    """Leaves a place for what angles need, if they are wrapped: heads are shared by all priors of a kind."""

    def size(self, settings: HeadSettings) -> int:
        return (4 if settings.wrap else 3) * settings.components


def divided(
    kind: DistKind, prior: Tensor, settings: HeadSettings, heads: Mapping[DistKind, Head] | None = None
) -> list[tuple[Head, Tensor | None]]:
    """The heads that priors [n, 4] of one kind have, and the rows of each; None: all. ``heads``: others than ours."""
    head = (heads or HEADS)[kind]
    if kind is not DistKind.UNIFORM or not settings.wrap:
        return [(head, None)]
    angle = is_angle(prior)
    if not bool(angle.any()):
        return [(head, None)]
    if bool(angle.all()):
        return [(WRAPPED, None)]
    return [(head, torch.nonzero(~angle).squeeze(-1)), (WRAPPED, torch.nonzero(angle).squeeze(-1))]


WRAPPED: Final = WrappedHead()
# One entry per kind of prior.
HEADS: Final[Mapping[DistKind, Head]] = MappingProxyType(
    {
        DistKind.UNIFORM: _UniformHead(DistKind.UNIFORM),
        DistKind.NORMAL: _NormalHead(DistKind.NORMAL),
        DistKind.BERNOULLI: _BernoulliHead(),
        DistKind.CATEGORICAL: _CategoricalHead(),
        DistKind.POISSON: _CountHead(DistKind.POISSON),
        DistKind.BINOMIAL: _CountHead(DistKind.BINOMIAL),
        DistKind.BETA: _BetaHead(DistKind.BETA),
        DistKind.GAMMA: _GammaHead(DistKind.GAMMA),
        DistKind.EXPONENTIAL: _GammaHead(DistKind.EXPONENTIAL),
        DistKind.WEIBULL: _WeibullHead(DistKind.WEIBULL),
        DistKind.LOGNORMAL: _LogNormalHead(DistKind.LOGNORMAL),
        DistKind.TRUNCATED_NORMAL: _TruncatedNormalHead(DistKind.TRUNCATED_NORMAL),
        DistKind.NEGATIVE_BINOMIAL: _CountHead(DistKind.NEGATIVE_BINOMIAL),
        DistKind.STUDENT_T: _StudentTHead(DistKind.STUDENT_T),
        DistKind.MULTIVARIATE_NORMAL: _NormalHead(DistKind.MULTIVARIATE_NORMAL),
        DistKind.DIRICHLET: _BetaHead(DistKind.DIRICHLET),
    }
)

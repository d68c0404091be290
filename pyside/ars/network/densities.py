"""Log densities in torch, float64, equal to those of the C code (dist_density.c) to the last digits.

The formulas are the C code's: with concentrations of 10^6, differences of lgamma would lose the digits that make a
weight. Each has its derivative written out, so that what is stable for the value need not be differentiated.
Parameters have derivatives; values have none. Outside of the support the log density is -inf and its derivative 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from ars._native import DistKind

__all__ = ["LOG_DENSITY"]

_LN_SQRT_2PI: Final = 0.918938533204672741780329736406
_LN_2PI: Final = 1.837877066409345483560659472811
_TINY: Final = 2.2250738585072014e-308  # DBL_MIN
_INF: Final = math.inf


def _positive(x: Tensor) -> Tensor:
    """x where it is positive, and 1 elsewhere: for branches whose result is not used there."""
    return torch.where(x > 0, x, 1.0)


# ---- Loader's building blocks, as in dist_math.c -------------------------------------------------------------------


def _stirling_error(n: Tensor) -> Tensor:
    """log Gamma(n + 1) - log(sqrt(2 pi n) (n/e)^n) for n > 0."""
    low = torch.where(n <= 15, n, 1.0)
    exact = torch.lgamma(low + 1) - (low + 0.5) * torch.log(low) + low - _LN_SQRT_2PI
    high = torch.where(n <= 15, 16.0, n)
    r = 1 / (high * high)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - r / 1188) * r) * r) * r) / high
    return torch.where(n <= 15, exact, series)


def _deviance(x: Tensor, m: Tensor) -> Tensor:
    """x log(x / m) + m - x for x, m > 0, without cancellation where x is near m."""
    difference = x - m
    near = difference.abs() < 0.1 * (x + m)
    v = difference / (x + m)
    w = torch.where(near, v * v, 0.0)
    series = torch.zeros_like(w)
    for j in range(10, 0, -1):  # w < 0.01: ten terms are exact
        series = (series + 1 / (2 * j + 1)) * w
    close = difference * v + 2 * x * v * series
    far = x * (torch.log(x) - torch.log(m)) + m - x
    return torch.where(near, close, far)


def _k_log(k: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """k log(p), where q = 1 - p is known too; 0 if k is."""
    value = k * torch.where(q < 0.5, torch.log1p(-q), torch.log(p))
    return torch.where(k == 0, 0.0, value)


def _log_binomial(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """x successes, y failures, not necessarily whole numbers."""
    edge = (x == 0) | (y == 0)
    at_edge = _k_log(x, p, q) + _k_log(y, q, p)
    x, y = torch.where(edge, 1.0, x), torch.where(edge, 1.0, y)
    impossible = (p <= 0) | (q <= 0)
    p, q = torch.where(impossible, 0.5, p), torch.where(impossible, 0.5, q)
    n = x + y
    stirling = _stirling_error(n) - _stirling_error(x) - _stirling_error(y)
    distance = _deviance(x, n * p) + _deviance(y, n * q)
    inside = stirling - distance - 0.5 * (_LN_2PI + torch.log(x) + torch.log(y / n))
    return torch.where(edge, at_edge, torch.where(impossible, -_INF, inside))


def _log_poisson(x: Tensor, rate: Tensor) -> Tensor:
    """x not necessarily whole; rate >= 0."""
    zero = x <= rate * _TINY
    some = torch.where(zero | (rate <= 0), 1.0, x)
    positive = _positive(rate)
    value = -0.5 * (_LN_2PI + torch.log(some)) - _stirling_error(some) - _deviance(some, positive)
    value = torch.where(zero, -rate, value)
    return torch.where(rate <= 0, torch.where(x == 0, 0.0, -_INF), value)


def _at_end(power: Tensor, other: Tensor) -> Tensor:
    return torch.where(power == 1, torch.log(other), -_INF)


def _log_beta(a: Tensor, b: Tensor, y: Tensor, q: Tensor) -> Tensor:
    inside = (y > 0) & (q > 0)
    p, r = torch.where(inside, y, 0.5), torch.where(inside, q, 0.5)
    low_a, low_b = a < 1, b < 1
    # A shape below 1 counts one success more, divided by its share.
    value = _log_binomial(torch.where(low_a, a, a - 1), torch.where(low_b, b, b - 1), p, r)
    both = torch.log(a) + torch.log(b) - torch.log(a + b) - torch.log(p) - torch.log(r)
    one_a, one_b = torch.log(a) - torch.log(p), torch.log(b) - torch.log(r)
    neither = torch.log(torch.where(low_a | low_b, 1.0, a - 1 + b))
    value = value + torch.where(low_a, torch.where(low_b, both, one_a), torch.where(low_b, one_b, neither))
    value = torch.where(y == 0, _at_end(a, b), torch.where(q == 0, _at_end(b, a), value))
    return torch.where((y < 0) | (q < 0), -_INF, value)


# ---- values with their derivatives ---------------------------------------------------------------------------------


def _gradient(upstream: Tensor, value: Tensor, derivative: Tensor) -> Tensor:
    """The product where the value is finite; elsewhere nothing depends on the parameters."""
    return torch.where(torch.isfinite(value) & (upstream != 0), upstream * derivative, 0.0)


class _Beta(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, y: Tensor, q: Tensor) -> Tensor:
        a, b, y, q = torch.broadcast_tensors(a, b, y, q)
        value = _log_beta(a, b, y, q)
        ctx.save_for_backward(a, b, y, q, value)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (up,) = upstream
        a, b, y, q, value = ctx.saved_tensors
        total = torch.digamma(a + b)
        of_a = _gradient(up, value, torch.log(_positive(y)) + total - torch.digamma(a))
        of_b = _gradient(up, value, torch.log(_positive(q)) + total - torch.digamma(b))
        return of_a, of_b, None, None


class _Gamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shape: Tensor, rate: Tensor, x: Tensor) -> Tensor:
        shape, rate, x = torch.broadcast_tensors(shape, rate, x)
        some = _positive(x)
        mean = rate * some
        low = shape < 1
        value = _log_poisson(torch.where(low, shape, shape - 1), mean)
        value = value + torch.where(low, torch.log(shape) - torch.log(some), torch.log(rate))
        tiny = shape * torch.log(rate) + (shape - 1) * torch.log(some) - mean - torch.lgamma(shape)
        value = torch.where(mean < _TINY, tiny, value)
        value = torch.where(x > 0, value, torch.where(x == 0, _at_end(shape, rate), -_INF))
        ctx.save_for_backward(shape, rate, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (up,) = upstream
        shape, rate, x, value = ctx.saved_tensors
        of_shape = _gradient(up, value, torch.log(rate) + torch.log(_positive(x)) - torch.digamma(shape))
        return of_shape, _gradient(up, value, shape / rate - x), None


class _Poisson(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rate: Tensor, x: Tensor) -> Tensor:
        rate, x = torch.broadcast_tensors(rate, x)
        allowed = (x >= 0) & (x == torch.floor(x))
        value = torch.where(allowed, _log_poisson(torch.where(allowed, x, 0.0), rate), -_INF)
        ctx.save_for_backward(rate, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (up,) = upstream
        rate, x, value = ctx.saved_tensors
        return _gradient(up, value, torch.where(x == 0, 0.0, x / _positive(rate)) - 1), None


class _Binomial(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, n: Tensor, p: Tensor, x: Tensor) -> Tensor:
        n, p, x = torch.broadcast_tensors(n, p, x)
        allowed = (x >= 0) & (x <= n) & (x == torch.floor(x))
        k = torch.where(allowed, x, 0.0)
        value = torch.where(allowed, _log_binomial(k, n - k, p, 1 - p), -_INF)
        ctx.save_for_backward(n, p, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (up,) = upstream
        n, p, x, value = ctx.saved_tensors
        successes = torch.where(x == 0, 0.0, x / _positive(p))
        failures = torch.where(x == n, 0.0, (n - x) / _positive(1 - p))
        return None, _gradient(up, value, successes - failures), None


# 10-point Gauss-Legendre on (-1, 1), for an interval that is narrow against the Normal.
_NODES: Final = (0.1488743389816312108848, 0.4333953941292471907993, 0.6794095682990244062343,
                 0.8650633666889845107321, 0.9739065285171717200780)  # fmt: skip
_WEIGHTS: Final = (0.2955242247147528701739, 0.2692667193099963550912, 0.2190863625159820439955,
                   0.1494513491505805931458, 0.0666713443086881375936)  # fmt: skip


def _mills(a: Tensor) -> Tensor:
    ratio: Tensor = math.sqrt(math.pi / 2) * torch.special.erfcx(a * math.sqrt(0.5))
    return ratio


def _log_truncated(mean: Tensor, std: Tensor, low: Tensor, high: Tensor, x: Tensor) -> Tensor:
    """For x in [low, high]; the three ways of dist_density.c to keep the digits of the mass inside."""
    alpha, beta = (low - mean) / std, (high - mean) / std
    inside = (low <= mean) & (mean <= high)
    flipped = high < mean
    a = torch.where(inside, 0.0, torch.where(flipped, -beta, alpha))
    h = (high - low) / std
    narrow = (h <= 2) & (h * torch.maximum(alpha.abs(), beta.abs()) <= 1)
    z = (x - mean) / std
    near = torch.where(flipped, (high - x) / std, (x - low) / std)
    near = torch.where(inside, 0.0, near)
    shape = torch.where(inside, -0.5 * z * z, -0.5 * near * (2 * a + near))

    mass = 0.5 * (torch.erf(beta * math.sqrt(0.5)) - torch.erf(alpha * math.sqrt(0.5)))
    value = shape - torch.log(std) - _LN_SQRT_2PI - torch.log(torch.where(inside, mass, 1.0))
    # Beyond the other end nothing is left: exp(-inf) times a ratio that is not defined there.
    wide = torch.isinf(h)
    end = torch.where(wide | inside, 0.0, h)
    beyond = torch.where(wide, 0.0, torch.exp(-0.5 * end * (2 * a + end)) * _mills(a + end))
    tail = torch.where(inside | narrow, 1.0, _mills(a) - beyond)
    value = torch.where(inside, value, shape - torch.log(std) - torch.log(tail))

    width = torch.where(narrow, h, 1.0)
    start, first = torch.where(narrow & inside, alpha, 0.0), torch.where(narrow, a, 0.0)
    total = torch.zeros_like(width)
    for node, weight in zip((*_NODES, *(-n for n in _NODES)), (*_WEIGHTS, *_WEIGHTS), strict=True):
        u = 0.5 * (1 + node) * width
        exponent = torch.where(inside, (start + u) ** 2, u * (2 * first + u))
        total = total + 0.5 * weight * torch.exp(-0.5 * exponent)
    in_narrow = shape - torch.log(torch.where(narrow, high - low, 1.0)) - torch.log(total)
    return torch.where(narrow, in_narrow, value)


class _TruncatedNormal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, std: Tensor, low: Tensor, high: Tensor, x: Tensor) -> Tensor:
        mean, std, low, high, x = torch.broadcast_tensors(mean, std, low, high, x)
        value = _log_truncated(mean, std, low, high, torch.clamp(x, low, high))
        value = torch.where((x >= low) & (x <= high), value, -_INF)
        ctx.save_for_backward(mean, std, low, high, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (up,) = upstream
        mean, std, low, high, x, value = ctx.saved_tensors
        z = (x - mean) / std
        of_mean, of_std = z / std, (z * z - 1) / std
        # The mass inside changes by the density at its ends, which the same function gives.
        for end, sign in ((low, -1.0), (high, 1.0)):
            finite = torch.isfinite(end)
            at = torch.where(finite, end, x)
            density = torch.where(finite, torch.exp(_log_truncated(mean, std, low, high, at)), 0.0)
            of_mean = of_mean + sign * density
            of_std = of_std + sign * density * (at - mean) / std
        return _gradient(up, value, of_mean), _gradient(up, value, of_std), None, None, None


def _apply(function: Any, *arguments: Tensor) -> Tensor:
    value: Tensor = function.apply(*arguments)
    return value


# ---- the registry: parameters [..., 4] in the order of the wire, and x [...] ---------------------------------------


def _uniform(p: Tensor, x: Tensor) -> Tensor:
    low, high = p[..., 0], p[..., 1]
    return torch.where((x >= low) & (x <= high), -torch.log(high - low), -_INF)


def _normal(p: Tensor, x: Tensor) -> Tensor:
    z = (x - p[..., 0]) / p[..., 1]
    return -0.5 * z * z - torch.log(p[..., 1]) - _LN_SQRT_2PI


def _lognormal(p: Tensor, x: Tensor) -> Tensor:
    log_x = torch.log(_positive(x))
    return torch.where(x > 0, _normal(p, log_x) - log_x, -_INF)


def _scaled_beta(p: Tensor, x: Tensor) -> Tensor:
    low, high = p[..., 2], p[..., 3]
    width = high - low
    return _beta(p, (x - low) / width, (high - x) / width) - torch.log(width)


def _beta(p: Tensor, y: Tensor, q: Tensor | None = None) -> Tensor:
    return _apply(_Beta, p[..., 0], p[..., 1], y, 1 - y if q is None else q)


def _gamma(p: Tensor, x: Tensor) -> Tensor:
    return _apply(_Gamma, p[..., 0], p[..., 1], x)


def _exponential(p: Tensor, x: Tensor) -> Tensor:
    return torch.where(x >= 0, torch.log(p[..., 0]) - p[..., 0] * x, -_INF)


def _weibull(p: Tensor, x: Tensor) -> Tensor:
    scale, shape = p[..., 0], p[..., 1]
    z = _positive(x) / scale
    value = torch.log(shape) - torch.log(scale) + (shape - 1) * torch.log(z) - torch.pow(z, shape)
    return torch.where(x > 0, value, torch.where(x == 0, _at_end(shape, 1 / scale), -_INF))


def _poisson(p: Tensor, x: Tensor) -> Tensor:
    return _apply(_Poisson, p[..., 0], x)


def _binomial(p: Tensor, x: Tensor) -> Tensor:
    return _apply(_Binomial, p[..., 0], p[..., 1], x)


def _truncated_normal(p: Tensor, x: Tensor) -> Tensor:
    return _apply(_TruncatedNormal, p[..., 0], p[..., 1], p[..., 2], p[..., 3], x)


# Every kind that can be a component of a Mixture that we propose.
LOG_DENSITY: Final[Mapping[DistKind, Callable[[Tensor, Tensor], Tensor]]] = MappingProxyType(
    {
        DistKind.UNIFORM: _uniform,
        DistKind.NORMAL: _normal,
        DistKind.POISSON: _poisson,
        DistKind.BINOMIAL: _binomial,
        DistKind.BETA: _beta,
        DistKind.GAMMA: _gamma,
        DistKind.EXPONENTIAL: _exponential,
        DistKind.WEIBULL: _weibull,
        DistKind.LOGNORMAL: _lognormal,
        DistKind.TRUNCATED_NORMAL: _truncated_normal,
        DistKind.SCALED_BETA: _scaled_beta,
    }
)

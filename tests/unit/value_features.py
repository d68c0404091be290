"""What a network sees of a value, written in torch a second time: the test's own, to hold against the C code."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

from ars._kernels import VALUE_FEATURES
from ars._native import DistKind
from ars.network.model.heads import truncated_quantile

__all__ = ["value_features"]

Placed = tuple[Tensor, Tensor]  # z, u

_FREQUENCIES: Final = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)  # half periods over (0, 1)
_Z_MAX: Final = 10.0


def _gauss(z: Tensor) -> Placed:
    return z, torch.special.ndtr(z)


def _uniform(p: Tensor, v: Tensor) -> Placed:
    u = (v - p[:, 0]) / (p[:, 1] - p[:, 0])
    return (u - 0.5) * math.sqrt(12), u


def _normal(p: Tensor, v: Tensor) -> Placed:
    return _gauss((v - p[:, 0]) / p[:, 1])


def _bernoulli(p: Tensor, v: Tensor) -> Placed:
    del p
    return 2 * v - 1, v


def _categorical(p: Tensor, v: Tensor) -> Placed:
    """A category has no size: its embedding says which it is."""
    del p
    return torch.zeros_like(v), torch.full_like(v, 0.5)


def _poisson(p: Tensor, v: Tensor) -> Placed:
    return _gauss((v - p[:, 0]) / torch.sqrt(p[:, 0] + 0.25))


def _binomial(p: Tensor, v: Tensor) -> Placed:
    n, q = p[:, 0], p[:, 1]
    return (v - n * q) / torch.sqrt(n * q * (1 - q) + 0.25), (v + 0.5) / (n + 1)


def _beta(p: Tensor, v: Tensor) -> Placed:
    a, b = p[:, 0], p[:, 1]
    mean = a / (a + b)
    return (v - mean) / torch.sqrt(mean * (1 - mean) / (a + b + 1)), v


def _gamma(p: Tensor, v: Tensor) -> Placed:
    shape, x = p[:, 0], v * p[:, 1]
    return (x - shape) / torch.sqrt(shape), x / (x + shape)


def _exponential(p: Tensor, v: Tensor) -> Placed:
    x = v * p[:, 0]
    return x - 1, -torch.expm1(-x)


def _weibull(p: Tensor, v: Tensor) -> Placed:
    log_x = p[:, 1] * torch.log(torch.clamp(v / p[:, 0], min=1e-300))
    return log_x, -torch.expm1(-torch.exp(torch.clamp(log_x, max=50.0)))


def _lognormal(p: Tensor, v: Tensor) -> Placed:
    return _gauss((torch.log(torch.clamp(v, min=1e-300)) - p[:, 0]) / p[:, 1])


def _truncated_normal(p: Tensor, v: Tensor) -> Placed:
    low, middle, high = truncated_quantile(p, p.new_tensor([0.15865, 0.5, 0.84135])).unbind(-1)
    return _gauss(2 * (v - middle) / (high - low))


def _negative_binomial(p: Tensor, v: Tensor) -> Placed:
    mean = p[:, 0] * (1 - p[:, 1]) / p[:, 1]
    return _gauss((v - mean) / torch.sqrt(mean / p[:, 1] + 0.25))


def _student_t(p: Tensor, v: Tensor) -> Placed:
    z = (v - p[:, 1]) / p[:, 2]
    return z, 0.5 + torch.atan(z) / math.pi


_PLACE: Final[Mapping[DistKind, Callable[[Tensor, Tensor], Placed]]] = MappingProxyType(
    {
        DistKind.UNIFORM: _uniform,
        DistKind.NORMAL: _normal,
        DistKind.BERNOULLI: _bernoulli,
        DistKind.CATEGORICAL: _categorical,
        DistKind.POISSON: _poisson,
        DistKind.BINOMIAL: _binomial,
        DistKind.BETA: _beta,
        DistKind.GAMMA: _gamma,
        DistKind.EXPONENTIAL: _exponential,
        DistKind.WEIBULL: _weibull,
        DistKind.LOGNORMAL: _lognormal,
        DistKind.TRUNCATED_NORMAL: _truncated_normal,
        DistKind.NEGATIVE_BINOMIAL: _negative_binomial,
        DistKind.STUDENT_T: _student_t,
    }
)


def scalar_features(v: Tensor, z: Tensor, u: Tensor) -> Tensor:
    """[n, VALUE_FEATURES] float32."""
    z = torch.clamp(torch.nan_to_num(z), -1e6, 1e6)
    u = torch.clamp(torch.nan_to_num(u, nan=0.5), 0.0, 1.0)
    near = torch.clamp(z, -_Z_MAX, _Z_MAX)
    columns = [
        near,
        0.25 * torch.clamp(near * near, max=16.0) - 0.5,
        torch.asinh(z),
        0.25 * torch.log(z.abs() + 1e-3) + 0.5,
        2 * u - 1,
        0.25 * torch.log(u + 1e-4) + 0.5,
        0.25 * torch.log(1 - u + 1e-4) + 0.5,
        4 * torch.sqrt(u * (1 - u)) - 1.5,
        0.2 * torch.asinh(v),
        v / (1 + v.abs()),
    ]
    for k in _FREQUENCIES:
        columns += [torch.sin(math.pi * k * u), torch.cos(math.pi * k * u)]
    return torch.stack(columns, dim=-1).to(torch.float32)


def angle_features(u: Tensor) -> Tensor:
    """Of a place on a circle, in turns: waves of whole periods, and 0 for all else."""
    waves = []
    for k in _FREQUENCIES:
        waves += [torch.sin(2 * math.pi * k * u), torch.cos(2 * math.pi * k * u)]
    zeros = [torch.zeros_like(u)] * (VALUE_FEATURES - len(waves))
    return torch.stack(zeros + waves, dim=-1).to(torch.float32)


def value_features(
    kind: Tensor, kinds: Collection[DistKind], prior: Tensor, value: Tensor, *, angles: bool = False
) -> Tensor:
    """Features [n, VALUE_FEATURES] of values [n] drawn from priors of these kinds; 0 for kind 0, no value.

    ``kinds`` are those that may occur. The loop is over families of distributions, not over sites or rows. ``angles``:
    all values of Uniforms are angles, and seen as such.
    """
    out = torch.zeros((len(value), VALUE_FEATURES), dtype=torch.float32, device=value.device)
    for family in kinds:
        rows = torch.nonzero(kind == int(family)).squeeze(-1)
        if len(rows):
            v = value[rows].to(torch.float64)
            if angles and family is DistKind.UNIFORM:
                out[rows] = angle_features(_uniform(prior[rows], v)[1])
                continue
            out[rows] = scalar_features(v, *_PLACE[family](prior[rows].to(torch.float64), v))
    return out

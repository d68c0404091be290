"""Log densities that can be differentiated: the value is that of the C code, the derivative is written out here.

So what is trained has the digits that weights are computed with. Parameters have derivatives; values have none, nor
have parameters that are always the prior's: the ends of an interval, the n of a Binomial, r, and df. Outside the
support the log density is -inf and its derivative 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ars import _kernels as kernels
from ars._native import DistKind

__all__ = ["log_density"]

Columns = tuple[Tensor, ...]  # by the first parameters in the order of the wire


def log_density(kind: DistKind, params: Tensor, x: Tensor) -> Tensor:
    """float64 [n, k]: of x [n] under each component of its row, params [n, k, 4] in the order of the wire."""
    value: Tensor = _LogDensity.apply(params, x, kind)  # type: ignore[no-untyped-call]
    return value


class _LogDensity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, params: Tensor, x: Tensor, kind: DistKind) -> Tensor:
        value = _value(kind, params, x)
        ctx.save_for_backward(params, x, value)
        ctx.kind = kind
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (up,) = upstream
        params, x, value = ctx.saved_tensors
        counts = torch.isfinite(value) & (up != 0)
        gradient = torch.zeros_like(params)
        for j, derivative in enumerate(_DERIVATIVE[ctx.kind](params, x.unsqueeze(-1))):
            gradient[..., j] = torch.where(counts, up * derivative, 0.0)
        return gradient, None, None


def _value(kind: DistKind, params: Tensor, x: Tensor) -> Tensor:
    found = kernels.component_densities(kind, params.detach().cpu().numpy(), x.detach().cpu().numpy())
    return torch.from_numpy(found).to(params.device)


def _positive(x: Tensor) -> Tensor:
    """x where it is positive, and 1 elsewhere: there the result is not used."""
    return torch.where(x > 0, x, 1.0)


# ---- derivatives -----------------------------------------------------------------------------------------------------


def _uniform(p: Tensor, x: Tensor) -> Columns:
    del p, x
    return ()


def _normal(p: Tensor, x: Tensor) -> Columns:
    mean, std = p[..., 0], p[..., 1]
    z = (x - mean) / std
    return z / std, (z * z - 1) / std


def _lognormal(p: Tensor, x: Tensor) -> Columns:
    return _normal(p, torch.log(_positive(x)))


def _poisson(p: Tensor, x: Tensor) -> Columns:
    return (torch.where(x == 0, 0.0, x / _positive(p[..., 0])) - 1,)


def _binomial(p: Tensor, x: Tensor) -> Columns:
    n, share = p[..., 0], p[..., 1]
    successes = torch.where(x == 0, 0.0, x / _positive(share))
    failures = torch.where(x == n, 0.0, (n - x) / _positive(1 - share))
    return torch.zeros_like(n), successes - failures


def _beta_at(a: Tensor, b: Tensor, y: Tensor, q: Tensor) -> Columns:
    """At y, where q = 1 - y."""
    total = torch.digamma(a + b)
    return (
        torch.log(_positive(y)) + total - torch.digamma(a),
        torch.log(_positive(q)) + total - torch.digamma(b),
    )


def _beta(p: Tensor, x: Tensor) -> Columns:
    return _beta_at(p[..., 0], p[..., 1], x, 1 - x)


def _scaled_beta(p: Tensor, x: Tensor) -> Columns:
    a, b, low, high = p.unbind(-1)
    return _beta_at(a, b, (x - low) / (high - low), (high - x) / (high - low))


def _gamma(p: Tensor, x: Tensor) -> Columns:
    shape, rate = p[..., 0], p[..., 1]
    return torch.log(rate) + torch.log(_positive(x)) - torch.digamma(shape), shape / rate - x


def _exponential(p: Tensor, x: Tensor) -> Columns:
    return (1 / p[..., 0] - x,)


def _weibull(p: Tensor, x: Tensor) -> Columns:
    scale, shape = p[..., 0], p[..., 1]
    log_z = torch.log(_positive(x)) - torch.log(scale)
    beyond = torch.where(x > 0, torch.exp(shape * log_z), 0.0) - 1
    return shape / scale * beyond, torch.where(x > 0, 1 / shape - log_z * beyond, 0.0)


def _truncated_normal(p: Tensor, x: Tensor) -> Columns:
    mean, std, low, high = p.unbind(-1)
    z = (x - mean) / std
    of_mean, of_std = z / std, (z * z - 1) / std
    # The mass inside changes by the density at its ends.
    for end, sign in ((low, -1.0), (high, 1.0)):
        there = torch.isfinite(end)
        at = torch.where(there, end, mean)
        density = torch.exp(_value(DistKind.TRUNCATED_NORMAL, p.reshape(-1, 1, 4), at.reshape(-1)).reshape(at.shape))
        change = torch.where(there, sign * density, 0.0)
        of_mean = of_mean + change
        of_std = of_std + change * (at - mean) / std
    return of_mean, of_std


def _negative_binomial(p: Tensor, x: Tensor) -> Columns:
    r, share = p[..., 0], p[..., 1]
    failures = torch.where(x == 0, 0.0, x / _positive(1 - share))
    return torch.zeros_like(r), r / share - failures


def _student_t(p: Tensor, x: Tensor) -> Columns:
    df, loc, scale = p[..., 0], p[..., 1], p[..., 2]
    z = torch.clamp((x - loc) / scale, -1e150, 1e150)  # its square is finite
    pull = (df + 1) * z / (df + z * z)
    return torch.zeros_like(df), pull / scale, (pull * z - 1) / scale


# Of every kind that can be a component of a Mixture that we propose.
_DERIVATIVE: Final[Mapping[DistKind, Callable[[Tensor, Tensor], Columns]]] = MappingProxyType(
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
        DistKind.NEGATIVE_BINOMIAL: _negative_binomial,
        DistKind.STUDENT_T: _student_t,
        DistKind.MULTIVARIATE_NORMAL: _normal,
        DistKind.DIRICHLET: _scaled_beta,
    }
)

"""Densities and samplers of the distributions of ``programs.py``, in numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from programs import Dist, Floats, VectorDist
from scipy import special


def _log_normal(x: Floats, mean: Floats, std: Floats) -> Floats:
    return np.asarray(-0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def _truncation(mean: Floats, std: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return np.asarray(special.ndtr((low - mean) / std)), np.asarray(special.ndtr((high - mean) / std))


def _log_truncated(x: Floats, mean: Floats, std: Floats, low: Floats, high: Floats) -> Floats:
    below, above = _truncation(mean, std, low, high)
    return np.where((x >= low) & (x <= high), _log_normal(x, mean, std) - np.log(above - below), -np.inf)


def _draw_truncated(rng: np.random.Generator, n: int, mean: Floats, std: Floats, low: Floats, high: Floats) -> Floats:
    below, above = _truncation(mean, std, low, high)
    return np.asarray(mean + std * special.ndtri(below + rng.random(n) * (above - below)))


def _log_binomial(x: Floats, n: Floats, p: Floats) -> Floats:
    ways = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    with np.errstate(invalid="ignore"):
        inside = ways + special.xlogy(x, p) + special.xlog1py(n - x, -p)
    return np.where((x >= 0) & (x <= n), inside, -np.inf)


def _log_positive(x: Floats, log_density: Callable[[Floats], Floats]) -> Floats:
    return np.where(x > 0, log_density(np.where(x > 0, x, 1.0)), -np.inf)


_LOG_DENSITY: Mapping[str, Callable[..., Floats]] = {
    "uniform": lambda x, low, high: np.where((x >= low) & (x <= high), -np.log(high - low), -np.inf),
    "normal": _log_normal,
    "bernoulli": lambda x, p: np.where(x == 1, np.log(p), np.log1p(-p)),
    "categorical": lambda x, *p: np.log(np.choose(x.astype(np.int64), np.broadcast_arrays(*p, x)[:-1])),
    "poisson": lambda x, rate: special.xlogy(x, rate) - rate - special.gammaln(x + 1),
    "binomial": _log_binomial,
    "beta": lambda x, a, b: special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b),
    "gamma": lambda x, a, r: _log_positive(
        x, lambda y: special.xlogy(a, r) + special.xlogy(a - 1, y) - r * y - special.gammaln(a)
    ),
    "exponential": lambda x, rate: np.where(x >= 0, np.log(rate) - rate * x, -np.inf),
    "weibull": lambda x, s, k: _log_positive(x, lambda y: np.log(k / s) + (k - 1) * np.log(y / s) - (y / s) ** k),
    "lognormal": lambda x, mu, sigma: _log_positive(x, lambda y: _log_normal(np.log(y), mu, sigma) - np.log(y)),
    "truncated_normal": _log_truncated,
    "negative_binomial": lambda x, r, p: np.where(
        x >= 0,
        special.gammaln(x + r) - special.gammaln(x + 1) - special.gammaln(r) + r * np.log(p) + x * np.log1p(-p),
        -np.inf,
    ),
    "student_t": lambda x, df, loc, scale: (
        special.gammaln((df + 1) / 2)
        - special.gammaln(df / 2)
        - 0.5 * np.log(df * np.pi)
        - np.log(scale)
        - (df + 1) / 2 * np.log1p(((x - loc) / scale) ** 2 / df)
    ),
}

_DRAW: Mapping[str, Callable[..., npt.NDArray[Any]]] = {
    "uniform": lambda rng, n, low, high: low + rng.random(n) * (high - low),
    "normal": lambda rng, n, mean, std: rng.normal(mean, std, n),
    "bernoulli": lambda rng, n, p: rng.random(n) < p,
    "categorical": lambda rng, n, *p: np.sum(
        rng.random(n) >= np.cumsum(np.broadcast_arrays(*p, np.empty(n))[:-1], 0)[:-1], 0
    ),
    "poisson": lambda rng, n, rate: rng.poisson(rate, n),
    "binomial": lambda rng, n, trials, p: rng.binomial(np.asarray(trials).astype(np.int64), p, n),
    "beta": lambda rng, n, a, b: rng.beta(a, b, n),
    "gamma": lambda rng, n, shape, rate: rng.gamma(shape, 1 / rate, n),
    "exponential": lambda rng, n, rate: rng.exponential(1 / rate, n),
    "weibull": lambda rng, n, scale, shape: scale * rng.weibull(shape, n),
    "lognormal": lambda rng, n, mu, sigma: rng.lognormal(mu, sigma, n),
    "truncated_normal": _draw_truncated,
    "negative_binomial": lambda rng, n, r, p: rng.negative_binomial(r, p, n),
    "student_t": lambda rng, n, df, loc, scale: loc + scale * rng.standard_t(df, n),
}

Values: TypeAlias = Callable[[str], Floats]


def log_density(dist: Dist, values: Values, x: Floats) -> Floats:
    """Row by row; ``values`` gives the variables that the parameters depend on."""
    params = [param(values) for param in dist.params]
    if dist.kind == "mixture":
        parts = [log_density(component, values, x) for component in dist.components]
        return np.asarray(special.logsumexp(np.array(parts), axis=0, b=np.array(params)[:, None]))
    return np.asarray(_LOG_DENSITY[dist.kind](x, *params), dtype=np.float64)


def draw(dist: Dist, values: Values, n: int, rng: np.random.Generator) -> Floats:
    params = [param(values) for param in dist.params]
    if dist.kind == "mixture":
        which = np.sum(rng.random(n)[None] >= np.cumsum(params)[:-1, None], axis=0)
        return np.asarray(np.choose(which, [draw(component, values, n, rng) for component in dist.components]))
    return np.asarray(_DRAW[dist.kind](rng, n, *params), dtype=np.float64)


# ---- vectors, number by number -----------------------------------------------------------------------------------

Conditional: TypeAlias = tuple[str, tuple[Floats, ...], Floats, Floats]  # kind, parameters, shift and scale of a number


def _normal_coordinate(dist: VectorDist, values: Values, before: list[Floats]) -> Conditional:
    """With x = mean + L z, the number i is Normal, given the z of those before it."""
    z: list[Floats] = []
    for mean, row, x in zip(dist.first, dist.rows, before, strict=False):
        *others, own = (each(values) for each in row)
        z.append((x - mean(values) - sum(a * b for a, b in zip(others, z, strict=True))) / own)
    *others, own = (each(values) for each in dist.rows[len(before)])
    mean = dist.first[len(before)](values) + sum(a * b for a, b in zip(others, z, strict=True))
    return "normal", (np.asarray(mean), own), np.zeros(()), np.ones(())


def _dirichlet_coordinate(dist: VectorDist, values: Values, before: list[Floats]) -> Conditional:
    """A Beta, of what those before it leave of 1."""
    own, *after = (each(values) for each in dist.first[len(before) :])
    return "beta", (own, np.asarray(sum(after))), np.zeros(()), np.asarray(1.0 - sum(before))


_COORDINATE = {"multivariate_normal": _normal_coordinate, "dirichlet": _dirichlet_coordinate}


def draw_coordinate(dist: VectorDist, values: Values, before: list[Floats], n: int, rng: np.random.Generator) -> Floats:
    kind, params, shift, scale = _COORDINATE[dist.kind](dist, values, before)
    return np.asarray(shift + scale * _DRAW[kind](rng, n, *params))


def log_density_coordinate(dist: VectorDist, values: Values, before: list[Floats], x: Floats) -> Floats:
    kind, params, shift, scale = _COORDINATE[dist.kind](dist, values, before)
    return np.asarray(_LOG_DENSITY[kind]((x - shift) / scale, *params) - np.log(scale))

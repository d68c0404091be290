"""Exact answers for the simulators in csim/, by quadrature, and proposals by hand to test the weights with.

A :class:`Case` is one simulator with data, proposals and everything that is known about the run: the evidence, what
the ``biased`` weights converge to instead, p(A) and q(A) of every loop, posterior means, and the largest S_pq of
Theorem 1 (naive weights have infinite variance where it is 1 or more). ``cases()`` lists them all.

Values are looked up by the names that the simulators use, so ``p_accept`` and ``q_accept`` can be given
to ``collapsed`` weights as they are. Nothing here uses the package under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import integrate, special, stats

Floats: TypeAlias = npt.NDArray[np.float64]
Acceptance: TypeAlias = float | Callable[[Mapping[str, Floats]], Floats]
# Builds name -> proposal from a namespace of distributions: Normal(mean, std), Beta(a, b), Mixture(weights, parts), ...
Proposals: TypeAlias = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    name: str
    command: tuple[str, ...]  # the executable in csim and its arguments
    observed: dict[str, float | list[float]]
    proposals: Proposals
    evidence: float
    biased: float  # the mean of `biased` weights
    s_pq: float  # the largest over loops and states
    p_accept: dict[str, Acceptance]  # by the loop's address
    q_accept: dict[str, Acceptance]
    posterior_mean: dict[str, float]  # by the result's name

    @property
    def naive_variance_is_finite(self) -> bool:
        return self.s_pq < 1.0


# ---- quadrature -------------------------------------------------------------------------------------------------


def normal_pdf(x: Any, mean: Any, std: Any) -> Any:
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))


def normal_cdf(x: Any, mean: Any, std: Any) -> Any:
    return special.ndtr((x - mean) / std)


def legendre(low: npt.ArrayLike, high: npt.ArrayLike, n: int = 64) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre on [low, high]; arrays of ends give one more axis, the last."""
    x, w = np.polynomial.legendre.leggauss(n)
    low, high = np.asarray(low, dtype=np.float64)[..., None], np.asarray(high, dtype=np.float64)[..., None]
    half = (high - low) / 2
    return low + half * (x + 1), half * w


def panels(ends: Sequence[float], n: int = 64) -> tuple[Floats, Floats]:
    """Nodes and weights on adjoining intervals: split where the integrand has a kink."""
    x, w = legendre(np.array(ends[:-1]), np.array(ends[1:]), n)
    return x.ravel(), w.ravel()


@dataclass(frozen=True)
class Grid:
    """A quadrature over accepted states. `mass` is prior density times quadrature weight, before any 1/p(A)."""

    mass: Floats
    p_accept: Floats  # the product over all loops of the state
    q_accept: Floats
    likelihood: Floats
    results: dict[str, Floats]

    def _sum(self, over: Floats, of: Floats | float = 1.0) -> float:
        return float(np.sum(self.mass * self.likelihood * of / over))

    @property
    def evidence(self) -> float:
        return self._sum(self.p_accept)

    @property
    def biased(self) -> float:
        return self._sum(self.q_accept)

    @property
    def posterior_mean(self) -> dict[str, float]:
        return {name: self._sum(self.p_accept, g) / self.evidence for name, g in self.results.items()}


def square_ratio(p_mean: Any, q_mean: Any, q_std: float, p_std: float = 1.0) -> tuple[Any, Any, float]:
    """p^2/q for two Normals is a multiple of a Normal: (the multiple, its mean, its std)."""
    precision = 2 / p_std**2 - 1 / q_std**2
    mean = (2 * p_mean / p_std**2 - q_mean / q_std**2) / precision
    exponent = precision * mean**2 / 2 - p_mean**2 / p_std**2 + q_mean**2 / (2 * q_std**2)
    return q_std / (p_std**2 * math.sqrt(precision)) * np.exp(exponent), mean, 1 / math.sqrt(precision)


def _square_below(x: Any, p_mean: Any, q_mean: Any, q_std: float) -> Any:
    size, mean, std = square_ratio(p_mean, q_mean, q_std)
    return size * normal_cdf(x, mean, std)


def _square_above(x: Any, p_mean: Any, q_mean: Any, q_std: float) -> Any:
    size, mean, std = square_ratio(p_mean, q_mean, q_std)
    return size * normal_cdf(-np.asarray(x), -mean, std)


# ---- without a loop, and Marsaglia --------------------------------------------------------------------------------


def normal_data(y: Sequence[float], mean: float, std: float, noise: float) -> tuple[float, float]:
    """Evidence of data with a Normal mean of their own, and the posterior mean of that mean."""
    evidence = 1.0
    for value in y:
        evidence *= float(normal_pdf(value, mean, math.hypot(std, noise)))
        gain = std**2 / (std**2 + noise**2)
        mean, std = mean + gain * (value - mean), std * math.sqrt(1 - gain)
    return evidence, mean


def gaussian(y: Sequence[float] = (0.8, -0.1, 1.1)) -> Case:
    evidence, mean = normal_data(y, 0, 1, 0.5)
    return Case(
        name="gaussian",
        command=("gaussian", str(len(y))),
        observed={"y": list(y)},
        proposals=lambda d: {"mu": d.Normal(0.5, 0.5)},
        evidence=evidence,
        biased=evidence,
        s_pq=0.0,
        p_accept={},
        q_accept={},
        posterior_mean={"mu": mean},
    )


def marsaglia(y1: float = 0.0, y2: float = 0.0) -> Case:
    evidence, mean = normal_data((y1, y2), 0, 1, 0.1)
    std = 0.7
    edge = stats.truncnorm(-1 / std, 1 / std, scale=std)
    angle, w = legendre(0, math.pi / 2, 200)  # the corner outside the disc, x1 = sin, by columns
    x1, w1 = np.sin(angle), w * np.cos(angle)
    top = np.cos(angle)
    x2, w2 = legendre(top, np.ones_like(top), 40)
    reject_q = 4 * np.sum(w1 * edge.pdf(x1) * (edge.cdf(1.0) - edge.cdf(top)))
    s_pq = 4 * np.sum((w1 / (16 * edge.pdf(x1)))[:, None] * w2 / edge.pdf(x2))
    p, q = math.pi / 4, float(1 - reject_q)
    loop = "marsaglia.c:marsaglia#0"
    return Case(
        name=f"marsaglia-{y1:g}",
        command=("marsaglia",),
        observed={"y1": y1, "y2": y2},
        proposals=lambda d: {"x1": d.TruncatedNormal(0, std, -1, 1), "x2": d.TruncatedNormal(0, std, -1, 1)},
        evidence=evidence,
        biased=evidence * p / q,
        s_pq=float(s_pq),
        p_accept={loop: p},
        q_accept={loop: q},
        posterior_mean={"mu": mean},
    )


# ---- Beta-Bernoulli -----------------------------------------------------------------------------------------------


def beta_bernoulli(n: int, setting: str = "a") -> Case:
    """Settings a and b of the paper, all data True; and "finite", whose naive variance is finite (alpha = 2)."""
    alpha = {"a": 2.0, "b": 10.0, "finite": 2.0}[setting]
    evidence = math.exp(special.betaln(alpha + n, alpha) - special.betaln(alpha, alpha))
    p = 4 ** (alpha - 1) * math.exp(special.betaln(alpha, alpha))
    uniform_u = 4 ** (alpha - 1) * math.exp(
        special.betaln(2 * alpha + n - 1, 2 * alpha - 1) - special.betaln(alpha + n, alpha)
    )
    s_pq = math.inf  # 1/q(x) has no integral at x = 0, where every try is rejected
    if setting == "finite":
        q, s_pq = _beta_bernoulli_finite()
    else:
        q = uniform_u if setting == "a" else 0.99 + 0.01 * uniform_u

    def mixture(d: Any, x: Any) -> Any:
        return d.Mixture([0.99, 0.01], [d.Uniform(0, (4 * x * (1 - x)) ** (alpha - 1)), d.Uniform(0, 1)])

    def proposals(d: Any) -> dict[str, Any]:
        if setting == "finite":
            return {"x": d.Beta(1.25, 0.6), "u": d.Beta(1.25, 1.0)}
        if setting == "b":
            return {"x": d.Beta(alpha + n, alpha), "u": lambda t: mixture(d, t["x"])}
        return {"x": d.Beta(alpha + n, alpha), "u": d.Uniform(0, 1)}

    loop = "beta_bernoulli.c:model#0"
    return Case(
        name=f"beta_bernoulli-{setting}-{n}",
        command=("beta_bernoulli", f"{alpha:g}", str(n)),
        observed={"y": [1.0] * n},
        proposals=proposals,
        evidence=evidence,
        biased=evidence * p / q,
        s_pq=s_pq,
        p_accept={loop: p},
        q_accept={loop: q},
        posterior_mean={"x_final": (alpha + n) / (2 * alpha + n)},
    )


def _beta_bernoulli_finite() -> tuple[float, float]:
    """q(A) and S_pq for alpha = 2, q(x) = Beta(1.25, 0.6), q(u) = Beta(1.25, 1)."""
    density = stats.beta(1.25, 0.6).pdf

    def bound(x: float) -> float:
        return 4 * x * (1 - x)

    q, _ = integrate.quad(lambda x: density(x) * bound(x) ** 1.25, 0, 1)
    s_pq, _ = integrate.quad(lambda x: (1 - bound(x) ** 0.75) / (density(x) * 1.25 * 0.75), 0, 1)
    return float(q), float(s_pq)


def beta_bernoulli_ess(n: int, M: int | None = None, N: int = 10) -> float:
    """Exact ESS/N of setting a: of `collapsed` weights, or with M of `ars` weights."""
    p, q = 2 / 3, float(4 * special.beta(n + 3, 3) / special.beta(n + 2, 2))
    evidence = float(special.beta(n + 2, 2) / special.beta(2, 2))
    collapsed = evidence**2 * (n + 1) / (9 * q * float(special.beta(n + 2, 2)))
    if M is None:
        return collapsed
    return collapsed / ((1 + (1 - q) / (N * q)) * (1 + (1 - p) / M))


# ---- appendix B ---------------------------------------------------------------------------------------------------


def truncated_normal(variant: str = "a", y: float = -1.0, infinite: bool = False) -> Case:
    """z ~ Normal(0, 1) (a) or Normal(x, 1) (b) until z < 0. `infinite` takes proposals with S_pq above 1.

    In b nearly all tries are rejected and S_pq is never below p(not A)^2 / q(not A), so a proposal of another shape
    above 0 soon has S_pq > 1. A mixture with the prior, cut off below 0, keeps the prior's shape there.
    """
    x, w_x = legendre(1, 2)
    z, w_z = panels((-10, -4, -2, -1, 0), 48)
    r, w_r = legendre(0, 14, 300)
    slope = 0.0 if variant == "a" else 1.0
    mixed = variant == "b" and not infinite
    shift, std = (-1.2, 0.9) if infinite else (0.3, 1.1)  # of the plain Normal proposal

    def cut(at: Any) -> Any:
        return 0.8 * (at - 2)

    def proposals(d: Any) -> dict[str, Any]:
        def z_given(t: Any) -> Any:
            at = t["x"]
            if mixed:
                return d.Mixture([0.5, 0.5], [d.Normal(at, 1.0), d.TruncatedNormal(at, 1.0, cut(at), 14.0)])
            return d.Normal(slope * at + shift, std)

        return {"x": d.TruncatedNormal(1.3, 0.5, 1, 2), "z": z_given}

    def p_at(at: Any) -> Any:
        return normal_cdf(0.0, slope * at, 1.0)

    def q_at(at: Any) -> Any:
        if not mixed:
            return normal_cdf(0.0, slope * at + shift, std)
        kept = normal_cdf(14.0, at, 1.0) - normal_cdf(cut(at), at, 1.0)
        return 0.5 * p_at(at) + 0.5 * (p_at(at) - normal_cdf(cut(at), at, 1.0)) / kept

    def q_density_above(at: Any) -> Any:
        if not mixed:
            return normal_pdf(r, slope * at + shift, std)
        kept = normal_cdf(14.0, at, 1.0) - normal_cdf(cut(at), at, 1.0)
        return normal_pdf(r, at, 1.0) * (0.5 + 0.5 / kept)

    s_pq = np.sum(w_r * normal_pdf(r, slope * x[:, None], 1.0) ** 2 / q_density_above(x[:, None]), axis=-1)
    grid = Grid(
        mass=w_x[:, None] * w_z * normal_pdf(z, slope * x[:, None], 1.0),
        p_accept=p_at(x)[:, None],
        q_accept=q_at(x)[:, None],
        likelihood=normal_pdf(y, z, x[:, None]),
        results={"x_final": x[:, None], "z_final": z},
    )
    loop = "truncated_normal.c:model#0"
    return Case(
        name=f"truncated_normal-{variant}" + ("-infinite" if infinite else ""),
        command=("truncated_normal", variant),
        observed={"y": y},
        proposals=proposals,
        evidence=grid.evidence,
        biased=grid.biased,
        s_pq=float(np.max(s_pq)),
        p_accept={loop: lambda t: np.asarray(p_at(t["x"]) + 0.0 * t["x"])},
        q_accept={loop: lambda t: np.asarray(q_at(t["x"]) + 0.0 * t["x"])},
        posterior_mean=grid.posterior_mean,
    )


# ---- a loop within a loop -----------------------------------------------------------------------------------------


def nested(y: float = 2.0) -> Case:
    """Written with e = b - a: the inner loop accepts e > tanh(a), the outer one e > -2a."""
    a_mean, a_std, e_mean, e_std = -0.2, 1.1, -0.2, 1.1
    a, w_a = panels((-8, -4, -2, 0, 2, 4, 8))  # the two conditions cross at 0

    def inner_p(at: Any) -> Any:
        return normal_cdf(-np.tanh(at), 0.0, 1.0)

    def inner_q(at: Any) -> Any:
        return normal_cdf(-np.tanh(at), -e_mean, e_std)

    both = np.maximum(np.tanh(a), -2 * a)
    outer_p = float(np.sum(w_a * normal_pdf(a, 0, 1) * normal_cdf(-both, 0.0, 1.0) / inner_p(a)))
    outer_q = float(np.sum(w_a * normal_pdf(a, a_mean, a_std) * normal_cdf(-both, -e_mean, e_std) / inner_q(a)))

    s_inner = _square_below(np.tanh(a), 0.0, e_mean, e_std)
    missed = _square_above(np.tanh(a), 0.0, e_mean, e_std) - _square_above(both, 0.0, e_mean, e_std)
    square_a = normal_pdf(a, 0, 1) ** 2 / normal_pdf(a, a_mean, a_std)
    s_outer = float(np.sum(w_a * square_a * missed / (1 - s_inner)))

    e, w_e = legendre(both, both + 10, 120)
    total = 2 * a[:, None] + e
    grid = Grid(
        mass=(w_a * normal_pdf(a, 0, 1))[:, None] * w_e * normal_pdf(e, 0, 1),
        p_accept=(inner_p(a) * outer_p)[:, None],
        q_accept=(inner_q(a) * outer_q)[:, None],
        likelihood=normal_pdf(y, total, 0.5),
        results={"sum": total},
    )
    outer = "nested.c:model#0"
    inner = f"{outer}/nested.c:model#1"
    return Case(
        name="nested",
        command=("nested",),
        observed={"y": y},
        proposals=lambda d: {"a": d.Normal(a_mean, a_std), "b": lambda t: d.Normal(t["a"] + e_mean, e_std)},
        evidence=grid.evidence,
        biased=grid.biased,
        s_pq=max(s_outer, float(np.max(s_inner))),
        p_accept={outer: outer_p, inner: lambda t: np.asarray(inner_p(t["a"]))},
        q_accept={outer: outer_q, inner: lambda t: np.asarray(inner_q(t["a"]))},
        posterior_mean=grid.posterior_mean,
    )


# ---- recursion ----------------------------------------------------------------------------------------------------

_THRESHOLD = -0.3  # of recursive.c
_Kernel: TypeAlias = Callable[[Floats, Floats], Floats]  # density of z at parent state h = tanh(parent)


class _InState:
    """Functions of h in [-1, 1], known at Chebyshev nodes, one per column."""

    nodes: Floats = np.cos(np.pi * (np.arange(24) + 0.5) / 24)

    def __init__(self, at_nodes: Floats) -> None:
        self.coefficients = np.polynomial.chebyshev.chebfit(self.nodes, at_nodes, len(self.nodes) - 1)

    def __call__(self, h: npt.ArrayLike) -> Floats:
        """With several functions the last axis of h runs over them."""
        order = np.arange(len(self.nodes)).reshape(-1, *[1] * np.ndim(h))
        basis = np.cos(order * np.arccos(np.clip(h, -1, 1)))
        coefficients = self.coefficients
        if coefficients.ndim > 1:
            coefficients = coefficients.reshape(len(self.nodes), *[1] * (np.ndim(h) - 1), -1)
        else:
            coefficients = coefficients.reshape(-1, *[1] * np.ndim(h))
        return np.asarray(np.sum(coefficients * basis, axis=0))


@dataclass(frozen=True)
class _Level:
    density: _InState  # of the returned value, at the accepted nodes
    accepted: _InState  # integral over accepted tries
    rejected: _InState


def _levels(kernel: _Kernel, depth: int, divide_by: Callable[[int, _InState, _InState], _InState]) -> list[_Level]:
    """The recursion, level 0 first: r = z + s/2, where s is what the level below returned with parent z."""
    r, w_r = panels((_THRESHOLD, 2.0, 5.0, 10.0), 40)
    low, w_low = panels((-9.0, -4.0, _THRESHOLD), 40)
    h = _InState.nodes
    levels: list[_Level] = []

    def before_acceptance(at: Floats) -> Floats:  # shape (h, at)
        if not levels:
            return kernel(at[None, :], h[:, None])
        z = at[:, None] - 0.5 * r
        inside = w_r * levels[-1].density(np.tanh(z))
        return np.stack([np.sum(kernel(z, np.full_like(z, one)) * inside, axis=-1) for one in h])

    for level in range(depth + 1):
        density = before_acceptance(r)
        accepted, rejected = _InState(density @ w_r), _InState(before_acceptance(low) @ w_low)
        divisor = divide_by(level, accepted, rejected)(h)
        levels.append(_Level(_InState(density / divisor[:, None]), accepted, rejected))
    return levels


def recursive(depth: int = 3, y: float = 2.0) -> Case:
    q_mean, q_std = -0.1, 1.05

    def prior(z: Floats, h: Floats) -> Floats:
        return np.asarray(normal_pdf(z, 0.3 * h, 1.0))

    def proposal(z: Floats, h: Floats) -> Floats:
        return np.asarray(normal_pdf(z, q_mean + 0.0 * h, q_std))

    def square(z: Floats, h: Floats) -> Floats:
        return prior(z, h) ** 2 / proposal(z, h)

    under_p = _levels(prior, depth, lambda _, accepted, __: accepted)
    under_q = _levels(proposal, depth, lambda _, accepted, __: accepted)
    uncorrected = _levels(prior, depth, lambda level, _, __: under_q[level].accepted)
    squared = _levels(square, depth, lambda _, __, rejected: _InState(1 - rejected(_InState.nodes)))
    s_pq = max(float(np.max(level.rejected(np.linspace(-1, 1, 201)))) for level in squared)

    r, w_r = panels((_THRESHOLD, 2.0, 5.0, 10.0), 40)
    likelihood = w_r * normal_pdf(y, r, 0.5)
    at_start = np.zeros_like(r)
    evidence = float(np.sum(likelihood * under_p[-1].density(at_start)))

    loop = "recursive.c:draw#0"
    p_accept: dict[str, Acceptance] = {loop: float(under_p[depth].accepted(0.0))}
    q_accept: dict[str, Acceptance] = {loop: float(under_q[depth].accepted(0.0))}
    for deeper in range(1, depth + 1):
        above = "/".join([loop] * deeper)
        accepted = under_p[depth - deeper].accepted
        p_accept[f"{above}/{loop}"] = lambda t, key=f"{above}/z", known=accepted: known(np.tanh(t[key]))  # type: ignore[misc]
        q_accept[f"{above}/{loop}"] = float(under_q[depth - deeper].accepted(0.0))
    return Case(
        name=f"recursive-{depth}",
        command=("recursive", str(depth)),
        observed={"y": y},
        proposals=lambda d: {"z": d.Normal(q_mean, q_std)},
        evidence=evidence,
        biased=float(np.sum(likelihood * uncorrected[-1].density(at_start))),
        s_pq=s_pq,
        p_accept=p_accept,
        q_accept=q_accept,
        posterior_mean={"r": float(np.sum(likelihood * r * under_p[-1].density(at_start))) / evidence},
    )


# ---- loops in a row -----------------------------------------------------------------------------------------------


def sequence(y: float = 3.0) -> Case:
    rate, b_shift, b_std, c_mean, c_std = 0.7, -0.2, 1.1, 0.2, 1.1
    a, w_a = legendre(0, 2)
    b, w_b = legendre(1, a + 9, 100)  # (a, b)
    b = b.reshape(len(a), -1)
    a_, limit = a[:, None], b - a[:, None] + 0.5
    c, w_c = legendre(np.full_like(limit, -9), np.minimum(limit, 9.5), 80)  # (a, b, c)
    total = a[:, None, None] + b[..., None] + c

    first_p, first_q = 1 - math.exp(-2), 1 - math.exp(-2 * rate)

    def second_p(at: Any) -> Any:
        return normal_cdf(at - 1, 0.0, 1.0)

    def second_q(at: Any) -> Any:
        return normal_cdf(at + b_shift - 1, 0.0, b_std)

    def third_p(limit: Any) -> Any:
        return normal_cdf(limit, 0.0, 1.0)

    def third_q(limit: Any) -> Any:
        return normal_cdf(limit, c_mean, c_std)

    grid = Grid(
        mass=((w_a * np.exp(-a))[:, None] * w_b * normal_pdf(b, a_, 1))[..., None] * w_c * normal_pdf(c, 0, 1),
        p_accept=(first_p * second_p(a_) * third_p(limit))[..., None],
        q_accept=(first_q * second_q(a_) * third_q(limit))[..., None],
        likelihood=normal_pdf(y, total, 0.5),
        results={"total": total},
    )
    s_pq = (
        math.exp(-2 * (2 - rate)) / (rate * (2 - rate)),
        float(np.max(_square_below(1.0, a, a + b_shift, b_std))),
        float(np.max(_square_above(limit, 0.0, c_mean, c_std))),
    )
    loops = [f"sequence.c:model#{k}" for k in range(3)]
    return Case(
        name="sequence",
        command=("sequence",),
        observed={"y": y},
        proposals=lambda d: {
            "a": d.Exponential(rate),
            "b": lambda t: d.Normal(t["a"] + b_shift, b_std),
            "c": d.Normal(c_mean, c_std),
        },
        evidence=grid.evidence,
        biased=grid.biased,
        s_pq=max(s_pq),
        p_accept={
            loops[0]: first_p,
            loops[1]: lambda t: np.asarray(second_p(t["a"])),
            loops[2]: lambda t: np.asarray(third_p(t["b"] - t["a"] + 0.5)),
        },
        q_accept={
            loops[0]: first_q,
            loops[1]: lambda t: np.asarray(second_q(t["a"])),
            loops[2]: lambda t: np.asarray(third_q(t["b"] - t["a"] + 0.5)),
        },
        posterior_mean=grid.posterior_mean,
    )


# ---- loops that only some paths reach -----------------------------------------------------------------------------


def branching(y: float = 1.0) -> Case:
    share = (0.3, 0.45, 0.25)
    mass_mean, mass_std, life_rate, position_shift, position_std = -0.3, 1.1, 0.7, -0.3, 1.1

    signal_p = float(normal_cdf(-0.5, 0.0, 1.0))
    signal_q = float(normal_cdf(mass_mean - 0.5, 0.0, mass_std))
    life_p, life_q = float(special.gammainc(2, 2.0)), float(special.gammainc(2, 2.0 * life_rate))

    def position_p(life: Any) -> Any:
        return normal_cdf(life - 1, 0.0, 1.0)

    def position_q(life: Any) -> Any:
        return normal_cdf(life + position_shift - 1, 0.0, position_std)

    noise, w_noise = legendre(-10, 8, 200)
    mass, w_mass = legendre(0.5, 9, 120)
    life, w_life = legendre(0, 2)
    position, w_position = legendre(1, life + 9, 120)
    one = np.ones(1)
    grids = (
        Grid(share[0] * w_noise * normal_pdf(noise, -1, 1), one, one, normal_pdf(y, noise, 0.5), {"x_final": noise}),
        Grid(
            share[1] * w_mass * normal_pdf(mass, 0, 1),
            signal_p * one,
            signal_q * one,
            normal_pdf(y, mass, 0.5),
            {"x_final": mass},
        ),
        Grid(
            share[2] * (w_life * life * np.exp(-life))[:, None] * w_position * normal_pdf(position, life[:, None], 1),
            (life_p * position_p(life))[:, None],
            (life_q * position_q(life))[:, None],
            normal_pdf(y, position, 0.5),
            {"x_final": position},
        ),
    )
    evidence = sum(grid.evidence for grid in grids)
    keep = 2 - life_rate  # p^2/q of two Gammas of shape 2 is x exp(-keep x) / rate^2
    s_pq = (
        float(_square_below(0.5, 0.0, mass_mean, mass_std)),
        float(special.gammaincc(2, 2 * keep)) / (keep * life_rate) ** 2,
        float(np.max(_square_below(1.0, life, life + position_shift, position_std))),
    )
    signal, lifetime, decay = "branching.c:signal#0", "branching.c:decay#0", "branching.c:decay#1"
    return Case(
        name="branching",
        command=("branching",),
        observed={"y": y},
        proposals=lambda d: {
            "channel": d.Categorical([0.2, 0.4, 0.4]),
            "noise": d.Normal(-0.5, 1.1),
            "mass": d.Normal(mass_mean, mass_std),
            "lifetime": d.Gamma(2.0, life_rate),
            "position": lambda t: d.Normal(t["lifetime"] + position_shift, position_std),
        },
        evidence=evidence,
        biased=sum(grid.biased for grid in grids),
        s_pq=max(s_pq),
        p_accept={signal: signal_p, lifetime: life_p, decay: lambda t: np.asarray(position_p(t["lifetime"]))},
        q_accept={signal: signal_q, lifetime: life_q, decay: lambda t: np.asarray(position_q(t["lifetime"]))},
        posterior_mean={"x_final": sum(grid.posterior_mean["x_final"] * grid.evidence for grid in grids) / evidence},
    )


# ---- C++ with its own event loop ----------------------------------------------------------------------------------


def event_loop(calorimeter: float = 1.6, tracker: float = 0.4, infinite: bool = False) -> Case:
    share, beam = (0.3, 0.4, 0.3), 2.5
    rate = 1.5 if infinite else 0.7  # of the proposal for an energy
    c_mean, c_std, u_power = 0.3, 1.0, 0.8  # q(cos_theta) is a TruncatedNormal, q(u) is Beta(1, u_power)

    c, w_c = legendre(-1, 1, 100)
    edge = stats.truncnorm((-1 - c_mean) / c_std, (1 - c_mean) / c_std, c_mean, c_std)
    q_c = edge.pdf(c)

    def shape(tilt: Any) -> Any:
        return (1 + tilt * c) / (1 + tilt)

    def direction_q(total: Any) -> Floats:
        tilt = np.asarray(total)[..., None] / beam
        return np.asarray(np.sum(w_c * q_c * (1 - (1 - shape(tilt)) ** u_power), axis=-1))

    shower_p = np.array([special.gammainc(n, beam) for n in (1, 2, 3)])
    shower_q = np.array([special.gammainc(n, beam * rate) for n in (1, 2, 3)])
    e, w_e = legendre(0, beam, 100)
    miss = 1 - shape(e[:, None] / beam)
    s_direction = np.sum(w_c / (4 * q_c) * miss ** (2 - u_power), axis=-1) / (u_power * (2 - u_power))
    keep = 2 - rate
    s_shower = [special.gammaincc(n, beam * keep) / (rate * keep) ** n for n in (1, 2, 3)]

    # (multiplicity, total energy, cos_theta); the accepted direction has density shape / 2
    mass_e = np.stack([share[n - 1] * w_e * e ** (n - 1) * np.exp(-e) / math.factorial(n - 1) for n in (1, 2, 3)])
    grid = Grid(
        mass=mass_e[..., None] * (w_c / 2 * shape(e[:, None] / beam)),
        p_accept=shower_p[:, None, None] / (1 + e[:, None] / beam),
        q_accept=shower_q[:, None, None] * direction_q(e)[:, None],
        likelihood=normal_pdf(calorimeter, e[:, None], 0.3) * normal_pdf(tracker, c, 0.2),
        results={"total": e[:, None], "direction": c},
    )
    shower, direction = (f"event_loop.cpp:Event::generate()#{k}" for k in range(2))

    def per_multiplicity(table: Floats) -> Acceptance:
        return lambda t: table[np.asarray(t["multiplicity"], dtype=np.int64)]

    return Case(
        name="event_loop" + ("-infinite" if infinite else ""),
        command=("event_loop",),
        observed={"calorimeter": calorimeter, "tracker": tracker},
        proposals=lambda d: {
            "multiplicity": d.Categorical([0.4, 0.4, 0.2]),
            "energy": d.Exponential(rate),
            "cos_theta": d.TruncatedNormal(c_mean, c_std, -1, 1),
            "u": d.Beta(1.0, u_power),
        },
        evidence=grid.evidence,
        biased=grid.biased,
        s_pq=float(max(*s_shower, np.max(s_direction))),
        p_accept={shower: per_multiplicity(shower_p), direction: lambda t: 1 / (1 + t["total"] / beam)},
        q_accept={shower: per_multiplicity(shower_q), direction: lambda t: direction_q(t["total"])},
        posterior_mean=grid.posterior_mean,
    )


# ---- Mini-SHERPA --------------------------------------------------------------------------------------------------


def mini_sherpa_mean(momentum: npt.ArrayLike, thetas: Sequence[float], phis: Sequence[float]) -> Floats:
    """The mean of the 400 observations of mini_sherpa, written down a second time. Its loops have p(A) = 1/2."""
    rest = np.asarray(momentum, dtype=np.float64)
    particles = []
    n = len(thetas) + 1
    for i, (theta, phi) in enumerate(zip(thetas, phis, strict=True)):
        size = np.linalg.norm(rest)
        z = rest / size
        x = np.array([z[0] * z[2], z[1] * z[2], -(z[0] ** 2 + z[1] ** 2)]) / math.hypot(z[0], z[1])
        y = np.cross(z, x)
        across = math.tan(theta) * (math.cos(phi) * x + math.sin(phi) * y)
        particles.append(size / (n - i) * (across + z))
        rest = rest - particles[-1]
    particles.append(rest)
    centre = np.arange(20) - 9.5
    energy = np.zeros((20, 20))
    for v in particles:
        x, y = 3 * v[:2] / v[2]
        energy += np.linalg.norm(v) * np.outer(normal_pdf(centre, x, 1), normal_pdf(centre, y, 1))
    return energy.ravel() / 0.3


# ---- an epidemic --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Epidemic:
    """What is known of csim/sir.c with these data, and with its loop's Poisson means multiplied in the proposals."""

    evidence: float
    biased: float
    posterior_mean: dict[str, float]


def sir(cases: Sequence[int], population: int, imported: float = 1.0, local: float = 1.0) -> Epidemic:
    """By quadrature over the three rates, and for each by the forward algorithm over the states (susceptible,
    infected). For a small population. ``imported`` and ``local`` multiply the means of the loop's two draws in the
    proposals that the ``biased`` evidence is of."""
    x, w_x = np.polynomial.hermite_e.hermegauss(12)
    u, w_u = special.roots_jacobi(10, 4, 4)  # the weight function of a Beta(5, 5)
    rates = np.meshgrid(0.5 * np.exp(0.3 * x), 0.2 * np.exp(0.3 * x), (u + 1) / 2, indexing="ij")
    transmission, recovery, reporting = (rate.ravel() for rate in rates)
    mass = (w_x[:, None, None] * w_x[:, None] * w_u).ravel()
    mass /= mass.sum()

    reproduction = transmission / recovery
    start, accepted = _beginning(5.0, reproduction, population)
    _, proposed = _beginning(5.0 * imported, reproduction * local, population)
    state = np.zeros((len(mass), population + 1, population + 1))  # node, susceptible, infected
    for infected in range(population + 1):
        state[:, population - infected, infected] = start[:, infected] / accepted
    for count in cases:
        state = _day(state, transmission, recovery, reporting, count)
    by_node = mass * state.sum(axis=(1, 2))
    evidence = float(by_node.sum())
    attacked = mass * (state.sum(axis=2) @ (1 - np.arange(population + 1) / population))
    return Epidemic(
        evidence,
        float(np.sum(by_node * accepted / proposed)),
        {
            "reproduction": float(np.sum(by_node * reproduction)) / evidence,
            "attack_rate": float(attacked.sum()) / evidence,
        },
    )


def _beginning(mean: float, factor: Floats, population: int) -> tuple[Floats, Floats]:
    """The probability that a try ends with so many infected, [node, infected], 0 if it is rejected; and p(A)."""
    total = np.zeros((len(factor), population + 1))
    for imported in range(population + 1):
        local = np.arange(population + 1 - imported)
        total[:, imported:] += stats.poisson.pmf(imported, mean) * stats.poisson.pmf(local, imported * factor[:, None])
    total[:, :10] = 0.0
    return total, total.sum(axis=1)


def _day(state: Floats, transmission: Floats, recovery: Floats, reporting: Floats, cases: int) -> Floats:
    """The states after a day, with the likelihood of its cases."""
    population = state.shape[1] - 1
    people = np.arange(population + 1)
    recovers = -np.expm1(-recovery)[:, None, None]
    left = stats.binom.pmf(people[:, None] - people, people[:, None], recovers)  # node, infected before, after
    state = state @ left
    seen = stats.poisson.pmf(cases, reporting[:, None] * people + 0.5)  # node, infections
    after = np.zeros_like(state)
    for infected in range(population + 1):
        chance = -np.expm1(-transmission * infected / population)[:, None]
        for susceptible in range(population + 1 - infected):
            infections = people[: susceptible + 1]
            share = stats.binom.pmf(infections, susceptible, chance) * seen[:, : susceptible + 1]
            after[:, susceptible - infections, infected + infections] += state[:, susceptible, infected, None] * share
    return after


# ---- all ----------------------------------------------------------------------------------------------------------


# ---- the evidence alone ---------------------------------------------------------------------------------------------


def capped_evidence(y: float, cap: int = 4) -> float:
    """Of csim/capped.c: a Normal around the beam until it exceeds 0.5, or after ``cap`` tries an Exponential."""
    edge, noise, rate = 0.5, 0.5, 2.0
    beam, w = panels(np.linspace(-8, 8, 17).tolist())
    missed = normal_cdf(edge, beam, 1)
    z_mean, z_std = (beam * noise**2 + y) / (1 + noise**2), noise / math.hypot(1, noise)  # given y, without the edge
    hit = normal_pdf(y, beam, math.hypot(1, noise)) * (1 - normal_cdf(edge, z_mean, z_std))
    other = rate * math.exp(-rate * y + (rate * noise) ** 2 / 2) * normal_cdf(y - rate * noise**2, 0, noise)
    tries = sum((missed**i for i in range(cap)), np.zeros_like(beam))
    return float(np.sum(w * normal_pdf(beam, 0, 1) * (hit * tries + missed**cap * other)))


def evidences() -> dict[str, tuple[tuple[str, ...], dict[str, float | list[float]], float]]:
    """Command, data and evidence by name: of each simulator and data of ``cases()``, and of those without a Case."""
    found: dict[tuple[Any, ...], Case] = {}
    for case in cases():
        found.setdefault((case.command, repr(case.observed)), case)
    twins = {"marsaglia_in_place": marsaglia(), "nested_by_handle": nested()}
    return {
        **{case.name: (case.command, case.observed, case.evidence) for case in found.values()},
        **{name: ((name,), case.observed, case.evidence) for name, case in twins.items()},
        "capped-4": (("capped", "4"), {"y": 1.2}, capped_evidence(1.2)),
        "sir-2": (("sir", "2", "40"), {"cases": [5.0, 6.0]}, sir((5, 6), 40).evidence),
    }


def cases() -> list[Case]:
    return [
        gaussian(),
        marsaglia(),
        marsaglia(-1.0, -1.0),
        beta_bernoulli(1),
        beta_bernoulli(10),
        beta_bernoulli(30),
        beta_bernoulli(5, "b"),
        beta_bernoulli(3, "finite"),
        truncated_normal("a"),
        truncated_normal("b"),
        truncated_normal("b", infinite=True),
        nested(),
        recursive(),
        recursive(1),
        sequence(),
        branching(),
        event_loop(),
        event_loop(infinite=True),
    ]

"""What is known exactly about the experiments: evidences, acceptances, effective shares, and Theorem 1's S_pq."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ars.columns import Floats

__all__ = ["BetaBernoulli", "log_beta", "marsaglia_evidence"]


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def marsaglia_evidence(y: float, sigma: float = 0.1) -> float:
    """Of two data, both y, of a Normal(mu, sigma), where mu is Normal(0, 1)."""
    # their mean is Normal(mu, sigma / sqrt 2); their difference says nothing of mu and is 0
    variance = 1.0 + sigma**2 / 2.0
    of_mean = math.exp(-0.5 * y**2 / variance) / math.sqrt(2.0 * math.pi * variance)
    of_difference = 1.0 / math.sqrt(2.0 * math.pi * 2.0 * sigma**2)
    return of_mean * of_difference


def _average(f: Callable[[Floats], Floats], a: float, b: float, panels: int = 400) -> float:
    """The mean of f(x) for x ~ Beta(a, b), a and b at least 1: Gauss-Legendre on equal panels."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x = ((np.arange(panels)[:, None] + 0.5 + 0.5 * nodes) / panels).ravel()
    w = np.tile(weights / (2.0 * panels), panels)
    density = np.exp((a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) - log_beta(a, b))
    return float(np.sum(w * density * f(x)))


class BetaBernoulli(NamedTuple):
    """n tosses, all True, of a coin whose bias is Beta(alpha, alpha), drawn by rejection from the Uniform.

    Setting a: alpha = 2, x is proposed by Beta(alpha + n, alpha), u by Uniform(0, 1). Setting b: alpha = 10, and u is
    proposed by 0.99 Uniform(0, bound(x)) + 0.01 Uniform(0, 1), where bound(x) is the largest u that is accepted.
    """

    setting: str
    n: int

    @property
    def alpha(self) -> float:
        return {"a": 2.0, "b": 10.0}[self.setting]

    def bound(self, x: Floats) -> Floats:
        return np.asarray((4.0 * x * (1.0 - x)) ** (self.alpha - 1.0), dtype=np.float64)

    @property
    def evidence(self) -> float:
        return math.exp(log_beta(self.alpha + self.n, self.alpha) - log_beta(self.alpha, self.alpha))

    @property
    def p_accept(self) -> float:
        return math.exp((self.alpha - 1.0) * math.log(4.0) + log_beta(self.alpha, self.alpha))

    def _accepted_given(self, x: Floats) -> Floats:
        """The share of tries under q with this x that is accepted."""
        return self.bound(x) if self.setting == "a" else 0.99 + 0.01 * self.bound(x)

    @property
    def q_accept(self) -> float:
        return _average(self._accepted_given, self.alpha + self.n, self.alpha)

    @property
    def biased(self) -> float:
        """What the uncorrected weights converge to."""
        return self.evidence * self.p_accept / self.q_accept

    def ess_share(self, method: str, tries: int = 10) -> float | None:
        """ESS/N of "collapsed", "prior" or "ars-M" weights; None for "ic", whose second moment is infinite.

        An accepted draw has the collapsed weight evidence * posterior(x) / q(x | A), so the mean of its square is
        evidence^2 q(A) E[1 / accepted(x)], the mean being over the posterior, from which x is drawn in both settings.
        The estimates K/N and T of the correction are independent of it and of each other.
        """
        a, n = self.alpha, self.n
        if method == "ic":
            return None
        if method == "prior":
            return math.exp(2.0 * log_beta(a + n, a) - log_beta(a, a) - log_beta(a + 2 * n, a))
        if self.setting == "a":
            # E[1 / bound(x)] has a factor x(1-x) in the denominator, which the Beta density takes in
            mean_inverse = math.exp(log_beta(a + n - 1.0, a - 1.0) - log_beta(a + n, a)) / 4.0
        else:
            mean_inverse = _average(lambda x: 1.0 / self._accepted_given(x), a + n, a)
        collapsed = 1.0 / (self.q_accept * mean_inverse)
        if method in ("collapsed", "biased"):
            return collapsed
        p, q, runs = self.p_accept, self.q_accept, int(method.removeprefix("ars-"))
        return collapsed / ((1.0 + (1.0 - q) / (tries * q)) * (1.0 + (1.0 - p) / runs))

    @property
    def s_pq(self) -> float:
        """Theorem 1's S_pq: at x = 0 all tries are rejected and 1/q(x) is like x^(1 - alpha - n), not integrable."""
        return math.inf

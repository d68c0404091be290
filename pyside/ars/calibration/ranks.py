"""Ranks of the truth among weighted traces, and whether they are uniform. Pure functions; numpy alone.

A truth drawn from the prior and the posterior draws for the data that it gave are exchangeable: the truth is as likely
to be the smallest as any of them. With N draws of equal weight, the truth's rank r is uniform on 0, ..., N, and
(r + V) / (N + 1) is uniform on (0, 1) for a uniform V. ``truth_rank`` is this number for weighted draws: N is replaced
by the effective number of draws n, and r by n times the weight below the truth. It is exact for equal weights. For
others, the error is of the order of the weighted estimate's own bias, 1/n. No draws are resampled, so no noise is
added, and V breaks ties for discrete values as well.
"""

from __future__ import annotations

import functools
import math
from typing import Final, NamedTuple

import numpy as np

from ars.columns import Floats
from ars.diagnostics import ess, normalised_weights

__all__ = [
    "LEVELS",
    "Band",
    "Placed",
    "Uniformity",
    "binomial_interval",
    "place",
    "rank_band",
    "truth_rank",
    "uniformity",
]

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)  # of credible intervals whose coverage is shown
_POINTS: Final = 50  # at which the distribution function of ranks is compared
_SIMULATIONS: Final = 9_999
_LEVEL: Final = 0.01  # of bands


class Placed(NamedTuple):
    """Where a truth lies among weighted draws."""

    rank: float  # uniform on (0, 1) if the posterior is right
    cdf: float  # posterior probability below the truth; ties broken at random
    ess: float  # effective draws that have the value


def truth_rank(below: float, tied: float, effective: float, v: float) -> float:
    """The truth's rank as a number in (0, 1).

    Parameters
    ----------
    below, tied : float
        Posterior probability of values below the truth, and equal to it.
    effective : float
        Effective number of draws.
    v : float
        Uniform on (0, 1).

    Returns
    -------
    float
        Uniform on (0, 1) if the draws come from the posterior.
    """
    return (effective * below + v * (effective * tied + 1.0)) / (effective + 1.0)


def place(truth: float, draws: Floats, log_weights: Floats, v: float) -> Placed | None:
    """Where the truth lies among weighted draws.

    Parameters
    ----------
    truth : float
        The value that gave the data.
    draws : array
        One value per trace; NaN where a trace has none.
    log_weights : array
        One per trace.
    v : float
        Uniform on (0, 1), which breaks ties.

    Returns
    -------
    Placed or None
        None if no trace of positive weight has the value: there is nothing to compare with.
    """
    there = ~np.isnan(draws) & (log_weights > -np.inf)
    if not np.any(there):
        return None
    x, kept = draws[there], log_weights[there]
    weights = normalised_weights(kept)
    below, tied = float(weights[x < truth].sum()), float(weights[x == truth].sum())
    effective = ess(kept)
    return Placed(truth_rank(below, tied, effective, v), min(below + v * tied, 1.0), effective)


# ---- uniformity ------------------------------------------------------------------------------------------------------


class Band(NamedTuple):
    """Where the share of ranks up to ``at`` lies with probability 99%, at all points together."""

    at: Floats
    low: Floats
    high: Floats


class Uniformity(NamedTuple):
    """A test of ranks."""

    p_value: float
    mean: float  # 0.5 if they are uniform
    variance: float  # 1/12 if they are uniform

    @property
    def shape(self) -> str:
        """How the posteriors are wrong, if they are, in words."""
        shift, spread = self.mean - 0.5, self.variance * 12.0 - 1.0
        if abs(shift) * math.sqrt(12.0) >= abs(spread):
            return "too high" if shift < 0 else "too low"
        return "too narrow" if spread > 0 else "too wide"


def _binomial_cdf(n: int, z: Floats) -> Floats:
    """P(C <= c) for c = 0, ..., n (rows) and every probability z (columns)."""
    c = np.arange(n + 1)
    log_choose = np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)])
    log_pmf = log_choose[:, None] + c[:, None] * np.log(z) + (n - c)[:, None] * np.log1p(-z)
    found: Floats = np.minimum(np.cumsum(np.exp(log_pmf), axis=0), 1.0)
    return found


@functools.lru_cache(maxsize=16)
def _null(n: int) -> tuple[Floats, Floats, Floats]:
    """The points, two-sided tail probabilities by count and point, and the least of them in simulated uniform ranks."""
    z = np.arange(1, _POINTS) / _POINTS
    cdf = _binomial_cdf(n, z)
    at_least = 1.0 - np.vstack([np.zeros_like(z), cdf[:-1]])
    tails = np.minimum(2.0 * np.minimum(cdf, at_least), 1.0)
    rng = np.random.default_rng(20_210_601)  # the same bands everywhere
    cells = rng.multinomial(n, np.full(_POINTS, 1.0 / _POINTS), _SIMULATIONS)
    least = tails[np.cumsum(cells, axis=1)[:, :-1], np.arange(_POINTS - 1)].min(axis=1)
    return z, tails, np.sort(least)


def uniformity(ranks: Floats) -> Uniformity:
    """Test whether ranks are uniform on (0, 1).

    The number of ranks up to each of 49 points is compared with its binomial distribution. The smallest tail
    probability is compared with that of simulated uniform ranks, so the p-value holds for all points together
    (Säilynoja, Bürkner and Vehtari, 2022).

    Parameters
    ----------
    ranks : array
        One per data set.

    Returns
    -------
    Uniformity
        The p-value is at least 0.0001, the resolution of the simulation. NaN without ranks.
    """
    n = len(ranks)
    if not n:
        return Uniformity(math.nan, math.nan, math.nan)
    z, tails, least = _null(n)
    counts = np.searchsorted(np.sort(ranks), z, side="right")
    found = float(tails[counts, np.arange(len(z))].min())
    # equal products of different counts may differ in their last bits
    as_small = int(np.searchsorted(least, found * (1.0 + 1e-9), side="right"))
    return Uniformity((1 + as_small) / (1 + len(least)), float(ranks.mean()), float(ranks.var()))


def rank_band(n: int) -> Band:
    """The simultaneous band of the distribution function of n uniform ranks.

    Parameters
    ----------
    n : int
        Number of data sets.

    Returns
    -------
    Band
        With probability 99% the whole function lies inside.
    """
    z, tails, least = _null(n)
    limit = least[int(_LEVEL * len(least))]
    inside = tails > limit
    low = np.argmax(inside, axis=0) / n
    high = (n - np.argmax(inside[::-1], axis=0)) / n
    return Band(z, low, high)


def binomial_interval(n: int, share: float, level: float = 1.0 - _LEVEL) -> tuple[float, float]:
    """Where the share of n independent events of probability ``share`` lies with the given probability.

    Parameters
    ----------
    n : int
        Number of events.
    share : float
        Probability of each, from 0 to 1.
    level : float
        Probability of the interval (default: 0.99).

    Returns
    -------
    tuple of float
        The lowest and the highest share.
    """
    if n == 0 or share in (0.0, 1.0):
        return share, share
    cdf = _binomial_cdf(n, np.array([share]))[:, 0]
    half = (1.0 - level) / 2.0
    return int(np.searchsorted(cdf, half)) / n, int(np.searchsorted(cdf, 1.0 - half)) / n

"""Relative variances of the estimates of 1/p(A) and q(A), exact and vectorised.

The relative variance of an estimate is its variance divided by the square of its mean.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ars.columns import Floats

__all__ = ["of_accepted", "of_runs", "of_tries"]

_SERIES_TERMS = 64  # of a series whose terms at least halve
_SERIES_FROM = 0.5  # q from which the series is used; below it, the recurrence does not amplify errors


def of_runs(p: npt.ArrayLike, M: npt.ArrayLike) -> Floats:
    """Of T/M, an estimate of 1/p(A): the mean number of tries of M runs until accepted."""
    return np.asarray((1.0 - np.asarray(p, np.float64)) / np.asarray(M, np.float64))


def of_tries(q: npt.ArrayLike, N: npt.ArrayLike, *, reuse: bool = False) -> Floats:
    """Of K/N, the paper's estimate of q(A); or of (K + [L = 1])/(N + 1), which reuses the first try of the main run."""
    numbers = np.asarray(q, np.float64)
    return np.asarray((1.0 - numbers) / numbers / (np.asarray(N, np.float64) + reuse))


def of_accepted(q: npt.ArrayLike, R: int) -> Floats:
    """Of R/(S - 1), where S counts the tries until R + 1 are accepted; of [L = 1] if R is 0.

    The second moment is R times the integral of w^(R-1) / (q + (1-q) w) over w from 0 to 1, in units of q squared.
    """
    numbers = np.asarray(q, np.float64)
    if R == 0:
        return np.asarray((1.0 - numbers) / numbers)
    flat = numbers.reshape(-1)
    out = np.empty_like(flat)
    near = flat >= _SERIES_FROM
    out[near] = _by_series(flat[near], R)
    out[~near] = _by_recurrence(flat[~near], R)
    return out.reshape(numbers.shape)


def _by_series(q: Floats, R: int) -> Floats:
    """The sum over k of (1-q)^k / binomial(R + k, k), without its first term, which is 1."""
    term, total = np.ones_like(q), np.zeros_like(q)
    for k in range(1, _SERIES_TERMS):
        term = term * (1.0 - q) * (k / (R + k))
        total += term
    return total


def _by_recurrence(q: Floats, R: int) -> Floats:
    """With I(r) the integral for r: (1-q) I(r+1) + q I(r) = 1/r. An error shrinks with every step while q < 1/2."""
    integral = -np.log(q) / (1.0 - q)
    for r in range(1, R):
        integral = (1.0 / r - q * integral) / (1.0 - q)
    return R * integral - 1.0

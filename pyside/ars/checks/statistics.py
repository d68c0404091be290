"""Tests of distributions, in numpy alone: Kolmogorov and Smirnov, for one sample and for two."""

from __future__ import annotations

import math

import numpy as np

from ars.columns import Floats

__all__ = ["kolmogorov", "same_distribution", "two_sided", "uniform"]


def kolmogorov(statistic: float) -> float:
    """Probability that the scaled Kolmogorov statistic sqrt(n) D exceeds this value, for large n."""
    if statistic < 0.2:
        return 1.0  # the series below needs many terms there, and the answer is 1 to 12 digits
    terms = ((-1) ** (k - 1) * math.exp(-2.0 * (k * statistic) ** 2) for k in range(1, 101))
    return min(max(2.0 * math.fsum(terms), 0.0), 1.0)


def uniform(values: Floats) -> float:
    """p-value of the hypothesis that these are independent and uniform on (0, 1)."""
    n = len(values)
    ordered = np.sort(values)
    upper = np.arange(1, n + 1) / n - ordered
    lower = ordered - np.arange(n) / n
    return kolmogorov(math.sqrt(n) * float(max(upper.max(), lower.max())))


def same_distribution(one: Floats, other: Floats) -> float:
    """p-value of the hypothesis that two samples have the same distribution. Ties make it larger, never smaller."""
    n, m = len(one), len(other)
    both = np.concatenate([one, other])
    both.sort()
    below = np.searchsorted(np.sort(one), both, side="right") / n
    above = np.searchsorted(np.sort(other), both, side="right") / m
    return kolmogorov(math.sqrt(n * m / (n + m)) * float(np.abs(below - above).max()))


def two_sided(z: float) -> float:
    """p-value of a standard normal score."""
    return math.erfc(abs(z) / math.sqrt(2.0))

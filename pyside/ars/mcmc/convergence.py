"""Whether chains have mixed: R-hat and effective numbers of draws, as Vehtari, Gelman, Simpson, Carpenter and Bürkner
(2021) define them. Pure functions of an array of chains x draws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ars.columns import Floats

__all__ = ["ess_bulk", "ess_mean", "ess_tail", "mcse_mean", "rhat"]

_FEWEST = 4  # draws of a chain
_TAIL = (0.05, 0.95)


def _checked(values: npt.ArrayLike) -> Floats | None:
    """The draws; None if nothing can be said about them: too few, or not all finite."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"chains must be an array of chains x draws, not of shape {x.shape}")
    return x if x.shape[0] and x.shape[1] >= _FEWEST and np.isfinite(x).all() else None


def _split(x: Floats) -> Floats:
    """Every chain as two, so that one that drifts differs from itself."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _constant(x: Floats) -> bool:
    return float(x.max()) - float(x.min()) < float(np.finfo(np.float64).resolution)


def _z_scores(x: Floats) -> Floats:
    """Normal scores of the ranks, ties sharing the mean of theirs."""
    _, place, counts = np.unique(x.reshape(-1), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = last - (counts - 1) / 2.0
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((rank - 0.375) / (x.size + 0.25)) for rank in ranks.tolist()])
    return scores[place].reshape(x.shape)


def _rhat(x: Floats) -> float:
    """Between and within chains (Gelman and Rubin, 1992)."""
    draws = x.shape[1]
    within = float(x.var(axis=1, ddof=1).mean())
    between = float(x.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else math.inf
    return math.sqrt(((draws - 1) / draws * within + between) / within)


def rhat(values: npt.ArrayLike) -> float:
    """Rank-normalised split R-hat.

    Parameters
    ----------
    values : array_like
        Chains x draws.

    Returns
    -------
    float
        1 for chains that cannot be told apart, in their middle and in their spread; above 1.01, run longer. NaN with
        fewer than 4 draws per chain, or where a draw has no value.
    """
    x = _checked(values)
    if x is None:
        return math.nan
    if _constant(x):
        return 1.0
    halves = _split(x)
    return max(_rhat(_z_scores(halves)), _rhat(_z_scores(np.abs(halves - np.median(halves)))))


def _autocovariance(x: Floats) -> Floats:
    """Of every chain, by lag: divided by the number of draws, as is usual."""
    draws = x.shape[1]
    size = 1 << (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(x - x.mean(axis=1, keepdims=True), size, axis=1)
    product = np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :draws]
    return np.asarray(product / draws)


def _ess(x: Floats) -> float:
    """The number of independent draws whose mean is as precise (Geyer's initial monotone sequence)."""
    chains, draws = x.shape
    if _constant(x):
        return float(x.size)
    covariance = _autocovariance(x).mean(axis=0)
    within = covariance[0] * draws / (draws - 1)
    total = covariance[0] + (float(x.mean(axis=1).var(ddof=1)) if chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    last = 1  # of the lags that count: they come in pairs, until the sum of one is negative
    while last < draws - 3 and rho[last - 1] + rho[last] > 0.0:
        last += 2
    last -= 2
    kept = np.zeros(last + 2)
    kept[: last + 1] = rho[: last + 1]
    beyond, pair = float(rho[last + 1]), float(rho[last + 1 : last + 3].sum())
    kept[last + 1] = beyond if beyond > 0.0 or pair >= 0.0 else 0.0
    for t in range(1, last - 1, 2):  # sums of pairs do not grow
        if kept[t + 1] + kept[t + 2] > kept[t - 1] + kept[t]:
            kept[t + 1] = kept[t + 2] = (kept[t - 1] + kept[t]) / 2.0
    tau = -1.0 + 2.0 * float(kept[: last + 1].sum()) + float(kept[last + 1])
    return x.size / max(tau, 1.0 / math.log10(x.size))


def ess_bulk(values: npt.ArrayLike) -> float:
    """The effective number of draws for the middle of the distribution, NaN as for ``rhat``. Values: chains x draws."""
    x = _checked(values)
    return math.nan if x is None else _ess(x if _constant(x) else _z_scores(_split(x)))


def ess_tail(values: npt.ArrayLike) -> float:
    """The effective number of draws for the 5% and 95% quantiles, the smaller of the two. Values: chains x draws."""
    x = _checked(values)
    if x is None:
        return math.nan
    return min(_ess(_split((x <= np.quantile(x, q)).astype(np.float64))) for q in _TAIL)


def ess_mean(values: npt.ArrayLike) -> float:
    """The effective number of draws for the mean. Values: chains x draws."""
    x = _checked(values)
    return math.nan if x is None else _ess(_split(x))


def mcse_mean(values: npt.ArrayLike) -> float:
    """The Monte Carlo standard error of the mean. Values: chains x draws."""
    x = _checked(values)
    return math.nan if x is None else float(x.std(ddof=1)) / math.sqrt(ess_mean(x))

"""Quality of a set of importance weights: evidence, effective sample size, tails, convergence.

Pure functions of log weights. A log weight of -inf is a weight of 0 and counts like any other.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "LEAST_EFFECTIVE",
    "Evidence",
    "GeneralisedPareto",
    "ParetoK",
    "checked_levels",
    "ess",
    "fit_generalised_pareto",
    "k_converge",
    "log_evidence",
    "normalised_ess",
    "normalised_weights",
    "pareto_k",
    "resample",
    "running_evidence",
    "shown_ess",
    "too_few",
    "weighted_mean",
    "weighted_mean_error",
    "weighted_quantile",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

LEAST_EFFECTIVE = 2.0  # effective traces, below which a standard error says nothing and is NaN
_ROUNDING = 1e-9  # two equal weights are two effective traces


def _checked(log_weights: npt.ArrayLike) -> Floats:
    weights = np.asarray(log_weights, dtype=np.float64)
    if weights.ndim != 1 or not len(weights):
        raise ValueError(f"log weights must be a list of at least one number, not an array of shape {weights.shape}")
    wrong = np.isnan(weights) | (weights == np.inf)
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(f"log weight {where} is {weights[where]}, must be a finite number or -inf")
    return weights


def _scaled(weights: Floats) -> tuple[Floats, float]:
    """Weights relative to the largest, and its log; all zeros if every weight is 0."""
    largest = float(weights.max())
    return (np.zeros_like(weights), largest) if largest == -np.inf else (np.exp(weights - largest), largest)


# ---- evidence ---------------------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """An estimate of the evidence p(y), the mean weight.

    Attributes
    ----------
    log_estimate : float
        Natural log of the evidence; -inf if every weight is 0.
    standard_error : float
        Standard error of the evidence (not of its log). inf or 0 if a double cannot hold it; NaN below two effective
        traces.
    relative_error : float
        Standard error over estimate: to first order the standard error of ``log_estimate``, at every magnitude. NaN
        like ``standard_error``.
    reason : str or None
        Why there is no standard error; None if there is one.
    """

    log_estimate: float
    standard_error: float
    relative_error: float
    reason: str | None = None

    @property
    def evidence(self) -> float:
        """The evidence itself; 0 or inf where a double cannot hold it."""
        return _exp(self.log_estimate)

    def distance(self, exact: float | None = None, *, log_exact: float | None = None) -> float:
        """Compare the estimate with an exact evidence, in standard errors.

        Parameters
        ----------
        exact : float, optional
            The exact evidence. Give either this or ``log_exact``.
        log_exact : float, optional
            Its natural log, for evidences that a double cannot hold.

        Returns
        -------
        float
            Standard errors by which the estimate lies above (negative: below) the exact evidence. NaN if there is no
            standard error; 0 or infinite if it is 0.

        Raises
        ------
        TypeError
            If none or both of ``exact`` and ``log_exact`` are given.
        """
        if (exact is None) == (log_exact is None):
            raise TypeError("distance needs either exact or log_exact")
        if exact is not None:
            log_exact = math.log(exact) if exact > 0.0 else -math.inf
        assert log_exact is not None
        if math.isnan(self.relative_error):
            return math.nan
        above = -math.expm1(log_exact - self.log_estimate) if log_exact - self.log_estimate < 709.0 else -math.inf
        if self.relative_error == 0.0:
            return math.copysign(math.inf, above) if above else 0.0
        return above / self.relative_error


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.0 else math.inf


def shown_ess(effective: float) -> str:
    """Format an effective number of traces, rounded down: 1.99 is not 2.0.

    Parameters
    ----------
    effective : float
        Effective number of traces.

    Returns
    -------
    str
        Below 100 with one decimal, such as "23.4"; above without, such as "1,234".
    """
    if effective + _ROUNDING >= 100.0:
        return f"{math.floor(effective + _ROUNDING):,}"
    return f"{math.floor(effective * 10.0 + _ROUNDING) / 10.0:.1f}"


def too_few(effective: float) -> str | None:
    """Explain why this many effective traces give no standard error.

    Parameters
    ----------
    effective : float
        Effective number of traces.

    Returns
    -------
    str or None
        The reason; None from two effective traces.
    """
    if effective >= LEAST_EFFECTIVE - _ROUNDING:
        return None
    if effective == 0.0:
        return "every weight is 0: there is no estimate"
    shown = shown_ess(effective)
    return f"{shown} effective traces are too few for a standard error: it needs at least {LEAST_EFFECTIVE:.0f}"


def log_evidence(log_weights: npt.ArrayLike) -> Evidence:
    """Estimate the log of the mean weight, and its standard error.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    Evidence
        Its errors are NaN, with a ``reason``, below two effective traces: one weight then decides the estimate, so
        the spread of the weights says nothing about the error.

    Raises
    ------
    ValueError
        If there is no weight, or one is NaN or +inf.
    """
    weights = _checked(log_weights)
    scaled, largest = _scaled(weights)
    mean = float(scaled.mean())
    log_estimate = largest + math.log(mean) if mean else -math.inf
    if (reason := too_few(ess(weights))) is not None:
        return Evidence(log_estimate, math.nan, math.nan, reason)
    relative = float(scaled.std(ddof=1)) / math.sqrt(len(weights)) / mean
    return Evidence(log_estimate, _exp(log_estimate + math.log(relative)) if relative > 0 else 0.0, relative)


def running_evidence(log_weights: npt.ArrayLike, at: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Estimate the log evidence after the first n weights, for several n.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.
    at : array_like of int
        The numbers n, each from 1 to the number of weights.

    Returns
    -------
    tuple of array
        Log evidence and its relative error, one per n. The error is NaN below two effective traces.
    """
    weights = _checked(log_weights)
    n = np.asarray(at, dtype=np.int64)
    scaled, largest = _scaled(weights)
    mean = np.cumsum(scaled)[n - 1] / n
    square = np.cumsum(scaled**2)[n - 1] / n
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sqrt(np.maximum(square - mean**2, 0.0) / (n - 1)) / mean
        enough = n * mean**2 / square >= LEAST_EFFECTIVE - _ROUNDING
        return largest + np.log(mean), np.where(enough, relative, np.nan)


def normalised_weights(log_weights: npt.ArrayLike) -> Floats:
    """Scale weights so that they sum to 1.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    array
        Weights, not their logs.

    Raises
    ------
    ValueError
        If every weight is 0.
    """
    scaled, _ = _scaled(_checked(log_weights))
    total = scaled.sum()
    if total == 0.0:
        raise ValueError(
            "every weight is 0: no trace explains the data, or no trace that does has a correction above 0. "
            "There is no posterior"
        )
    return np.asarray(scaled / total, dtype=np.float64)


def ess(log_weights: npt.ArrayLike) -> float:
    """Count the effective traces, (sum w)^2 / sum w^2.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    float
        From 1 to the number of traces; 0 if every weight is 0.
    """
    scaled, _ = _scaled(_checked(log_weights))
    squares = float(np.square(scaled).sum())
    return float(scaled.sum()) ** 2 / squares if squares else 0.0


def normalised_ess(log_weights: npt.ArrayLike) -> float:
    """Divide the effective number of traces by their number.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    float
        From 0 to 1.
    """
    weights = _checked(log_weights)
    return ess(weights) / len(weights)


# ---- tails ------------------------------------------------------------------------------------------------------


class ParetoK(float):
    """The shape k of the weights' tail: moments of order 1/k and above do not exist.

    Below ``threshold``, the evidence and means can be trusted; above 0.7 they cannot, whatever their standard errors
    are. NaN, with a ``reason``, means that no tail could be fitted: k is unknown, so do not trust the estimates. -inf,
    with a ``reason``, means that many weights share the largest value: the weights are bounded and have no tail.
    """

    tail: int  # how many weights were fitted
    threshold: float  # min(1 - 1/log10(S), 0.7) for S weights
    reason: str | None

    def __new__(cls, k: float, *, tail: int = 0, threshold: float = 0.7, reason: str | None = None) -> ParetoK:
        self = super().__new__(cls, k)
        self.tail, self.threshold, self.reason = tail, threshold, reason
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, object]]:
        return (float(self),), {"tail": self.tail, "threshold": self.threshold, "reason": self.reason}

    @property
    def reliable(self) -> bool:
        """Whether the tail is known to be light enough."""
        return bool(self < self.threshold)

    @property
    def unknown(self) -> bool:
        """Whether no tail could be fitted; ``reason`` says why."""
        return math.isnan(self)


_LEAST_TAIL = 5


def pareto_k(log_weights: npt.ArrayLike, *, tail_share: float = 1.0) -> ParetoK:
    """Fit a generalised Pareto distribution to the largest weights (Vehtari, Simpson, Gelman, Yao and Gabry, 2024).

    The tail consists of the min(0.2 S, 3 sqrt(S)) largest of S weights. Weights equal to the largest one outside the
    tail are excluded.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.
    tail_share : float
        Share of the tail to fit, its largest weights (default: 1.0, all of them).

    Returns
    -------
    ParetoK
        The shape k. NaN if it is unknown and -inf if there is no tail, each with a ``reason``.
    """
    weights = _checked(log_weights)
    size = len(weights)
    threshold = min(1.0 - 1.0 / math.log10(size), 0.7) if size > 10 else 0.0
    tail = math.ceil(tail_share * min(0.2 * size, 3.0 * math.sqrt(size)))
    if tail < _LEAST_TAIL:
        many = "1 weight is" if size == 1 else f"{size} weights are"
        reason = f"{many} too few: a tail of {_LEAST_TAIL} needs at least 21"
        return ParetoK(math.nan, threshold=threshold, reason=reason)
    # the tail and the largest weight outside it, ascending
    top = np.sort(np.partition(weights, size - tail - 1)[size - tail - 1 :])
    if top[-1] == -np.inf:
        return ParetoK(math.nan, threshold=threshold, reason="every weight is 0")
    if top[-1] == weights.min():
        return ParetoK(-math.inf, threshold=threshold, reason="all weights are equal: there is no tail")
    if top[-1] == top[0]:
        reason = f"more than {tail} weights tie for the largest: there is no tail"
        return ParetoK(-math.inf, threshold=threshold, reason=reason)
    relative = np.exp(top - top[-1])
    excess = relative[1:] - relative[0]
    excess = excess[excess > 0.0]
    if len(excess) < _LEAST_TAIL:
        larger = "1 weight is" if len(excess) == 1 else f"{len(excess)} weights are"
        reason = f"only {larger} larger than the rest, which tie or vanish beside them: too few for a tail"
        return ParetoK(math.nan, tail=len(excess), threshold=threshold, reason=reason)
    return ParetoK(fit_generalised_pareto(excess).shape, tail=len(excess), threshold=threshold)


class GeneralisedPareto(NamedTuple):
    """A generalised Pareto distribution of excesses: P(X > x) = (1 + shape x / scale)^(-1 / shape)."""

    shape: float
    scale: float


def fit_generalised_pareto(x: Floats) -> GeneralisedPareto:
    """Fit a generalised Pareto distribution: Zhang and Stephens (2009), sign of the shape as Vehtari's.

    Parameters
    ----------
    x : array
        Positive numbers in ascending order, at least 5.

    Returns
    -------
    GeneralisedPareto
        The shape with Vehtari's weak prior, worth ten observations of 0.5; the scale without it, as in PSIS.
    """
    n = len(x)
    grid = 30 + int(math.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    steps = np.arange(1, grid + 1) - 0.5
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(grid / steps)) / (3.0 * quartile)
    k = np.log1p(-theta[:, None] * x[None, :]).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_likelihood = n * (np.log(-theta / k) - k - 1.0)
    log_likelihood = np.where(np.isnan(log_likelihood), -np.inf, log_likelihood)  # theta = 0: measure zero
    posterior = np.exp(log_likelihood - log_likelihood.max())
    best = float((theta * posterior).sum() / posterior.sum())
    shape = float(np.log1p(-best * x).mean())
    return GeneralisedPareto((n * shape + 10 * 0.5) / (n + 10), -shape / best)


# ---- convergence ------------------------------------------------------------------------------------------------


def k_converge(
    log_weights: npt.ArrayLike,
    epsilon: float = 0.01,
    *,
    seed: int | np.random.Generator = 0,
    max_draws: int | None = None,
    repeats: int = 100,
) -> int | None:
    """Find how many traces convergence takes, by the test of Chatterjee and Diaconis (2018) that the paper uses.

    Q_K = max w / sum w is the share of the largest of K weights; it is 1 while all of them are 0. The test passes at
    the smallest K with E[Q_K] < epsilon. E[Q_K] is the mean over random orderings of the weights, of which Q_K takes
    the first K. They are drawn without replacement, so the mean is unbiased for every K.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.
    epsilon : float
        Largest share of a single weight, between 0 and 1 (default: 0.01).
    seed : int or numpy.random.Generator
        Seed of the orderings (default: 0).
    max_draws : int, optional
        Largest K to try (default: the number of weights). A million weights take some seconds.
    repeats : int
        Number of random orderings (default: 100).

    Returns
    -------
    int or None
        The smallest K; None if no K up to ``max_draws`` passes.
    """
    weights = _checked(log_weights)
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon is {epsilon}, must be between 0 and 1")
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}, must be at least 1")
    if max_draws is not None and max_draws < 1:
        raise ValueError(f"max_draws is {max_draws}, must be at least 1")
    limit = len(weights) if max_draws is None else min(max_draws, len(weights))
    if limit * epsilon <= 1.0:  # Q_K is at least 1/K
        return None
    rng = np.random.default_rng(seed)
    total = np.zeros(limit)
    for _ in range(repeats):
        drawn = weights[rng.choice(len(weights), size=limit, replace=False)]
        total += _largest_share(drawn)
    passed = total < epsilon * repeats * (1.0 - 1e-9)  # equal weights give Q_K = 1/K: rounding must not decide a tie
    return int(np.argmax(passed)) + 1 if passed.any() else None


def _largest_share(weights: Floats) -> Floats:
    """Q_K for K = 1, 2, ...: the largest of the first K weights over their sum."""
    largest = np.maximum.accumulate(weights)
    first = int(np.argmax(largest > -np.inf))
    if largest[first] == -np.inf:
        return np.ones(len(weights))
    share = np.ones(len(weights))
    share[first:] = np.exp(largest[first:] - np.logaddexp.accumulate(weights[first:]))
    return share


# ---- summaries under the weights --------------------------------------------------------------------------------


def _present(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Values that are there, with weights that sum to 1."""
    x = np.asarray(values, dtype=np.float64)
    weights = _checked(log_weights)
    if x.shape != weights.shape:
        raise ValueError(f"{x.shape} values for {weights.shape} weights: their numbers must be equal")
    there = ~np.isnan(x)
    if not there.any():
        raise ValueError("no trace has this value")
    return x[there], normalised_weights(weights[there])


def weighted_mean(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> float:
    """Average one number per trace by the weights, over the traces that have it.

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    float
        The weighted mean.

    Raises
    ------
    ValueError
        If no trace has the value, or all of those have weight 0.
    """
    x, weights = _present(values, log_weights)
    used = weights > 0.0  # an infinite value of weight 0 counts for nothing
    return float(weights[used] @ x[used])


def weighted_mean_error(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> float:
    """Estimate the standard error of ``weighted_mean``, by the delta method.

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    float
        NaN if the traces that have the value are fewer than two effective ones (``too_few`` says why).

    Raises
    ------
    ValueError
        If no trace has the value, or all of those have weight 0.
    """
    x, weights = _present(values, log_weights)
    used = weights > 0.0
    x, weights = x[used], weights[used]
    if too_few(float(1.0 / np.square(weights).sum())) is not None:
        return math.nan
    return float(np.sqrt(np.square(weights * (x - weights @ x)).sum()))


def checked_levels(q: npt.ArrayLike) -> Floats:
    """Check levels of quantiles.

    Parameters
    ----------
    q : float or array_like
        Levels.

    Returns
    -------
    array
        The levels as doubles.

    Raises
    ------
    ValueError
        If one is not between 0 and 1.
    """
    levels = np.asarray(q, dtype=np.float64)
    if not np.all((levels >= 0.0) & (levels <= 1.0)):
        raise ValueError(f"quantiles must lie between 0 and 1, not {levels.tolist()}")
    return levels


def weighted_quantile(values: npt.ArrayLike, q: npt.ArrayLike, log_weights: npt.ArrayLike) -> Floats:
    """Find quantiles under the weights, over the traces that have the value.

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    q : float or array_like
        Levels, from 0 to 1.
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    array
        For each level, the smallest value at which the cumulative weight reaches it.
    """
    levels = checked_levels(q)
    x, weights = _present(values, log_weights)
    x, weights = x[weights > 0.0], weights[weights > 0.0]
    order = np.argsort(x, kind="stable")
    reached = np.cumsum(weights[order])
    reached /= reached[-1]
    return np.asarray(x[order][np.searchsorted(reached, levels, side="left")], dtype=np.float64)


def resample(log_weights: npt.ArrayLike, n: int, seed: int | np.random.Generator = 0) -> Integers:
    """Draw rows in proportion to their weights, in random order.

    Systematic resampling: row i appears floor(n w_i) or ceil(n w_i) times, for weights w that sum to 1.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.
    n : int
        Number of rows to draw.
    seed : int or numpy.random.Generator
        Seed (default: 0).

    Returns
    -------
    array of int
        Zero-based row numbers.
    """
    if n < 0:
        raise ValueError(f"n is {n}, must not be negative")
    rng = np.random.default_rng(seed)
    reached = np.cumsum(normalised_weights(log_weights))
    points = (rng.random() + np.arange(n)) / max(n, 1) * reached[-1]
    rows = np.searchsorted(reached, points, side="right").astype(np.int64)
    return rng.permutation(np.minimum(rows, np.flatnonzero(np.diff(reached, prepend=0.0) > 0.0)[-1]))

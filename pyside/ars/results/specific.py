"""Diagnostics of one estimate: how well the weighted traces determine the mean or a quantile of one value h.

Weights that serve the evidence well may serve h badly, and the reverse. An estimate of the mean of h is a sum of terms
w (h - mean): its error is their root sum of squares. So the effective number of traces and the Pareto k that are
specific to h are those of the numbers |h - mean| w. Owen (Monte Carlo theory, methods and examples, section 9.3) and
Vehtari et al. (Pareto smoothed importance sampling, 2024) take |h| w; with the mean subtracted, a constant added to h
changes nothing, as it must.

Values are one number per trace, NaN where a trace has none; those traces are left out. Log weights as in
``ars.diagnostics``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ars.diagnostics import Floats, ParetoK, ess, pareto_k, too_few, weighted_mean

__all__ = ["specific_ess", "specific_pareto_k", "there", "weighted_quantile_errors"]


def there(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Select the traces that have the value: their values and log weights."""
    x, weights = np.asarray(values, dtype=np.float64), np.asarray(log_weights, dtype=np.float64)
    if x.shape != weights.shape:
        raise ValueError(f"{x.shape} values for {weights.shape} weights: their numbers must be equal")
    present = ~np.isnan(x)
    return x[present], weights[present]


def _log_terms(x: Floats, log_weights: Floats) -> Floats | None:
    """Logs of |h - mean| w; None if h is constant, or infinite, where it counts."""
    used = x[log_weights > -np.inf]
    if not len(used) or not np.isfinite(used).all() or used.min() == used.max():
        return None
    mean = weighted_mean(x, log_weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(log_weights > -np.inf, np.log(np.abs(x - mean)) + log_weights, -np.inf)


def _two_outcomes(x: Floats) -> bool:
    others = x[x != x[0]]
    return not len(others) or bool((others == others[0]).all())


def specific_ess(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> float:
    """Count the effective traces that determine the mean of a value.

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    log_weights : array_like
        One natural log weight per trace.

    Returns
    -------
    float
        (sum t)^2 / sum t^2 with t = abs(h - mean) w. For a constant value the effective number of traces; 0 if no trace
        with a positive weight has the value.
    """
    x, weights = there(values, log_weights)
    if not len(x):
        return 0.0
    terms = _log_terms(x, weights)
    return ess(weights if terms is None else terms)


def specific_pareto_k(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> ParetoK:
    """Fit the tail of the terms that make up the mean of a value.

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    log_weights : array_like
        One natural log weight per trace.

    Returns
    -------
    ParetoK
        Shape of the tail of abs(h - mean) w. For a value with one or two outcomes, or whose terms tie so that they
        have no tail, that of the weights: h is then bounded, and only the weights can have a tail. Terms on the two
        sides of the mean may differ in size, and the usual tail then spans both groups, which looks heavy. So where
        the usual tail looks heavy, the shape is that of its largest quarter if that is smaller: a tail that is heavy
        stays heavy further out.
    """
    x, weights = there(values, log_weights)
    if not len(x):
        return ParetoK(math.nan, reason="no trace has this value")
    terms = _log_terms(x, weights)
    if terms is None or _two_outcomes(x[weights > -np.inf]):
        return pareto_k(weights)
    specific = pareto_k(terms)
    if specific.reason is not None:
        return pareto_k(weights)
    if not specific.reliable:
        further = pareto_k(terms, tail_share=0.25)
        if further < specific:
            return further
    return specific


# ---- quantiles ----------------------------------------------------------------------------------------------------

_SIGMAS = 2.0  # half-width of the interval that is inverted: a narrower one rests on too few traces


class _Sorted(NamedTuple):
    """Values in ascending order that have a weight."""

    x: Floats
    reached: Floats  # share of the weights up to and with each
    squares: Floats  # sum of the squared shares up to and with each

    def quantile(self, q: float) -> float:
        """As ``weighted_quantile``."""
        return float(self.x[np.searchsorted(self.reached, q, side="left")])

    def effective(self, q: float) -> float:
        """The number of equally weighted traces with which the share below the q-quantile would be as uncertain."""
        below = float(self.squares[np.searchsorted(self.x, self.quantile(q), side="right") - 1])
        above = float(self.squares[-1]) - below
        return q * (1.0 - q) / ((1.0 - q) ** 2 * below + q**2 * above)


def _sorted(x: Floats, log_weights: Floats) -> _Sorted:
    scaled = np.exp(log_weights - log_weights.max())
    order = np.argsort(x[scaled > 0.0], kind="stable")
    shares = scaled[scaled > 0.0][order] / scaled.sum()
    reached = np.cumsum(shares)
    return _Sorted(x[scaled > 0.0][order], reached / reached[-1], np.cumsum(np.square(shares)))


def _quantile_error(ordered: _Sorted, q: float) -> tuple[float, str | None]:
    if q in (0.0, 1.0):
        return math.nan, "the smallest and the largest value have no standard error"
    n = ordered.effective(q)
    if n * min(q, 1.0 - q) < 1.0:
        return math.nan, f"less than one effective trace lies beyond the {q:g} quantile"
    spread = _SIGMAS**2 / n
    centre = (q + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * q * (1.0 - q) + spread**2 / 4.0) / (1.0 + spread)
    low, high = ordered.quantile(max(centre - half, 0.0)), ordered.quantile(min(centre + half, 1.0))
    return (high - low) / (2.0 * _SIGMAS), None


def weighted_quantile_errors(
    values: npt.ArrayLike, levels: Sequence[float], log_weights: npt.ArrayLike
) -> list[tuple[float, str | None]]:
    """Estimate standard errors of ``weighted_quantile``, by inverting an interval for the share below it.

    The share of the posterior below the estimated quantile has a standard error by the delta method. Wilson's interval
    of two standard errors around q is mapped to values; a quarter of its width is the result (Woodruff 1952).

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    levels : sequence of float
        Levels of the quantiles, from 0 to 1.
    log_weights : array_like
        One natural log weight per trace.

    Returns
    -------
    list of (float, str or None)
        Per level the standard error, NaN where the traces are too few, and why.
    """
    x, weights = there(values, log_weights)
    reason = too_few(ess(weights)) if len(x) else "no trace has this value"
    if reason is not None:
        return [(math.nan, reason) for _ in levels]
    ordered = _sorted(x, weights)
    return [_quantile_error(ordered, q) for q in levels]

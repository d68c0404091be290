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

import numpy as np
import numpy.typing as npt

from ars.diagnostics import Floats, ParetoK, ess, pareto_k, too_few, weighted_mean, weighted_quantile

__all__ = ["quantile_error_reason", "specific_ess", "specific_pareto_k", "there", "weighted_quantile_error"]


def there(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Select the traces that have the value: their values and log weights."""
    x, weights = np.asarray(values, dtype=np.float64), np.asarray(log_weights, dtype=np.float64)
    if x.shape != weights.shape:
        raise ValueError(f"{x.shape} values for {weights.shape} weights: they must be as many")
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
        have no tail, that of the weights: h is then bounded, and only the weights can have a tail.
    """
    x, weights = there(values, log_weights)
    if not len(x):
        return ParetoK(math.nan, reason="no trace has this value")
    terms = _log_terms(x, weights)
    if terms is None or _two_outcomes(x[weights > -np.inf]):
        return pareto_k(weights)
    specific = pareto_k(terms)
    return pareto_k(weights) if specific.reason is not None else specific


# ---- quantiles ----------------------------------------------------------------------------------------------------

_SIGMAS = 2.0  # half-width of the interval that is inverted: a narrower one rests on too few traces


def _effective_for_level(x: Floats, log_weights: Floats, q: float) -> float:
    """The number of equally weighted traces with which the share below the q-quantile would be as uncertain."""
    scaled = np.exp(log_weights - log_weights.max())
    weights = scaled / scaled.sum()
    below = x <= float(weighted_quantile(x, q, log_weights))
    variance = float(np.square(weights * (below - q)).sum())
    return q * (1.0 - q) / variance


def quantile_error_reason(values: npt.ArrayLike, q: float, log_weights: npt.ArrayLike) -> str | None:
    """Why ``weighted_quantile_error`` is NaN; None if it is a number."""
    x, weights = there(values, log_weights)
    if not len(x):
        return "no trace has this value"
    if (reason := too_few(ess(weights))) is not None:
        return reason
    if q in (0.0, 1.0):
        return "the smallest and the largest value have no standard error"
    if _effective_for_level(x, weights, q) * min(q, 1.0 - q) < 1.0:
        return f"less than one effective trace lies beyond the {q:g} quantile"
    return None


def weighted_quantile_error(values: npt.ArrayLike, q: float, log_weights: npt.ArrayLike) -> float:
    """Estimate the standard error of ``weighted_quantile``, by inverting an interval for the share below it.

    The share of the posterior below the estimated quantile has a standard error by the delta method. Wilson's interval
    of two standard errors around q is mapped to values; a quarter of its width is the result (Woodruff 1952).

    Parameters
    ----------
    values : array_like
        One number per trace; NaN where a trace has none.
    q : float
        Level of the quantile, from 0 to 1.
    log_weights : array_like
        One natural log weight per trace.

    Returns
    -------
    float
        NaN where the traces are too few (``quantile_error_reason`` says why).
    """
    if quantile_error_reason(values, q, log_weights) is not None:
        return math.nan
    x, weights = there(values, log_weights)
    n = _effective_for_level(x, weights, q)
    spread = _SIGMAS**2 / n
    centre = (q + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * q * (1.0 - q) + spread**2 / 4.0) / (1.0 + spread)
    low, high = weighted_quantile(x, [max(centre - half, 0.0), min(centre + half, 1.0)], weights)
    return float(high - low) / (2.0 * _SIGMAS)

"""Pareto-smoothed weights: Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling".

The largest weights are replaced by the quantiles of a generalised Pareto distribution that is fitted to them, cut off
at the largest raw weight. Estimates then vary less from run to run and are slightly biased: they supplement the plain
ones, which are unbiased, and never replace them without a word. Above k = 0.7 neither can be trusted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ars import diagnostics
from ars.diagnostics import Evidence, Floats, ParetoK, fit_generalised_pareto, pareto_k, shown_ess

if TYPE_CHECKING:
    from ars.columns import Key
    from ars.posterior import Posterior

__all__ = ["Smoothed", "SmoothedWeights", "smooth", "smoothing_matters"]


def smoothing_matters(pareto_k: float) -> bool:
    """Whether smoothed estimates are worth a look: from k = 0.5 plain ones have no variance, from 1 no mean either."""
    return 0.5 <= pareto_k < 1.0


class SmoothedWeights(NamedTuple):
    """Weights whose tail is smoothed.

    Attributes
    ----------
    log_weights : array
        One natural log weight per trace, on the scale of the raw ones.
    pareto_k : ParetoK
        Shape of the raw weights' tail.
    replaced : int
        Number of weights that were replaced; 0 if there is no tail to smooth, or none can be fitted.
    """

    log_weights: Floats
    pareto_k: ParetoK
    replaced: int


def smooth(log_weights: npt.ArrayLike) -> SmoothedWeights:
    """Smooth the tail of a set of weights.

    Weights of 0 count for the size of the tail, which is min(0.2 S, 3 sqrt(S)) of S weights, and stay 0. Weights that
    tie stay tied: each gets the mean of the smoothed values of all of them, so that the order of traces is irrelevant.

    Parameters
    ----------
    log_weights : array_like
        One natural log weight per trace; -inf is a weight of 0.

    Returns
    -------
    SmoothedWeights
        The weights as they are, with ``replaced`` 0, where ``pareto_k`` has a ``reason``: all tie, or the tail has
        fewer than five weights.

    Raises
    ------
    ValueError
        If there is no weight, or one is NaN or +inf.
    """
    k = pareto_k(log_weights)
    weights = np.array(log_weights, dtype=np.float64)
    if k.reason is not None:
        return SmoothedWeights(weights, k, 0)
    order = np.argsort(weights, kind="stable")[len(weights) - k.tail :]  # the tail that was fitted, ascending
    largest = float(weights[order[-1]])
    relative = np.exp(weights - largest)
    cutoff = float(relative[relative < relative[order[0]]].max())
    fitted = fit_generalised_pareto(relative[order] - cutoff)
    levels = (np.arange(k.tail) + 0.5) / k.tail
    if fitted.scale <= 0.0 or not math.isfinite(fitted.scale):
        return SmoothedWeights(weights, k, 0)
    spread = -np.log1p(-levels)
    if abs(fitted.shape) > 1e-15:
        spread = np.expm1(np.minimum(fitted.shape * spread, 700.0)) / fitted.shape
    excess = fitted.scale * spread
    smoothed = np.minimum(cutoff + excess, 1.0)
    _, group, count = np.unique(relative[order], return_inverse=True, return_counts=True)
    smoothed = (np.bincount(group, smoothed) / count)[group]
    weights[order] = np.log(smoothed) + largest
    return SmoothedWeights(weights, k, k.tail)


class Smoothed:
    """Estimates from Pareto-smoothed weights, from ``Posterior.smoothed``: slightly biased, with less variance.

    Attributes
    ----------
    method : str
        The weighting that was smoothed, such as "ars".
    log_weights : array
        One smoothed log weight per trace.
    pareto_k : ParetoK
        Shape of the raw weights' tail. Above 0.7 these estimates are no more to be trusted than the plain ones.
    replaced : int
        Number of weights that were replaced.
    """

    def __init__(self, post: Posterior, method: str, weights: SmoothedWeights) -> None:
        self._post = post
        self.method = method
        self.log_weights, self.pareto_k, self.replaced = weights

    def log_evidence(self) -> Evidence:
        """Estimate the log of the evidence p(y).

        Returns
        -------
        Evidence
            Estimate and standard error, as ``Posterior.log_evidence``. The error leaves out the bias.
        """
        return diagnostics.log_evidence(self.log_weights)

    def ess(self) -> float:
        """Count the effective traces of the smoothed weights.

        Returns
        -------
        float
            From 1 to the number of traces; 0 if every weight is 0.
        """
        return diagnostics.ess(self.log_weights)

    def mean(self, key: Key) -> float | Floats:
        """Estimate a posterior mean.

        Parameters
        ----------
        key : key
            A result or latent.

        Returns
        -------
        float or array
            One per instance and element, as ``Posterior.mean``.
        """
        return self._post._per_element(key, diagnostics.weighted_mean, self.log_weights)

    def quantile(self, key: Key, q: npt.ArrayLike) -> float | Floats:
        """Estimate posterior quantiles.

        Parameters
        ----------
        key : key
            A result or latent.
        q : float or array_like
            Levels, from 0 to 1.

        Returns
        -------
        float or array
            Shaped like ``Posterior.quantile``.
        """

        def at(values: Floats, log_weights: Floats) -> Floats:
            return diagnostics.weighted_quantile(values, q, log_weights)

        return self._post._per_element(key, at, self.log_weights)

    def __repr__(self) -> str:
        evidence = self.log_evidence()
        return (
            f'<Pareto-smoothed "{self.method}" weights (slightly biased, less variance): {self.replaced:,} of '
            f"{len(self.log_weights):,} replaced, log evidence {evidence.log_estimate:.6g}, "
            f"{shown_ess(self.ess())} effective traces, Pareto k {self.pareto_k:.2f}>"
        )

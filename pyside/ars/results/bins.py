"""Bins of a histogram, chosen by the width of the weighted draws.

Equal bins over everything that was drawn would cover a posterior that is much narrower than its prior with one or two
bars. Here quantiles of the weighted draws decide how wide a bar is, and which range is shown.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ars.diagnostics import Floats, ess, weighted_quantile

__all__ = ["bin_edges", "densities", "whole_bars"]

_FEWEST, _MOST = 12, 50  # bars across the middle 98% of the draws
_MOST_SHOWN: Final = 150
_AROUND: Final = 0.75  # of the middle range, that is shown on either side of it if the prior goes on there
_WHOLE: Final = 60  # largest range of whole numbers that has a bar for each of them


def bin_edges(values: Floats, log_weights: Floats, prior: Floats | None = None) -> Floats:
    """Choose bins for weighted draws.

    Parameters
    ----------
    values : array
        The draws; NaN is left out.
    log_weights : array
        Their log weights.
    prior : array, optional
        Equally weighted draws to be shown in the same bins (default: none). They widen the range that is shown, and
        not the bins.

    Returns
    -------
    array
        Increasing edges. Draws can lie outside: the range covers 99.8% of the weight or more.
    """
    there = ~np.isnan(values) & (log_weights > -np.inf)
    if not there.any():
        return np.array([0.0, 1.0])
    x, weights = values[there], log_weights[there]
    low, q01, q25, q75, q99, high = weighted_quantile(x, [0.001, 0.01, 0.25, 0.75, 0.99, 0.999], weights).tolist()
    others = np.empty(0) if prior is None else prior[np.isfinite(prior)]
    span = q99 - q01
    if len(others):
        outer = np.quantile(others, [0.001, 0.999]).tolist()
        low, high = min(low, max(outer[0], q01 - _AROUND * span)), max(high, min(outer[1], q99 + _AROUND * span))
    if np.all(x == np.round(x)) and np.all(others == np.round(others)) and np.abs(x).max() < 2.0**52:
        return _whole_numbers(math.floor(low), math.ceil(high))
    if not span > 0.0:
        wide = 0.5 * (abs(q01) or 1.0)
        low, high = (low, high) if high > low else (q01 - wide, q01 + wide)
        return np.linspace(low, high, _FEWEST + 1)
    width = 2.0 * (q75 - q25) / max(ess(weights), 1.0) ** (1.0 / 3.0)  # Freedman and Diaconis
    width = min(max(width, span / _MOST), span / _FEWEST)
    count = min(max(math.ceil((high - low) / width), 1), _MOST_SHOWN)
    return np.linspace(low, high, count + 1)


def _whole_numbers(low: int, high: int) -> Floats:
    """Bars centred on whole numbers, each of them if they are few."""
    step = math.ceil((high - low + 1) / _WHOLE)
    return np.arange(low - 0.5, high + 0.5 + step, step, dtype=np.float64)


def whole_bars(edges: Floats) -> bool:
    """Whether ``bin_edges`` chose bars centred on whole numbers."""
    return bool(np.all((edges - 0.5) == np.round(edges - 0.5)))


def densities(values: Floats, edges: Floats, weights: Floats | None = None) -> Floats:
    """Heights of the bars: shares of all draws that are not NaN, per unit of the axis.

    Parameters
    ----------
    values : array
        The draws.
    edges : array
        Increasing edges of the bins; draws outside count as draws that are not shown.
    weights : array, optional
        Weights, with any sum (default: equal).

    Returns
    -------
    array
        One height per bin.
    """
    there = ~np.isnan(values)
    counts, _ = np.histogram(values[there], edges, weights=None if weights is None else weights[there])
    total = float(there.sum() if weights is None else weights[there].sum())
    return np.asarray(counts / (total or 1.0) / np.diff(edges))

"""How much of the log likelihood the recorded latents leave unexplained: noise of draws that nobody proposes.

A simulator that draws with ``ars_draw`` has a likelihood that varies although every recorded latent is the same. No
proposal can remove that. It shows where traces with nearly the same latents have different likelihoods: the variance at
distance 0 is extrapolated from pairs of nearest neighbours (the Gamma test of Stefansson, Koncar and Jones, 1997). That
works while neighbours are near, so for a handful of latents; for more there is no answer.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ars.columns import Columns, Floats, Integers, offsets

__all__ = ["Noise", "log_likelihood_noise", "noise_variance"]

_NEIGHBOURS: Final = 10
_LEAST: Final = 200  # traces, below which nothing can be said
_MOST: Final = 1000  # traces that are compared with each other
_MOST_LATENTS: Final = 6
_MOST_DRAWS: Final = 64  # of a trace, some of which may never vary
_MOST_ROWS: Final = 100_000  # traces from which a region is chosen
_NEAR: Final = 0.1  # the squared distance of nearest neighbours that is needed, relative to that of two random traces


class Noise(NamedTuple):
    """Variance that recorded latents leave unexplained; NaN where the traces cannot tell.

    Attributes
    ----------
    variance : float
        The variance.
    share : float
        Its share of all variance in the region that was looked at.
    """

    variance: float = math.nan
    share: float = math.nan


def _alike(columns: Columns, rows: Integers) -> Integers:
    """Of these traces, those that drew the most common sequence of latents."""
    samples = columns.samples
    mixed = (samples["site"].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (samples["instance"].astype(np.uint64) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])  # modulo 2**64
    begin = offsets(columns).samples
    found, which, count = np.unique(
        total[begin[1:]][rows] - total[begin[:-1]][rows], return_inverse=True, return_counts=True
    )
    return rows[which == np.argmax(count)] if len(found) else rows


def _latents(columns: Columns, rows: Integers) -> Floats:
    """The latents of traces that drew the same sequence, one row each; those that never vary are left out."""
    begin = offsets(columns).samples[:-1][rows]
    width = int(columns.traces["n_samples"][rows[0]])
    order = np.argsort(columns.samples["site"][begin[0] : begin[0] + width], kind="stable")
    values = columns.samples["value"][begin[:, None] + order[None, :]].astype(np.float64)
    return np.asarray(values[:, values.min(axis=0) < values.max(axis=0)])


def _thinned(rows: Integers, most: int) -> Integers:
    """At most so many of them, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def log_likelihood_noise(columns: Columns, shares: Floats) -> Noise:
    """Estimate the variance of the log likelihood among traces whose recorded latents are the same.

    Parameters
    ----------
    columns : Columns
        The traces.
    shares : array
        Per trace, how much it counts when the region of interest is chosen; 0: not at all. The region is a box of
        latents, so that no trace is chosen for its own likelihood.

    Returns
    -------
    Noise
        NaN if the traces cannot tell: too few, or too many latents.
    """
    log_likelihood = columns.traces["log_likelihood"]
    rows = np.flatnonzero(np.isfinite(log_likelihood) & (columns.traces["failure"] == 0))
    rows = _alike(columns, _thinned(rows, _MOST_ROWS)) if len(rows) else rows
    if len(rows) < _LEAST or not shares[rows].any() or columns.traces["n_samples"][rows[0]] > _MOST_DRAWS:
        return Noise()
    x = _latents(columns, rows)
    if x.shape[1] > _MOST_LATENTS:
        return Noise()
    inside = np.ones(len(rows), np.bool_)
    if x.shape[1]:
        order = np.argsort(x, axis=0, kind="stable")
        reached = np.cumsum(shares[rows][order], axis=0)
        for column in range(x.shape[1]):
            ordered = x[order[:, column], column]
            low, high = np.searchsorted(reached[:, column], np.array([0.01, 0.99]) * reached[-1, column])
            inside &= (x[:, column] >= ordered[low]) & (x[:, column] <= ordered[min(high, len(rows) - 1)])
    chosen = _thinned(np.flatnonzero(inside), _MOST)
    return noise_variance(x[chosen], log_likelihood[rows[chosen]])


def noise_variance(x: Floats, y: Floats) -> Noise:
    """Estimate the variance of y that a smooth function of x cannot explain.

    Parameters
    ----------
    x : array
        One row per observation of y; without columns, all of y's variance is noise.
    y : array
        Finite numbers.

    Returns
    -------
    Noise
        NaN if there are too few rows, or neighbours are too far from each other.
    """
    if len(y) < _LEAST or x.shape[1] > _MOST_LATENTS:
        return Noise()
    total = float(y.var(ddof=1))
    spread = x.std(axis=0)
    x = (x[:, spread > 0.0] - x[:, spread > 0.0].mean(axis=0)) / spread[spread > 0.0]
    d = x.shape[1]
    if d == 0:
        return Noise(total, 1.0)
    rest = _residuals(x, y)
    squares = np.square(x).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares[None, :] - 2.0 * x @ x.T, 0.0)
    np.fill_diagonal(distance, np.inf)
    near = np.argpartition(distance, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    at = np.take_along_axis(distance, near, axis=1)
    order = np.argsort(at, axis=1, kind="stable")
    near, at = np.take_along_axis(near, order, axis=1), np.take_along_axis(at, order, axis=1)
    delta, gamma = at.mean(axis=0), 0.5 * np.square(rest[near] - rest[:, None]).mean(axis=0)
    if delta[0] > _NEAR * 2.0 * d or total == 0.0:
        return Noise(0.0, 0.0) if total == 0.0 else Noise()
    slope = 0.0 if delta.var() == 0.0 else float(np.mean((delta - delta.mean()) * (gamma - gamma.mean())) / delta.var())
    variance = max(float(gamma.mean() - max(slope, 0.0) * delta.mean()), 0.0)
    return Noise(variance, min(variance / total, 1.0))


def _residuals(x: Floats, y: Floats) -> Floats:
    """Without what a polynomial of second degree, or first if rows are few, explains: the rest varies less with x."""
    i, j = np.triu_indices(x.shape[1])
    terms = [np.ones((len(x), 1)), x]
    if 5 * (1 + x.shape[1] + len(i)) <= len(x):
        terms.append(x[:, i] * x[:, j])
    design = np.hstack(terms)
    return np.asarray(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])

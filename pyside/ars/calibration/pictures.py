"""Pictures of a calibration. They need matplotlib: pip install 'libars[plots]'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.calibration.ranks import binomial_interval, rank_band
from ars.plots import OKABE_ITO, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ars.calibration.result import Calibration

__all__ = ["overview", "plot_coverage", "plot_efficiency", "plot_ranks"]

_MOST: Final = 8  # values in one figure
_LINES: Final = ("blue", "vermillion", "green", "purple", "orange", "sky blue", "black", "yellow")


def bins_for(datasets: int) -> int:
    """Bins of a histogram of ranks: about ten data sets each."""
    return int(np.clip(datasets // 10, 5, 20))


def plot_ranks(found: Calibration, name: str, axes: Axes | None = None) -> Axes:
    """The histogram of the truth's ranks; the band holds each bar with probability 99% if they are uniform.

    Parameters
    ----------
    found : Calibration
    name : str
        One of ``found.names``.
    axes : matplotlib.axes.Axes, optional
        Where to draw (default: a new figure).

    Returns
    -------
    matplotlib.axes.Axes
    """
    axes = new_axes(axes)
    ranks = found.ranks(name)
    bins = bins_for(len(ranks))
    low, high = (len(ranks) * share for share in binomial_interval(len(ranks), 1.0 / bins))
    axes.axhspan(low, high, color=OKABE_ITO["sky blue"], alpha=0.35, linewidth=0, label="99% band")
    axes.axhline(len(ranks) / bins, color=OKABE_ITO["black"], linewidth=0.8)
    axes.hist(ranks, bins, range=(0.0, 1.0), color=OKABE_ITO["blue"], alpha=0.8)
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel(f"rank of {name}")
    axes.set_ylabel("data sets")
    return axes


def plot_coverage(found: Calibration, names: Sequence[str] | None = None, axes: Axes | None = None) -> Axes:
    """How many ranks lie below each level, minus the level; the band holds whole lines with probability 99%.

    Parameters
    ----------
    found : Calibration
    names : sequence of str, optional
        Values to show (default: all, at most 8).
    axes : matplotlib.axes.Axes, optional
        Where to draw (default: a new figure).

    Returns
    -------
    matplotlib.axes.Axes
    """
    axes = new_axes(axes)
    band = rank_band(len(found))
    axes.fill_between(
        band.at, band.low - band.at, band.high - band.at, color=OKABE_ITO["sky blue"], alpha=0.35, linewidth=0
    )
    axes.axhline(0.0, color=OKABE_ITO["black"], linewidth=0.8)
    for name, colour in zip(names or found.names[:_MOST], _LINES, strict=False):
        ranks = np.sort(found.ranks(name))
        share = np.searchsorted(ranks, band.at, side="right") / len(ranks)
        axes.plot(band.at, share - band.at, color=OKABE_ITO[colour], label=name)
    axes.set_xlabel("rank")
    axes.set_ylabel("share of data sets below, minus rank")
    axes.legend(frameon=False, fontsize="small")
    return axes


def plot_efficiency(found: Calibration, axes: Axes | None = None) -> Axes:
    """The sample efficiency of all data sets, with the median.

    Parameters
    ----------
    found : Calibration
    axes : matplotlib.axes.Axes, optional
        Where to draw (default: a new figure).

    Returns
    -------
    matplotlib.axes.Axes
    """
    axes = new_axes(axes)
    shares = [record.ess / max(record.traces, 1) for record in found.records]
    axes.hist(shares, bins_for(len(shares)), range=(0.0, 1.0), color=OKABE_ITO["green"], alpha=0.8)
    axes.axvline(found.efficiency.median, color=OKABE_ITO["black"], linestyle="--", label="median")
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("sample efficiency, ESS / traces")
    axes.set_ylabel("data sets")
    axes.legend(frameon=False)
    return axes


def overview(found: Calibration, names: Sequence[str] | None = None) -> Figure:
    """All of them in one figure. ``Calibration.plot`` explains the arguments."""
    from matplotlib.figure import Figure

    chosen = list(names or found.names[:_MOST])
    rows = -(-(len(chosen) + 2) // 3)
    figure = Figure(figsize=(11.0, 3.2 * rows), layout="constrained")
    cells = figure.subplots(rows, 3, squeeze=False).reshape(-1)
    for name, axes in zip(chosen, cells, strict=False):
        plot_ranks(found, name, axes)
    plot_coverage(found, chosen, cells[len(chosen)])
    plot_efficiency(found, cells[len(chosen) + 1])
    for axes in cells[len(chosen) + 2 :]:
        axes.set_axis_off()
    return figure

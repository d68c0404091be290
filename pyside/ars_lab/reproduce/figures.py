"""The paper's figures: convergence, effective samples, box plots of K_converge; and K_converge over tosses.

Colours are those of Okabe and Ito; methods differ in marker and line style as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ars.columns import Floats
from ars.errors import ArsError
from ars.plots import OKABE_ITO
from ars_lab.reproduce.beta import METHODS as BETA_METHODS
from ars_lab.reproduce.beta import Point
from ars_lab.reproduce.convergence import Curves
from ars_lab.reproduce.methods import LABELS
from ars_lab.reproduce.workspace import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STYLES", "Panel", "beta_figure", "convergence_figure", "need_matplotlib", "new_figure", "save"]


class Style(NamedTuple):
    colour: str
    line: str
    marker: str


STYLES: Final[Mapping[str, Style]] = {
    "ic": Style(OKABE_ITO["vermillion"], "--", "s"),
    "prior": Style(OKABE_ITO["purple"], ":", "D"),
    "ars-1": Style(OKABE_ITO["sky blue"], "-", "o"),
    "ars-2": Style(OKABE_ITO["blue"], "-.", "^"),
    "ars-10": Style(OKABE_ITO["green"], "-", "v"),
    "biased": Style(OKABE_ITO["orange"], (":"), "x"),
    "collapsed": Style(OKABE_ITO["black"], "--", "+"),
}


def need_matplotlib() -> None:
    """Says at the start, not after hours, that figures cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ArsError("the figures need matplotlib: pip install 'libars[plots]'") from error


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As PNG and PDF."""
    made = []
    options: dict[str, dict[str, Any]] = {".png": {"dpi": 110}, ".pdf": {"metadata": {"CreationDate": None}}}
    for suffix, wanted in options.items():
        path = folder / f"{name}{suffix}"
        write_atomically(path, partial(figure.savefig, **wanted))
        made.append(path)
    return made


# ---- convergence ------------------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """One observation: a row of three plots."""

    title: str
    curves: Mapping[str, Curves]
    log_truth: float
    logarithmic: bool  # errors of the log evidence instead of the evidence
    k_converge: Mapping[str, Sequence[int | None]]
    epsilon: float

    def traces(self, method: str) -> int:
        """Of each of its runs."""
        return int(self.curves[method].at[-1])


def _errors(curves: Curves, panel: Panel) -> Floats:
    if panel.logarithmic:
        return curves.log_evidence - panel.log_truth
    return np.exp(curves.log_evidence) - math.exp(panel.log_truth)


def _band(axes: Axes, at: Any, values: Floats, style: Style, label: str) -> None:
    """Mean over the runs, and one standard deviation to each side."""
    there = np.isfinite(values).all(axis=0)
    if not there.any():
        return
    at, values = at[there], values[:, there]
    mean, spread = values.mean(axis=0), values.std(axis=0)
    axes.plot(at, mean, color=style.colour, linestyle=style.line, linewidth=1.4, label=label)
    axes.fill_between(at, mean - spread, mean + spread, color=style.colour, alpha=0.15, linewidth=0)


def _draw_evidence(axes: Axes, panel: Panel) -> None:
    spreads = []
    for method, curves in panel.curves.items():
        errors = _errors(curves, panel)
        _band(axes, curves.at, errors, STYLES[method], LABELS[method])
        late = errors[:, len(curves.at) // 2 :]
        if np.isfinite(late).any():
            spreads.append(float(np.nanquantile(np.abs(late[np.isfinite(late)]), 0.98)))
    axes.axhline(0.0, color=OKABE_ITO["black"], linewidth=0.8)
    if spreads:
        reach = 1.4 * float(np.median(spreads)) if len(spreads) > 2 else 1.4 * max(spreads)
        at_end = [abs(float(_errors(c, panel)[:, -1].mean())) for c in panel.curves.values()]
        reach = max(reach, 1.3 * max(x for x in [*at_end, 0.0] if math.isfinite(x)), 1e-12)
        axes.set_ylim(-reach, reach)
    axes.set_xscale("log")
    axes.set_xlabel("traces")
    axes.set_ylabel("error of the log evidence" if panel.logarithmic else "error of the evidence")


def _draw_ess(axes: Axes, panel: Panel) -> None:
    for method, curves in panel.curves.items():
        _band(axes, curves.at, curves.ess, STYLES[method], LABELS[method])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("traces")
    axes.set_ylabel("ESS / traces")


def _draw_boxes(axes: Axes, panel: Panel) -> None:
    """A run that did not converge is drawn at its number of traces, as a triangle: it would take more."""
    names = list(panel.k_converge)
    for place, method in enumerate(names, 1):
        found = [k for k in panel.k_converge[method] if k is not None]
        missing = len(panel.k_converge[method]) - len(found)
        limit = panel.traces(method)
        if len(found) > missing:
            axes.boxplot(
                [[k if k is not None else limit for k in panel.k_converge[method]]],
                positions=[place],
                widths=0.6,
                showmeans=True,
                meanline=True,
                manage_ticks=False,
                medianprops={"color": OKABE_ITO["orange"], "linewidth": 1.8},
                meanprops={"color": OKABE_ITO["green"], "linestyle": "--", "linewidth": 1.6},
                boxprops={"color": STYLES[method].colour},
                whiskerprops={"color": STYLES[method].colour},
                capprops={"color": STYLES[method].colour},
                flierprops={"marker": ".", "markeredgecolor": STYLES[method].colour},
            )
        if missing:
            axes.plot([place], [limit * 1.25], marker="^", color=STYLES[method].colour, clip_on=False)
            axes.annotate(
                f"{missing}/{len(panel.k_converge[method])}",
                (place, limit * 1.4),
                ha="center",
                va="bottom",
                fontsize=7,
            )
        axes.plot([place - 0.45, place + 0.45], [limit, limit], color="0.7", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set_ylim(top=max(map(panel.traces, names), default=1) * 2.2)
    axes.set_xlim(0.4, len(names) + 0.6)
    axes.set_xticks(range(1, len(names) + 1), [LABELS[m].replace(", ", "\n") for m in names], fontsize=8)
    axes.set_ylabel(f"K_converge (epsilon = {panel.epsilon:g})")


def convergence_figure(panels: Sequence[Panel]) -> Figure:
    """One row per observation: error of the evidence, effective share, K_converge."""
    figure = new_figure(13.0, 3.5 * len(panels) + 0.4)
    rows = figure.subplots(len(panels), 3, squeeze=False)
    for axes, panel in zip(rows, panels, strict=True):
        _draw_evidence(axes[0], panel)
        _draw_ess(axes[1], panel)
        _draw_boxes(axes[2], panel)
        axes[0].set_title(panel.title, loc="left", fontsize=10)
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


# ---- Beta-Bernoulli ---------------------------------------------------------------------------------------------


def beta_figure(points: Sequence[Point], max_draws: int) -> Figure:
    """K_converge over the number of tosses, a plot per setting. No point: more than ``max_draws``."""
    settings = sorted({point.setting for point in points})
    figure = new_figure(5.6 * len(settings), 4.2)
    rows = figure.subplots(1, len(settings), squeeze=False, sharey=True)[0]
    for axes, setting in zip(rows, settings, strict=True):
        for method in BETA_METHODS:
            mine = [p for p in points if p.setting == setting and p.method == method]
            n = [p.n for p in mine]
            k = [math.nan if p.k_converge is None else float(p.k_converge) for p in mine]
            style = STYLES[method]
            axes.plot(
                n, k, color=style.colour, linestyle=style.line, marker=style.marker, markersize=4, label=LABELS[method]
            )
        alpha = {"a": 2, "b": 10}[setting]
        axes.set_title(f"({setting}) alpha = beta = {alpha}")
        axes.set_xlabel("n, tosses")
        axes.set_yscale("log")
        axes.axhline(max_draws, color="0.7", linewidth=0.8, linestyle=":")
    found = [point.k_converge for point in points if point.k_converge is not None]
    rows[0].set_ylim(0.7 * min(found, default=1), 1.3 * max_draws)
    rows[0].set_ylabel("K_converge")
    handles, labels = rows[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure

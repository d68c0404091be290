"""Pictures of a report: the cost of a continuation, the time of inference, the gain of a budget. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ars.plots import OKABE_ITO
from ars_lab.bench.results import Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_plots"]


def _figure(height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'libars[plots]'") from error
    return Figure(figsize=(7.0, height), layout="constrained", dpi=110)


def _label(m: Measurement) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in m.case.items()
    )


def _fork(measurements: Sequence[Measurement]) -> Figure | None:
    over = [m for m in measurements if m.suite == "fork" and m.metric == "over bare"]
    if not over:
        return None
    figure = _figure(1.2 + 0.28 * len(over))
    axes = figure.add_subplot()
    axes.barh([_label(m) for m in over], [m.value for m in over], xerr=[m.spread * m.value for m in over],
              color=OKABE_ITO["sky blue"], ecolor=OKABE_ITO["black"])  # fmt: skip
    axes.axvline(1.0, color=OKABE_ITO["black"], linewidth=1)
    axes.axvline(1.5, color=OKABE_ITO["vermillion"], linestyle="--", label="target for a small process")
    axes.set_xlabel("CPU time of a continuation, over a bare fork of the same process")
    axes.invert_yaxis()
    axes.legend()
    return figure


def _infer(measurements: Sequence[Measurement]) -> Figure | None:
    parts = [m for m in measurements if m.suite == "infer CPU"]
    if not parts:
        return None
    cases = list(dict.fromkeys(_label(m) for m in parts))
    left = dict.fromkeys(cases, 0.0)
    colours = [c for name, c in OKABE_ITO.items() if name != "black"]
    figure = _figure(2.0 + 0.35 * len(cases))
    axes = figure.add_subplot()
    for i, part in enumerate(dict.fromkeys(m.metric for m in parts)):
        values = {_label(m): max(m.value, 0.0) for m in parts if m.metric == part}
        axes.barh(cases, [values.get(case, 0.0) for case in cases], left=[left[case] for case in cases], label=part,
                  color=colours[i % len(colours)], hatch=("", "//")[i // len(colours)], edgecolor="white")  # fmt: skip
        for case, value in values.items():
            left[case] += value
    axes.set_xlabel("CPU time per trace, microseconds")
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return figure


def _budget(measurements: Sequence[Measurement]) -> Figure | None:
    over = [m for m in measurements if m.suite == "budget" and m.metric in ("over M=1, N=10", "over best")]
    if not over:
        return None
    rows = list(dict.fromkeys(_label(m) for m in over))
    figure = _figure(1.4 + 0.4 * len(rows))
    axes = figure.add_subplot()
    styles = (("over M=1, N=10", "sky blue", -0.2), ("over best", "orange", 0.2))
    for metric, colour, shift in styles:
        found = [m for m in over if m.metric == metric and m.value > 0]
        places = [rows.index(_label(m)) + shift for m in found]
        axes.barh(places, [m.value for m in found], height=0.38, color=OKABE_ITO[colour], label=f"auto {metric}")
        for place, m in zip(places, found, strict=True):
            if m.target is not None:
                axes.plot([m.target], [place], marker="|", markersize=12, color=OKABE_ITO["vermillion"])
    axes.axvline(1.0, color=OKABE_ITO["black"], linewidth=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xscale("log")
    axes.set_xlabel("effective traces per second, automatic over fixed budget (red: target)")
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    return figure


def save_plots(measurements: Sequence[Measurement], directory: Path) -> list[Path]:
    """Writes what there is data for; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    figures = {"fork": _fork(measurements), "infer": _infer(measurements), "budget": _budget(measurements)}
    for name, figure in figures.items():
        if figure is not None:
            path = directory / f"bench_{name}.png"
            figure.savefig(path)
            written.append(path)
    return written

"""Pictures that all generators share: posteriors by three methods beside prior and truth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ars.plots import OKABE_ITO
from ars_lab.generators.result import Observation, Result
from ars_lab.generators.spec import Generator
from ars_lab.reproduce.figures import need_matplotlib, new_figure
from ars_lab.reproduce.workspace import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["detector_figure", "posterior_figure", "save_png"]

_LINES = (("blue", "-"), ("vermillion", "--"), ("green", ":"))
_BINS = 30


def posterior_figure(generator: Generator, result: Result) -> Figure:
    """Prior, the three posteriors and the truth, a panel per quantity.

    Parameters
    ----------
    generator : Generator
        Whose quantities are shown.
    result : Result
        The finished study.

    Returns
    -------
    Figure
        The picture.
    """
    need_matplotlib()
    figure = new_figure(4.2 * len(generator.quantities), 3.7)
    panels = figure.subplots(1, len(generator.quantities), squeeze=False)[0]
    for axes, quantity in zip(panels, generator.quantities, strict=True):
        _panel(axes, result, quantity.name, quantity.scale, (quantity.low, quantity.high))
        axes.set_xlabel(quantity.axis)
        axes.set_xlim(quantity.low, quantity.high)
        axes.set_ylim(bottom=0)
        axes.set_yticks([])
    panels[0].set_ylabel("probability density")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _panel(axes: Axes, result: Result, name: str, scale: float, span: tuple[float, float]) -> None:
    edges = np.linspace(*span, _BINS + 1).tolist()
    axes.hist(scale * result.prior[name], edges, density=True, color="0.85", label="prior", histtype="stepfilled")
    for method, (colour, line) in zip(result.methods, _LINES, strict=True):
        values, weights = scale * method.draws[name], method.weights()
        # shares of all draws, also of those outside of the plot: densities can then be compared
        heights, _ = np.histogram(values, edges, weights=weights)
        axes.stairs(
            heights / np.diff(edges), edges, color=OKABE_ITO[colour], linestyle=line, linewidth=1.7, label=method.label
        )
    axes.axvline(
        scale * result.observation.truth[name], color=OKABE_ITO["black"], linestyle="-.", linewidth=1.3, label="truth"
    )


def detector_figure(generator: Generator, observation: Observation) -> Figure:
    """The picture that the generator draws of its data.

    Parameters
    ----------
    generator : Generator
        Who draws.
    observation : Observation
        The data and the truth.

    Returns
    -------
    Figure
        The picture.
    """
    need_matplotlib()
    figure = new_figure(8.4, 3.9)
    generator.draw(figure, observation)
    return figure


def save_png(figure: Figure, path: Path) -> Path:
    """Writes a PNG in one step.

    Parameters
    ----------
    figure : Figure
        The picture.
    path : Path
        Where to.

    Returns
    -------
    Path
        The same path.
    """
    write_atomically(path, partial(figure.savefig, dpi=110))
    return path

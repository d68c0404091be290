"""Two pictures of a posterior. They need matplotlib: pip install libars[plots].

Every function draws on the axes that it is given, or on new ones, and returns them. Colours are those of Okabe and
Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ars.columns import Key
from ars.diagnostics import normalised_weights, running_evidence
from ars.display.notebook import in_notebook
from ars.errors import NaiveVarianceWarning
from ars.posterior import Posterior, Traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OKABE_ITO", "plot_evidence", "plot_posterior"]

OKABE_ITO: Mapping[str, str] = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
}
_LINES = ("blue", "vermillion", "green", "purple", "orange", "sky blue")
_STYLES = ("-", "--", "-.", ":")


def new_axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install libars[plots]") from error
    if in_notebook():  # a figure of pyplot's, which the notebook shows below the cell
        from matplotlib import pyplot as plt

        return plt.subplots(figsize=(6.0, 4.0), layout="constrained")[1]
    # a figure of its own, not one of pyplot's: nothing global, and no display
    return Figure(figsize=(6.0, 4.0), layout="constrained").add_subplot()


def plot_posterior(
    posterior: Posterior,
    key: Key,
    *,
    method: str | None = None,
    prior: Traces | None = None,
    exact: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    bins: int = 40,
    axes: Axes | None = None,
) -> Axes:
    """The weighted histogram of a value, against the prior's (from ``sim.prior``) and an exact density (x, density)."""
    axes = new_axes(axes)
    values = posterior[key]
    for given in (values,) if prior is None else (values, prior[key]):
        if given.ndim != 1:
            numbers = " x ".join(str(size) for size in given.shape[1:])
            raise ValueError(
                f'{key!r} has {numbers} numbers per trace: plot a value that is one number, such as "{key}[0]"'
            )
    there = ~np.isnan(values)
    values, weights = values[there], normalised_weights(posterior.log_weights(method)[there])
    shown = values if prior is None else np.concatenate([values, prior[key][~np.isnan(prior[key])]])
    edges = np.histogram_bin_edges(shown, bins).tolist()
    if prior is not None:
        before = prior[key]
        axes.hist(before[~np.isnan(before)], edges, density=True, color=OKABE_ITO["orange"], alpha=0.5, label="prior")
    axes.hist(values, edges, weights=weights, density=True, color=OKABE_ITO["blue"], alpha=0.6, label="posterior")
    if exact is not None:
        axes.plot(*exact, color=OKABE_ITO["black"], linewidth=1.2, label="exact posterior")
    axes.set_xlabel(str(key))
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return axes


def plot_evidence(
    posterior: Posterior | Mapping[str, Posterior],
    methods: Sequence[str] = ("ars", "ic", "biased"),
    *,
    exact: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """The evidence estimate as traces come in, with a band of two standard errors, per run and method.

    Several runs are given as label -> posterior; a method that a run does not have is an error. The methods' lines
    differ in style as well as colour. Without NaiveVarianceWarning: the picture shows what it is about."""
    axes = new_axes(axes)
    runs = {"": posterior} if isinstance(posterior, Posterior) else posterior
    drawn = 0
    for label, run in runs.items():
        at = np.unique(np.geomspace(10, len(run), 200).astype(np.int64)) if len(run) >= 10 else np.array([len(run)])
        for method in methods:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NaiveVarianceWarning)
                log_estimates, errors = running_evidence(run.log_weights(method), at)
            estimates, colour = np.exp(log_estimates), OKABE_ITO[_LINES[drawn % len(_LINES)]]
            name = f"{method} {label}".strip()
            style = _STYLES[drawn % len(_STYLES)]
            axes.plot(at, estimates, linestyle=style, color=colour, label=name)
            band = 2.0 * errors * estimates
            axes.fill_between(at, estimates - band, estimates + band, color=colour, alpha=0.15, linewidth=0)
            drawn += 1
    if exact is not None:
        axes.axhline(exact, color=OKABE_ITO["black"], linewidth=1.0, label="exact")
    axes.set_xscale("log")
    axes.set_xlabel("traces")
    axes.set_ylabel("evidence")
    axes.legend(frameon=False)
    return axes

"""Pictures of a posterior. They need matplotlib: pip install libars[plots].

Every function draws on the axes that it is given, or on new ones, and returns them. Colours are those of Okabe and
Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ars.columns import Floats, Key
from ars.diagnostics import normalised_weights, running_evidence
from ars.display.notebook import in_notebook
from ars.errors import NaiveVarianceWarning
from ars.posterior import Posterior, Traces
from ars.results.bins import bin_edges, densities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OKABE_ITO", "plot_evidence", "plot_posterior", "predictive"]

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


def _bars(axes: Axes, edges: Floats, heights: Floats, colour: str, alpha: float, label: str) -> None:
    axes.bar(edges[:-1], heights, np.diff(edges), align="edge", color=OKABE_ITO[colour], alpha=alpha, label=label)


def plot_posterior(
    posterior: Posterior,
    key: Key,
    *,
    method: str | None = None,
    prior: Traces | None = None,
    exact: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    bins: int | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the weighted histogram of a value.

    Parameters
    ----------
    posterior : Posterior
    key : key
        A result or latent that is one number.
    method : str, optional
        Weighting (default: the run's own).
    prior : Traces, optional
        From ``Simulator.prior``, to be drawn in the same bins (default: none).
    exact : tuple of array, optional
        x and an exact density at x (default: none).
    bins : int, optional
        Number of bars (default: chosen by the width of the posterior).
    axes : Axes, optional
        Where to draw (default: axes of a new figure).

    Returns
    -------
    Axes
    """
    axes = new_axes(axes)
    values = posterior[key]
    for given in (values,) if prior is None else (values, prior[key]):
        if given.ndim != 1:
            numbers = " x ".join(str(size) for size in given.shape[1:])
            raise ValueError(
                f'{key!r} has {numbers} numbers per trace: plot a value that is one number, such as "{key}[0]"'
            )
    there = ~np.isnan(values)
    values, log_weights = values[there], posterior.log_weights(method)[there]
    edges = bin_edges(values, log_weights, None if prior is None else prior[key])
    if bins is not None:
        edges = np.linspace(edges[0], edges[-1], bins + 1)
    if prior is not None:
        _bars(axes, edges, densities(prior[key], edges), "orange", 0.5, "prior")
    _bars(axes, edges, densities(values, edges, normalised_weights(log_weights)), "blue", 0.6, "posterior")
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
    """Plot the evidence estimate against the number of traces, with a band of two standard errors.

    The lines of the methods differ in style as well as colour. No NaiveVarianceWarning is issued: the picture shows
    its cause.

    Parameters
    ----------
    posterior : Posterior or mapping
        One run, or several as label -> posterior.
    methods : sequence of str
        Weightings to show (default: "ars", "ic" and "biased"). Every run must have them.
    exact : float, optional
        The exact evidence, drawn as a line (default: none).
    axes : matplotlib axes, optional
        Where to draw (default: a new figure).

    Returns
    -------
    matplotlib axes
        The axes with the plot.
    """
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


def predictive(
    predicted: Traces,
    name: str,
    *,
    prior: Traces | None = None,
    data: npt.ArrayLike | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw data against posterior predictive draws: a histogram for one number, intervals for several.

    Parameters
    ----------
    predicted : Traces
        From ``Simulator.predict``.
    name : str
        An observation.
    prior : Traces, optional
        From ``Simulator.prior``: prior predictive draws to be shown as well, for one number (default: none).
    data : array_like, optional
        The data (default: those of the posterior). NaN is left out.
    axes : Axes, optional
        Where to draw (default: axes of a new figure).

    Returns
    -------
    Axes

    Raises
    ------
    KeyError
        If the simulator observes no such name.
    ValueError
        If there are more or fewer data than predicted numbers.
    """
    axes = new_axes(axes)
    drawn = predicted.observations[name]
    drawn = drawn.reshape(len(drawn), -1)
    given = predicted.observed.get(name) if data is None else np.asarray(data, np.float64)
    given = np.full(drawn.shape[1], np.nan) if given is None else given.reshape(-1)
    if len(given) != drawn.shape[1]:
        raise ValueError(f"{name!r}: {len(given)} data, but {drawn.shape[1]} numbers are predicted")
    if drawn.shape[1] == 1:
        before = None if prior is None else prior.observations[name].reshape(-1)
        edges = bin_edges(drawn[:, 0], np.zeros(len(drawn)), before)
        if before is not None:
            _bars(axes, edges, densities(before, edges), "orange", 0.5, "prior predictive")
        _bars(axes, edges, densities(drawn[:, 0], edges), "blue", 0.6, "posterior predictive")
        if not np.isnan(given[0]):
            axes.axvline(float(given[0]), color=OKABE_ITO["black"], linewidth=1.5, label="data")
        axes.set_xlabel(name)
        axes.set_ylabel("density")
    else:
        at = np.arange(drawn.shape[1])
        low, q25, middle, q75, high = np.nanquantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
        axes.fill_between(at, low, high, color=OKABE_ITO["blue"], alpha=0.2, linewidth=0, label="90% of draws")
        axes.fill_between(at, q25, q75, color=OKABE_ITO["blue"], alpha=0.3, linewidth=0, label="50%")
        axes.plot(at, middle, color=OKABE_ITO["blue"], label="median")
        axes.plot(at, given, linestyle="", marker="o", markersize=4, color=OKABE_ITO["vermillion"], label="data")
        axes.set_xlabel("index")
        axes.set_ylabel(name)
    axes.legend(frameon=False)
    return axes

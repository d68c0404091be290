"""What a notebook shows of a result: a box with the numbers that a person looks at first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ars.diagnostics import shown_ess
from ars.display.notebook import card, table

if TYPE_CHECKING:
    from ars.columns import Floats
    from ars.loops import Loops
    from ars.network.facade import Network
    from ars.posterior import Posterior, Traces
    from ars.results.assessment import ValueDiagnostics

__all__ = ["loops_html", "network_html", "posterior_html", "traces_html"]


def posterior_html(post: Posterior) -> str:
    """Evidence, effective traces and k; mean, error and quantiles of every value; loops; the next step.

    Parameters
    ----------
    post : Posterior

    Returns
    -------
    str
        HTML, escaped.
    """
    available = post._available()
    methods = [post.method] if post.method in available else [*available][:1]
    assessed = post.diagnostics(methods, values=["result" if post.results else "latent"])
    lines, parts = [], []
    for weighting in assessed.weightings:
        lines += [weighting.line(), *(f"! {warning}" for warning in weighting.warnings)]
        heads = ("", "mean", "s.e.", "5%", "50%", "95%", "ESS", "k")
        if weighting.ess > 0:
            parts.append(table(heads, [_row(value) for value in weighting.values]))
    if post.loops:
        parts.append(f"<details><summary>loops</summary>{_loops_table(post.loops)}</details>")
    lines += [f"next step: {step.reason}" for step in post.advice()[:1]]
    return card(post._heading(), lines, *parts)


def _row(value: ValueDiagnostics) -> tuple[str, ...]:
    numbers = [f"{value.mean:.5g}", f"{value.mean_error:.2g}", *(f"{each.value:.5g}" for each in value.quantiles)]
    mark = " !" if value.warnings else ""
    return (value.name + mark, *numbers, shown_ess(value.specific_ess), f"{value.specific_pareto_k:.2f}")


def traces_html(traces: Traces) -> str:
    """Mean and spread of every result, latent and observation.

    Parameters
    ----------
    traces : Traces

    Returns
    -------
    str
        HTML, escaped.
    """
    kinds: dict[str, Mapping[str, Floats]] = {
        "result": traces.results,
        "latent": traces.latents,
        "observation": traces.observations,
    }
    rows = [(name, kind, *_moments(values[name])) for kind, values in kinds.items() for name in values]
    failures = [str(traces.failures)] if traces.failures or traces.failures.incidents else []
    heads = ("", "kind", "numbers", "mean", "standard deviation")
    return card(traces._heading(), failures, table(heads, rows))


def _moments(values: Floats) -> tuple[str, str, str]:
    there = values[~np.isnan(values)]
    if not there.size:
        return "0", "", ""
    return f"{there.size:,}", f"{there.mean():.5g}", f"{there.std():.3g}"


def loops_html(loops: Loops) -> str:
    """The table of loops.

    Parameters
    ----------
    loops : Loops

    Returns
    -------
    str
        HTML, escaped.
    """
    return card("Loops" if loops else "no loops", loops._notes(), _loops_table(loops) if loops else "")


def _loops_table(loops: Loops) -> str:
    heads, rows = loops._cells()
    return table(heads, rows)


def network_html(network: Network) -> str:
    """Sizes, training and the latents that it knows.

    Parameters
    ----------
    network : Network

    Returns
    -------
    str
        HTML, escaped.
    """
    config = network.config
    size = sum(parameter.numel() for parameter in network.network.parameters())
    lines = [f"LSTM {config.lstm_dim} x {config.lstm_depth}, {size:,} weights", str(network.history).strip("<>")]
    if network.refinement is not None and network.refinement.get("improved"):
        lines.append("refined for one observation")
    sites = [(site.address, site.kind.name, f"{site.n_params}") for site in network.vocabulary]
    shapes = [(name, " x ".join(map(str, shape))) for name, shape in network.observation_shapes.items()]
    title = f"Network of {shlex.join(network.simulator)}" if network.simulator else "Network"
    parts = [table(("latent", "prior", "parameters"), sites), table(("observation", "shape"), shapes)]
    return card(title, lines, *parts)

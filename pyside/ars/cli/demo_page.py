"""The report of ``ars demo``: every example with its exact answer, and all weightings beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ars.diagnostics import normalised_weights, running_evidence
from ars.report.charts import Band, Bars, Layer, Line, Rule, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Items,
    Page,
    Section,
    Table,
    Text,
    Verdict,
    estimate_cell,
    number_cell,
)
from ars.report.values import posterior_chart
from ars.results.bins import bin_edges, densities

if TYPE_CHECKING:
    from ars.cli.demo import Row, Shown
    from ars.posterior import Posterior

__all__ = ["demo_page"]

_FAR = 4.0  # standard errors


def demo_page(shown: Sequence[Shown], budget: int, reading: str) -> Page:
    """Build the page. ``budget``: M of the run that is pictured; ``reading``: how to read the tables."""
    right = all(each.right for each in shown)
    verdict = Verdict(
        "good" if right else "bad",
        "ARS weights give the exact evidence, and uncorrected ones do not"
        if right
        else "These results are not as expected",
        f"{len(shown)} simulators whose evidence is known exactly, each weighted in every way. {reading}",
    )
    sections = [Section(each.example.title, _blocks(each, budget)) for each in shown]
    return Page("libars demonstration", "Bayesian inference in simulators with rejection loops", verdict, sections)


def _blocks(shown: Shown, budget: int) -> list[Block]:
    post, example = shown.runs[budget], shown.example
    text = (
        f"The full report of the run with M = {budget} is `{example.executable}.html`, in the same folder. "
        f"Data: {', '.join(f'`{name}`' for name in example.observe)}."
    )
    charts = Charts([_posterior(post, shown), _evidence(post, example.evidence)])
    notes: list[Block] = [Items(shown.notes)] if shown.notes else []
    return [Text(text), charts, _table(shown.rows), *notes]


def _posterior(post: Posterior, shown: Shown) -> Chart:
    """Before and after, with the exact density."""
    name, (x, density) = shown.example.shown, shown.example.density
    values, log_weights, prior = post[name], post.log_weights(), shown.prior[name]
    edges = bin_edges(values, log_weights, prior)
    if not np.isfinite(values).any():
        return Chart(f"`{name}`", posterior_chart(name, values, log_weights, prior))
    inside = (x >= edges[0]) & (x <= edges[-1])
    svg = chart(
        f"Histogram of the posterior of {name}, with the prior and the exact density",
        [
            Bars(edges, densities(values, edges, normalised_weights(log_weights)), 1, "posterior"),
            Bars(edges, densities(prior, edges), 2, "prior", outline=True),
            Line(x[inside], density[inside], 0, "exact"),
        ],
        x_limits=(float(edges[0]), float(edges[-1])),
        hide_y=True,
        x_label=name,
    )
    return Chart(f"Posterior of `{name}`", svg, "The bars follow the exact density.")


def _evidence(post: Posterior, exact: float) -> Chart:
    """The evidence as traces come in, corrected and not."""
    at = np.unique(np.geomspace(10, len(post), 200).astype(np.int64))
    layers: list[Layer] = []
    for series, method in ((1, "ars"), (2, "biased")):
        log_estimates, errors = running_evidence(post.log_weights(method), at)
        estimates = np.exp(log_estimates)
        band = 2.0 * errors * estimates
        layers += [Band(at, estimates - band, estimates + band, series), Line(at, estimates, series, method)]
    svg = chart(
        "Running evidence, with two standard errors: ARS weights approach the exact value, uncorrected ones "
        "a different one",
        [*layers, Rule(y=exact, label="exact")],
        x_label="traces",
        log_x=True,
        y_limits=(0.0, 2.5 * exact),
    )
    return Chart("Running evidence", svg, "The bands are two standard errors wide on either side.")


def _table(rows: Sequence[Row]) -> Table:
    columns = [
        Column("Method", numeric=False),
        Column("Evidence ± s.e."),
        Column("Exact"),
        Column("Distance", help="In standard errors"),
        Column("ESS/N", help="Effective traces over traces"),
        Column("k", help="Pareto k"),
        Column("Traces/s"),
    ]
    cells = [
        [
            Cell(row.method),
            estimate_cell(row.evidence, row.standard_error),
            number_cell(row.exact, ".6f"),
            number_cell(row.distance, "+.1f", "bad" if abs(row.distance) > _FAR else "good"),
            number_cell(row.ess_share, ".3f"),
            number_cell(row.pareto_k, ".2f"),
            number_cell(row.traces_per_second, ",.0f"),
        ]
        for row in rows
    ]
    return Table("Evidence by method", columns, cells)

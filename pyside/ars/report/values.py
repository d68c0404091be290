"""Posteriors of results and latents: pictures of the first ones, a table of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.columns import Floats
from ars.diagnostics import normalised_weights, shown_ess, weighted_quantile
from ars.report.charts import Bars, Rule, chart
from ars.report.given import Given, true_values, value_columns
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Level,
    Section,
    Table,
    Tabs,
    Text,
    digits_for,
    estimate_cell,
    minus,
    number_cell,
)
from ars.results.bins import bin_edges, densities, whole_bars

if TYPE_CHECKING:
    from ars.posterior import Posterior
    from ars.results.assessment import RunDiagnostics, ValueDiagnostics

__all__ = ["posterior_chart", "values_section"]

_PICTURES: Final = 12  # of each kind
_FAR_APART: Final = 1000.0  # ratio of the 95% quantile to the 5% quantile from which an axis is logarithmic
_LEGEND: Final = (
    "s.e.: standard error of the mean. 5%, 50%, 95%: posterior quantiles. ESS: effective traces that determine the "
    "mean. k: Pareto k of its terms, which must be below 0.7, or less with fewer than 2,200 traces."
)


def values_section(post: Posterior, assessed: RunDiagnostics, given: Given) -> Section | None:
    """Results, then latents."""
    weighting = next((each for each in assessed.weightings if each.method == assessed.method and each.ess), None)
    if weighting is None or not weighting.values:
        return None
    shown = _Shown(post, given)
    panels: list[tuple[str, Sequence[Block]]] = []
    for kind, title in (("result", "Results"), ("latent", "Latents")):
        mine = [value for value in weighting.values if value.kind == kind]
        if mine:
            panels.append((f"{title} ({len(mine)})", shown.blocks(mine)))
    blocks: list[Block] = [Tabs("Kinds of values", panels)] if len(panels) > 1 else list(panels[0][1])
    if given.prior is None:
        blocks.append(
            Text("Priors are shown if draws of them are given: `post.report(..., prior=simulator.prior(1000))`.")
        )
    return Section("Posterior", blocks)


class _Shown:
    """Pictures and tables of values, with what they are compared with."""

    def __init__(self, post: Posterior, given: Given) -> None:
        self._values, self._prior = value_columns(post), value_columns(given.prior)
        self._log_weights = post.log_weights()
        self._truth = true_values(post, given.truth)

    def blocks(self, values: Sequence[ValueDiagnostics]) -> list[Block]:
        """Of values of one kind."""
        pictures = [self._picture(value) for value in values[:_PICTURES]]
        found: list[Block] = [Charts(pictures)]
        if len(values) > _PICTURES:
            found.append(Text(f"The first {_PICTURES} of {len(values)} are pictured; the table has all of them."))
        return [*found, self._table(values)]

    def _picture(self, value: ValueDiagnostics) -> Chart:
        key = (value.kind, value.name)
        prior, truth = self._prior.get(key), self._truth.get(value.name)
        svg = posterior_chart(value.name, self._values[key], self._log_weights, prior, truth)
        low, _, high = (each.value for each in value.quantiles)
        form = f".{_digits(value, 4)}g"
        return Chart(f"`{value.name}`", svg, minus(f"{value.mean:{form}}, 90% interval {low:{form}} to {high:{form}}"))

    def _table(self, values: Sequence[ValueDiagnostics]) -> Table:
        with_prior = any((value.kind, value.name) in self._prior for value in values)
        with_truth = any(value.name in self._truth for value in values)
        columns = [Column("Value", numeric=False), Column("Mean ± s.e."), Column("5%"), Column("50%"), Column("95%")]
        if with_prior:
            help_ = "Standard deviation of the prior over that of the posterior"
            columns += [Column("Prior mean"), Column("Narrower by", help=help_)]
        if with_truth:
            columns += [Column("Truth"), Column("Truth at", help="Share of the posterior below the truth")]
        columns += [Column("ESS"), Column("k"), Column("Warnings", numeric=False)]
        rows = [self._row(value, with_prior, with_truth) for value in values]
        if not any(value.warnings for value in values):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        caption = "All values" if len(values) > _PICTURES else "Posterior estimates"
        return Table(caption, columns, rows, _LEGEND)

    def _row(self, value: ValueDiagnostics, with_prior: bool, with_truth: bool) -> list[Cell]:
        key = (value.kind, value.name)
        row = [Cell(value.name, code=True), estimate_cell(value.mean, value.mean_error)]
        form = f".{_digits(value, 5)}g"
        row += [number_cell(each.value, form) for each in value.quantiles]
        if with_prior:
            before = self._prior.get(key, np.empty(0))
            before, spread = before[~np.isnan(before)], self._std(key)
            row.append(number_cell(float(before.mean()) if len(before) else math.nan, f".{_digits(value, 4)}g"))
            row.append(number_cell(float(before.std()) / spread if len(before) and spread else math.nan, ".3g"))
        if with_truth:
            truth = self._truth.get(value.name, math.nan)
            row += [number_cell(truth, form), number_cell(self._share_below(key, truth), ".0%")]
        wrong: Level = "bad" if value.warnings else "plain"
        row.append(Cell(shown_ess(value.specific_ess), value.specific_ess))
        row.append(number_cell(value.specific_pareto_k, ".2f", wrong))
        row.append(Cell(_short(value), level=wrong, title="; ".join(value.warnings)))
        return row

    def _weighted(self, key: tuple[str, str]) -> tuple[Floats, Floats]:
        there = ~np.isnan(self._values[key]) & (self._log_weights > -np.inf)
        return self._values[key][there], normalised_weights(self._log_weights[there])

    def _std(self, key: tuple[str, str]) -> float:
        if not np.any(~np.isnan(self._values[key]) & (self._log_weights > -np.inf)):
            return 0.0
        x, weights = self._weighted(key)
        return float(np.sqrt(weights @ (x - weights @ x) ** 2))

    def _share_below(self, key: tuple[str, str], truth: float) -> float:
        if math.isnan(truth) or not np.any(~np.isnan(self._values[key]) & (self._log_weights > -np.inf)):
            return math.nan
        x, weights = self._weighted(key)
        return float(weights[x < truth].sum() + 0.5 * weights[x == truth].sum())


def _digits(value: ValueDiagnostics, least: int) -> int:
    """Enough to tell the quantiles apart."""
    low, *_, high = (each.value for each in value.quantiles)
    return digits_for(max(abs(low), abs(high)), 0.1 * (high - low), least)


def _short(value: ValueDiagnostics) -> str:
    """The warnings in a few words."""
    found = ["no traces"] if not value.ess else []
    if 0.0 < min(value.ess, value.specific_ess) < 10.0:
        found.append("few effective traces")
    if any("unknown" in warning for warning in value.warnings):
        found.append("k unknown")
    if any("too large" in warning for warning in value.warnings):
        found.append("k too large")
    return ", ".join(found) or "; ".join(value.warnings)


def posterior_chart(
    name: str, values: Floats, log_weights: Floats, prior: Floats | None = None, truth: float | None = None
) -> str:
    """The weighted histogram of one number per trace, over that of the prior, with the truth.

    Positive values that differ by powers of ten have a logarithmic axis, on which the bars are densities too.
    """
    there = ~np.isnan(values) & (log_weights > -np.inf)
    log = _needs_log(values[there], log_weights[there], prior, truth)
    x, before = _scaled(values, log), None if prior is None or not len(prior) else _scaled(prior, log)
    edges = bin_edges(x, log_weights, before)
    layers: list[Bars | Rule] = []
    if there.any():
        weights = normalised_weights(log_weights[there])
        layers.append(Bars(_back(edges, log), densities(x[there], edges, weights), 1, "posterior"))
    if before is not None:
        layers.append(Bars(_back(edges, log), densities(before, edges), 2, "prior", outline=True))
    ends = _back(edges[[0, -1]], log).tolist()
    if truth is not None:
        layers.append(Rule(x=truth, label="truth"))
        ends = [min(ends[0], truth), max(ends[1], truth)]
    alt = f"Histogram of the posterior of {name}" + (", over the prior" if prior is not None else "")
    alt += f"; the truth is {truth:.4g}" if truth is not None else ""
    limits = (ends[0], ends[1])
    return chart(alt, layers, x_limits=limits, log_x=log, whole_x=whole_bars(edges), hide_y=True, height=200.0)


def _scaled(values: Floats, log: bool) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # draws without weight can have any sign
        return np.asarray(np.log10(values) if log else values)


def _back(edges: Floats, log: bool) -> Floats:
    return np.asarray(10.0**edges if log else edges)


def _needs_log(x: Floats, log_weights: Floats, prior: Floats | None, truth: float | None) -> bool:
    """Whether equal bins would put nearly everything into the first of them."""
    others = np.empty(0) if prior is None else prior[~np.isnan(prior)]
    if not len(x) or min(x.min(), others.min(initial=1.0), 1.0 if truth is None else truth) <= 0.0:
        return False
    low, high = weighted_quantile(x, [0.05, 0.95], log_weights).tolist()
    return bool(high > _FAR_APART * low and np.isfinite(x).all() and np.isfinite(others).all())

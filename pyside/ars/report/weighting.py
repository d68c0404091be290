"""Weights and loops: how evenly traces count, and how each loop's correction was estimated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.columns import Floats
from ars.diagnostics import normalised_weights, running_evidence, shown_ess
from ars.report.charts import Band, Bars, Line, Rule, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Fact,
    Facts,
    Items,
    Section,
    Table,
    Text,
    estimate_cell,
    minus,
    number_cell,
    supported,
)
from ars.results.bins import bin_edges, densities

if TYPE_CHECKING:
    from ars.loops import LoopSummary
    from ars.posterior import Posterior
    from ars.results.assessment import RunDiagnostics, WeightingDiagnostics

__all__ = ["loops_section", "weights_section"]

_POINTS: Final = 200
_MEANING: Final = {
    "ars": "unbiased: every loop is corrected by an estimate of q(A)/p(A) from continuations",
    "prior": "unbiased: the prior proposes inside loops, so they need no correction",
    "ic": "unbiased, but the variance can be infinite because rejected tries count",
    "biased": "loops are not corrected",
}


# ---- weights ---------------------------------------------------------------------------------------------------------


def weights_section(post: Posterior, assessed: RunDiagnostics) -> Section | None:
    """Facts, pictures, and all weightings in a table."""
    if not assessed.weightings:
        return None
    usual = next((each for each in assessed.weightings if each.method == assessed.method), assessed.weightings[0])
    blocks: list[Block] = [Facts(_facts(usual, len(post)))]
    if usual.ess:
        blocks.append(Charts(_pictures(post.log_weights(usual.method))))
    if usual.smoothing_matters:
        blocks.append(Text(f"{usual.smoothed_line().capitalize()}."))
    return Section("Weights", [*blocks, _table(assessed)])


def _facts(usual: WeightingDiagnostics, traces: int) -> list[Fact]:
    k, limit = usual.pareto_k, usual.pareto_k_threshold
    unknown = math.isnan(k)
    shown = "unknown" if unknown else "no tail" if k == -math.inf else minus(f"{k:.2f}")
    note = usual.pareto_k_reason or f"below {limit:.2f} is good"
    error = usual.log_evidence_error
    return [
        Fact(
            "Effective traces",
            shown_ess(usual.ess),
            f"{usual.ess / max(traces, 1):.1%} of {traces:,}",
            "good" if usual.ess >= 100.0 else "caution" if usual.ess >= 10.0 else "bad",
        ),
        Fact("Pareto k", shown, note, "bad" if unknown or not k < limit else "good"),
        Fact(
            "Log evidence",
            supported(usual.log_evidence, error),
            "s.e. unknown" if math.isnan(error) else f"s.e. {error:.2g}",
        ),
        Fact("Zero weights", f"{usual.zero_share:.1%}", "of the traces"),
    ]


def _pictures(log_weights: Floats) -> list[Chart]:
    found = [_concentration(log_weights), _convergence(log_weights)]
    finite = log_weights[log_weights > -np.inf]
    if len(finite) > 1 and finite.min() < finite.max():
        edges = bin_edges(finite, np.zeros(len(finite)))
        svg = chart(
            "Histogram of the log weights that are not 0, relative to the largest",
            [Bars(edges - finite.max(), densities(finite, edges), 1)],
            x_label="log weight, relative to the largest",
            hide_y=True,
        )
        found.append(Chart("Spread of the log weights", svg))
    return found


def _concentration(log_weights: Floats) -> Chart:
    """How much of the weight the largest traces hold."""
    shares = np.sort(normalised_weights(log_weights))[::-1]
    at = np.unique(np.geomspace(1, len(shares), _POINTS).astype(np.int64))
    held = np.cumsum(shares)[at - 1]
    svg = chart(
        f"Share of the total weight held by the largest traces; the largest one holds {shares[0]:.1%}",
        [Line(at, 100 * held, 1, "these weights"), Line(at, 100 * at / len(shares), 2, "equal weights")],
        x_label="largest traces",
        y_label="% of the weight",
        log_x=True,
        x_limits=(1.0, float(max(len(shares), 2))),
        y_limits=(0.0, 100.0),
    )
    return Chart("Largest weights", svg, f"The largest weight is {shares[0]:.2%} of the total.")


def _convergence(log_weights: Floats) -> Chart:
    """The log evidence as traces come in."""
    at = np.unique(np.geomspace(min(10, len(log_weights)), len(log_weights), _POINTS).astype(np.int64))
    estimates, errors = running_evidence(log_weights, at)
    known = np.isfinite(estimates)
    low, high = estimates - 2.0 * errors, estimates + 2.0 * errors
    last = float(estimates[-1])
    late = at >= len(log_weights) / 10  # early estimates would hide how the late ones differ
    around = np.abs(np.r_[low[late], high[late], estimates[late]] - last)
    width = float(np.max(around[np.isfinite(around)], initial=0.0))
    width = width if width > 1e-6 * max(abs(last), 1.0) else 0.5  # a single trace, or equal weights: any scale will do
    ends = (float(max(at[0], 1)), float(max(at[-1], at[0] + 1)))
    svg = chart(
        f"Running log evidence; the final value is {last:.6g}",
        [
            Band(at[known], low[known], high[known], 1, "two standard errors"),
            Line(at[known], estimates[known], 1, "estimate"),
            Rule(y=last),
        ],
        x_label="traces",
        log_x=True,
        x_limits=ends,
        y_limits=(last - 2.0 * width, last + 2.0 * width),
    )
    return Chart("Running log evidence", svg, "A jump is a trace with a large weight.")


def _table(assessed: RunDiagnostics) -> Table:
    columns = [
        Column("Weighting", numeric=False),
        Column("Log evidence ± s.e."),
        Column("ESS", help="Effective traces"),
        Column("k", help="Pareto k"),
        Column("Zero weights"),
        Column("What it is", numeric=False),
    ]
    rows = [
        [
            Cell(f"{each.method} (default)" if each.method == assessed.method else each.method),
            estimate_cell(each.log_evidence, each.log_evidence_error),
            Cell(shown_ess(each.ess), each.ess),
            number_cell(each.pareto_k, ".2f", "plain" if each.trusted else "bad"),
            number_cell(each.zero_share, ".1%"),
            Cell(_MEANING.get(each.method, "")),
        ]
        for each in assessed.weightings
    ]
    return Table("All weightings of these traces", columns, rows)


# ---- loops -----------------------------------------------------------------------------------------------------------


def loops_section(post: Posterior) -> Section | None:
    """One row per rejection loop."""
    if not post.loops:
        return None
    columns = [
        Column("Loop", numeric=False),
        Column("Entries"),
        Column("Tries", help="Mean number of tries per entry"),
        Column("p(A)", help="Acceptance probability of a try under the prior"),
        Column("q(A)", help="Acceptance probability of a try under the proposal"),
        Column("S_pq", help="At 1 or more, naive weights have infinite variance (Theorem 1)"),
        Column("Naive weights", numeric=False),
        Column("Budget", numeric=False, help="M runs under the prior, and R runs or N tries under the proposal"),
        Column("Estimated", help="Entries with estimates"),
        Column("How", numeric=False),
    ]
    notes = [f"`{loop.address}`: {loop.note}." for loop in post.loops.values() if loop.note]
    text = (
        "The correction of a loop is q(A)/p(A): the acceptance probability of a try under the proposal, divided by "
        "that under the prior. Continuations from the loop's entry estimate it."
    )
    noise = post.stats.get("correction_variance", math.nan)
    if not math.isnan(noise):
        text += f" Noise of these corrections is {noise:.0%} of the weights' second moment."
    table = Table("Rejection loops", columns, [_loop(loop) for loop in post.loops.values()])
    return Section("Loops", [Text(text), table, *([Items(notes)] if notes else [])])


def _loop(loop: LoopSummary) -> list[Cell]:
    infinite = loop.naive_variance_infinite
    verdict = {True: "infinite variance", False: "finite variance", None: "undecided"}[infinite]
    how = {
        "rewind": "rewound in place",
        "fork": "forked",
        "both": "rewound and forked",
        "in place": "in place (ars_reject)",
    }.get(loop.method, loop.method)
    return [
        Cell(loop.address, code=True),
        number_cell(loop.entries, ",d"),
        number_cell(loop.mean_tries, ".3g"),
        estimate_cell(loop.p_accept, loop.p_accept_error),
        estimate_cell(loop.q_accept, loop.q_accept_error),
        estimate_cell(loop.s_pq, loop.s_pq_error),
        Cell(verdict, level="bad" if infinite else "plain"),
        Cell(loop.budget),
        number_cell(loop.estimated, ",d"),
        Cell(f"{how}: {loop.reason}" if loop.reason else how),
    ]

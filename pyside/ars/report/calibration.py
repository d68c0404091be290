"""The page of a calibration: are posteriors right on average, and how often do intervals hold the truth?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.calibration.dataset import JOINT
from ars.calibration.ranks import LEVELS, binomial_interval, rank_band
from ars.calibration.result import LEGEND
from ars.columns import Floats
from ars.report.charts import Band, Bars, Layer, Line, Rule, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Code,
    Column,
    Fact,
    Facts,
    Level,
    Page,
    Section,
    Step,
    Table,
    Text,
    Verdict,
    minus,
    number_cell,
)
from ars.report.run import settings_table, versions

if TYPE_CHECKING:
    from ars.calibration.result import Calibration, ValueCalibration

__all__ = ["calibration_page"]

_PICTURES: Final = 12  # values with pictures


def calibration_page(found: Calibration, *, command: str = "") -> Page:
    """Build the page of a calibration.

    Parameters
    ----------
    found : Calibration
    command : str
        Command line that ran it (default: not known).

    Returns
    -------
    Page
    """
    words = [str(word) for word in found.about.get("simulator", ())]
    name = Path(words[0]).name if words else "a simulator"
    what, _, reason = found.verdict.partition(": ")
    headline = "The tests show no problem with these posteriors" if found.ok else "These posteriors are not calibrated"
    steps = [Step("Next", text) for text in found.advice()]
    level: Level = "good" if found.ok else "bad"
    verdict = Verdict(level, headline, f"{what.capitalize()}: {reason}.", (f"{found.headline()}.",), steps)
    sections = [_efficiency(found), _ranks(found), _coverage(found), _run(found, words, command)]
    about = f"{len(found):,} data sets drawn from the prior of `{' '.join(words)}`"
    return Page.of(f"Calibration of {name}", about, verdict, sections)


def _efficiency(found: Calibration) -> Section:
    e = found.efficiency
    k = "unknown" if math.isnan(e.median_k) else minus(f"{e.median_k:.2f}")
    facts = [
        Fact("Median sample efficiency", f"{e.median:.1%}", f"5% to 95% of data sets: {e.low:.1%} to {e.high:.1%}"),
        Fact("Median ESS", f"{e.median_ess:,.0f}", f"of {found.about.get('traces', 0):,} traces"),
        Fact("Median Pareto k", k, f"0.7 or more, or unknown, in {e.large_k:,} of {len(found):,} data sets"),
        Fact("Without a posterior", f"{e.without_weight:,}", "data sets in which no trace has weight"),
    ]
    shares = np.array([record.ess / max(record.traces, 1) for record in found.records])
    ks = np.array([record.pareto_k for record in found.records])
    pictures = [
        Chart("Sample efficiency", _histogram("ESS of all data sets", shares, (0.0, 1.0), e.median, "ESS / traces"))
    ]
    known = ks[np.isfinite(ks)]
    if len(known):
        ends = (min(float(known.min()), -0.5), max(float(known.max()), 1.0))
        pictures.append(Chart("Pareto k", _histogram("Pareto k of all data sets", known, ends, 0.7, "Pareto k")))
    return Section("Efficiency", [Facts(facts), Charts(pictures)])


def _histogram(alt: str, values: Floats, ends: tuple[float, float], mark: float, label: str) -> str:
    heights, edges = np.histogram(values, 20, ends)
    layers: list[Layer] = [Bars(edges, heights), Rule(x=mark)]
    return chart(alt, layers, x_label=label, y_label="data sets", x_limits=ends, whole_y=True)


# ---- ranks -----------------------------------------------------------------------------------------------------------


def _ranks(found: Calibration) -> Section:
    shown = [value for value in found.values if value.name == JOINT or value in found.suspects]
    shown += [value for value in found.values if value not in shown]
    pictures = [Chart(f"`{value.name}`", _rank_chart(found, value), _said(found, value)) for value in shown[:_PICTURES]]
    explained = Text(
        "If posteriors are right, the truth's rank among the weighted traces is uniform over data sets. Each bar then "
        "lies in the band with probability 99%, so a single bar outside means little. A slope means that posteriors "
        "are shifted, a U that they are too narrow, and a hump that they are too wide."
    )
    more: list[Block] = []
    if len(shown) > _PICTURES:
        more.append(Text(f"{_PICTURES} of {len(shown)} values are pictured; the table has all of them."))
    return Section("Ranks of the truth", [explained, Charts(pictures), *more])


def _said(found: Calibration, value: ValueCalibration) -> str:
    verdict = f": not uniform, the posterior is {value.shape}" if value in found.suspects else ""
    return f"p = {value.p_value:.2g}{verdict}"


def _rank_chart(found: Calibration, value: ValueCalibration) -> str:
    ranks = found.ranks(value.name)
    n = len(ranks)
    bins = int(np.clip(n // 10, 5, 20))
    heights, edges = np.histogram(ranks, bins, (0.0, 1.0))
    low, high = (n * share for share in binomial_interval(n, 1.0 / bins))
    layers: list[Layer] = [Band([0.0, 1.0], [low, low], [high, high], 2), Bars(edges, heights), Rule(y=n / bins)]
    alt = f"Histogram of the ranks of {value.name}: {_said(found, value)}"
    top = max(float(heights.max()), high) * 1.15
    ends = (0.0, 1.0)
    return chart(alt, layers, x_label="rank", y_label="data sets", x_limits=ends, y_limits=(0.0, top), whole_y=True)


# ---- coverage --------------------------------------------------------------------------------------------------------


def _coverage(found: Calibration) -> Section:
    columns = [
        Column("Value", numeric=False),
        Column("Data sets"),
        Column("p", help="test that the ranks are uniform"),
        Column("Mean rank", help="0.5 if they are uniform"),
        *(Column(f"{100 * level:g}%") for level in LEVELS),
        Column("Contraction", help="share of the prior's variance that the data remove"),
    ]
    rows = [_row(found, value) for value in found.values]
    pictures = [Chart(f"`{value.name}`", _coverage_chart(found, value)) for value in found.values[:_PICTURES]]
    explained = Text(
        "Each line is the share of data sets whose truth has a rank below the given one, minus that rank. If "
        "posteriors are right, it stays in the band with probability 99%. The percentages in the table are shares of "
        "data sets whose central interval contains the truth. They fall short if posteriors have few effective traces."
    )
    return Section("Coverage", [explained, Table("All values", columns, rows, LEGEND), Charts(pictures)])


def _row(found: Calibration, value: ValueCalibration) -> list[Cell]:
    suspect = value in found.suspects
    shares = [
        Cell(f"{100 * each.share:.1f}%{'' if each.right else ' !'}", each.share, "plain" if each.right else "caution")
        for each in value.coverage
    ]
    return [
        Cell(value.name, code=True),
        Cell(f"{value.datasets:,}", value.datasets),
        number_cell(value.p_value, ".2g", "bad" if suspect else "plain"),
        number_cell(value.mean_rank, ".3f"),
        *shares,
        number_cell(value.contraction, ".2f"),
    ]


def _coverage_chart(found: Calibration, value: ValueCalibration) -> str:
    ranks = np.sort(found.ranks(value.name))
    band = rank_band(len(ranks))
    share = np.searchsorted(ranks, band.at, side="right") / len(ranks)
    layers: list[Layer] = [
        Band(band.at, band.low - band.at, band.high - band.at, 2),
        Line(band.at, share - band.at, 1),
        Rule(y=0.0),
    ]
    alt = f"Distribution function of the ranks of {value.name}, minus the uniform one"
    return chart(alt, layers, x_label="rank", y_label="difference", x_limits=(0.0, 1.0))


def _run(found: Calibration, words: list[str], command: str) -> Section:
    about = found.about
    seconds = sum(record.seconds for record in found.records)
    settings = {
        "simulator": " ".join(words),
        "network": about.get("network") or "none: the prior proposed",
        "seed": about.get("seed"),
        "data sets": len(found),
        "traces per data set": about.get("traces"),
        "weighting": about.get("weighting") or "the run's own",
        **about.get("options", {}),
        "seconds of inference": f"{seconds:,.1f}",
        **versions(),
    }
    blocks: list[Block] = [Code(command, "Command")] if command else []
    return Section("The run", [*blocks, settings_table("Settings", settings)])

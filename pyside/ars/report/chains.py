"""The page of Markov chains: have they mixed, what do they say, how did their moves do."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ars.columns import Floats
from ars.mcmc.summary import LARGEST_RHAT, LEAST_ESS, Row, assess
from ars.report.charts import Layer, Line, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Code,
    Column,
    Level,
    Page,
    Section,
    Table,
    Tabs,
    Text,
    Verdict,
    estimate_cell,
    number_cell,
)
from ars.report.run import settings_table, versions
from ars.report.values import posterior_chart
from ars.results.assessment import elements

if TYPE_CHECKING:
    from ars.mcmc.chains import Chains

__all__ = ["chains_page"]

_PICTURES: Final = 12
_DRAWN: Final = 4  # chains in a picture of traces
_POINTS: Final = 400  # of each


def chains_page(chains: Chains, truth: Mapping[str, npt.ArrayLike] | None = None, *, command: str = "") -> Page:
    """Build the page of chains.

    Parameters
    ----------
    chains : Chains
    truth : mapping, optional
        True values where they are known (default: none).
    command : str
        Command line that ran them (default: not known).

    Returns
    -------
    Page
    """
    assessed = assess(chains)
    simulator = str(chains.about.get("simulator", ""))  # its whole command
    name = Path(simulator.split()[0]).name if simulator.strip() else "a simulator"
    trusted, text = assessed.verdict.trusted, assessed.verdict.text
    headline = "The chains have mixed" if trusted else "Do not trust these draws yet"
    verdict = Verdict("good" if trusted else "bad", headline, text[:1].upper() + text[1:] + ".")
    known = {
        label: float(column[0])
        for key, value in (truth or {}).items()
        for label, column in elements(key, np.asarray(value, np.float64)[None])
    }
    drawn = [name for name, _ in chains.elements()]
    if wrong := [name for name in known if name not in drawn]:
        raise KeyError(f"truth: the chains have no {wrong[0]!r}; they have {', '.join(drawn)}")
    rows = assessed.rows
    sections = [_values(chains, rows, known), _moves(chains), _run(chains, simulator, command)]
    about = f"{chains.shape[0]} chains of {chains.shape[1]:,} draws of `{simulator or name}`"
    return Page.of(f"Markov chains of {name}", about, verdict, sections)


def _values(chains: Chains, rows: tuple[Row, ...], truth: Mapping[str, float]) -> Section:
    columns = [
        Column("Value", numeric=False),
        Column("Mean ± s.e."),
        *(Column(title) for title in ("5%", "50%", "95%", "ESS bulk", "ESS tail", "R-hat")),
    ]
    cells = []
    for row in rows:
        quantiles = [number_cell(each, ".5g") for each in (row.q05, row.q50, row.q95)]
        unjudged = not row.always_there
        sizes = [
            number_cell(each, ",.0f", _level(unjudged or each >= LEAST_ESS)) for each in (row.ess_bulk, row.ess_tail)
        ]
        cells.append(
            [
                Cell(row.name, code=True),
                estimate_cell(row.mean, row.mcse),
                *quantiles,
                *sizes,
                number_cell(row.rhat, ".3f", _level(unjudged or row.rhat <= LARGEST_RHAT)),
            ]
        )
    drawn = dict(chains.elements())
    some = list(drawn)[:_PICTURES]
    histograms = [Chart(f"`{name}`", _histogram(name, drawn[name], truth.get(name))) for name in some]
    paths = [Chart(f"`{name}`", _path(name, drawn[name])) for name in some]
    more: list[Block] = []
    if len(drawn) > _PICTURES:
        more.append(Text(f"The first {_PICTURES} of {len(drawn)} are pictured; the table has all of them."))
    legend = "s.e.: Monte Carlo standard error. R-hat must be at most 1.01, and both ESS at least 400."
    tabs = Tabs("Pictures", [("Posteriors", [Charts(histograms)]), ("Traces", [Charts(paths)])])
    return Section("Posterior", [tabs, *more, Table("All values", columns, cells, legend)])


def _level(fine: bool) -> Level:
    return "plain" if fine else "bad"


def _histogram(name: str, values: Floats, truth: float | None) -> str:
    flat = values.reshape(-1)
    return posterior_chart(name, flat, np.zeros(len(flat)), None, truth)


def _path(name: str, values: Floats) -> str:
    step = max(values.shape[1] // _POINTS, 1)
    at = np.arange(0, values.shape[1], step)
    layers: list[Layer] = [Line(at, values[i, ::step], i + 1, f"chain {i}") for i in range(min(len(values), _DRAWN))]
    return chart(f"Draws of {name} by the first chains", layers, x_label="draw")


def _moves(chains: Chains) -> Section:
    columns = [Column("Move", numeric=False), Column("Made"), Column("Accepted"), Column("Share")]
    rows = [
        [Cell(kind), number_cell(each.made, ",d"), number_cell(each.accepted, ",d"), number_cell(each.share, ".1%")]
        for kind, each in chains.acceptance.items()
    ]
    failed = chains.failures.total
    text = f"{failed:,} proposed traces failed; those moves were refused." if failed else "No trace failed."
    return Section("Moves", [Table("Moves after the warm-up", columns, rows), Text(text)])


def _run(chains: Chains, simulator: str, command: str) -> Section:
    settings: dict[str, Any] = {
        **{name: value for name, value in chains.about.items() if name != "simulator"},
        "simulator": simulator,
        **versions(),
        "Report made": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    shown = {name: value for name, value in settings.items() if not (isinstance(value, float) and math.isnan(value))}
    blocks: list[Block] = [Code(command, "Command")] if command else []
    return Section("How it was run", [*blocks, settings_table("Settings and versions", shown)])

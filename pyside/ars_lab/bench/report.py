"""The measurements of ``ars bench`` as a page."""

from __future__ import annotations

from collections.abc import Sequence

from ars.report.page import Cell, Code, Column, Level, Page, Section, Table, Verdict
from ars.report.run import settings_table
from ars_lab.bench.document import TITLES
from ars_lab.bench.results import Measurement, Report, number

__all__ = ["bench_page"]


def _missed(m: Measurement) -> bool:
    return m.target is not None and (m.value > m.target if m.better == "lower" else m.value < m.target)


def bench_page(report: Report, command: str = "") -> Page:
    """Build the page of a report.

    Parameters
    ----------
    report : Report
    command : str
        Command line that measured it (default: the report's own).

    Returns
    -------
    Page
    """
    aims = [m for m in report.measurements if m.target is not None]
    missed = [m for m in aims if _missed(m)]
    if not aims:
        verdict = Verdict("plain", f"{len(report.measurements)} figures, none of which has a target")
    elif missed:
        reasons = [
            f"{m.suite}, {_case(m)}: {m.metric} is {number(m.value)}, the target {number(m.target or 0.0)}"
            for m in missed
        ]
        verdict = Verdict("caution", f"{len(missed)} of {len(aims)} targets are missed", "", reasons)
    else:
        verdict = Verdict("good", f"All {len(aims)} targets are met")
    sections = [
        Section(suite.capitalize(), [_table(suite, [m for m in report.measurements if m.suite == suite])])
        for suite in dict.fromkeys(m.suite for m in report.measurements)
    ]
    told = command or str(report.options.get("command", "ars bench"))
    machine = {**{str(k): v for k, v in report.machine.items()}, **report.options, "made": report.made}
    sections.append(Section("How it was run", [Code(told, "Command"), settings_table("Machine and settings", machine)]))
    return Page("Benchmarks of libars", f"Made {report.made or 'just now'}", verdict, sections)


def _case(m: Measurement) -> str:
    return ", ".join(f"{name} {value}" for name, value in m.case.items())


def _table(suite: str, measurements: Sequence[Measurement]) -> Table:
    """One row per case, one column per metric."""
    cases = list(dict.fromkeys(name for m in measurements for name in m.case))
    metrics = list(dict.fromkeys((m.metric, m.unit) for m in measurements))
    rows: dict[tuple[tuple[str, str | float], ...], dict[tuple[str, str], Measurement]] = {}
    for m in measurements:
        rows.setdefault(tuple(m.case.items()), {})[m.metric, m.unit] = m
    columns = [Column(name, numeric=False) for name in cases]
    columns += [Column(f"{metric}, {unit}" if unit else metric) for metric, unit in metrics]
    cells = [
        [*(_named(dict(case).get(name, "")) for name in cases), *(_figure(found.get(key)) for key in metrics)]
        for case, found in rows.items()
    ]
    legend = "±: half the range of the repetitions. A target is in parentheses."
    return Table(TITLES.get(suite, suite), columns, cells, legend)


def _named(value: str | float) -> Cell:
    return Cell(value) if isinstance(value, str) else Cell(f"{value:,g}", float(value))


def _figure(m: Measurement | None) -> Cell:
    if m is None:
        return Cell("–", float("nan"))
    text = number(m.value) + (f" ± {m.spread:.0%}" if m.spread else "")
    level: Level = "plain"
    if m.target is not None:
        text += f" ({'≤' if m.better == 'lower' else '≥'} {m.target:,g})"
        level = "bad" if _missed(m) else "good"
    return Cell(text, m.value, level)

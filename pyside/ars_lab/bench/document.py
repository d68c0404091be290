"""The tables of a report as Markdown, and their place in a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ars_lab.bench.results import BenchError, Report, table

__all__ = ["BEGIN", "END", "markdown", "replace_tables"]

BEGIN, END = "<!-- ars bench: begin -->", "<!-- ars bench: end -->"

TITLES = {
    "fork": "Forked continuations (`ars bench fork`; memory in MB)",
    "rewind": "Continuations by rewinding, M = N = 10 (`ars bench rewind`; memory in MB, pages written as dirty)",
    "by hand": "CPU time per trace of Marsaglia with proposals by hand (`ars bench rewind`)",
    "memory": "Memory of one parked snapshot",
    "draws": "A simulator that runs alone (`ars bench draws`)",
    "infer": "Posterior traces of Marsaglia (`ars bench infer`)",
    "infer CPU": "CPU time per trace of the same",
    "infer batches": "Requests of the same, by the size of the batch that answered them",
    "budget": "Effective traces per second of an automatic budget (`ars bench budget`)",
    "costs": "Costs that an automatic budget plans with (`ars bench costs`)",
    "sites": "Cost of a request against the number of sites (`ars bench sites`)",
    "train": "Prior traces, recording and training (`ars bench train`)",
    "pyprob": "Compared with pyprob, alternating (`ars bench pyprob`)",
}


def markdown(report: Report) -> str:
    m = report.machine
    head = (
        f"Made {report.made or 'just now'} by `{report.options.get('command', 'ars bench')}` on {m.get('cores')} cores "
        f"of {m.get('cpu')}, {m.get('memory_gb')} GB, Linux {m.get('kernel')}, torch {m.get('torch')}; "
        f"the load was {m.get('load', [0.0])[0]:.1f} at the start{_stolen(m)}. Targets are in parentheses, with an "
        "exclamation mark if missed."
    )
    parts = [head]
    for suite in dict.fromkeys(x.suite for x in report.measurements):
        parts.append(f"### {TITLES.get(suite, suite)}")
        parts.append(table((x for x in report.measurements if x.suite == suite), markdown=True))
    return "\n\n".join(parts)


def _stolen(machine: Mapping[str, Any]) -> str:
    share = machine.get("stolen")
    return "" if share is None else f", and the hypervisor gave {share:.0%} of the time to others"


def replace_tables(page: Path, report: Report) -> None:
    """Puts the tables between the two marks of a page."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"{page} has no place for tables: it needs the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(report)}\n\n{END}{after}")

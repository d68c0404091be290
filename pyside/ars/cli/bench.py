"""``ars bench``: how fast everything is, next to what it is compared with; and what changed since the last time."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.documents import add_json, print_document
from ars.cli.options import at_least, positive
from ars.cli.report_words import add_report, command_of

if TYPE_CHECKING:
    from ars_lab.bench.measure import Effort
    from ars_lab.bench.results import Measurement, Report

HELP = "Measure the speed of continuations, inference and training, and compare it with pyprob."
_MUCH_STOLEN = 0.03  # of the time

SUITES = {
    "fork": "cost of a forked continuation, relative to a bare fork of the same process",
    "rewind": "cost of a rewound continuation, relative to a forked one and to a bare fork",
    "draws": "cost of a draw in a simulator that runs alone, relative to drand48, and under a controller",
    "infer": "posterior traces per second, and the share of each part",
    "budget": "effective traces per second of an automatic budget, relative to M = 1, N = 10 and to the best fixed one",
    "costs": "costs of the parts of a run on this machine, for ars infer --costs",
    "sites": "cost of a request as a function of the number of sites",
    "train": "traces per second of prior runs, recording and training",
    "pyprob": "speed of libars and pyprob on the same work, measured alternately",
    "all": "every benchmark",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", dest="what", required=True)
    for name, text in SUITES.items():
        suite = commands.add_parser(
            name, help=text, description="Run every benchmark." if name == "all" else f"Measure the {text}."
        )
        suite.add_argument(
            "--full",
            action="store_true",
            help="run the entire grid (default: a small grid, a minute or two)",
        )
        suite.add_argument(
            "--smallest", action="store_true", help="finish in a few seconds, only to check that the benchmark works"
        )
        suite.add_argument("--seconds", type=positive, metavar="S", help="seconds per measurement and repetition")
        suite.add_argument(
            "--repeats", type=at_least(1), metavar="N", help="repetitions of every measurement; the median is reported"
        )
        suite.add_argument(
            "--out", type=Path, metavar="FILE.json", help="write all measurements, for ars bench compare"
        )
        suite.add_argument("--plots", type=Path, metavar="DIR", help="write plots (needs matplotlib)")
        add_report(suite, "a report")
        suite.add_argument(
            "--into", type=Path, metavar="PAGE.md", help="write the tables into this page, between its markers"
        )
        suite.add_argument(
            "--simulators", metavar="DIR", help="folder of the executables of csim/ (default: compiled when needed)"
        )
        suite.add_argument(
            "--cache", type=Path, metavar="DIR", help="folder that keeps pyprob's environment and trained networks"
        )
        suite.add_argument("--quiet", action="store_true", help="print only tables")
        add_json(suite)
        if name == "budget":
            suite.add_argument("--case", metavar="TEXT", help="only cases whose name contains TEXT (default: all)")
        if name == "costs":
            written = Path("costs.json")
            suite.add_argument(
                "--costs", type=Path, default=written, metavar="FILE", help=f"file to write (default: {written})"
            )
    diff = commands.add_parser(
        "compare",
        help="list the measurements that became slower between two files of --out",
        description="List the measurements that became slower between two files of ars bench --out.",
    )
    diff.add_argument("before", type=Path, help="file of the earlier measurement")
    diff.add_argument("after", type=Path, help="file of the later measurement")
    diff.add_argument(
        "--threshold",
        type=positive,
        default=10.0,
        metavar="%",
        help="smallest change to report, in percent (default: 10)",
    )
    add_json(diff)
    diff.add_argument("--fail", action="store_true", help="exit with code 1 if anything became slower")


def _effort(arguments: argparse.Namespace) -> Effort:
    from ars_lab.bench.measure import Effort

    size = "full" if arguments.full else "smallest" if arguments.smallest else "quick"
    seconds = arguments.seconds or {"smallest": 0.02, "quick": 0.4, "full": 0.5}[size]
    repeats = arguments.repeats or (1 if size == "smallest" else 3)
    return Effort(seconds, repeats, size)


def _suite(name: str, effort: Effort, arguments: argparse.Namespace) -> Iterator[Measurement]:
    from ars_lab.bench import budget, costs, draws, fork, infer, peer, rewind, sites, train

    plain: dict[str, Callable[[Effort, str | None], Iterator[Measurement]]] = {
        module.SUITE: module.run for module in (fork, rewind, draws, infer, costs, sites, train)
    }
    if name == "budget":
        return budget.run(effort, arguments.simulators, arguments.cache, getattr(arguments, "case", None) or "")
    if name == "pyprob":
        environment = peer.Environment(arguments.cache or peer.default_cache())
        if not environment.complete and not arguments.quiet:
            print(f"pyprob: its environment is made in {environment.directory}; this takes minutes", file=sys.stderr)
        return peer.run(effort, arguments.simulators, arguments.cache)
    return plain[name](effort, arguments.simulators)


def _measure(name: str, effort: Effort, arguments: argparse.Namespace, report: Report) -> None:
    """One suite: its cases on stderr as they come, its tables on stdout at the end."""
    from ars_lab.bench.document import TITLES
    from ars_lab.bench.results import table

    begun = len(report.measurements)
    latest = None
    for m in _suite(name, effort, arguments):
        if m.case != latest:
            if not arguments.quiet:
                print(f"{name}: {', '.join(f'{key} {value}' for key, value in m.case.items())}", file=sys.stderr)
            if arguments.out is not None and latest is not None:
                report.save(arguments.out)  # a benchmark that is interrupted keeps its finished cases
        latest = m.case
        report.measurements.append(m)
    made = report.measurements[begun:]
    if arguments.json:
        return
    for suite in dict.fromkeys(m.suite for m in made):
        print(f"\n{TITLES.get(suite, suite)}\n")
        print(table(m for m in made if m.suite == suite))
    sys.stdout.flush()


def _compare(arguments: argparse.Namespace) -> int:
    from ars_lab.bench.compare import compare
    from ars_lab.bench.results import load

    found = compare(load(arguments.before), load(arguments.after), arguments.threshold / 100)
    if arguments.json:
        changes = [each._asdict() | {"verdict": each.verdict} for each in found.changes]
        print_document(found._asdict() | {"changes": changes})
        return 1 if arguments.fail and found.of("slower") else 0
    if found.machine:
        print(f"The machines differ ({'; '.join(found.machine)}): only ratios can be compared.\n")
    for change in [*found.of("slower"), *found.of("faster")]:
        print(change)
    counts = ", ".join(f"{len(found.of(verdict))} {verdict}" for verdict in ("slower", "faster", "same"))
    print(f"{counts}; {found.only_before} only in the first, {found.only_after} only in the second")
    return 1 if arguments.fail and found.of("slower") else 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.what == "compare":
        return _compare(arguments)
    from ars_lab.bench.document import replace_tables
    from ars_lab.bench.machine import cpu_ticks, describe
    from ars_lab.bench.results import BenchError, Report

    effort = _effort(arguments)
    options = {"command": f"ars bench {arguments.what}{' --full' if arguments.full else ''}", **vars(effort)}
    made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    report = Report(describe(), options, made=made)
    before = cpu_ticks()
    names = [name for name in SUITES if name != "all"] if arguments.what == "all" else [arguments.what]
    for name in names:
        try:
            _measure(name, effort, arguments, report)
        except (BenchError, ImportError) as error:
            if len(names) == 1 or (isinstance(error, BenchError) and name != "pyprob"):
                raise
            print(f"\n{name} is skipped: {error}", file=sys.stderr)
    report.machine["stolen"] = stolen = round(cpu_ticks().stolen_since(before), 4)
    if stolen > _MUCH_STOLEN:
        print(
            f"\nMeanwhile, the hypervisor gave {stolen:.0%} of this machine's time to others. Rates are lower by at "
            "least that share, and ratios are less reliable. Repeat the benchmark when the host is less busy.",
            file=sys.stderr,
        )
    if arguments.what == "costs":
        from ars_lab.bench.costs import save

        save(report.measurements, arguments.costs)
        if not arguments.json:
            print(f"\nwritten to {arguments.costs}: use it with ars infer --costs {arguments.costs}")
    if arguments.out is not None:
        report.save(arguments.out)
    if arguments.report is not None:
        from ars.report.render import write
        from ars_lab.bench.report import bench_page

        write(bench_page(report, command_of(arguments)), arguments.report)
        if not arguments.json:
            print(f"\nreport: {arguments.report}")
    if arguments.plots is not None:
        from ars_lab.bench.plots import save_plots

        save_plots(report.measurements, arguments.plots)
    if arguments.into is not None:
        replace_tables(arguments.into, report)
    if arguments.json:
        print_document(report.to_dict())
    return 0

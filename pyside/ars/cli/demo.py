"""``ars demo``: simulators whose evidence is known exactly, weighed in every way; one with a network trained here."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ars.cli.documents import add_json, print_document
from ars.cli.options import add_continuations, add_out, limits
from ars.display.screen import on_screen, print_table, print_text

if TYPE_CHECKING:
    from ars.diagnostics import Evidence
    from ars.posterior import Posterior, Traces

HELP = "Train a small network, and compare ARS weights with others on three simulators."

_BUDGETS = (1, 2, 10)  # M; N is 10
_TRACES, _QUICK_TRACES = 3000, 600
_TRAIN = 60_000
_PREDICTED = 500
_TOO_FAR = 4.0  # standard errors
_READING = """\
"exact" is the true evidence. "ars", "collapsed" and "prior in loops" lie within a few standard errors of it. "biased"
omits the correction of the loops and stays wrong, however many traces are run. "ic" is correct on average over very
many runs. But its weights can have infinite variance: a single run can be far off, and its error is useless."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--simulator",
        type=Path,
        metavar="PATH",
        help="folder of the example executables, or the beta_bernoulli executable in it "
        "(default: compiled when needed; this needs a C compiler)",
    )
    add_out(parser, "demo", "folder for tables and plots (default: ./demo)")
    parser.add_argument("--traces", type=_positive, metavar="N", help=f"traces per run (default: {_TRACES:,})")
    parser.add_argument(
        "--quick", action="store_true", help=f"{_QUICK_TRACES} traces per run and no training; takes a few seconds"
    )
    add_continuations(parser)
    add_json(parser)


def _positive(text: str) -> int:
    number = int(text)
    if number < 100:
        raise argparse.ArgumentTypeError(f"{number} is too few traces to show anything: at least 100")
    return number


# ---- exact answers ----------------------------------------------------------------------------------------------


def beta_function(a: float, b: float) -> float:
    return math.exp(math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def integrate(f: Callable[[float], float], low: float, high: float, pieces: int = 2000) -> float:
    """Simpson's rule."""
    x = np.linspace(low, high, 2 * pieces + 1)
    values = np.array([f(float(point)) for point in x])
    weights = np.ones(len(x))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float(weights @ values) * (high - low) / (6 * pieces)


def truncated_normal_density(x: float, y: float) -> float:
    """p(x, y) of truncated_normal b: z ~ Normal(x, 1) until z < 0, then y ~ Normal(z, x); x is Uniform(1, 2)."""
    variance = x * x / (1.0 + x * x)  # of z given x and y, were it not truncated
    mean = variance * (x + y / (x * x))
    marginal = math.exp(-0.5 * (y - x) ** 2 / (1.0 + x * x)) / math.sqrt(2.0 * math.pi * (1.0 + x * x))
    return marginal * normal_cdf(-mean / math.sqrt(variance)) / normal_cdf(-x)


class Example(NamedTuple):
    """A simulator, its data, where its proposals come from, and what is known exactly."""

    title: str
    executable: str
    arguments: tuple[str, ...]
    observe: Mapping[str, Any]
    proposals: Mapping[str, Any] | None  # by hand; None: a network is trained
    evidence: float
    p_accept: Any  # of its one loop: a number, or a function of the values
    q_accept: Any  # None: nobody knows
    shown: str  # the result to plot
    density: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # its exact posterior


def beta_bernoulli(alpha: float = 2.0, n: int = 10) -> Example:
    from ars.distributions import Beta, Uniform

    x = np.linspace(0.0, 1.0, 201)
    return Example(
        title=f"Beta-Bernoulli, alpha = {alpha:g}, n = {n}",
        executable="beta_bernoulli",
        arguments=(f"{alpha:g}", str(n)),
        observe={"y": [1.0] * n},
        proposals={"x": Beta(alpha + n, alpha), "u": Uniform(0.0, 1.0)},
        evidence=beta_function(alpha + n, alpha) / beta_function(alpha, alpha),
        p_accept=4.0 ** (alpha - 1) * beta_function(alpha, alpha),
        q_accept=4.0 ** (alpha - 1) * beta_function(2 * alpha + n - 1, 2 * alpha - 1) / beta_function(alpha + n, alpha),
        shown="x_final",
        density=(x, x ** (alpha + n - 1) * (1 - x) ** (alpha - 1) / beta_function(alpha + n, alpha)),
    )


def truncated_normal(y: float = -1.0, slope: float = 0.25) -> Example:
    from ars.distributions import Normal

    evidence = integrate(lambda x: truncated_normal_density(x, y), 1.0, 2.0)
    x = np.linspace(1.0, 2.0, 101)
    cdf = np.vectorize(normal_cdf, otypes=[np.float64])
    return Example(
        title=f"Truncated Normal whose acceptance depends on the state, y = {y:g}",
        executable="truncated_normal",
        arguments=("b",),
        observe={"y": y},
        proposals={"z": lambda t: Normal(-slope * t["x"], 1.0)},
        evidence=evidence,
        p_accept=lambda t: cdf(-t["x"]),
        q_accept=lambda t: cdf(slope * t["x"]),
        shown="x_final",
        density=(x, np.array([truncated_normal_density(float(point), y) for point in x]) / evidence),
    )


def marsaglia(y: float = -1.0, noise: float = 0.1) -> Example:
    """Two data, both y, of a Normal(mu, noise); mu is Normal(0, 1), drawn by Marsaglia's polar method."""
    variance = 1.0 / (1.0 + 2.0 / noise**2)
    mean = variance * 2.0 * y / noise**2
    log_evidence = -0.5 * (math.log(2 * math.pi) * 2 + 4 * math.log(noise) - math.log(variance))
    log_evidence -= 0.5 * (2.0 * y**2 / noise**2 - mean**2 / variance)
    x = np.linspace(mean - 5 * math.sqrt(variance), mean + 5 * math.sqrt(variance), 201)
    return Example(
        title=f"Marsaglia's polar method with a network trained here, y1 = y2 = {y:g}",
        executable="marsaglia",
        arguments=(),
        observe={"y1": y, "y2": y},
        proposals=None,
        evidence=math.exp(log_evidence),
        p_accept=math.pi / 4,
        q_accept=None,
        shown="mu",
        density=(x, np.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)),
    )


# ---- the table --------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One method on one example."""

    example: str
    method: str
    evidence: float
    standard_error: float
    exact: float
    distance: float  # in standard errors
    ess_share: float
    pareto_k: float
    traces_per_second: float


_TITLES = ("method", "evidence", "s.e.", "exact", "distance / s.e.", "ESS/N", "Pareto k", "traces/s")
_DROP = ("traces/s", "Pareto k", "ESS/N", "exact")  # what a narrow terminal leaves out, the least important first


def _row(example: Example, method: str, post: Posterior, weighting: str, **options: Any) -> Row:
    from ars import diagnostics
    from ars.errors import NaiveVarianceWarning

    with warnings.catch_warnings():  # what it warns of is written under the table
        warnings.simplefilter("ignore", NaiveVarianceWarning)
        log_weights = post.log_weights(weighting, **options)
    found: Evidence = diagnostics.log_evidence(log_weights)
    return Row(
        example.title,
        method,
        found.evidence,
        found.standard_error,
        example.evidence,
        found.distance(example.evidence),
        diagnostics.normalised_ess(log_weights),
        float(diagnostics.pareto_k(log_weights)),
        float(post.stats.get("traces_per_second", math.nan)),
    )


def _cells(row: Row) -> list[str]:
    return [
        row.method,
        f"{row.evidence:.6f}",
        f"{row.standard_error:.6f}",
        f"{row.exact:.6f}",
        f"{row.distance:+.1f}",
        f"{row.ess_share:.3f}",
        f"{row.pareto_k:.2f}",
        f"{row.traces_per_second:,.0f}",
    ]


def _table(rows: Sequence[Row]) -> str:
    """A Markdown table whose columns line up on a terminal too."""
    lines = [list(_TITLES), *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_TITLES))]
    text = [
        "| " + " | ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])])
    return "\n".join(f"{line} |" if line is not rule else f"{rule}|" for line in [text[0], rule, *text[1:]])


# ---- the runs ---------------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What came of an example."""

    example: Example
    rows: list[Row]
    notes: list[str]
    runs: dict[int, Posterior]  # by M
    prior: Traces
    predicted: Traces

    @property
    def right(self) -> bool:
        """Every ARS estimate is near the exact evidence, and the uncorrected one is not."""
        near = all(abs(row.distance) < _TOO_FAR for row in self.rows if row.method.startswith("ars"))
        return near and all(abs(row.distance) > _TOO_FAR for row in self.rows if row.method == "biased")


def _run_example(example: Example, executable: Path, traces: int, settings: Mapping[str, Any]) -> Shown:
    from ars.budget import Budget
    from ars.progress import StreamProgress
    from ars.simulator import Simulator

    def progress(label: str) -> StreamProgress:
        return StreamProgress(sys.stderr, label=f"traces, {label}")

    with Simulator([str(executable), *example.arguments], **settings) as simulator:
        prior = simulator.prior(traces, seed=1, progress=progress("prior"))
        network = None
        if example.proposals is None:
            print(f"training a network on {_TRAIN:,} traces", file=sys.stderr)
            network = simulator.train(_TRAIN, lstm_dim=64, batch_size=256, seed=1, progress=True)
        runs = {
            M: simulator.posterior(
                example.observe,
                traces,
                proposals=example.proposals,
                network=network,
                budget=Budget(M=M, N=10),
                seed=10 + M,
                progress=progress(f"M = {M}"),
            )
            for M in _BUDGETS
        }
        # the proposals are for latents inside the loop, so the prior proposes everything here
        in_prior = simulator.posterior(
            example.observe, traces, in_loops="prior", seed=30, progress=progress("prior in loops")
        )
        last = runs[_BUDGETS[-1]]
        predicted = simulator.predict(last, min(traces, _PREDICTED), seed=40)
    loop = next(iter(last.loops))
    rows = [_row(example, f"ars M={M} N=10", run, "ars") for M, run in runs.items()]
    if example.q_accept is not None:
        accept = {"pA": {loop: example.p_accept}, "qA": {loop: example.q_accept}}
        rows.append(_row(example, "collapsed", last, "collapsed", **accept))
    rows.append(_row(example, "prior in loops", in_prior, "prior"))
    rows.append(_row(example, "ic", last, "ic"))
    rows.append(_row(example, "biased", last, "biased"))
    notes = [
        summary.warning() if summary.naive_variance_infinite else f'loop "{summary.address}": {summary.note}.'
        for summary in last.loops.values()
        if summary.note
    ]
    return Shown(example, rows, notes, runs, prior, predicted)


def _find(given: Path | None, name: str) -> Path:
    from ars.toolchain.examples import example

    if given is None:
        return example(name)
    if given.is_dir():
        directory = given
    elif given.name == name:
        return given.absolute()
    else:
        directory = given.parent
    path = (directory / name).absolute()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such simulator; give --simulator the path of a built one")
    return path


def _write(shown: Sequence[Shown], output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with (output / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for each in shown:
            writer.writerows(each.rows)
    (output / "table.md").write_text("\n\n".join(_text(each, markdown=True) for each in shown) + "\n")
    _plot(shown, output)


def _report(shown: Sequence[Shown], output: Path) -> Path | None:
    """The page of all examples, and one per posterior. None if jinja2 is missing."""
    from ars.report.render import report_needed, write

    try:
        report_needed()
    except ImportError as error:
        print(f"No report: {error}", file=sys.stderr)
        return None
    from ars.cli.demo_page import demo_page

    for each in shown:
        post = each.runs[_BUDGETS[-1]]
        post.report(output / f"{each.example.executable}.html", prior=each.prior, predicted=each.predicted)
    write(demo_page(shown, _BUDGETS[-1], _READING), output / "report.html")
    return output / "report.html"


def _plot(shown: Sequence[Shown], output: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No plots: pip install 'libars[plots]'", file=sys.stderr)
        return
    from ars.plots import plot_evidence, plot_posterior

    for each in shown:
        figure = Figure(figsize=(11.0, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        run = each.runs[_BUDGETS[-1]]
        plot_posterior(run, each.example.shown, prior=each.prior, exact=each.example.density, axes=left)
        plot_evidence(run, ("ars", "biased", "ic"), exact=each.example.evidence, axes=right)
        right.set_ylim(0.0, 2.5 * each.example.evidence)
        figure.suptitle(f"{each.example.title}: ARS with M = {_BUDGETS[-1]}, N = 10")
        figure.savefig(output / f"{each.example.executable}.png", dpi=120)


def _text(shown: Shown, *, markdown: bool = False) -> str:
    heading = f"## {shown.example.title}\n" if markdown else f"{shown.example.title}\n"
    return "\n".join([heading, _table(shown.rows), *(f"\nNote: {note}" for note in shown.notes)])


def _print(shown: Shown) -> None:
    """Markdown to a pipe; on a terminal a table that fits it."""
    if not on_screen():
        print(f"\n{_text(shown)}")
        return
    print_text(f"\n{shown.example.title}", "bold")
    print_table(_TITLES, [_cells(row) for row in shown.rows], drop=_DROP)
    for note in shown.notes:
        print_text(f"Note: {note}")


def run(arguments: argparse.Namespace) -> int:
    traces = arguments.traces or (_QUICK_TRACES if arguments.quick else _TRACES)
    examples = [beta_bernoulli(), truncated_normal()]
    if importlib.util.find_spec("torch") and not arguments.quick:
        examples.append(marsaglia())
    elif not arguments.quick:
        print("No trained network: pip install 'libars[network]'", file=sys.stderr)
    executables = [_find(arguments.simulator, example.executable) for example in examples]
    shown = []
    for example, executable in zip(examples, executables, strict=True):
        per_run = traces if example.proposals is not None else max(traces // 2, 100)  # a network takes its time
        print(f"{example.title}:\n  {len(_BUDGETS) + 2} runs of {per_run:,} traces", file=sys.stderr)
        shown.append(_run_example(example, executable, per_run, limits(arguments)))
    _write(shown, arguments.out)
    report = _report(shown, arguments.out)
    if arguments.json:
        rows = [row for each in shown for row in each.rows]
        right = all(each.right for each in shown)
        print_document({"out": arguments.out, "report": report, "right": right, "rows": rows})
    else:
        for each in shown:
            _print(each)
        print_text(f"\n{' '.join(_READING.split()) if on_screen() else _READING}")
        print(f"Tables and plots are in {arguments.out}/")
        if report is not None:
            print(f"Report: {report.resolve()}")
    wrong = [each.example.title for each in shown if not each.right]
    if wrong:
        print(f"These results are not as expected: {'; '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0

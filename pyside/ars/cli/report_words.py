"""``--report`` and ``--predict``: a report, and the draws that it compares a posterior with."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ars.cli.options import at_least, limits
from ars.progress import StreamProgress

if TYPE_CHECKING:
    from ars.posterior import Posterior, Traces
    from ars.results.data_check import DataCheck
    from ars.simulator import Simulator

__all__ = ["Beside", "add_predict", "add_report", "beside", "command_of", "write_files", "write_posterior"]

_PRIOR_DRAWS = 1000
_PREDICTED = 500  # with --report
_T = TypeVar("_T")


def add_report(parser: argparse._ActionsContainer, shows: str) -> None:
    """``--report FILE``. ``shows``: the page's contents, in a few words."""
    parser.add_argument("--report", type=_file, metavar="FILE", help=f"write {shows} as one self-contained HTML file")


def add_predict(parser: argparse._ActionsContainer) -> None:
    """``--predict N``."""
    parser.add_argument(
        "--predict",
        type=at_least(0),
        metavar="N",
        help="afterwards, simulate N data sets with latents from the posterior, for --report and for --out if it ends "
        f"in .nc (default: {_PREDICTED} with --report, otherwise 0)",
    )


def _file(text: str) -> Path:
    from ars.report.render import report_needed

    path = Path(text)
    if path.suffix not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text} must end in .html")
    try:
        report_needed()
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path


def command_of(arguments: argparse.Namespace) -> str:
    """The command line that is being run."""
    return shlex.join(["ars", *getattr(arguments, "typed", sys.argv[1:])])


# ---- posteriors ------------------------------------------------------------------------------------------------------


class Beside(NamedTuple):
    """What a posterior is compared with; None: not asked for, or it could not be had."""

    check: DataCheck | None = None
    prior: Traces | None = None
    predicted: Traces | None = None


def _tried(what: str, function: Callable[[], _T]) -> _T | None:
    """Runs of their own, after the one that counts: whatever goes wrong with them costs no result."""
    from ars.errors import ArsError, RunInterrupted

    try:
        return function()
    except (ArsError, ValueError, RunInterrupted) as error:
        print(f"ars infer: {what}: {error}", file=sys.stderr)
        return None


def beside(sim: Simulator, arguments: argparse.Namespace, data: dict[str, Any], post: Posterior) -> Beside:
    """Prior draws, the data compared with them, and posterior predictive draws, as far as the options ask for them."""
    from ars.results.data_check import check_data

    reported = arguments.report is not None
    draws = max(arguments.check_data or 0, _PRIOR_DRAWS if reported else 0)

    def run_options(label: str) -> dict[str, Any]:
        shown = None if arguments.quiet else StreamProgress(sys.stderr, label=label)
        return {"on_failure": arguments.on_failure, "progress": shown}

    prior = check = predicted = None
    if draws:
        unchecked = "the data were not checked" if not reported else "no prior draws"
        prior = _tried(unchecked, lambda: sim.prior(draws, post.run.seed, **run_options("prior draws")))
    if prior is not None and data:
        drawn = prior.observations
        check = _tried("the data were not checked", lambda: check_data(data, {name: drawn[name] for name in drawn}))
    wanted = arguments.predict if arguments.predict is not None else _PREDICTED if reported else 0
    if wanted and len(post) and post.method in post._available() and post.ess():
        how = run_options("predictive draws")
        predicted = _tried("no posterior predictive draws", lambda: sim.predict(post, wanted, post.run.seed, **how))
    return Beside(check, prior if reported else None, predicted)


def write_files(
    arguments: argparse.Namespace, save: Callable[[Path], object], report: Callable[[Path], object]
) -> Exception | None:
    """Writes ``--out`` and ``--report``, before anything is printed: nobody may be there to read it.

    Returns what went wrong first, whatever it is: the results are shown before it is raised.
    """
    wrong: list[Exception] = []
    for path, write in ((arguments.out, save), (arguments.report, report)):
        try:
            if path is not None:
                write(path)
        except Exception as error:
            wrong.append(error)
    return wrong[0] if wrong else None


def write_posterior(
    post: Posterior, others: Beside, arguments: argparse.Namespace, options: tuple[str, ...] | None
) -> None:
    """Writes the report of a posterior. ``options``: of ``ars replay``, to repeat a trace; None: no command does."""
    from ars.continuations import MODES
    from ars.report.posterior import Given, posterior_page
    from ars.report.render import write
    from ars.runtime.limits import Limits
    from ars.runtime.replay_advice import Replay

    mine = limits(arguments)
    allowed = Limits().changed({field.name: mine.get(field.name) for field in dataclasses.fields(Limits)})
    replay = Replay(True, post.run.simulator, allowed, options, mine.get("continuations") or MODES[0]).advice
    given = Given(others.prior, others.predicted, {}, others.check, command_of(arguments), replay)
    write(posterior_page(post, given), arguments.report)

"""``ars infer``: the posterior of a simulator's latents, given data."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from ars.arguments import InLoops
from ars.budget import AutoBudget, Budget
from ars.cli.budget_words import MOST_TRACES_UNTIL, add_auto, add_budget, budget_of, parsed, words_of
from ars.cli.dask_words import add_dask, check_place, simulator_of
from ars.cli.documents import add_json
from ars.cli.options import (
    UsageError,
    add_continuations,
    add_first_trace,
    add_limits,
    add_listen,
    add_on_failure,
    add_seed,
    add_simulator,
    add_workers,
    at_least,
    not_negative,
)
from ars.cli.refine_words import add_refinement, refinement_of
from ars.cli.report_words import Beside, add_predict, add_report, beside, write_files, write_posterior
from ars.display.screen import print_text
from ars.inference.options import PosteriorOptions
from ars.store.saved import SUFFIXES, check_netcdf

if TYPE_CHECKING:
    from ars.errors import RunInterrupted, StorageError
    from ars.network.facade import Network
    from ars.posterior import Posterior
    from ars.results.data_check import DataCheck

HELP = "Infer a simulator's latents from data."
_TRACES = 10_000  # unless told otherwise

_CODES = """exit codes: 0 all went well; 1 the run failed, or no trace has weight; 2 wrong arguments; 3 --require-ess,
--require-k or --error was missed (all files are written, and the table is printed); 130 interrupted; 141 the reader of
the output closed the pipe (all files are written)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _CODES
    add_simulator(parser, needed=False)
    add_workers(parser)
    add_data(parser)
    add_budget(parser, "default: auto")
    add_auto(parser)
    parser.add_argument(
        "--traces",
        type=at_least(1),
        metavar="N",
        help=f"number of traces (default: {_TRACES:,}); with --error or --seconds, the maximum (default: "
        f"{MOST_TRACES_UNTIL:,})",
    )
    add_first_trace(parser, "0")
    add_on_failure(parser)
    add_seed(parser)
    parser.add_argument(
        "--out",
        type=_out,
        metavar="FILE",
        help="write traces and weights: .nc (for ArviZ and ars.Posterior.load), .npz or .csv",
    )
    add_report(parser, "a report, with a verdict on whether you can trust the numbers,")
    add_predict(parser)
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="save finished traces in this folder, and reuse those of the same run that are already there",
    )
    add_continuations(parser)
    add_limits(parser)
    add_listen(parser)
    add_dask(parser)
    add_refinement(parser)
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    group = parser.add_argument_group("output and requirements")
    add_json(group)
    group.add_argument(
        "--check-data",
        type=at_least(800),
        nargs="?",
        const=1000,
        metavar="N",
        help="afterwards, compare the data with N prior draws (default: 1,000) and list the numbers that stand out",
    )
    group.add_argument(
        "--require-ess", type=not_negative, metavar="N", help="exit with code 3 if fewer than N traces are effective"
    )
    group.add_argument(
        "--require-k",
        type=_finite,
        metavar="X",
        help="exit with code 3 if Pareto k of the weights is unknown, or X or more (usual limit: 0.7)",
    )


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number")
    return number


def add_data(parser: argparse.ArgumentParser, *, in_loops: bool = True) -> None:
    """What is observed, and what proposes."""
    parser.add_argument(
        "--network", type=Path, metavar="FILE", help="network file from ars train (default: the prior proposes)"
    )
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        type=_observed,
        metavar="NAME=X[,X...]",
        help="data; nan means not observed; can be repeated (default: the data that the program itself holds)",
    )
    parser.add_argument(
        "--observe-file",
        type=Path,
        metavar="FILE",
        help="data as a .json file, name -> numbers, or .npz; null in a .json list and NaN mean not observed",
    )
    if in_loops:
        parser.add_argument(
            "--in-loops",
            choices=get_args(InLoops),
            help=f"proposals inside loops (default: {PosteriorOptions.in_loops})",
        )


def run_options(arguments: argparse.Namespace, standard: str = "auto") -> dict[str, Any]:
    """The arguments of ``Simulator.posterior`` that the options of ``add_data`` and ``add_budget`` name, but for the
    data. ``standard``: the budget where none is given."""
    return {
        "budget": budget_of(arguments, standard),
        "network": read_network(arguments),
        "in_loops": arguments.in_loops or PosteriorOptions.in_loops,
    }


def given_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The options of ``add_data`` and ``add_budget`` that were given, as words of a command line for ``ars replay``.
    The network is not among them.

    A budget with a plan is not among them: a trace alone has none. The run adds the budget that its trace had."""
    words: list[str] = []
    for name, value in arguments.observe:
        numbers = value if isinstance(value, list) else [value]
        words += ["--observe", f"{name}={','.join(map(repr, numbers))}"]
    for name in ("observe_file", "in_loops"):
        if getattr(arguments, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    if arguments.budget is not None:
        budget = parsed(arguments.budget)
        if budget is None or isinstance(budget, Budget):
            words += words_of(budget)
    return tuple(words)


def _replayed_with(arguments: argparse.Namespace, post: Posterior) -> tuple[str, ...] | None:
    """The options with which ``ars replay`` repeats a trace of this posterior. None: no command does, because the
    refined network that proposed it is in no file."""
    words = given_options(arguments)
    if not post.run.proposed and arguments.network is None:  # adapting may keep the prior
        return words
    network = arguments.refined_out if arguments.refine or arguments.adapt else arguments.network
    return None if network is None else (*words, "--network", str(network))


def _number(text: str) -> float | int:
    """Whole numbers stay whole, so that one that a double cannot hold is noticed."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _observed(text: str) -> tuple[str, list[float | int] | float | int]:
    name, equals, numbers = text.partition("=")
    try:
        values = [_number(number) for number in numbers.split(",")]
    except ValueError:
        values = []
    if not equals or not name or not values:
        raise argparse.ArgumentTypeError(f"{text!r} is not like y=0.5 or y=0.5,0.7")
    return name, values if len(values) > 1 else values[0]


def _out(text: str) -> Path:
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text} must end in {', '.join(SUFFIXES)}")
    if path.suffix == ".nc":
        try:
            check_netcdf()
        except ImportError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path


def _named(pairs: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where} has {twice!r} more than once")
    return found


def _read_file(path: Path) -> dict[str, Any]:
    if path.suffix == ".npz":
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except (ValueError, zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
    if path.suffix != ".json":
        raise ValueError(f"{path} must end in .json or .npz")
    try:
        loaded = json.loads(path.read_bytes(), object_pairs_hook=lambda pairs: _named(pairs, str(path)))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"{path} must hold an object, name -> numbers")
    return loaded


def read_data(arguments: argparse.Namespace) -> dict[str, Any]:
    """The data of the file, then those of the command line, which replace them.

    Parameters
    ----------
    arguments : argparse.Namespace
        With the options of ``add_data``.

    Returns
    -------
    dict
        From names to arrays of doubles.

    Raises
    ------
    UsageError
        If the data are not plain numbers.
    """
    from ars.arguments import observed_arrays

    try:
        data = {} if arguments.observe_file is None else _read_file(arguments.observe_file)
        data.update(_named(arguments.observe, "--observe"))
        return dict(observed_arrays(data))
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def read_network(arguments: argparse.Namespace) -> Network | None:
    """The proposal network, if one is named."""
    if arguments.network is None:
        return None
    from ars.network.facade import Network

    return Network.load(arguments.network)


def _interrupted(arguments: argparse.Namespace, interrupt: RunInterrupted) -> int:
    """Ctrl-C: what there is, and how to go on."""
    from ars.cli.show import document

    partial = cast("Posterior | None", interrupt.partial)
    if partial is None and str(interrupt).startswith("the refinement"):  # no trace of the run that is reported
        print(f"ars infer: {interrupt}", file=sys.stderr)
        return 130
    done, asked = len(partial) if partial else 0, f"{_at_most(arguments)}{arguments.traces:,}"
    print(f"ars infer: interrupted after {done:,} of {asked} traces", file=sys.stderr)
    if partial is not None and len(partial):
        if arguments.out is not None:  # before anything is printed: nobody may be there to read it
            partial.save(arguments.out)
            print(f"ars infer: the finished traces are in {arguments.out}", file=sys.stderr)
        if arguments.report is not None:
            write_posterior(partial, Beside(), arguments, _replayed_with(arguments, partial))
            print(f"ars infer: their report is {arguments.report}", file=sys.stderr)
        shown = document(partial, partial.diagnostics(), complete=False) if arguments.json else None
        if shown is None:
            print_text(partial.summary("command line"))
        else:
            print(shown)
    if arguments.resume is not None:
        print(f"the finished traces are in {arguments.resume}; the same command continues with them", file=sys.stderr)
    return 130


def _at_most(arguments: argparse.Namespace) -> str:
    return "at most " if arguments.error is not None or arguments.seconds is not None else ""


def _unkept(arguments: argparse.Namespace, error: StorageError) -> tuple[Posterior, bool]:
    """The traces that had finished when the folder could not be written, and whether these are all. If there are none,
    the error goes on."""
    from ars.errors import WeightError
    from ars.posterior import Posterior

    post = error.partial
    if not isinstance(post, Posterior) or not len(post):
        raise error
    finished = int(post.stats.get("traces", 0))
    try:
        post.log_weights()
        waiting = ""
    except WeightError:  # of two phases, the second is missing
        waiting = " (without the estimates of their loops)"
    complete = finished >= arguments.traces and not waiting
    many = f"{finished:,} of {arguments.traces:,} traces{waiting}" if not complete else "All traces"
    print(f"ars infer: {error}. {many} had finished: this is {'the' if complete else 'their'} result", file=sys.stderr)
    return post, complete


def _posterior(arguments: argparse.Namespace, data: dict[str, Any]) -> tuple[Posterior, Beside]:
    """The posterior, and what it is compared with."""
    options = refinement_of(arguments) | run_options(arguments)
    if arguments.first_trace is not None:
        _check_range(arguments, options)
        options["first_trace"] = arguments.first_trace
    with simulator_of(arguments) as sim:
        sim._runs.options, sim._runs.network = given_options(arguments), arguments.network
        try:
            post = sim.posterior(
                data,
                arguments.traces,
                seed=arguments.seed,
                on_failure=arguments.on_failure,
                progress=not arguments.quiet,
                resume=arguments.resume,
                **options,
            )
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from error
        return post, beside(sim, arguments, data, post)


def _check_range(arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Raises UsageError unless runs of other ranges can be parts of the same run."""
    if arguments.seed is None and arguments.resume is None:
        raise UsageError("--first-trace needs --seed: runs of different ranges are parts of one run if they share it")
    if arguments.error is not None or arguments.seconds is not None:
        raise UsageError("--first-trace needs --traces: --error and --seconds choose the traces themselves")
    proposed = options["network"] is not None or arguments.refine or arguments.adapt
    if proposed and options["in_loops"] == "proposal" and isinstance(options["budget"], AutoBudget):
        raise UsageError(
            "--first-trace needs a budget that all ranges share, and --budget auto chooses a separate one for each. "
            "Give a fixed one, such as --budget M=1,R=2; or reuse that of an earlier run: --budget FILE.nc"
        )


def run(arguments: argparse.Namespace) -> int:
    from ars.errors import RunInterrupted, StorageError

    check_place(arguments)
    data = read_data(arguments)
    if arguments.traces is None:
        arguments.traces = MOST_TRACES_UNTIL if _at_most(arguments) else _TRACES
    kept = complete = True
    others = Beside()
    try:
        post, others = _posterior(arguments, data)
    except RunInterrupted as interrupt:
        return _interrupted(arguments, interrupt)
    except StorageError as error:
        kept = False
        post, complete = _unkept(arguments, error)
    failed = write_files(
        arguments,
        lambda path: post.save(path, predicted=others.predicted, prior=others.prior),
        lambda _: write_posterior(post, others, arguments, _replayed_with(arguments, post)),
    )
    code = _show(post, others.check, arguments, complete=complete, written=failed is None)
    if failed is not None:
        raise failed
    if not complete:
        return 1
    return code if kept else code or 1


def _missed_error(post: Posterior, wanted: float | None) -> list[str]:
    """That the run has not reached its error, if so."""
    reached = post.stats.get("error_reached", 0.0)
    if wanted is None or reached <= wanted:
        return []
    return [f"the relative error is {reached:.2g}, but --error {wanted:g}"]


def _show(
    post: Posterior, check: DataCheck | None, arguments: argparse.Namespace, *, complete: bool, written: bool
) -> int:
    """Prints the results. Returns the exit code."""
    from ars.cli.show import document, missed_requirements, print_run

    if arguments.json:
        assessed = post.diagnostics()
    else:  # what the table shows; a run that was broken off before its estimates has naive weights alone
        available = post._available()
        methods = [post.method] if post.method in available else [*available][:1]
        assessed = post.diagnostics(methods, values=["result" if post.results else "latent"])
    missed = missed_requirements(assessed, arguments.require_ess, arguments.require_k)
    missed += _missed_error(post, arguments.error)
    if arguments.json:
        print(document(post, assessed, complete=complete, missed=missed, check=check))
    else:
        print_run(post, assessed, check)
        if written and arguments.out is not None:
            print(f"seed {post.run.seed}; written to {arguments.out}")
        elif arguments.seed is None:  # nobody would know it otherwise
            print(f"seed {post.run.seed}")
        if written and arguments.report is not None:
            print(f"report: {arguments.report}")
    for text in missed:
        print(f"ars infer: {text}", file=sys.stderr)
    if missed:
        return 3
    if not any(weighting.ess for weighting in assessed.weightings):
        print(f"ars infer: none of {len(post):,} traces has weight: there is no posterior", file=sys.stderr)
        return 1
    return 0

"""``ars calibrate``: are posteriors right, over many data sets drawn from the prior?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from ars.arguments import InLoops
from ars.cli.budget_words import add_budget, budget_of
from ars.cli.dask_words import add_dask, check_place, simulator_of
from ars.cli.documents import add_json, print_document
from ars.cli.options import (
    UsageError,
    add_continuations,
    add_limits,
    add_listen,
    add_on_failure,
    add_seed,
    add_simulator,
    add_workers,
    at_least,
)
from ars.cli.report_words import add_report, command_of, write_files
from ars.display.screen import on_screen, print_table, print_text
from ars.weights import METHODS

if TYPE_CHECKING:
    from ars.calibration.result import Calibration

HELP: Final = "Check posteriors against known truths, over data sets drawn from the prior."
_DATASETS: Final = 200
_TRACES: Final = 1000
_CODES: Final = """exit codes: 0 no test failed; 1 the run failed; 2 wrong arguments; 3 the posteriors are
not calibrated (all files are written, and the table is printed); 130 interrupted"""
# What a narrow terminal leaves out, the least important first.
_DROP: Final = ("80%", "95%", "mean rank", "contraction", "data sets", ("50%", "90%"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _CODES
    add_simulator(parser, needed=False)
    add_workers(parser)
    parser.add_argument(
        "--network", type=Path, metavar="FILE", help="network file from ars train (default: the prior proposes)"
    )
    parser.add_argument(
        "--datasets",
        type=at_least(10),
        default=_DATASETS,
        metavar="N",
        help=f"number of data sets to draw from the prior (default: {_DATASETS})",
    )
    parser.add_argument(
        "--traces", type=at_least(1), default=_TRACES, metavar="N", help=f"traces per data set (default: {_TRACES:,})"
    )
    parser.add_argument(
        "--value",
        action="append",
        metavar="NAME",
        help="result or latent to compare; can be repeated (default: all results, or all latents; at most 40)",
    )
    parser.add_argument(
        "--weighting",
        choices=[name for name in METHODS if name != "collapsed"],
        help="weights to use (default: those of the run)",
    )
    add_budget(parser, "default: auto")
    parser.add_argument("--in-loops", choices=get_args(InLoops), help="proposals inside loops (default: proposal)")
    parser.add_argument("--refine", action="store_true", help="specialise the network to each data set (slow)")
    add_on_failure(parser)
    add_seed(parser)
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="save the result of each data set in this folder, and reuse those that are already there",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write everything as JSON, for ars.Calibration.load")
    add_report(parser, "verdict, ranks, coverage and efficiency")
    add_continuations(parser)
    add_limits(parser)
    add_listen(parser)
    add_dask(parser)
    parser.add_argument("--quiet", action="store_true", help="hide the progress bars")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from ars.calibration.public import calibrate

    check_place(arguments)
    if arguments.refine and arguments.network is None:
        raise UsageError("--refine needs --network, which it starts from")
    options: dict[str, Any] = {"budget": budget_of(arguments)}
    if arguments.in_loops is not None:
        options["in_loops"] = arguments.in_loops
    with simulator_of(arguments) as sim:
        try:
            found = calibrate(
                sim,
                arguments.network,
                arguments.datasets,
                arguments.traces,
                values=arguments.value,
                weighting=arguments.weighting,
                refine=arguments.refine,
                on_failure=arguments.on_failure,
                seed=arguments.seed,
                resume=arguments.resume,
                progress=not arguments.quiet,
                **options,
            )
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    failed = write_files(arguments, found.save, lambda path: found.report(path, command=command_of(arguments)))
    _show(found, arguments)
    if failed is not None:
        raise failed
    if not arguments.json:
        written = f"; written to {arguments.out}" if arguments.out is not None else ""
        print(f"seed {found.about['seed']}{written}")
        if arguments.report is not None:
            print(f"report: {arguments.report}")
    return 0 if found.ok else 3


def _show(found: Calibration, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_document(found.to_dict(), indent=1)
        return
    if on_screen():
        from ars.calibration.result import LEGEND

        print_text(f"{found.verdict}\n{found.headline()}\n")
        print_table(*found.cells(), drop=_DROP, left=["ranks"])
        print_text(LEGEND, "dim")
        print_text("\n".join(found.advice()))
    else:
        print(found.summary())

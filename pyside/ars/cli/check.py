"""``ars check``: does a simulator keep the promises that its weights rest on?"""

from __future__ import annotations

import argparse
from typing import Final

from ars.cli.documents import add_json, print_document
from ars.cli.options import UsageError, add_limits, add_seed, add_simulator, add_workers, at_least, limits
from ars.display.screen import print_text

HELP: Final = "Check the assumptions that a simulator's weights depend on."
_TRACES: Final = 2000
_CODES: Final = """exit codes: 0 all promises are kept or could not be checked; 1 the run failed; 2 wrong arguments;
3 a promise is broken or suspect; 130 interrupted"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _CODES
    add_simulator(parser)
    add_workers(parser)
    parser.add_argument(
        "--traces",
        type=at_least(1),
        default=_TRACES,
        metavar="N",
        help=f"traces in each of the three runs; more traces find rarer mistakes (default: {_TRACES:,})",
    )
    add_seed(parser)
    add_limits(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from ars import Simulator

    with Simulator(arguments.command_line, workers=arguments.workers, **limits(arguments)) as simulator:
        try:
            report = simulator.check(arguments.traces, arguments.seed)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if arguments.json:
        print_document(report.document(), indent=1)
    else:
        print_text(str(report))
    return 0 if report.ok else 3

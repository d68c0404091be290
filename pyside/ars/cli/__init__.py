"""The command line: ``ars COMMAND``. One module per command, listed in COMMANDS.

A command's module has HELP (a line), ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit code. It
imports what is slow to import inside ``run``, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Protocol, cast

__all__ = ["COMMANDS", "main"]

COMMANDS = ("demo", "train", "infer", "inspect", "replay", "reproduce", "bench", "keygen")


class Command(Protocol):
    """What a command's module offers."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ars", description="Bayesian inference in simulators with rejection loops.")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what goes on, to stderr")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = cast(Command, importlib.import_module(f"ars.cli.{name}"))
        subparser = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(command=name, run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. Returns its exit code: 0 if all went well, 1 if not, 2 for wrong arguments, 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if arguments.verbose else logging.WARNING, stream=sys.stderr)

    from ars.cli.options import UsageError
    from ars.errors import ArsError

    try:
        return int(arguments.run(arguments))
    except UsageError as error:
        print(f"ars {arguments.command}: {error}", file=sys.stderr)
        return 2
    except (ArsError, OSError) as error:
        print(f"ars {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupt:
        print(f"ars {arguments.command}: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return 130

"""The command line: ``ars COMMAND``. One module per command, listed in COMMANDS.

A command's module has HELP (a line), ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit code. It
imports what is slow to import inside ``run``, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

__all__ = ["COMMANDS", "main"]

COMMANDS = (
    "demo",
    "record",
    "train",
    "infer",
    "mcmc",
    "inspect",
    "check",
    "replay",
    "reproduce",
    "bench",
    "cluster",
    "keygen",
    "compile",
    "config",
    "examples",
)


class Command(Protocol):
    """What a command's module offers."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """With an option that takes one word or two numbers, and a command (``verbatim``) that passes its words on."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        from ars.cli.budget_words import joined

        words = sys.argv[1:] if args is None else args
        words = ["--", *words] if self.get_default("verbatim") else joined(words)
        return super().parse_known_args(words, namespace)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ars", description="Bayesian inference in simulators with rejection loops.")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what goes on, to stderr")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = cast(Command, importlib.import_module(f"ars.cli.{name}"))
        subparser = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(command=name, run=command.run)
    return parser


_EXTRAS = {  # packages that come with an extra of libars
    "torch": "network",
    "safetensors": "network",
    "matplotlib": "plots",
    "xarray": "arviz",
    "h5netcdf": "arviz",
    "netCDF4": "arviz",
    "dask": "cluster",
    "distributed": "cluster",
    "dask_jobqueue": "slurm",
}


def _missing(error: ImportError) -> str | None:
    """What to install; None if the error is a bug rather than a missing package."""
    package = (error.name or "").partition(".")[0]
    if package in _EXTRAS:
        return f"needs {package}: pip install 'libars[{_EXTRAS[package]}]'"
    return str(error) if "pip install" in str(error) else None


@contextlib.contextmanager
def _plain_warnings(command: str) -> Iterator[None]:
    """Our warnings are lines like our errors: the line of Python that they are about means nothing on a terminal."""
    from ars.errors import ArsWarning

    before = warnings.formatwarning

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, ArsWarning):
            return f"ars {command}: warning: {message}\n"
        return before(message, category, filename, lineno, line)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = before


def _run(arguments: argparse.Namespace) -> int:
    """Runs a command; what went wrong is a line on stderr and an exit code."""
    from ars.cli.options import UsageError
    from ars.errors import ArsError

    def say(text: object) -> None:
        print(f"ars {arguments.command}: {text}", file=sys.stderr)

    try:
        with _plain_warnings(arguments.command):
            return int(arguments.run(arguments))
    except UsageError as error:
        say(error)
        return 2
    except (ArsError, OSError) as error:
        say(error)
        return 1
    except ImportError as error:
        if (needed := _missing(error)) is None:
            raise
        print(f"ars {arguments.command}{' ' if needed.startswith('needs ') else ': '}{needed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupt:
        say(str(interrupt) or "interrupted")
        return 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Command line without the program's name (default: that of the process).

    Returns
    -------
    int
        Exit code: 0 if all went well, 1 if not, 2 for wrong arguments, 3 if a requirement of ``ars infer`` was missed,
        the chains of ``ars mcmc`` have not mixed or ``ars check`` found a problem, 130 after Ctrl-C, 141 if the reader
        of stdout went away (and nothing else was wrong).
    """
    from ars.cli.streams import BROKEN_PIPE, tolerant_streams

    with tolerant_streams() as reader_is_gone:
        ended = False
        try:
            arguments = _parser().parse_args(argv)
            logging.basicConfig(level=logging.DEBUG if arguments.verbose else logging.WARNING, stream=sys.stderr)
            code = _run(arguments)
        except SystemExit as end:  # of argparse: --help, or wrong arguments
            ended, code = True, end.code if isinstance(end.code, int) else 1
        try:
            code = code or (BROKEN_PIPE if reader_is_gone() else 0)
        except OSError as error:
            print(f"ars: cannot write to stdout: {error}", file=sys.stderr)
            code = code or 1
    if ended:
        raise SystemExit(code)
    return code

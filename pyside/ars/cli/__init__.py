"""The command line: ``ars COMMAND``. One module per command, listed in COMMANDS.

A command's module has HELP (a line), ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit code. It
imports what is slow to import inside ``run``, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol, cast

from ars.cli.wording import Wording

__all__ = ["COMMANDS", "main"]

COMMANDS = (
    "demo",
    "record",
    "train",
    "infer",
    "merge",
    "mcmc",
    "inspect",
    "check",
    "calibrate",
    "replay",
    "reproduce",
    "bench",
    "cluster",
    "keygen",
    "compile",
    "config",
    "examples",
    "completion",
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

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Words that are left over are a mistake in a command, whose options help."""
        found, left = self.parse_known_args(args, namespace)  # type: ignore[no-untyped-call]
        if left:
            command = f"{self.prog} {found.command}"
            text = f"unrecognized arguments: {' '.join(left)}\nThe options are listed by: {command} --help"
            self.exit(2, f"{command}: error: {text}\n")
        return found

    def error(self, message: str) -> NoReturn:
        """The mistake alone: the list of all options would bury it."""
        self.exit(2, f"{self.prog}: error: {message}\nThe options are listed by: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ars", description="Bayesian inference in simulators with rejection loops.")
    parser.add_argument("-v", "--verbose", action="store_true", help="log events to stderr")
    parser.add_argument("--version", action=_Version, help="print the version of libars and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = cast(Command, importlib.import_module(f"ars.cli.{name}"))
        subparser = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(command=name, run=command.run, wording=Wording.of(subparser))
    return parser


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"ars {version('libars')}")
        parser.exit()


def _missing(error: ImportError) -> str | None:
    """What to install; None if the error is a bug rather than a missing package."""
    from ars.extras import EXTRAS

    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return f"needs {package}: pip install 'libars[{EXTRAS[package]}]'"
    return str(error) if "pip install" in str(error) else None


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell if it asks which words may come next; then the process ends here."""
    if "_ARGCOMPLETE" in os.environ:
        with contextlib.suppress(ImportError):
            import argcomplete

            argcomplete.autocomplete(parser)


@contextlib.contextmanager
def _plain_warnings(command: str, wording: Wording) -> Iterator[None]:
    """Our warnings are lines like our errors: the line of Python that they are about means nothing on a terminal."""
    from ars.errors import ArsWarning

    before = warnings.formatwarning

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, ArsWarning):
            return f"ars {command}: warning: {wording(message)}\n"
        return before(message, category, filename, lineno, line)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = before


class _LogLines(logging.Formatter):
    """Events in the words of our warnings. With --verbose they also name the module."""

    def __init__(self, command: str, *, verbose: bool) -> None:
        super().__init__()
        self._command, self._verbose = command, verbose

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the base class names it)
        module = f"{record.name}: " if self._verbose else ""
        return f"ars {self._command}: {module}{record.levelname.lower()}: {record.message}"


def _log(arguments: argparse.Namespace) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LogLines(arguments.command, verbose=arguments.verbose))
    logging.basicConfig(level=logging.DEBUG if arguments.verbose else logging.WARNING, handlers=[handler])


def _run(arguments: argparse.Namespace) -> int:
    """Runs a command; what went wrong is a line on stderr and an exit code."""
    from ars.cli.options import UsageError
    from ars.errors import ArsError

    def say(text: object) -> None:
        print(f"ars {arguments.command}: {arguments.wording(text)}", file=sys.stderr)

    try:
        with _plain_warnings(arguments.command, arguments.wording):
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
            parser = _parser()
            _complete(parser)
            arguments = parser.parse_args(argv)
            arguments.typed = sys.argv[1:] if argv is None else list(argv)  # for reports
            _log(arguments)
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

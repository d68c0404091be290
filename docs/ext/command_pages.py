"""The reference of the command line, made from the parsers themselves: every command, option, default and help text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from ars.cli import _parser
from ars.cli.options import Help

PLACE = "<!-- commands -->"
WIDTH = 88


def subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def narrow(prog: str) -> argparse.HelpFormatter:
    return Help(prog, width=WIDTH)


def help_of(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = narrow
    return parser.format_help().rstrip()


def sections(parser: argparse.ArgumentParser, level: int = 2) -> Iterator[str]:
    """One section per command, and one below it for every command that it has itself."""
    for name, command in subparsers(parser):
        heading = command.prog if level > 2 else f"ars {name}"
        yield f"{'#' * level} {heading}\n\n```text\n{help_of(command)}\n```\n"
        yield from sections(command, level + 1)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    del app, page
    if PLACE in source[0]:
        parser = _parser()
        whole = f"```text\n{help_of(parser)}\n```\n"
        source[0] = source[0].replace(PLACE, "\n".join([whole, *sections(parser)]))


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""``ars examples``: the sources of the example simulators."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

HELP = "Write the sources of the example simulators to a folder."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder to write to; created if it does not exist")
    parser.add_argument(
        "--force", action="store_true", help="overwrite files (default: write nothing if any file exists)"
    )


def run(arguments: argparse.Namespace) -> int:
    from ars.toolchain.examples import copy_sources

    written = copy_sources(arguments.directory, force=arguments.force)
    print(f"{len(written)} files written to {arguments.directory}; README.md describes them. To compile and run one:")
    print(f"  cd {shlex.quote(str(arguments.directory))}")
    print("  ars compile marsaglia.c -o marsaglia")
    print("  ./marsaglia")
    return 0

"""The command ``python -m ars_lab.generators``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ars.progress import Progress, StreamProgress
from ars_lab.generators import ncrystal, pythia
from ars_lab.generators.fetch import Kitchen, Unavailable
from ars_lab.generators.figures import detector_figure, posterior_figure, save_png
from ars_lab.generators.page import insert, part
from ars_lab.generators.result import Result
from ars_lab.generators.spec import Generator
from ars_lab.generators.study import study
from ars_lab.reproduce.networks import need_torch

__all__ = ["GENERATORS", "main", "publish"]

GENERATORS: Final[Mapping[str, Callable[[], Generator]]] = {
    "ncrystal": ncrystal.generator,
    "pythia": pythia.generator,
}
_FAILED, _UNAVAILABLE = 1, 3


class _Teller:
    """Says on stderr what is being done."""

    def __init__(self, name: str) -> None:
        self._name = name

    def say(self, text: str) -> None:
        sys.stderr.write(f"{self._name}: {text}\n")
        sys.stderr.flush()

    def progress(self, label: str) -> Progress:
        return StreamProgress(sys.stderr, label=label)


def publish(generator: Generator, result: Result, to: Path, *, quick: bool) -> Path:
    """Writes figures and the generator's part of the page.

    Parameters
    ----------
    generator : Generator
        Which one.
    result : Result
        Its finished study.
    to : Path
        Folder of generators.md and figures/.
    quick : bool
        Whether it was the small form.

    Returns
    -------
    Path
        The page.
    """
    figures = to / "figures"
    save_png(detector_figure(generator, result.observation), figures / f"{generator.figure('detector')}.png")
    save_png(posterior_figure(generator, result), figures / f"{generator.figure('posterior')}.png")
    page = to / "generators.md"
    insert(page, generator.name, part(generator, result, quick=quick))
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line without the program's name (default: that of the process).

    Returns
    -------
    int
        Exit code: 0, 1 if a check failed, 3 if a package cannot be had.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ars_lab.generators",
        description="Fetches, builds and runs generators that somebody else wrote, and writes a page about them.",
        epilog="Exit code: 1 if a check failed, 3 if a package cannot be had.",
    )
    parser.add_argument("name", nargs="?", default="all", choices=[*GENERATORS, "all"], help="generator (default: all)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small networks and few traces: shows that it works, compares no numbers, and leaves --publish alone",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build-generators"),
        metavar="DIR",
        help="packages, executables and stages (%(default)s)",
    )
    parser.add_argument(
        "--publish", type=Path, metavar="DIR", help="folder of generators.md and figures/ (default: --out)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of training and runs (default: 1)")
    parser.add_argument("--build-only", action="store_true", help="fetch and compile, and stop")
    given = parser.parse_args(arguments)
    names = list(GENERATORS) if given.name == "all" else [given.name]
    return max([_one(GENERATORS[name](), given) for name in names])


def _one(generator: Generator, given: argparse.Namespace) -> int:
    teller = _Teller(generator.name)
    kitchen = Kitchen(generator.folder(given.out), teller)
    try:
        if given.build_only:
            teller.say(f"built {generator.prepare(kitchen).command[0]}")
            return 0
        need_torch()
        result = study(generator, kitchen, quick=given.quick, seed=given.seed)
    except Unavailable as error:
        teller.say(f"not run: {error}")
        return _UNAVAILABLE
    to = given.out if given.quick or given.publish is None else given.publish
    page = publish(generator, result, to, quick=given.quick)
    for check in result.checks:
        teller.say(f"{'ok    ' if check.kept else 'FAILED'} {check.promise}: {check.numbers}")
    teller.say(f"wrote {page}")
    return _FAILED if result.problems else 0

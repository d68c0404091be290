"""Simulators for the tests of ``resume=``: one source, several priors, and what a right result is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from build_helpers import Builder, Variant

import ars
from ars.errors import StorageError

SOURCES = Path(__file__).parent / "resume"
DATA = {"y": 0.5}
BUDGET = ars.Budget(M=1, N=2)


def compile_simulator(directory: Path, name: str, *defines: str, link: tuple[str, ...] = ()) -> Path:
    """The simulator with these settings, at directory/name."""
    directory.mkdir(parents=True, exist_ok=True)
    variant = Variant("gcc", ("-O1", *defines))
    built = Builder(directory / f".build-{name}").program([SOURCES / "resumed.c"], variant, link=link)
    return Path(shutil.move(built, directory / name))


def compile_library(path: Path, shift: float) -> Path:
    """libshift.so, which adds to the prior mean."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["gcc", "-O1", "-shared", "-fPIC", f"-DSHIFT={shift}", str(SOURCES / "shift.c"), "-o", str(path)]
    subprocess.run(words, check=True)
    return path


def put(source: Path, target: Path) -> None:
    """As a linker does it: a new file under an old name."""
    temporary = target.with_name(f".{target.name}.new")
    shutil.copy(source, temporary)
    os.replace(temporary, target)


class Bits(NamedTuple):
    """Everything that a result says of its traces, to the last bit."""

    numbers: bytes
    weights: bytes
    values: tuple[bytes, ...]

    @classmethod
    def of(cls, post: Any) -> Bits:
        values = tuple(post[name].tobytes() for name in ("x", "r", "u2", "below", "above", "a", "b"))
        return cls(post.trace_numbers.tobytes(), post.log_weights("ars").tobytes(), values)


def run(sim: ars.Simulator, traces: int, folder: Path | None = None, **options: Any) -> Any:
    settings: dict[str, Any] = {"seed": 7, "budget": BUDGET, "progress": False, **options}
    return sim.posterior(settings.pop("observe", DATA), traces, resume=folder, **settings)


def in_pieces(sim: ars.Simulator, folder: Path, ends: tuple[int, ...], **options: Any) -> None:
    """A folder with a chunk for every piece of a run."""
    for end in ends:
        run(sim, end, folder, **options)


def refused(call: Callable[[], object]) -> str:
    """The words of the StorageError that the call raises; anything else is the test's failure."""
    try:
        call()
    except StorageError as error:
        return str(error)
    raise AssertionError("it was not refused")

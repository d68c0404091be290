"""A folder in which work is done in stages. A stage's result appears whole or not at all, and is not made twice."""

from __future__ import annotations

import json
import logging
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ars.progress import NoProgress, Progress

__all__ = ["Arrays", "Reporter", "SilentReporter", "Workspace", "write_atomically"]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_log = logging.getLogger(__name__)
_FORMAT: Final = 1  # of the stages; a higher one makes them all anew
_ABOUT: Final = "__about__"
_SECONDS: Final = "__seconds__"


class Reporter(Protocol):
    """Who is told how things go."""

    def say(self, text: str) -> None: ...

    def progress(self, label: str) -> Progress: ...


class SilentReporter:
    """Tells nobody."""

    def say(self, text: str) -> None:
        _log.info("%s", text)

    def progress(self, label: str) -> Progress:
        del label
        return NoProgress()


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """``write`` makes a file beside ``path``, which then takes its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the suffix stays last: matplotlib and numpy go by it
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


class Workspace:
    """Where an experiment keeps its stages, and the seed from which each gets its own.

    ``simulator``: arguments of ``Simulator`` that change no number, and so no stage.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        resume: bool = True,
        reporter: Reporter | None = None,
        simulator: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.simulator = dict(simulator or {})
        self.resume = resume
        self.reporter: Reporter = reporter or SilentReporter()
        self.made = 0  # stages, this time
        self.kept = 0  # stages that were there
        self.seconds = 0.0  # that all of them took, whenever that was
        self.took: dict[str, float] = {}  # seconds by stage
        folder.mkdir(parents=True, exist_ok=True)

    def seed_of(self, name: str) -> int:
        """A seed for one stage: the same for the same name, another for another."""
        state = np.random.SeedSequence([self.seed, zlib.crc32(name.encode())]).generate_state(1, np.uint64)
        return int(state[0]) >> 1

    def path(self, name: str, suffix: str = ".npz") -> Path:
        return self.folder / "stages" / f"{name}{suffix}"

    def arrays(self, name: str, settings: Mapping[str, Any], make: Callable[[int], Arrays]) -> Arrays:
        """The arrays of a stage: those on disk, if they were made with the same settings and seed, else new ones.

        ``make`` is given the stage's seed.
        """
        path, seed = self.path(name), self.seed_of(name)
        about = json.dumps({"format": _FORMAT, "seed": seed, "settings": settings}, sort_keys=True)
        if self.resume and (found := _read(path, about)) is not None:
            self.kept += 1
            self.took[name] = float(found.pop(_SECONDS))
            self.seconds += self.took[name]
            return found
        started, inner = time.monotonic(), self.seconds
        made = make(seed)
        # a stage may be made of others, which have been counted
        seconds = max(time.monotonic() - started - (self.seconds - inner), 0.0)
        self.made += 1
        self.seconds += seconds
        self.took[name] = seconds
        extra = {_ABOUT: np.array(about), _SECONDS: np.array(seconds)}
        write_atomically(path, lambda file: np.savez_compressed(file, allow_pickle=False, **extra, **made))
        return made

    def json(self, name: str, settings: Mapping[str, Any], make: Callable[[int], Any]) -> Any:
        """The same for a result that JSON can hold."""

        def as_arrays(seed: int) -> Arrays:
            return {"json": np.array(json.dumps(make(seed)))}

        return json.loads(str(self.arrays(name, settings, as_arrays)["json"]))


def _read(path: Path, about: str) -> Arrays | None:
    """A stage from disk, or None if it is not there, was made otherwise, or cannot be read."""
    try:
        # opened here: numpy leaves a file that is none of its own open
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if str(file[_ABOUT]) != about:
                _log.info("%s was made with other settings: made anew", path)
                return None
            return {name: file[name] for name in file.files if name != _ABOUT}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        _log.warning("%s cannot be read (%s): made anew", path, error)
        return None

"""Several recordings as one, by reference: traces are read where they lie.

A merged recording is a folder with an index.json of version 2, which lists other recordings by their relative paths,
and says of each what it held: seed, first trace, and how many. A part that is missing or has changed is named. The
order of the parts is that of their seeds and trace numbers, however they were listed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ars.columns import Columns, Site
from ars.errors import ShardError, StorageError
from ars.store.features import unlike
from ars.store.files import write_whole
from ars.store.shards import FORMAT, INDEX, MERGED, Recording, named, read_index

__all__ = ["Folders", "Recordings", "merge_recordings", "open_recordings"]

Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class _Part(NamedTuple):
    """What an index says about a part."""

    path: str  # relative to the folder of the index
    seed: int
    first_trace: int
    requested: int  # trace numbers that it covers
    traces: int  # that it holds

    @staticmethod
    def of(part: Recording, path: str) -> _Part:
        return _Part(path, part.seed, part.first_trace, sum(shard.requested for shard in part.shards), part.traces)


class Recordings(Recording):
    """Several recordings, used as one. ``parts`` are in the order in which their traces are read."""

    def __init__(self, parts: Sequence[Recording], directory: str | os.PathLike[str] | None = None) -> None:
        """``directory``: the folder that refers to them, if there is one."""
        if not parts:
            raise ShardError("at least one recording is needed")
        for part in parts:
            if not part.shards:
                raise ShardError(f"{part.directory} holds no traces yet")
        self.parts = tuple(sorted(parts, key=lambda part: (part.seed, part.first_trace)))
        _check_numbers(self.parts)
        for part in parts[1:]:
            _check_alike(parts[0], part)
        first = self.parts[0]
        self.directory = first.directory if directory is None else Path(directory)
        self.merged = directory is not None
        self.seed, self.max_rejected, self.command = first.seed, first.max_rejected, first.command
        self.first_trace, self.executable = first.first_trace, first.executable
        self._place = [(part, i) for part in self.parts for i in range(len(part.shards))]
        self.shards = tuple(shard for part in self.parts for shard in part.shards)

    def __repr__(self) -> str:
        return (
            f"<Recordings of {shlex.join(self.command)}: {self.traces:,} traces in {len(self.parts)} folders, "
            f"{len(self)} shards>"
        )

    def load(self, shard: int) -> tuple[Columns, tuple[Site, ...]]:
        part, i = self._place[shard]
        return part.load(i)

    def about(self) -> dict[str, Any]:
        if self.merged:
            return super().about()
        return {"directories": [str(part.directory.resolve()) for part in self.parts]}


def open_recordings(folders: Folders) -> Recording:
    """The traces of one folder, or of several as one.

    Parameters
    ----------
    folders : path or sequence of paths
        Folders that ``record`` or ``merge`` wrote.

    Raises
    ------
    ShardError
        If a folder is none, or they do not go together. The message names it.
    """
    if isinstance(folders, str | os.PathLike):
        return _open(Path(folders))
    if not folders:
        raise ShardError("data= is an empty list: name at least one folder")
    found = [_open(Path(folder)) for folder in folders]
    return found[0] if len(found) == 1 else Recordings(_flat(found))


def merge_recordings(parts: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Recordings:
    """Writes a folder that refers to these recordings; see ``ars.merge``."""
    folder = Path(out)
    if (folder / INDEX).exists() and read_index(folder)["version"] != MERGED:
        raise ShardError(f"{folder} is a recording itself: merge into another folder")
    found = Recordings(_flat([_open(Path(part)) for part in parts]), folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be created: {error.strerror}") from error
    lines = [
        _Part.of(part, os.path.relpath(part.directory.resolve(), folder.resolve()))._asdict() for part in found.parts
    ]
    index = {"format": FORMAT, "version": MERGED, "parts": lines}
    write_whole(folder / INDEX, [json.dumps(index, indent=1).encode()])
    return found


def _open(folder: Path) -> Recording:
    index = read_index(folder)
    if index["version"] != MERGED:
        return Recording(folder)
    try:
        parts = [_Part(**line) for line in index["parts"]]
    except (KeyError, TypeError) as error:
        raise ShardError(f"{folder / INDEX} is damaged: {error!r}") from error
    return Recordings([_part(folder, part) for part in parts], folder)


def _part(folder: Path, said: _Part) -> Recording:
    """A part, if it is where it was, and what it was."""
    path = folder / said.path
    again = f"move it back, or run ars merge {folder} again with the folders as they are now"
    if not (path / INDEX).is_file():
        raise ShardError(f"{folder} refers to {said.path}, and there is no recording at {path}: {again}")
    part = Recording(path)
    now = _Part.of(part, said.path)
    if now != said:
        raise ShardError(
            f"{folder} refers to {path}, which has changed: it held {_held(said)}, now {_held(now)}. {again}"
        )
    return part


def _held(part: _Part) -> str:
    return f"{part.traces:,} traces of seed {part.seed} from number {part.first_trace} on"


def _flat(found: Sequence[Recording]) -> list[Recording]:
    """The recordings themselves, also those that others refer to."""
    return [part for each in found for part in (each.parts if isinstance(each, Recordings) else (each,))]


# ---- do they go together? --------------------------------------------------------------------------------------------


def _check_numbers(parts: Sequence[Recording]) -> None:
    """No trace twice: a network would be trained on it twice as often, and tested on what it has seen."""
    for before, after in pairwise(parts):
        end = before.first_trace + sum(shard.requested for shard in before.shards)
        if before.seed == after.seed and after.first_trace < end:
            last = min(end, after.first_trace + sum(shard.requested for shard in after.shards)) - 1
            raise ShardError(
                f"{before.directory} and {after.directory} hold the same traces: numbers {after.first_trace} to {last} "
                f"of seed {before.seed}. Record each with another seed, or with another first_trace"
            )


def _check_alike(one: Recording, other: Recording) -> None:
    """Raises a ShardError unless both are of one simulator, and of one kind."""
    pair = f"{one.directory} and {other.directory}"
    if named(one.command) != named(other.command):
        raise ShardError(
            f"{pair} hold traces of different simulators: {shlex.join(one.command)} and {shlex.join(other.command)}"
        )
    if one.executable and other.executable and one.executable != other.executable:
        raise ShardError(
            f"{pair} were recorded with different builds of {os.path.basename(one.command[0])} (SHA-256 "
            f"{one.executable[:12]} and {other.executable[:12]}): record both with one build"
        )
    if one.max_rejected != other.max_rejected:
        raise ShardError(
            f"{pair} differ in max_rejected: {one.max_rejected} and {other.max_rejected}. Record both with the same"
        )
    wrong = unlike(one.features(), other.features(), str(one.directory), str(other.directory))
    if wrong:
        raise ShardError(f"{pair} hold traces of different simulators:\n  " + "\n  ".join(wrong))

"""A run whose finished traces are kept on disk as they come, so that it can be resumed.

A folder holds run.json, which says what run it is, and chunks of finished traces in the format of recorded ones. A
chunk is there whole or not at all. Which traces are in which chunk depends on timing; which draws they have does not,
so a run that was interrupted and resumed gives what one without interruption would have given. controllers.jsonl tells
which controllers came to no end of their own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ars.columns import Columns, Site, concatenate, empty, select
from ars.network.files import StorageError, write_whole
from ars.network.shards import ShardError, decode_shard, encode_shard, only_writer

__all__ = ["KeptRun", "fingerprint", "kept_seed"]

_log = logging.getLogger("ars.session")

_ABOUT: Final = "run.json"
_CONTROLLERS: Final = "controllers.jsonl"  # who has worked on the run: a line when it begins, one when it ends
_FORMAT: Final = "ars-run"
_VERSION: Final = 1
_EVERY: Final = 2.0  # seconds: what a crash of this process can cost
_ENOUGH: Final = 64 << 20  # bytes


def fingerprint(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """The same for the same names and numbers, in whatever order."""
    crc = 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        crc = zlib.crc32(f"{name}{array.dtype.str}{array.shape}".encode(), crc)
        crc = zlib.crc32(array.tobytes(), crc)
    return f"{crc:08x}"


def _read_about(folder: Path) -> dict[str, Any] | None:
    path = folder / _ABOUT
    try:
        about = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT or about.get("version") != _VERSION:
        raise StorageError(f"{path} does not describe a run of this version; use another folder")
    return about


def kept_seed(directory: str | os.PathLike[str]) -> int | None:
    """The seed of the run that the folder holds; None if it holds none."""
    about = _read_about(Path(directory))
    return None if about is None else int(about["seed"])


class _Controllers:
    """The list of those that have worked on a run. One that began and did not end was lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._me = secrets.token_hex(8)
        began: dict[str, str] = {}
        text = path.read_bytes() if path.exists() else b""
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # cut off by a power cut
                entry = json.loads(line)
                if entry.get("ended"):
                    began.pop(entry["id"], None)
                else:
                    began[entry["id"]] = f"process {entry['process']} on {entry['machine']}, begun {entry['began']}"
        self.lost = tuple(began.values())
        now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        self._add({"process": os.getpid(), "machine": os.uname().nodename, "began": now}, fresh=text[-1:] != b"\n")

    def _add(self, entry: dict[str, Any], *, fresh: bool = False) -> None:
        line = json.dumps({"id": self._me, **entry}) + "\n"
        with self._path.open("ab") as file:
            file.write((b"\n" if fresh and file.tell() else b"") + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        self._add({"ended": True})


class KeptRun:
    """The folder of one run. ``about`` is what makes the run what it is; another one's folder is refused.

    ``lost`` are the controllers that worked on it before and were lost, in words."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        about: Mapping[str, Any],
        *,
        failed_too: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = Path(directory)
        self._failed_too = failed_too
        self._clock = clock
        self._parts: list[Columns] = []
        self._sites: tuple[Site, ...] = ()
        self._size = 0
        self._next = 0
        self._written = clock()
        self._lock = contextlib.ExitStack()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.enter_context(only_writer(self._folder))
        except OSError as error:
            raise StorageError(f"{self._folder} cannot be used: {error.strerror}") from error
        except ShardError as error:
            raise StorageError(f"{self._folder}: another process is running this run") from error
        try:
            self._check(dict(about))
            self._controllers = _Controllers(self._folder / _CONTROLLERS)
        except OSError as error:
            self._lock.close()
            raise StorageError(f"{self._folder} cannot be used: {error.strerror}") from error
        except BaseException:
            self._lock.close()
            raise
        self.lost = self._controllers.lost

    def _check(self, about: dict[str, Any]) -> None:
        for left in self._folder.glob(".*.tmp"):  # of a run that was killed
            left.unlink(missing_ok=True)
        there = _read_about(self._folder)
        mine = json.loads(json.dumps({"format": _FORMAT, "version": _VERSION} | about))
        if there is None:
            write_whole(self._folder / _ABOUT, [json.dumps(mine, indent=1).encode()])
            return
        odd = [f"{key} was {there.get(key)!r}, is {mine[key]!r}" for key in mine if there.get(key) != mine[key]]
        if odd:
            raise StorageError(f"{self._folder} holds another run: {'; '.join(odd)}. Give the same, or another folder")

    # ---- reading -----------------------------------------------------------------------------------------------------

    def load(self, first: int, count: int) -> tuple[Columns, tuple[Site, ...]]:
        """The traces of this range that were kept, each once, and the sites. A damaged chunk's are run again."""
        found: list[Columns] = []
        sites: tuple[Site, ...] = ()
        for path in sorted(self._folder.glob("chunk-*.ars")):
            self._next = max(self._next, int(path.stem.split("-")[1]) + 1)
            try:
                columns, known = decode_shard(memoryview(path.read_bytes()), verify=True)
            except Exception as error:
                _log.warning("%s is damaged (%s); its traces are run again", path, error)
                continue
            shorter, longer = sorted((sites, known), key=len)
            if longer[: len(shorter)] != shorter:
                raise StorageError(f"{path} is of another run than the chunks before it; use another folder")
            found.append(columns)
            sites = longer
        all_of_them = concatenate(found) if found else empty()
        numbers = all_of_them.traces["trace"].astype(np.int64)
        wanted = (numbers >= first) & (numbers < first + count)
        once = np.zeros(len(numbers), dtype=np.bool_)
        once[np.unique(numbers, return_index=True)[1]] = True
        return select(all_of_them, wanted & once), sites

    # ---- writing -----------------------------------------------------------------------------------------------------

    def keep(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Takes finished traces; they are on the disk a few seconds later."""
        if not self._failed_too:
            columns = select(columns, columns.traces["failure"] == 0)
        if not len(columns.traces):
            return
        self._parts.append(columns)
        self._sites = tuple(sites)
        self._size += sum(column.nbytes for column in columns)
        if self._size >= _ENOUGH or self._clock() - self._written >= _EVERY:
            self.flush()

    def flush(self) -> None:
        """Everything taken so far is on the disk when this returns."""
        if not self._parts:
            return
        parts = encode_shard(concatenate(self._parts), self._sites, {})
        write_whole(self._folder / f"chunk-{self._next:06d}.ars", parts)
        self._next += 1
        self._parts = []
        self._size = 0
        self._written = self._clock()

    def __enter__(self) -> KeptRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.flush()
        finally:
            with self._lock, contextlib.suppress(OSError):
                self._controllers.end()

"""A run whose finished traces are kept on disk as they come, so that it can be resumed.

A folder holds run.json, the identity of the run (identity.py), and chunks of finished traces in the format of recorded
ones, each with the digest of that identity. A chunk is there whole or not at all. The chunk in which a trace is depends
on timing; its draws do not, so a run that was interrupted and resumed gives the result of one without interruption.
controllers.jsonl lists the controllers that have worked on the run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np

from ars.columns import HOW, Array, Columns, Integers, Site, concatenate, empty, offsets, select, take, trace_of
from ars.errors import ShardError, StorageError
from ars.store.files import parse_json, write_whole
from ars.store.identity import differences, digest
from ars.store.shards import decode_shard, encode_shard, only_writer, shard_header
from ars.store.site_numbers import SiteNumbers, renumber

__all__ = ["KeptRun", "kept_seed"]

_log = logging.getLogger(__name__)

_ABOUT: Final = "run.json"
_CONTROLLERS: Final = "controllers.jsonl"  # who has worked on the run: a line when it begins, one when it ends
_CHUNK: Final = re.compile(r"chunk-(\d{6,12})\.ars")
_FORMAT: Final = "ars-run"
_VERSION: Final = 2
_RUN: Final = "run"  # in the header of a chunk: the digest of the run's identity
_EVERY: Final = 2.0  # seconds: what a crash of this process can cost
_ENOUGH: Final = 64 << 20  # bytes


def _chunk_name(number: int) -> str:
    return f"chunk-{number:06d}.ars"


class _About(NamedTuple):
    """What run.json says."""

    identity: dict[str, Any]
    digest: str


def _read_about(folder: Path) -> _About | None:
    """The run that the folder holds, or None if there is no run.json."""
    path = folder / _ABOUT
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    what_to_do = "Restore it from a copy, or use another folder"
    try:
        about = parse_json(raw)
    except ValueError as error:
        raise StorageError(f"{path} is damaged: {error}. {what_to_do}") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise StorageError(f"{path} does not describe a run. {what_to_do}")
    if about.get("version") == 1:
        raise StorageError(
            f"{path} was written by an earlier version of ars, whose chunks do not say which run they belong to, so "
            "they cannot be checked. Use another folder"
        )
    if about.get("version") != _VERSION:
        raise StorageError(f"{path} has version {about.get('version')!r}, this program reads {_VERSION}: update ars")
    identity = about.get("identity")
    if not isinstance(identity, dict):
        raise StorageError(f"{path} is damaged: it has no identity of a run. {what_to_do}")
    seed = identity.get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 64:
        raise StorageError(f"{path} is damaged: it has no seed. {what_to_do}")
    if about.get("digest") != digest(identity):
        raise StorageError(f"{path} is damaged: its digest is not that of its identity. {what_to_do}")
    return _About(identity, about["digest"])


def kept_seed(directory: str | os.PathLike[str]) -> int | None:
    """The seed of the run that the folder holds; None if it holds none.

    Raises
    ------
    StorageError
        run.json is damaged, or of another version.
    """
    about = _read_about(Path(directory))
    return None if about is None else int(about.identity["seed"])


class _Controllers:
    """The list of those that have worked on a run. One that began and did not end was lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._me = secrets.token_hex(8)
        began: dict[str, str] = {}
        text = path.read_bytes() if path.exists() else b""
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # cut off by a power cut
                entry = parse_json(line)
                if entry.get("ended"):
                    began.pop(entry["id"], None)
                else:
                    began[entry["id"]] = f"process {entry['process']} on {entry['machine']}, begun {entry['began']}"
        self.lost = tuple(began.values())
        now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        mine = {"process": os.getpid(), "machine": os.uname().nodename, "began": now}
        try:
            self._add(mine, fresh=text[-1:] != b"\n")
        except OSError as error:  # a full disk: what the folder holds can be read all the same
            _log.warning("%s could not be written: %s", path, error.strerror)

    def _add(self, entry: dict[str, Any], *, fresh: bool = False) -> None:
        line = json.dumps({"id": self._me, **entry}) + "\n"
        with self._path.open("ab") as file:
            file.write((b"\n" if fresh and file.tell() else b"") + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        self._add({"ended": True})


class KeptRun:
    """The folder of one run. ``identity`` is what makes the run what it is; another one's folder is refused.

    ``lost`` are the controllers that worked on it before and were lost, in words."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        identity: Mapping[str, Any],
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
        self._digest = ""
        self._lock = contextlib.ExitStack()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.enter_context(only_writer(self._folder))
        except OSError as error:
            raise StorageError(f"{self._folder} cannot be used: {error.strerror}") from error
        except ShardError as error:
            raise StorageError(f"{self._folder}: another process is running this run") from error
        try:
            self._check(json.loads(json.dumps(identity)))
            self._controllers = _Controllers(self._folder / _CONTROLLERS)
        except OSError as error:
            self._lock.close()
            raise StorageError(f"{self._folder} cannot be used: {error.strerror}") from error
        except BaseException:
            self._lock.close()
            raise
        self.lost = self._controllers.lost

    def _check(self, identity: dict[str, Any]) -> None:
        """Refuses the folder of another run; in a new one, writes which run it is."""
        for name in ("chunk-", _ABOUT):
            for left in self._folder.glob(f".{name}*.tmp"):  # of a run that was killed
                with contextlib.suppress(OSError):
                    left.unlink()
        chunks = self._chunks(warn=True)
        there = _read_about(self._folder)
        self._digest = digest(identity)
        if there is None:
            if chunks:
                raise StorageError(
                    f"{self._folder} holds finished traces ({chunks[0].name}), but no {_ABOUT}, so their run is not "
                    f"known. Restore {_ABOUT} from a copy, or use another folder"
                )
            about = {"format": _FORMAT, "version": _VERSION, "digest": self._digest, "identity": identity}
            write_whole(self._folder / _ABOUT, [json.dumps(about, indent=1).encode()])
        elif there.digest != self._digest:
            odd = differences(there.identity, identity)
            raise StorageError(
                f"{self._folder} holds another run: {'; '.join(odd)}. Give the same as then, or another folder"
            )

    def _chunks(self, *, warn: bool = False) -> list[Path]:
        """The chunks, in the order in which they were written. Files with other names are left alone."""
        found: dict[int, Path] = {}
        for path in sorted(self._folder.glob("chunk-*.ars")):
            name = _CHUNK.fullmatch(path.name)
            if name is not None and path.name == _chunk_name(int(name[1])):
                found[int(name[1])] = path
            elif warn:
                _log.warning("%s is ignored: a run's chunks are called chunk-000000.ars and so on", path)
        self._next = max(found, default=-1) + 1
        return [found[number] for number in sorted(found)]

    # ---- reading -----------------------------------------------------------------------------------------------------

    def load(self, first: int, count: int) -> tuple[Columns, tuple[Site, ...]]:
        """The traces that were kept, and the sites.

        Parameters
        ----------
        first, count : int
            The range of trace numbers that is wanted. A trace that several chunks hold comes once.

        Raises
        ------
        StorageError
            A chunk belongs to another run, or two chunks contradict each other. The traces of a damaged chunk are
            left out, with a warning: they are run again.
        """
        found: list[Columns] = []
        numbers = SiteNumbers()
        for path in self._chunks():
            if (chunk := self._read(path)) is not None:
                columns, sites = chunk
                found.append(renumber(columns, numbers.adopt(sites)))
        kept = self._each_once(concatenate(found) if found else empty())
        offset = kept.traces["trace"] - np.uint64(first)  # wraps around below first, and is then too large
        return select(kept, offset < np.uint64(count)), numbers.sites

    def _read(self, path: Path) -> tuple[Columns, tuple[Site, ...]] | None:
        """A chunk; None if it is damaged."""
        try:
            whole = memoryview(path.read_bytes())
            header = shard_header(whole)
        except Exception as error:
            _log.warning("%s is damaged (%s); its traces are run again", path, error)
            return None
        if header.get(_RUN) != self._digest:
            raise StorageError(
                f"{path} belongs to another run than {self._folder / _ABOUT} describes: it was copied here. Remove it "
                "to continue this run"
            )
        try:
            return decode_shard(whole, verify=True)
        except Exception as error:
            _log.warning("%s is damaged (%s); its traces are run again", path, error)
            return None

    def _each_once(self, columns: Columns) -> Columns:
        """Without repetitions, which must be equal in every bit."""
        numbers = columns.traces["trace"]
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        if len(first) == len(numbers):
            return columns
        again = np.ones(len(numbers), dtype=np.bool_)
        again[first] = False
        repeated = np.flatnonzero(again)
        odd = _first_difference(take(columns, first[group.reshape(-1)[repeated]]), take(columns, repeated))
        if odd is not None:
            raise StorageError(
                f"{self._folder}: two chunks hold trace {odd} with different content. Remove the chunk that does not "
                "belong here, or use another folder"
            )
        whole = take(columns, np.flatnonzero(~again))
        _, failed = np.unique(columns.failures["trace"], return_index=True)
        return whole._replace(failures=columns.failures[np.sort(failed)])

    # ---- writing -----------------------------------------------------------------------------------------------------

    def keep(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Takes finished traces; they are on the disk a few seconds later.

        Raises
        ------
        StorageError
            They could not be written. They are tried again with the next ones.
        """
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
        """Everything taken so far is on the disk when this returns.

        Raises
        ------
        StorageError
            It is not: the disk is full, or the folder is gone.
        """
        if not self._parts:
            return
        self._written = self._clock()
        self._parts = [concatenate(self._parts)]
        parts = encode_shard(self._parts[0], self._sites, {_RUN: self._digest})
        try:
            write_whole(self._folder / _chunk_name(self._next), parts)
        except StorageError as error:
            gone = "" if self._folder.is_dir() else f"{self._folder} is gone. "
            raise StorageError(
                f"{gone}Finished traces could not be kept: {error}. .partial holds every trace that had finished"
            ) from error
        self._next += 1
        self._parts = []
        self._size = 0

    def __enter__(self) -> KeptRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Writes what is left. If that fails, an exception that is on its way is not replaced."""
        try:
            self.flush()
        except StorageError as failed:
            if error is None:
                raise
            if not isinstance(error, StorageError):
                error.add_note(str(failed))
                _log.warning("%s", failed)
        finally:
            with self._lock, contextlib.suppress(OSError):
                self._controllers.end()


def _first_difference(one: Columns, other: Columns) -> int | None:
    """The number of the first trace that has other bits in the second; the traces have the same numbers."""
    odd = _unequal("traces", one, other)
    if not len(odd):  # so both have as many items in every column
        for name, starts in offsets(one)._asdict().items():
            items = _unequal(name, one, other)
            if len(items):
                odd = trace_of(starts, items[:1])
                break
    return int(one.traces["trace"][odd[0]]) if len(odd) else None


def _unequal(column: str, one: Columns, other: Columns) -> Integers:
    """The rows of a column that differ in any bit of their content."""
    raw = []
    for columns in (one, other):
        content: Array = getattr(columns, column).copy()
        for field in HOW.get(column, ()):
            content[field] = 0
        raw.append(content.view(np.uint8).reshape(len(content), content.itemsize))
    return np.flatnonzero((raw[0] != raw[1]).any(axis=1))

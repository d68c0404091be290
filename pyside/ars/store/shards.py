"""Prior traces on disk: a folder of shards and an index, crash-safe, to be read in any order.

A shard is the eight bytes "ARSTRACE", the size and the CRC-32 of a JSON header (two little-endian uint32), the header,
and the columns of a TRACES message as they are in memory, each at a multiple of 64 bytes. The header has the sizes and
checksums of the columns and the table of sites, so that a shard can be read without the index. index.json lists the
shards, and with what they were drawn. Nothing in either is ever executed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import shlex
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ars._native import DTYPES, DistKind, SiteKind
from ars.arguments import (
    ON_FAILURE,
    OnFailure,
    check_on_failure,
    first_of,
    integer,
    number_of_traces,
    seed_or_random,
)
from ars.columns import Array, Columns, Integers, Site, take
from ars.errors import ShardError, StorageError
from ars.progress import Progress, make_progress
from ars.store.features import Features, features_of, unlike
from ars.store.files import Bytes, parse_json, write_whole
from ars.store.older import unknown

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = [
    "FORMAT",
    "INDEX",
    "MERGED",
    "SHARD_TRACES",
    "Recording",
    "Shard",
    "decode_shard",
    "encode_shard",
    "named",
    "only_writer",
    "read_index",
    "record",
    "shard_header",
]

FORMAT: Final = "ars-traces"
SHARD_TRACES: Final = 16_384  # per file
VERSION: Final = 1
MERGED: Final = 2  # version of an index that refers to other recordings and has no shards
_MAGIC: Final = b"ARSTRACE"
_LEAD: Final = struct.Struct("<8sII")
_ALIGN: Final = 64
INDEX: Final = "index.json"
_ITEMS: Final = {
    "traces": DTYPES["trace"],
    "samples": DTYPES["sample"],
    "observes": DTYPES["values"],
    "results": DTYPES["result"],
    "loops": DTYPES["loop"],
    "values": np.dtype("<f8"),
    "failures": DTYPES["failure"],
    "tries": DTYPES["try"],
    "rejected": DTYPES["sample"],
}
_COUNTED: Final = ("samples", "observes", "results", "loops", "values", "tries")
_NEWER: Final = ("tries", "rejected")  # columns that the first recordings did not have
_SHORTER: Final = {"loops": (72, 88, 96)}  # bytes of an item in older files, which lack its last fields: see older.py


class Shard(NamedTuple):
    """A line of the index."""

    file: str
    first_trace: int
    requested: int  # trace numbers that it covers
    traces: int  # that it holds: failed ones are left out
    size: int  # bytes


# ---- writing ---------------------------------------------------------------------------------------------------------


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGN)


def _encode_sites(sites: Sequence[Site]) -> list[list[Any]]:
    return [[s.id, s.kind.name, s.dist.name if s.dist else None, s.address] for s in sites]


def _decode_sites(rows: Sequence[Sequence[Any]]) -> tuple[Site, ...]:
    return tuple(Site(int(i), SiteKind[kind], DistKind[dist] if dist else None, str(a)) for i, kind, dist, a in rows)


def encode_shard(columns: Columns, sites: Sequence[Site], about: dict[str, Any]) -> list[Bytes]:
    """The parts of a shard's file."""
    body: list[Bytes] = []
    described: dict[str, Any] = {}
    offset = 0
    for name, dtype in _ITEMS.items():
        array = np.ascontiguousarray(getattr(columns, name), dtype=dtype)
        raw = array.view(np.uint8).reshape(-1).data if array.size else memoryview(b"")
        described[name] = {"item": dtype.itemsize, "count": len(array), "offset": offset, "crc32": zlib.crc32(raw)}
        body += [raw, _padding(raw.nbytes)]
        offset += raw.nbytes + len(body[-1])
    header = about | {
        "format": FORMAT,
        "version": VERSION,
        "bytes": offset,
        "columns": described,
        "sites": _encode_sites(sites),
    }
    text = json.dumps(header).encode()
    lead = _LEAD.pack(_MAGIC, len(text), zlib.crc32(text))
    return [lead, text, _padding(len(lead) + len(text)), *body]


def _write_index(directory: Path, about: dict[str, Any], shards: Sequence[Shard]) -> None:
    index = {"format": FORMAT, "version": VERSION} | about | {"shards": [shard._asdict() for shard in shards]}
    write_whole(directory / INDEX, [json.dumps(index, indent=1).encode()])


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Two recordings into one folder would overwrite each other's shards."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ShardError(f"{directory}: another process is recording into this folder") from None
        yield
    finally:
        os.close(descriptor)


def record(
    sim: Simulator,
    n: int,
    directory: str | os.PathLike[str],
    *,
    seed: int | None = None,
    shard_traces: int = SHARD_TRACES,
    max_rejected: int = 0,
    first_trace: int | None = None,
    on_failure: OnFailure = ON_FAILURE,
    progress: bool | Progress | None = None,
) -> Recording:
    """Draws prior traces until the folder holds n, and writes them to disk in shards.

    max_rejected: also what the rejected tries of every loop entry drew, up to so many of them, for train_on="all".
    first_trace: the number of the folder's first trace (default: that of the folder, 0 for a new one).

    A folder that holds some already is continued, with its seed. A shard is there whole or not at all, whatever
    happens; what is in the folder can be read while more is recorded.
    """
    n = number_of_traces(n)
    shard_traces = integer("shard_traces", shard_traces, 1, 2**30)
    max_rejected = integer("max_rejected", max_rejected, 0, 2**31)
    first_trace = None if first_trace is None else first_of("first_trace", first_trace, n)
    check_on_failure(on_failure)
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be created: {error.strerror}") from error
    shown = make_progress(progress)
    lease = sim._lease()
    with only_writer(folder), contextlib.closing(shown), contextlib.ExitStack() as stack:
        for left in folder.glob(".*.tmp"):  # of a recording that was killed
            left.unlink(missing_ok=True)
        about, shards = _continued(sim, folder, seed, max_rejected, first_trace)
        drawn = {name: about[name] for name in ("command", "seed", "max_rejected")}
        done = sum(shard.requested for shard in shards)
        unchecked = bool(shards)
        starts = range(done, n, shard_traces)
        # Made as they are needed: a recording may have more shards than fit into a list.
        ranges = ((about["first_trace"] + start, min(shard_traces, n - start)) for start in starts)
        options: dict[str, Any] = {"on_failure": on_failure, "max_rejected": max_rejected, "lease": lease}
        chunks = stack.enter_context(contextlib.closing(sim._prior_chunks(about["seed"], ranges, **options)))
        for start, (columns, sites) in zip(starts, chunks, strict=True):
            first, count = about["first_trace"] + start, min(shard_traces, n - start)
            kept = take(columns, np.flatnonzero(columns.traces["failure"] == 0))
            if unchecked:
                Recording(folder).check_simulator(kept, sites)
                unchecked = False
            name = f"traces-{len(shards):06d}.ars"
            parts = encode_shard(kept, sites, drawn | {"first_trace": first, "requested": count})
            write_whole(folder / name, parts)
            size = sum(memoryview(part).nbytes for part in parts)
            shards.append(Shard(name, first, count, len(kept.traces), size))
            _write_index(folder, about, shards)
            done += count
            shown.update(min(done, n), n)
    return Recording(folder)


def _continued(
    sim: Simulator, folder: Path, seed: int | None, max_rejected: int, first_trace: int | None
) -> tuple[dict[str, Any], list[Shard]]:
    """The recording that the folder holds, or a new one."""
    executable = sim._processes.executable
    if not (folder / INDEX).exists():
        return {
            "command": list(sim.command),
            "seed": seed_or_random(seed),
            "max_rejected": max_rejected,
            "first_trace": first_trace or 0,
            "executable": executable,
        }, []
    there = Recording(folder)
    if named(sim.command) != named(there.command):
        raise ShardError(
            f"{folder} holds traces of {shlex.join(there.command)}, not of {shlex.join(sim.command)}: use another "
            "folder"
        )
    if seed is not None and seed != there.seed:
        raise ShardError(f"{folder} was recorded with seed {there.seed}, not {seed}: omit seed, or use another folder")
    if max_rejected != there.max_rejected:
        raise ShardError(
            f"{folder} was recorded with max_rejected={there.max_rejected}, not {max_rejected}: give the same, or use "
            "another folder"
        )
    if first_trace is not None and first_trace != there.first_trace:
        raise ShardError(
            f"{folder} begins with trace {there.first_trace}, not {first_trace}: omit first_trace, or use another "
            "folder"
        )
    return {
        "command": list(there.command),
        "seed": there.seed,
        "max_rejected": there.max_rejected,
        "first_trace": there.first_trace,
        "executable": there.executable if executable in ("", there.executable) else "",  # of two builds: of neither
    }, list(there.shards)


def named(command: Sequence[str]) -> tuple[str, ...]:
    """A command line without the folder of its executable, which may lie elsewhere on another machine."""
    return (os.path.basename(command[0]), *command[1:])


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_index(directory: Path) -> dict[str, Any]:
    """What the folder says about its traces, if it is of a version that can be read here."""
    path = directory / INDEX
    try:
        index = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise ShardError(f"{directory} holds no recorded traces: there is no {INDEX}") from None
    except OSError as error:
        raise ShardError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ShardError(f"{path} is damaged: {error}") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise ShardError(f"{path} is not the index of recorded traces")
    if index.get("version") not in (VERSION, MERGED):
        raise ShardError(f"{path} has version {index.get('version')!r}, this program reads {VERSION}: update ars")
    return index


class Recording:
    """A folder that ``record`` wrote. Shards are mapped into memory when they are needed, and checked then."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        index = read_index(self.directory)
        if index["version"] == MERGED:
            raise ShardError(
                f"{self.directory} refers to other recordings, and has no traces of its own: use one of them, or "
                "another folder"
            )
        try:
            self.seed = int(index["seed"])
            self.max_rejected = int(index.get("max_rejected", 0))  # 0: the traces have no rejected tries
            self.first_trace = int(index.get("first_trace", 0))
            self.executable = str(index.get("executable", ""))  # SHA-256; "": not known
            self.command: tuple[str, ...] = tuple(str(word) for word in index["command"])
            self.shards: tuple[Shard, ...] = tuple(Shard(**shard) for shard in index["shards"])
        except (KeyError, TypeError, ValueError) as error:
            raise ShardError(f"{self.directory / INDEX} is damaged: {error!r}") from error
        self._checked: set[str] = set()

    @property
    def traces(self) -> int:
        """How many complete traces the folder holds."""
        return sum(shard.traces for shard in self.shards)

    def __len__(self) -> int:
        return len(self.shards)

    def __repr__(self) -> str:
        return (
            f"<Recording {self.directory}: {self.traces:,} traces of {shlex.join(self.command)} in {len(self)} shards>"
        )

    def about(self) -> dict[str, Any]:
        """Where the traces are, for JSON."""
        return {"directory": str(self.directory.resolve())}

    def load(self, shard: int) -> tuple[Columns, tuple[Site, ...]]:
        """The traces of one shard, mapped into memory, and its table of sites."""
        line = self.shards[shard]
        path = self.directory / line.file
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != line.size:
                    raise ShardError(f"{path} is truncated or damaged: it has {size} bytes, should have {line.size}")
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise ShardError(f"{path} cannot be read: {error.strerror}") from error
        try:
            columns, sites = decode_shard(whole, verify=line.file not in self._checked)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise ShardError(f"{path} is damaged: {error}. Delete {self.directory} and record again") from error
        if len(columns.traces) != line.traces:
            raise ShardError(f"{path} is damaged: {len(columns.traces)} traces, the index says {line.traces}")
        self._checked.add(line.file)
        return columns, sites

    # ---- order -------------------------------------------------------------------------------------------------------

    def order(self, epoch: int, seed: int, keep: int) -> Iterator[tuple[int, Integers]]:
        """The first ``keep`` traces of the folder in the random order of an epoch: shards, and the rows of each."""
        random = np.random.default_rng((seed, epoch))
        before = np.cumsum([0] + [shard.traces for shard in self.shards])
        for shard in random.permutation(len(self.shards)).tolist():
            rows = random.permutation(self.shards[shard].traces)
            rows = rows[rows < keep - before[shard]]
            if len(rows):
                yield shard, rows

    def batches(self, size: int, seed: int, keep: int, skip: int = 0) -> Iterator[tuple[Columns, tuple[Site, ...]]]:
        """Batches for ever, epoch after epoch, each in another order that the seed fixes, without the first ``skip``
        traces. A batch is of one shard; those of a shard are of nearly equal sizes, up to ``size``."""
        if keep < 1:
            raise ShardError(f"{self.directory} holds too few traces: {self.traces}")
        epoch = skip // keep
        skip -= epoch * keep
        while True:
            for shard, rows in self.order(epoch, seed, keep):
                if skip >= len(rows):
                    skip -= len(rows)
                    continue
                columns, sites = self.load(shard)
                for part in np.array_split(rows, -(-len(rows) // size)):
                    if skip:
                        skip = max(skip - len(part), 0)
                        continue
                    yield take(columns, part), sites
            epoch += 1

    def last(self, n: int) -> list[tuple[Columns, tuple[Site, ...]]]:
        """The last n traces, by shard."""
        parts: list[tuple[Columns, tuple[Site, ...]]] = []
        for shard in range(len(self.shards) - 1, -1, -1):
            count = min(n, self.shards[shard].traces)
            if count:
                columns, sites = self.load(shard)
                parts.append(
                    (take(columns, np.arange(self.shards[shard].traces - count, self.shards[shard].traces)), sites)
                )
            n -= count
        return parts[::-1]

    # ---- whose traces ------------------------------------------------------------------------------------------------

    def check_simulator(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Compares with some traces of a simulator: what most traces of one have must be in the other, with the same
        kind of distribution. Raises a ShardError that lists what does not match."""
        wrong = unlike(self.features(), features_of(columns, sites), "the folder", "the simulator")
        if wrong:
            raise ShardError(
                f"{self.directory} holds traces of another simulator ({shlex.join(self.command)}):\n  "
                + "\n  ".join(wrong)
            )

    def features(self) -> Features:
        """Which latents and observations the traces of the first shard have, and how often."""
        return features_of(*self.load(0))


def shard_header(whole: memoryview) -> dict[str, Any]:
    """The header of a shard, once its checksum is right. Raises ValueError or struct.error for anything else."""
    magic, header_size, crc = _LEAD.unpack_from(whole)
    if magic != _MAGIC:
        raise ValueError("it does not begin like recorded traces")
    text = bytes(whole[_LEAD.size : _LEAD.size + header_size])
    if len(text) != header_size or zlib.crc32(text) != crc:
        raise ValueError("the checksum of its header is wrong")
    header = parse_json(text)
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header


def decode_shard(whole: memoryview, *, verify: bool) -> tuple[Columns, tuple[Site, ...]]:
    """A shard's columns, without a copy. Every number in it is checked before it is used."""
    header = shard_header(whole)
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']!r}, this program reads {VERSION}")
    body = whole[-(-(_LEAD.size + _LEAD.unpack_from(whole)[1]) // _ALIGN) * _ALIGN :]
    if body.nbytes != header["bytes"]:
        raise ValueError(f"{body.nbytes} bytes of columns, the header says {header['bytes']}")
    there = [name for name in _ITEMS if name not in _NEWER or name in header["columns"]]
    columns = Columns(**{name: _column(body, name, header["columns"][name], verify) for name in there})
    if int(columns.tries["n_samples"].sum(dtype=np.uint64)) != len(columns.rejected):
        raise ValueError("the counts of rejected samples do not add up")
    for name in _COUNTED:
        if int(columns.traces[f"n_{name}"].sum(dtype=np.uint64)) != len(getattr(columns, name)):
            raise ValueError(f"the counts of {name} do not add up")
    return columns, _decode_sites(header["sites"])


def _column(body: memoryview, name: str, about: dict[str, Any], verify: bool) -> Array:
    dtype = _ITEMS[name]
    offset, count, item = int(about["offset"]), int(about["count"]), int(about["item"])
    size = item * count
    if item not in (dtype.itemsize, *_SHORTER.get(name, ())) or not 0 <= offset <= offset + size <= body.nbytes:
        raise ValueError(f"column {name} has a wrong size")
    if verify and zlib.crc32(body[offset : offset + size]) != about["crc32"]:
        raise ValueError(f"the checksum of column {name} is wrong")
    if item == dtype.itemsize:
        return np.frombuffer(body, dtype, count, offset)
    longer = unknown(count, dtype).view(np.uint8).reshape(count, dtype.itemsize)
    longer[:, :item] = np.frombuffer(body, np.uint8, size, offset).reshape(count, item)
    return longer.view(dtype).reshape(count)

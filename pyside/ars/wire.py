"""Messages to and from ars-host as bytes: bridge/PROTOCOL.md in Python.

Pure functions. The layouts come from the C header. A decoder checks every field that the peer filled in and raises
ProtocolError, which says which one; what it returns needs no further checks.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, DistKind, FailureKind, Message, RunFlag, SiteKind
from ars.columns import Columns, Site
from ars.errors import ProtocolError

__all__ = [
    "PRIOR",
    "Done",
    "Header",
    "Hello",
    "Replies",
    "RunConfig",
    "SiteTable",
    "StepBatch",
    "choose_version",
    "concatenate_steps",
    "decode_bare",
    "decode_done",
    "decode_error",
    "decode_header",
    "decode_hello",
    "decode_replies",
    "decode_run",
    "decode_sites",
    "decode_steps",
    "decode_traces",
    "decode_welcome",
    "encode_cancel",
    "encode_error",
    "encode_hello",
    "encode_quit",
    "encode_replies",
    "encode_run",
    "encode_welcome",
]

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = bytes | memoryview

_HEADER = DTYPES["header"]
_STEP = DTYPES["step"]
_TOLD = DTYPES["told"]
_DIST = DTYPES["dist"]
_REPLY = DTYPES["reply"]
_SITE = DTYPES["site"]
_TRACE_COLUMNS = ("trace", "sample", "values", "values", "loop", None, "failure")
_COLUMN_NAMES = ("traces", "samples", "observes", "results", "loops", "values", "failures")
_SIMULATED = frozenset(range(DistKind.UNIFORM, DistKind.TRUNCATED_NORMAL + 1))  # kinds that a simulator can draw from


def _struct(name: str) -> struct.Struct:
    """The layout of a flat wire struct for `struct`: far faster than NumPy where items are read one by one."""
    dtype = DTYPES[name]
    assert dtype.fields is not None
    codes = {("u", 2): "H", ("u", 4): "I", ("u", 8): "Q", ("i", 4): "i", ("f", 8): "d"}
    packed = struct.Struct("<" + "".join(codes[f[0].kind, f[0].itemsize] for f in dtype.fields.values()))
    assert packed.size == dtype.itemsize
    return packed


_unpack_header = _struct("header").unpack_from
_unpack_step = _struct("step").unpack_from
_unpack_dist = _struct("dist").unpack_from
_iter_told = _struct("told").iter_unpack
_KINDS = {
    SiteKind.SAMPLE: "a latent",
    SiteKind.OBSERVE: "an observation",
    SiteKind.RESULT: "a result",
    SiteKind.LOOP: "a loop",
}

PRIOR: bytes = np.array([(DistKind.PRIOR, 0, 0)], dtype=_DIST).tobytes()
"""The proposal "whatever the prior is", encoded."""


def _refuse(message: Message | str, what: str) -> NoReturn:
    name = message.name if isinstance(message, Message) else message
    raise ProtocolError(f"{name}: {what}")


def _pad(size: int) -> int:
    return -(-size // 8) * 8


# ---- the header ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Header:
    """What every message begins with."""

    type: Message
    size: int
    count: int
    run: int
    version: int


def _header_bytes(kind: Message, size: int, count: int = 0, run: int = 0) -> Array:
    if size > native.MAX_MESSAGE:
        raise ValueError(f"{kind.name}: {size} bytes, a message has at most {native.MAX_MESSAGE}")
    header = np.zeros(1, dtype=_HEADER)
    header[0] = (native.MAGIC, native.VERSION, kind, size, count, run)
    return header


def _bare(kind: Message, run: int = 0) -> bytes:
    return _header_bytes(kind, _HEADER.itemsize, run=run).tobytes()


def decode_header(frame: Bytes) -> Header:
    """The header of a message's first frame: magic, version, type and size are checked."""
    if len(frame) < _HEADER.itemsize:
        _refuse("message", f"{len(frame)} bytes, a header has {_HEADER.itemsize}")
    magic, version, code, size, count, run = _unpack_header(frame)
    if magic != native.MAGIC:
        _refuse("message", f"magic 0x{magic:08x}, must be 0x{native.MAGIC:08x}: this is not an ars peer")
    try:
        kind = Message(code)
    except ValueError:
        _refuse("message", f"type {code} is unknown")
    across = (Message.HELLO, Message.WELCOME, Message.ERROR)  # readable across versions
    if kind not in across and not native.VERSION_MIN <= version <= native.VERSION:
        _refuse(kind, f"protocol version {version}, we speak {native.VERSION_MIN} to {native.VERSION}")
    if size != len(frame):
        _refuse(kind, f"size {size}, but the frame has {len(frame)} bytes")
    if size > native.MAX_MESSAGE:
        _refuse(kind, f"size {size} is over the limit of {native.MAX_MESSAGE}")
    return Header(kind, size, count, run, version)


def _expect(frame: Bytes, kind: Message) -> Header:
    header = decode_header(frame)
    if header.type is not kind:
        _refuse(kind, f"expected, but this is {header.type.name}")
    return header


def _fixed(frame: Bytes, kind: Message, name: str) -> tuple[Header, Any]:
    """The header and the struct of a message that is one struct."""
    header = _expect(frame, kind)
    dtype = DTYPES[name]
    if header.size != dtype.itemsize:
        _refuse(kind, f"{header.size} bytes, must be {dtype.itemsize}")
    if header.count != 0:
        _refuse(kind, f"count {header.count}, must be 0")
    return header, np.frombuffer(frame, dtype=dtype, count=1)[0]


# ---- the handshake ---------------------------------------------------------------------------------------------------


class Hello(NamedTuple):
    """The host presents itself."""

    version_min: int
    version_max: int
    workers: int
    host_pid: int
    zygote_pid: int
    token: str


def encode_hello(hello: Hello) -> bytes:
    """What the host sends first (for tests and tools)."""
    dtype = DTYPES["hello"]
    out = np.zeros(1, dtype=dtype)
    out["header"] = _header_bytes(Message.HELLO, dtype.itemsize)
    for field in ("version_min", "version_max", "workers", "host_pid", "zygote_pid"):
        out[field] = getattr(hello, field)
    out["token"] = np.frombuffer(hello.token.encode("ascii"), dtype=np.uint8)
    return out.tobytes()


def decode_hello(frame: Bytes) -> Hello:
    """Fields are checked for sense. Whether versions overlap is the caller's to decide: see choose_version."""
    header, raw = _fixed(frame, Message.HELLO, "hello")
    if header.run != 0:
        _refuse(Message.HELLO, f"run {header.run}, must be 0")
    token = bytes(raw["token"])
    if any(byte not in b"0123456789abcdef" for byte in token):
        _refuse(Message.HELLO, "the token is not 32 hex digits")
    hello = Hello(
        int(raw["version_min"]),
        int(raw["version_max"]),
        int(raw["workers"]),
        int(raw["host_pid"]),
        int(raw["zygote_pid"]),
        token.decode("ascii"),
    )
    if hello.version_min > hello.version_max:
        _refuse(Message.HELLO, f"version_min {hello.version_min} is above version_max {hello.version_max}")
    if hello.workers < 1:
        _refuse(Message.HELLO, "workers is 0")
    return hello


def choose_version(hello: Hello) -> int:
    """The newest version that both sides speak."""
    version = min(hello.version_max, native.VERSION)
    if version < max(hello.version_min, native.VERSION_MIN):
        _refuse(
            Message.HELLO,
            f"the host speaks protocol versions {hello.version_min} to {hello.version_max}, this package "
            f"{native.VERSION_MIN} to {native.VERSION}: rebuild the simulator against this version of libars",
        )
    return version


def encode_welcome(version: int) -> bytes:
    dtype = DTYPES["welcome"]
    out = np.zeros(1, dtype=dtype)
    out["header"] = _header_bytes(Message.WELCOME, dtype.itemsize)
    out["version"] = version
    return out.tobytes()


def decode_welcome(frame: Bytes) -> int:
    """The chosen version (for tests and tools: the host's side)."""
    _, raw = _fixed(frame, Message.WELCOME, "welcome")
    version = int(raw["version"])
    if not native.VERSION_MIN <= version <= native.VERSION:
        _refuse(Message.WELCOME, f"version {version}, we speak {native.VERSION_MIN} to {native.VERSION}")
    if raw["reserved0"] or raw["reserved1"]:
        _refuse(Message.WELCOME, "reserved is not 0")
    return version


def encode_quit() -> bytes:
    return _bare(Message.QUIT)


def encode_cancel(run: int) -> bytes:
    return _bare(Message.CANCEL, run)


def decode_bare(frame: Bytes) -> Header:
    """CANCEL or QUIT, which are a header and nothing more (for tests and tools: the host's side)."""
    header = decode_header(frame)
    if header.type not in (Message.CANCEL, Message.QUIT):
        _refuse(header.type, "this is neither CANCEL nor QUIT")
    if header.size != _HEADER.itemsize or header.count:
        _refuse(header.type, f"{header.size} bytes and count {header.count}, must be {_HEADER.itemsize} and 0")
    return header


def encode_error(text: str, run: int = 0) -> bytes:
    body = text.encode("utf-8")[: native.MAX_TEXT - 1]
    return _header_bytes(Message.ERROR, _HEADER.itemsize + len(body), len(body), run).tobytes() + body


def decode_error(frame: Bytes) -> str:
    """The reason; text that is cut, padded or not UTF-8 is still worth reading."""
    header = _expect(frame, Message.ERROR)
    body = bytes(frame[_HEADER.itemsize : header.size])
    return body.split(b"\0", 1)[0].decode("utf-8", "replace") or "no reason given"


# ---- RUN -------------------------------------------------------------------------------------------------------------


class RunConfig(NamedTuple):
    """One run, as the host is told."""

    seed: int
    n_traces: int
    flags: RunFlag
    first_trace: int = 0
    tries_q: int = 0
    runs_p: int = 0
    max_workers: int = 0
    max_tries: int = 10_000_000
    trace_timeout: float = 60.0
    observed: Mapping[str, npt.NDArray[np.float64]] = {}


def encode_run(config: RunConfig, run: int) -> bytes:
    dtype = DTYPES["run"]
    names = [name.encode("utf-8") for name in config.observed]
    values = [np.ascontiguousarray(v, dtype="<f8").reshape(-1) for v in config.observed.values()]
    observed = np.zeros(len(names), dtype=DTYPES["observed"])
    observed["name_size"] = [len(name) for name in names]
    observed["n_values"] = [v.size for v in values]
    body = b"".join(
        [observed.tobytes(), *(name.ljust(_pad(len(name)), b"\0") for name in names), *(v.tobytes() for v in values)]
    )
    out = np.zeros(1, dtype=dtype)
    out["header"] = _header_bytes(Message.RUN, dtype.itemsize + len(body), len(names), run)
    for field in ("seed", "first_trace", "n_traces", "flags", "tries_q", "runs_p", "max_workers", "max_tries"):
        out[field] = int(getattr(config, field))
    out["trace_timeout"] = config.trace_timeout
    return out.tobytes() + body


def decode_run(frame: Bytes) -> tuple[int, RunConfig]:
    """The run's number and its settings (for tests and tools: the host's side)."""
    kind = Message.RUN
    header = _expect(frame, kind)
    dtype = DTYPES["run"]
    if header.size < dtype.itemsize:
        _refuse(kind, f"{header.size} bytes, must be at least {dtype.itemsize}")
    raw = np.frombuffer(frame, dtype=dtype, count=1)[0]
    if header.run == 0:
        _refuse(kind, "run is 0")
    flags = int(raw["flags"])
    if flags & ~int(sum(RunFlag)):
        _refuse(kind, f"flags 0x{flags:x} has bits that are unknown")
    if flags & RunFlag.ESTIMATE and (raw["tries_q"] < 1 or raw["runs_p"] < 1):
        _refuse(kind, f"tries_q {raw['tries_q']} and runs_p {raw['runs_p']}, must be at least 1 to estimate")
    if raw["n_traces"] < 1:
        _refuse(kind, "n_traces is 0")
    if int(raw["first_trace"]) + int(raw["n_traces"]) >= 1 << 64:
        _refuse(kind, "first_trace + n_traces does not fit 64 bits")
    if raw["max_tries"] < 1:
        _refuse(kind, "max_tries is 0")
    if not math.isfinite(raw["trace_timeout"]) or raw["trace_timeout"] < 0:
        _refuse(kind, f"trace_timeout {raw['trace_timeout']}, must be finite and not negative")
    if header.count and not flags & RunFlag.POSTERIOR:
        _refuse(kind, "observed data in a run without the POSTERIOR flag")
    observed = _decode_observed(memoryview(frame)[dtype.itemsize :], header.count)
    config = RunConfig(
        seed=int(raw["seed"]),
        n_traces=int(raw["n_traces"]),
        flags=RunFlag(flags),
        first_trace=int(raw["first_trace"]),
        tries_q=int(raw["tries_q"]),
        runs_p=int(raw["runs_p"]),
        max_workers=int(raw["max_workers"]),
        max_tries=int(raw["max_tries"]),
        trace_timeout=float(raw["trace_timeout"]),
        observed=observed,
    )
    return header.run, config


def _decode_observed(body: memoryview, count: int) -> dict[str, npt.NDArray[np.float64]]:
    dtype = DTYPES["observed"]
    if count * dtype.itemsize > len(body):
        _refuse(Message.RUN, f"count {count}, but the frame ends before that many observed names")
    entries = np.frombuffer(body, dtype=dtype, count=count)
    names: list[str] = []
    at = count * dtype.itemsize
    for size in entries["name_size"].tolist():
        name, at = _name(Message.RUN, body, at, size)
        names.append(name)
    if len(set(names)) != count:
        _refuse(Message.RUN, "an observed name comes twice")
    sizes = entries["n_values"].astype(np.int64)
    if at + 8 * int(sizes.sum()) != len(body):
        _refuse(Message.RUN, "n_values do not add up to the frame's size")
    values = np.frombuffer(body, dtype="<f8", offset=at) if at < len(body) else np.zeros(0)
    if not np.isfinite(values).all():
        _refuse(Message.RUN, "an observed value is not finite")
    return dict(zip(names, np.split(values.copy(), np.cumsum(sizes)[:-1]), strict=True)) if count else {}


def _name(kind: Message, body: memoryview, at: int, size: int) -> tuple[str, int]:
    """The padded name at `at`, and where the next thing begins."""
    if not 1 <= size <= native.MAX_NAME:
        _refuse(kind, f"name_size {size}, must be 1 to {native.MAX_NAME}")
    end = at + _pad(size)
    if end > len(body):
        _refuse(kind, "the frame ends inside a name")
    raw = bytes(body[at : at + size])
    if b"\0" in raw or any(body[at + size : end]):
        _refuse(kind, "a name contains a zero byte, or its padding is not zero")
    try:
        return raw.decode("utf-8"), end
    except UnicodeDecodeError:
        _refuse(kind, f"a name is not UTF-8: {raw!r}")


# ---- SITES -----------------------------------------------------------------------------------------------------------


class SiteTable:
    """The sites announced so far; ids count up from 0."""

    def __init__(self, sites: Sequence[Site] = ()) -> None:
        self._sites: list[Site] = []
        self._kinds: Array = np.zeros(0, dtype=np.uint16)
        self._dists: Array = np.zeros(0, dtype=np.uint16)
        self.add(sites)

    def add(self, sites: Sequence[Site]) -> None:
        """Appends; an id out of order or an address that is already there is refused."""
        known = {(site.kind, site.address) for site in self._sites}
        for site in sites:
            if site.id != len(self._sites):
                _refuse(Message.SITES, f"id {site.id}, the next one is {len(self._sites)}")
            if (site.kind, site.address) in known:
                _refuse(Message.SITES, f"{site.kind.name.lower()} site {site.address!r} comes twice")
            known.add((site.kind, site.address))
            self._sites.append(site)
        self._kinds = np.array([site.kind for site in self._sites], dtype=np.uint16)
        self._dists = np.array([site.dist or 0 for site in self._sites], dtype=np.uint16)

    def __len__(self) -> int:
        return len(self._sites)

    def __getitem__(self, site: int) -> Site:
        return self._sites[site]

    def all(self) -> tuple[Site, ...]:
        return tuple(self._sites)

    def latent_dist(self, site: int) -> int | None:
        """The kind of distribution of a latent; None if the site is unknown or something else."""
        found = self._sites[site] if site < len(self._sites) else None
        return found.dist if found is not None and found.kind is SiteKind.SAMPLE else None

    def dists(self, ids: Array) -> Array:
        """The kinds of distribution that these (known) sites were announced with."""
        return np.asarray(self._dists[ids])

    def check(self, message: Message, what: str, ids: Array, kind: SiteKind) -> None:
        """Refuses ids that are unknown or name a site of another kind."""
        if ids.size == 0:
            return
        if int(ids.max()) >= len(self._sites):
            _refuse(message, f"{what}: site {int(ids.max())} is unknown ({len(self._sites)} are known)")
        wrong = np.flatnonzero(self._kinds[ids] != kind)
        if wrong.size:
            site = self._sites[int(ids[wrong[0]])]
            _refuse(message, f"{what}: site {site.address!r} is {_KINDS[site.kind]}, not {_KINDS[kind]}")


def decode_sites(frame: Bytes) -> list[Site]:
    kind = Message.SITES
    header = _expect(frame, kind)
    body = memoryview(frame)
    if not 1 <= header.count <= native.MAX_SITES:
        _refuse(kind, f"count {header.count}, must be 1 to {native.MAX_SITES}")
    sites: list[Site] = []
    at = _HEADER.itemsize
    for _ in range(header.count):
        if at + _SITE.itemsize > len(body):
            _refuse(kind, f"count {header.count}, but the frame ends after {len(sites)} sites")
        raw = np.frombuffer(body, dtype=_SITE, count=1, offset=at)[0]
        name, at = _name(kind, body, at + _SITE.itemsize, int(raw["name_size"]))
        sites.append(_site(raw, name))
    if at != len(body):
        _refuse(kind, f"{len(body) - at} bytes after the last site")
    return sites


def _site(raw: Any, name: str) -> Site:
    number, dist = int(raw["id"]), int(raw["dist"])
    if number >= native.MAX_SITES:
        _refuse(Message.SITES, f"id {number}, there are at most {native.MAX_SITES} sites")
    try:
        kind = SiteKind(int(raw["kind"]))
    except ValueError:
        _refuse(Message.SITES, f"site {name!r}: kind {int(raw['kind'])} is unknown")
    if kind is SiteKind.SAMPLE and dist not in _SIMULATED:
        _refuse(Message.SITES, f"site {name!r}: dist {dist} is not a simulator's distribution")
    if kind is SiteKind.OBSERVE and dist and dist not in _SIMULATED:  # a factor has none
        _refuse(Message.SITES, f"site {name!r}: dist {dist} is not a simulator's distribution")
    if kind in (SiteKind.RESULT, SiteKind.LOOP) and dist:
        _refuse(Message.SITES, f"site {name!r}: dist {dist}, a {kind.name.lower()} has none")
    if raw["reserved"]:
        _refuse(Message.SITES, f"site {name!r}: reserved is not 0")
    return Site(number, kind, DistKind(dist) if dist else None, name)


# ---- STEPS and REPLIES -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests for proposals, one per row. told_offsets has one entry more than there are rows."""

    ticket: Array
    trace: Array
    state: Array
    site: Array
    instance: Array
    told_offsets: Array
    told_site: Array
    told_instance: Array
    told_value: npt.NDArray[np.float64]
    priors: tuple[bytes, ...]  # encoded; b"" where the row only tells

    def __len__(self) -> int:
        return int(self.ticket.size)

    @property
    def asks(self) -> npt.NDArray[np.bool_]:
        """The rows that want a proposal; the others only tell."""
        return np.asarray(self.site != native.NO_SITE)


def _walk(kind: Message, frame: Bytes, count: int, smallest: int) -> npt.NDArray[np.int64]:
    """Where the items begin, and the end: one pass over their sizes."""
    header = _HEADER.itemsize
    if header + count * smallest > len(frame):
        _refuse(kind, f"count {count}, but the frame has only {len(frame)} bytes")
    body = memoryview(frame)[header:]
    if len(body) % 8:
        _refuse(kind, f"{len(frame)} bytes, must be a multiple of 8")
    words = np.frombuffer(body, dtype="<u4")
    sizes = words.tolist() if count > len(words) // 64 else words
    offsets = [0] * (count + 1)
    at, end = 0, len(body)
    for i in range(count):
        if at >= end:
            _refuse(kind, f"count {count}, but the frame ends after {i} items")
        size = int(sizes[at >> 2])
        if size < smallest or size > native.MAX_STEP or size & 7 or at + size > end:
            _refuse(kind, f"item {i}: size {size} is wrong")
        at += size
        offsets[i + 1] = at
    if at != end:
        _refuse(kind, f"{end - at} bytes after the last item")
    return np.array(offsets, dtype=np.int64) + header


def _gather(frame: Bytes, starts: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """The structs that begin at these bytes, as one array."""
    words = np.frombuffer(frame, dtype="<u8", count=len(frame) // 8)
    n = dtype.itemsize // 8
    gathered: Array = words[(starts // 8)[:, None] + np.arange(n)].reshape(-1).view(dtype)
    return gathered


def decode_steps(frame: Bytes, sites: SiteTable) -> StepBatch:
    """One pass over the items: a message holds tens of them, for which plain Python is faster than array by array."""
    header = _expect(frame, Message.STEPS)
    if header.count < 1:
        _refuse(Message.STEPS, "count is 0")
    raw = bytes(frame)
    items: list[tuple[int, ...]] = []
    told: list[tuple[int, int, float]] = []
    told_offsets = [0]
    priors: list[bytes] = []
    at = _HEADER.itemsize
    for i in range(header.count):
        item, middle, end = _step_at(raw, at, i)
        if item[6]:
            told.extend(_iter_told(raw[at + _STEP.itemsize : middle]))
        if item[4] == native.NO_SITE:
            if middle != end:
                _refuse(Message.STEPS, f"item {i}: it has no site and is longer than what it tells")
        else:
            _check_prior(raw, middle, end, item[4], sites)
        priors.append(raw[middle:end])
        told_offsets.append(len(told))
        items.append(item)
        at = end
    if at != len(raw):
        _refuse(Message.STEPS, f"{len(raw) - at} bytes after the last item")
    parameters = np.frombuffer(b"".join([prior[_DIST.itemsize :] for prior in priors]))
    if np.isnan(parameters).any():
        _refuse(Message.STEPS, "a prior's parameter is NaN")
    return _step_batch(items, told, told_offsets, priors, sites)


def _step_at(raw: bytes, at: int, i: int) -> tuple[tuple[int, ...], int, int]:
    """The item that begins here, where its prior begins, and where it ends."""
    if at + _STEP.itemsize > len(raw):
        _refuse(Message.STEPS, f"the frame ends inside item {i}")
    item = _unpack_step(raw, at)
    size, n_told = item[0], item[6]
    if not _STEP.itemsize <= size <= native.MAX_STEP or size & 7 or at + size > len(raw):
        _refuse(Message.STEPS, f"item {i}: size {size} is wrong")
    if n_told > native.MAX_TOLD:
        _refuse(Message.STEPS, f"item {i}: n_told {n_told}, at most {native.MAX_TOLD}")
    if item[7]:
        _refuse(Message.STEPS, f"item {i}: reserved is not 0")
    middle = at + _STEP.itemsize + n_told * _TOLD.itemsize
    if middle > at + size:
        _refuse(Message.STEPS, f"item {i}: it ends inside what it tells")
    return item, middle, at + size


def _check_prior(raw: bytes, at: int, end: int, site: int, sites: SiteTable) -> None:
    kind = Message.STEPS
    announced = sites.latent_dist(site)
    if announced is None:
        sites.check(kind, "site", np.array([site]), SiteKind.SAMPLE)
    if end - at < _DIST.itemsize:
        _refuse(kind, f"site {sites[site].address!r}: a request ends before its prior")
    dist, reserved, n = _unpack_dist(raw, at)
    if reserved:
        _refuse(kind, f"site {sites[site].address!r}: its prior's reserved is not 0")
    if _DIST.itemsize + 8 * n != end - at:
        _refuse(kind, f"site {sites[site].address!r}: its prior's n does not fit the size of its request")
    if dist != announced:
        _refuse(kind, f"site {sites[site].address!r}: a prior of kind {dist}, it was announced with {announced}")


def _step_batch(
    items: list[tuple[int, ...]],
    told: list[tuple[int, int, float]],
    told_offsets: list[int],
    priors: list[bytes],
    sites: SiteTable,
) -> StepBatch:
    _, ticket, trace, state, site, instance, _, _ = zip(*items, strict=True)
    if len(set(ticket)) != len(ticket):
        _refuse(Message.STEPS, "a ticket comes twice")
    told_site, told_instance, told_value = zip(*told, strict=True) if told else ((), (), ())
    told_sites = np.array(told_site, dtype=np.uint32)
    values = np.array(told_value, dtype=np.float64)
    if told:
        sites.check(Message.STEPS, "told site", told_sites, SiteKind.SAMPLE)
        if not np.isfinite(values).all():
            _refuse(Message.STEPS, "a told value is not finite")
    return StepBatch(
        np.array(ticket, dtype=np.uint32),
        np.array(trace, dtype=np.uint64),
        np.array(state, dtype=np.uint64),
        np.array(site, dtype=np.uint32),
        np.array(instance, dtype=np.uint32),
        np.array(told_offsets, dtype=np.int64),
        told_sites,
        np.array(told_instance, dtype=np.uint32),
        values,
        tuple(priors),
    )


def concatenate_steps(batches: Sequence[StepBatch]) -> StepBatch:
    """Several messages as one batch."""
    if len(batches) == 1:
        return batches[0]
    ends = np.cumsum([0] + [int(b.told_offsets[-1]) for b in batches])
    told_offsets = np.concatenate([[0], *(b.told_offsets[1:] + e for b, e in zip(batches, ends, strict=False))])

    def joined(field: str) -> Array:
        return np.concatenate([getattr(b, field) for b in batches])

    tickets = joined("ticket")
    if np.unique(tickets).size != tickets.size:
        _refuse(Message.STEPS, "a ticket comes twice")
    return StepBatch(
        tickets,
        joined("trace"),
        joined("state"),
        joined("site"),
        joined("instance"),
        told_offsets,
        joined("told_site"),
        joined("told_instance"),
        joined("told_value"),
        tuple(p for b in batches for p in b.priors),
    )


class Replies(NamedTuple):
    """One answer per row of a batch. A proposal is an encoded distribution, or b"" for a row that only tells."""

    state: Array
    flags: Array
    proposals: Sequence[bytes]


def encode_replies(ticket: Array, replies: Replies, run: int) -> bytes:
    heads = np.zeros(len(ticket), dtype=_REPLY)
    sizes = np.fromiter((len(p) for p in replies.proposals), dtype=np.int64, count=len(ticket)) + _REPLY.itemsize
    if (sizes > native.MAX_STEP).any():
        raise ValueError(f"a proposal has {sizes.max()} bytes with its header, at most {native.MAX_STEP}")
    heads["size"] = sizes
    heads["ticket"] = ticket
    heads["state"] = replies.state
    heads["flags"] = replies.flags
    raw = heads.tobytes()
    parts: list[bytes] = [b""] * (2 * len(ticket) + 1)
    parts[0] = _header_bytes(Message.REPLIES, _HEADER.itemsize + int(sizes.sum()), len(ticket), run).tobytes()
    parts[1::2] = [raw[at : at + _REPLY.itemsize] for at in range(0, len(raw), _REPLY.itemsize)]
    parts[2::2] = replies.proposals
    return b"".join(parts)


def decode_replies(frame: Bytes) -> tuple[Array, Replies]:
    """Tickets and answers (for tests and tools: the host's side)."""
    kind = Message.REPLIES
    header = _expect(frame, kind)
    if header.count < 1:
        _refuse(kind, "count is 0")
    offsets = _walk(kind, frame, header.count, _REPLY.itemsize)
    items = _gather(frame, offsets[:-1], _REPLY)
    if items["reserved"].any():
        _refuse(kind, "reserved is not 0")
    if (items["flags"] & ~np.uint32(native.ReplyFlag.ALWAYS_PRIOR)).any():
        _refuse(kind, "flags has bits that are unknown")
    if np.unique(items["ticket"]).size != items.size:
        _refuse(kind, "a ticket comes twice")
    raw = bytes(frame)
    proposals = [raw[a + _REPLY.itemsize : b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    for proposal, flags in zip(proposals, items["flags"].tolist(), strict=True):
        _check_proposal(proposal, flags)
    return items["ticket"].copy(), Replies(items["state"].copy(), items["flags"].copy(), proposals)


def _check_proposal(proposal: bytes, flags: int) -> None:
    if proposal:
        if len(proposal) < _DIST.itemsize:
            _refuse(Message.REPLIES, "a reply ends inside its proposal")
        dist = np.frombuffer(proposal, dtype=_DIST, count=1)[0]
        if _DIST.itemsize + 8 * int(dist["n"]) != len(proposal):
            _refuse(Message.REPLIES, "a proposal's n does not fit the size of its reply")
        if dist["kind"] != DistKind.PRIOR:
            try:
                native.check(proposal)
            except ValueError as error:
                _refuse(Message.REPLIES, f"a proposal is wrong: {error}")
        elif proposal != PRIOR:
            _refuse(Message.REPLIES, "a PRIOR proposal has parameters")
    if flags & native.ReplyFlag.ALWAYS_PRIOR and proposal != PRIOR:
        _refuse(Message.REPLIES, "ALWAYS_PRIOR without a PRIOR proposal")


# ---- TRACES ----------------------------------------------------------------------------------------------------------


def decode_traces(frames: Sequence[Bytes], sites: SiteTable, first_trace: int = 0, n_traces: int = 1 << 62) -> Columns:
    """The columns, copied out of the frames and consistent with each other.

    Traces outside [first_trace, first_trace + n_traces) are refused."""
    kind = Message.TRACES
    if not frames:
        _refuse(kind, "no frames")
    header = _expect(frames[0], kind)
    if header.size != _HEADER.itemsize:
        _refuse(kind, f"a header frame of {header.size} bytes, must be {_HEADER.itemsize}")
    if len(frames) != 1 + len(_COLUMN_NAMES):
        _refuse(kind, f"{len(frames)} frames, must be {1 + len(_COLUMN_NAMES)}")
    columns: list[Array] = []
    for frame, name, layout in zip(frames[1:], _COLUMN_NAMES, _TRACE_COLUMNS, strict=True):
        dtype = DTYPES[layout] if layout else np.dtype("<f8")
        if len(frame) > native.MAX_MESSAGE or len(frame) % dtype.itemsize:
            _refuse(kind, f"{name}: {len(frame)} bytes, must be a multiple of {dtype.itemsize} and within the limit")
        columns.append(np.frombuffer(frame, dtype=dtype).copy())
    out = Columns(*columns)
    if header.count < 1 or out.traces.size != header.count:
        _refuse(kind, f"count {header.count}, but the traces column has {out.traces.size}")
    _check_traces(out, first_trace, n_traces)
    _check_counts(out)
    _check_items(out, sites)
    _check_loops(out, sites)
    _check_failures(out)
    return out


def _log_values(column: str, array: Array, *fields: str) -> None:
    """Logs of densities or ratios: -inf is an outcome (a value outside the prior's support), NaN and +inf are not."""
    for field in fields:
        if np.isnan(array[field]).any() or (array[field] == np.inf).any():
            _refuse(Message.TRACES, f"{column}: {field} is NaN or +inf")


def _check_traces(out: Columns, first_trace: int, n_traces: int) -> None:
    kind = Message.TRACES
    numbers = out.traces["trace"]
    if int(numbers.min()) < first_trace or int(numbers.max()) - first_trace >= n_traces:
        _refuse(kind, f"traces: trace {int(numbers.max())} is outside the run")
    if np.unique(numbers).size != numbers.size:
        _refuse(kind, "traces: a trace comes twice")
    if out.traces["reserved"].any():
        _refuse(kind, "traces: reserved is not 0")
    if int(out.traces["failure"].max()) > max(FailureKind):
        _refuse(kind, f"traces: failure {int(out.traces['failure'].max())} is unknown")
    complete = out.traces[out.traces["failure"] == 0]
    _log_values("traces", complete, "log_likelihood", "log_ratio_accepted", "log_ratio_all")


def _check_counts(out: Columns) -> None:
    columns = {"samples": out.samples, "observes": out.observes, "results": out.results, "loops": out.loops}
    failed = out.traces["failure"] != 0
    for name, column in {**columns, "values": out.values}.items():
        counts = out.traces[f"n_{name}"].astype(np.int64)
        if int(counts.sum()) != column.size:
            _refuse(Message.TRACES, f"{name}: the traces' counts add up to {int(counts.sum())}, not {column.size}")
        if counts[failed].any():
            _refuse(Message.TRACES, f"{name}: a failed trace has some")
    owned = np.zeros(out.traces.size, dtype=np.int64)
    for name, column, field in (
        ("observes", out.observes, "n"),
        ("results", out.results, "n"),
        ("samples", out.samples, "n_params"),
    ):
        owner = np.repeat(np.arange(out.traces.size), out.traces[f"n_{name}"])
        owned += np.bincount(owner, weights=column[field], minlength=out.traces.size).astype(np.int64)
    if (owned != out.traces["n_values"]).any():
        _refuse(Message.TRACES, "values: n_values differs from what the trace's items say they have")


def _check_items(out: Columns, sites: SiteTable) -> None:
    kind = Message.TRACES
    sites.check(kind, "samples", out.samples["site"], SiteKind.SAMPLE)
    sites.check(kind, "observes", out.observes["site"], SiteKind.OBSERVE)
    sites.check(kind, "results", out.results["site"], SiteKind.RESULT)
    _log_values("samples", out.samples, "log_p")
    for field in ("value", "log_q"):
        if not np.isfinite(out.samples[field]).all():
            _refuse(kind, f"samples: {field} is not finite")
    if out.samples.size:
        announced = sites.dists(out.samples["site"])
        if (announced != out.samples["prior"]).any():
            _refuse(kind, "samples: a prior's kind is not the one that its site was announced with")
    _log_values("observes", out.observes, "log_p")
    _log_values("results", out.results, "log_p")
    if np.isnan(out.values).any():
        _refuse(kind, "values: a value is NaN")
    n_loops = np.repeat(out.traces["n_loops"].astype(np.int64), out.traces["n_samples"])
    if ((out.samples["loop"] < -1) | (out.samples["loop"] >= n_loops)).any():
        _refuse(kind, "samples: loop is not the index of a loop of its trace")


def _check_loops(out: Columns, sites: SiteTable) -> None:
    kind = Message.TRACES
    loops = out.loops
    sites.check(kind, "loops", loops["site"], SiteKind.LOOP)
    counts = out.traces["n_loops"].astype(np.int64)
    index = np.arange(loops.size) - np.repeat(np.cumsum(counts) - counts, counts)
    n_loops = np.repeat(counts, counts)
    parent = loops["parent"]
    if ((parent < -1) | (parent >= n_loops) | (parent == index)).any():
        _refuse(kind, "loops: parent is not the index of another loop of its trace")
    if (loops["tries"] < 1).any():
        _refuse(kind, "loops: tries is 0")
    if (loops["accepted_q"] > loops["tries_q"]).any():
        _refuse(kind, "loops: accepted_q is above tries_q")
    if (loops["tries_p"] < loops["runs_p"]).any():
        _refuse(kind, "loops: tries_p is below runs_p")
    _log_values("loops", loops, "log_ratio_rejected")
    if np.isnan(loops["s_pq_sum"]).any() or (loops["s_pq_sum"] < 0).any():
        _refuse(kind, "loops: s_pq_sum is negative or NaN")


def _check_failures(out: Columns) -> None:
    failed = out.traces[out.traces["failure"] != 0]
    if out.failures.size != failed.size:
        _refuse(Message.TRACES, f"failures: {out.failures.size} records for {failed.size} failed traces")
    if (out.failures["trace"] != failed["trace"]).any() or (out.failures["kind"] != failed["failure"]).any():
        _refuse(Message.TRACES, "failures: a record's trace or kind differs from the traces column")
    if out.failures.size and out.failures.view(np.uint8).reshape(out.failures.size, -1)[:, -1].any():
        _refuse(Message.TRACES, "failures: a text has no terminating zero")


# ---- DONE ------------------------------------------------------------------------------------------------------------


class Done(NamedTuple):
    """The counters of a finished run."""

    traces: int
    snapshots: int
    continuations: int
    tries_q: int
    tries_p: int
    requests: int
    messages_sent: int
    messages_received: int
    workers_started: int
    cancelled: bool


def decode_done(frame: Bytes) -> Done:
    _, raw = _fixed(frame, Message.DONE, "done")
    if raw["cancelled"] > 1:
        _refuse(Message.DONE, f"cancelled is {int(raw['cancelled'])}, must be 0 or 1")
    counters = {field: int(raw[field]) for field in Done._fields if field != "cancelled"}
    return Done(**counters, cancelled=bool(raw["cancelled"]))

"""The messages that begin, end and frame a run: HELLO to ERROR, RUN and DONE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, LIMITS, Message, RunFlag
from ars.wire.frames import (
    HEADER,
    Bytes,
    Header,
    bare,
    decode_header,
    expect,
    fixed,
    header_bytes,
    pad,
    read_name,
    refuse,
)

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
    out["header"] = header_bytes(Message.HELLO, dtype.itemsize)
    for field in ("version_min", "version_max", "workers", "host_pid", "zygote_pid"):
        out[field] = getattr(hello, field)
    out["token"] = np.frombuffer(hello.token.encode("ascii"), dtype=np.uint8)
    return out.tobytes()


def decode_hello(frame: Bytes) -> Hello:
    """Fields are checked for sense. Whether versions overlap is the caller's to decide: see choose_version."""
    header, raw = fixed(frame, Message.HELLO, "hello")
    if header.run != 0:
        refuse(Message.HELLO, f"run {header.run}, must be 0")
    token = bytes(raw["token"])
    if any(byte not in b"0123456789abcdef" for byte in token):
        refuse(Message.HELLO, "the token is not 32 hex digits")
    hello = Hello(
        int(raw["version_min"]),
        int(raw["version_max"]),
        int(raw["workers"]),
        int(raw["host_pid"]),
        int(raw["zygote_pid"]),
        token.decode("ascii"),
    )
    if hello.version_min > hello.version_max:
        refuse(Message.HELLO, f"version_min {hello.version_min} is above version_max {hello.version_max}")
    if hello.workers < 1:
        refuse(Message.HELLO, "workers is 0")
    return hello


def choose_version(hello: Hello) -> int:
    """The newest version that both sides speak."""
    version = min(hello.version_max, native.VERSION)
    if version < max(hello.version_min, native.VERSION_MIN):
        refuse(
            Message.HELLO,
            f"the host speaks protocol versions {hello.version_min} to {hello.version_max}, this package "
            f"{native.VERSION_MIN} to {native.VERSION}: rebuild the simulator against this version of libars",
        )
    return version


def encode_welcome(version: int) -> bytes:
    dtype = DTYPES["welcome"]
    out = np.zeros(1, dtype=dtype)
    out["header"] = header_bytes(Message.WELCOME, dtype.itemsize)
    out["version"] = version
    return out.tobytes()


def decode_welcome(frame: Bytes) -> int:
    """The chosen version (for tests and tools: the host's side)."""
    _, raw = fixed(frame, Message.WELCOME, "welcome")
    version = int(raw["version"])
    if not native.VERSION_MIN <= version <= native.VERSION:
        refuse(Message.WELCOME, f"version {version}, we speak {native.VERSION_MIN} to {native.VERSION}")
    if raw["reserved0"] or raw["reserved1"]:
        refuse(Message.WELCOME, "reserved is not 0")
    return version


def encode_quit() -> bytes:
    return bare(Message.QUIT)


def encode_cancel(run: int) -> bytes:
    return bare(Message.CANCEL, run)


def decode_bare(frame: Bytes) -> Header:
    """CANCEL or QUIT, which are a header and nothing more (for tests and tools: the host's side)."""
    header = decode_header(frame)
    if header.type not in (Message.CANCEL, Message.QUIT):
        refuse(header.type, "this is neither CANCEL nor QUIT")
    if header.size != HEADER.itemsize or header.count:
        refuse(header.type, f"{header.size} bytes and count {header.count}, must be {HEADER.itemsize} and 0")
    return header


def encode_error(text: str, run: int = 0) -> bytes:
    body = text.encode("utf-8")[: native.MAX_TEXT - 1]
    return header_bytes(Message.ERROR, HEADER.itemsize + len(body), len(body), run).tobytes() + body


def decode_error(frame: Bytes) -> str:
    """The reason; text that is cut, padded or not UTF-8 is still worth reading."""
    header = expect(frame, Message.ERROR)
    body = bytes(frame[HEADER.itemsize : header.size])
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
    max_tries: int = LIMITS["max_tries"].standard
    trace_timeout: float = float(LIMITS["trace_timeout"].standard)
    try_timeout: float = float(LIMITS["try_timeout"].standard)
    observed: Mapping[str, npt.NDArray[np.float64]] = {}
    max_rejected: int = 0  # at least 1 with RECORD_REJECTED


def encode_run(config: RunConfig, run: int) -> bytes:
    dtype = DTYPES["run"]
    names = [name.encode("utf-8") for name in config.observed]
    values = [np.ascontiguousarray(v, dtype="<f8").reshape(-1) for v in config.observed.values()]
    observed = np.zeros(len(names), dtype=DTYPES["observed"])
    observed["name_size"] = [len(name) for name in names]
    observed["n_values"] = [v.size for v in values]
    body = b"".join(
        [observed.tobytes(), *(name.ljust(pad(len(name)), b"\0") for name in names), *(v.tobytes() for v in values)]
    )
    out = np.zeros(1, dtype=dtype)
    out["header"] = header_bytes(Message.RUN, dtype.itemsize + len(body), len(names), run)
    for field in (
        "seed",
        "first_trace",
        "n_traces",
        "flags",
        "max_workers",
        "max_tries",
        "max_rejected",
    ):
        out[field] = int(getattr(config, field))
    out["wanted"]["runs_p"], out["wanted"]["tries_q"] = config.runs_p, config.tries_q
    out["trace_timeout"] = config.trace_timeout
    out["try_timeout"] = config.try_timeout
    return out.tobytes() + body


def decode_run(frame: Bytes) -> tuple[int, RunConfig]:
    """The run's number and its settings (for tests and tools: the host's side)."""
    kind = Message.RUN
    header = expect(frame, kind)
    dtype = DTYPES["run"]
    if header.size < dtype.itemsize:
        refuse(kind, f"{header.size} bytes, must be at least {dtype.itemsize}")
    raw = np.frombuffer(frame, dtype=dtype, count=1)[0]
    if header.run == 0:
        refuse(kind, "run is 0")
    flags = int(raw["flags"])
    if flags & ~int(sum(RunFlag)):
        refuse(kind, f"flags 0x{flags:x} has bits that are unknown")
    if flags & RunFlag.ESTIMATE and (raw["wanted"]["tries_q"] < 1 or raw["wanted"]["runs_p"] < 1):
        refuse(kind, f"tries_q {raw['wanted']['tries_q']} and runs_p {raw['wanted']['runs_p']}, must be at least 1 to estimate")
    if flags & RunFlag.REWIND and not flags & RunFlag.ESTIMATE:
        refuse(kind, "the flag REWIND without ESTIMATE")
    if flags & RunFlag.CHECK and not flags & RunFlag.REWIND:
        refuse(kind, "the flag CHECK without REWIND")
    if max(raw["wanted"]["tries_q"], raw["wanted"]["runs_p"]) > 2**31 - 1:
        refuse(kind, f"tries_q {raw['wanted']['tries_q']} and runs_p {raw['wanted']['runs_p']}, must be at most {2**31 - 1}")
    if raw["n_traces"] < 1:
        refuse(kind, "n_traces is 0")
    if int(raw["first_trace"]) + int(raw["n_traces"]) >= 1 << 64:
        refuse(kind, "first_trace + n_traces does not fit 64 bits")
    if raw["max_tries"] < 1:
        refuse(kind, "max_tries is 0")
    if bool(flags & RunFlag.RECORD_REJECTED) != bool(raw["max_rejected"]):
        refuse(kind, f"max_rejected {raw['max_rejected']}, must be above 0 with RECORD_REJECTED, and only then")
    for field in ("trace_timeout", "try_timeout"):
        if not math.isfinite(raw[field]) or raw[field] < 0:
            refuse(kind, f"{field} {raw[field]}, must be finite and not negative")
    if header.count and not flags & RunFlag.POSTERIOR:
        refuse(kind, "observed data in a run without the POSTERIOR flag")
    observed = _decode_observed(memoryview(frame)[dtype.itemsize :], header.count)
    config = RunConfig(
        seed=int(raw["seed"]),
        n_traces=int(raw["n_traces"]),
        flags=RunFlag(flags),
        first_trace=int(raw["first_trace"]),
        tries_q=int(raw["wanted"]["tries_q"]),
        runs_p=int(raw["wanted"]["runs_p"]),
        max_workers=int(raw["max_workers"]),
        max_tries=int(raw["max_tries"]),
        trace_timeout=float(raw["trace_timeout"]),
        try_timeout=float(raw["try_timeout"]),
        observed=observed,
        max_rejected=int(raw["max_rejected"]),
    )
    return header.run, config


def _decode_observed(body: memoryview, count: int) -> dict[str, npt.NDArray[np.float64]]:
    dtype = DTYPES["observed"]
    if count * dtype.itemsize > len(body):
        refuse(Message.RUN, f"count {count}, but the frame ends before that many observed names")
    entries = np.frombuffer(body, dtype=dtype, count=count)
    names: list[str] = []
    at = count * dtype.itemsize
    for size in entries["name_size"].tolist():
        name, at = read_name(Message.RUN, body, at, size)
        names.append(name)
    if len(set(names)) != count:
        refuse(Message.RUN, "an observed name comes twice")
    sizes = entries["n_values"].astype(np.int64)
    if at + 8 * int(sizes.sum()) != len(body):
        refuse(Message.RUN, "n_values do not add up to the frame's size")
    values = np.frombuffer(body, dtype="<f8", offset=at) if at < len(body) else np.zeros(0)
    if not np.isfinite(values).all():
        refuse(Message.RUN, "an observed value is not finite")
    return dict(zip(names, np.split(values.copy(), np.cumsum(sizes)[:-1]), strict=True)) if count else {}


# ---- DONE ------------------------------------------------------------------------------------------------------------


class Done(NamedTuple):
    """The counters of a finished run."""

    traces: int
    workers_started: int
    cancelled: bool
    replays: int  # traces begun again because a process of theirs had died
    forks_refused: int
    fewest_workers: int  # that the run went on with, after refused forks


def decode_done(frame: Bytes) -> Done:
    _, raw = fixed(frame, Message.DONE, "done")
    if raw["cancelled"] > 1:
        refuse(Message.DONE, f"cancelled is {int(raw['cancelled'])}, must be 0 or 1")
    counters = {field: int(raw[field]) for field in Done._fields if field != "cancelled"}
    return Done(**counters, cancelled=bool(raw["cancelled"]))

"""The messages that frame a run: HELLO to ERROR, and DONE."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ars import _native as native
from ars._native import DTYPES, Message
from ars.wire.frames import (
    HEADER,
    Bytes,
    Header,
    bare,
    decode_header,
    expect,
    fixed,
    header_bytes,
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
        refuse(Message.WELCOME, f"version {version}, this package supports {native.VERSION_MIN} to {native.VERSION}")
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

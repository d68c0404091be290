"""What every message shares: the header, and how a decoder refuses."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, Message
from ars.errors import ProtocolError

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = bytes | memoryview

HEADER = DTYPES["header"]


def packed_struct(name: str) -> struct.Struct:
    """The layout of a flat wire struct for `struct`: far faster than NumPy where items are read one by one."""
    dtype = DTYPES[name]
    assert dtype.fields is not None
    codes = {("u", 2): "H", ("u", 4): "I", ("u", 8): "Q", ("i", 4): "i", ("f", 8): "d"}
    packed = struct.Struct("<" + "".join(codes[f[0].kind, f[0].itemsize] for f in dtype.fields.values()))
    assert packed.size == dtype.itemsize
    return packed


_unpack_header = packed_struct("header").unpack_from


def refuse(message: Message | str, what: str) -> NoReturn:
    name = message.name if isinstance(message, Message) else message
    raise ProtocolError(f"{name}: {what}")


def pad(size: int) -> int:
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


def header_bytes(kind: Message, size: int, count: int = 0, run: int = 0) -> Array:
    if size > native.MAX_MESSAGE:
        raise ValueError(f"{kind.name}: {size} bytes, a message has at most {native.MAX_MESSAGE}")
    header = np.zeros(1, dtype=HEADER)
    header[0] = (native.MAGIC, native.VERSION, kind, size, count, run)
    return header


def bare(kind: Message, run: int = 0) -> bytes:
    return header_bytes(kind, HEADER.itemsize, run=run).tobytes()


def decode_header(frame: Bytes) -> Header:
    """The header of a message's first frame: magic, version, type and size are checked."""
    if len(frame) < HEADER.itemsize:
        refuse("message", f"{len(frame)} bytes, a header has {HEADER.itemsize}")
    magic, version, code, size, count, run = _unpack_header(frame)
    if magic != native.MAGIC:
        refuse("message", f"magic 0x{magic:08x}, must be 0x{native.MAGIC:08x}: this is not an ars peer")
    try:
        kind = Message(code)
    except ValueError:
        refuse("message", f"type {code} is unknown")
    across = (Message.HELLO, Message.WELCOME, Message.ERROR)  # readable across versions
    if kind not in across and not native.VERSION_MIN <= version <= native.VERSION:
        refuse(kind, f"protocol version {version}, this package supports {native.VERSION_MIN} to {native.VERSION}")
    if size != len(frame):
        refuse(kind, f"size {size}, but the frame has {len(frame)} bytes")
    if size > native.MAX_MESSAGE:
        refuse(kind, f"size {size} is over the limit of {native.MAX_MESSAGE}")
    return Header(kind, size, count, run, version)


def expect(frame: Bytes, kind: Message) -> Header:
    header = decode_header(frame)
    if header.type is not kind:
        refuse(kind, f"expected, but this is {header.type.name}")
    return header


def fixed(frame: Bytes, kind: Message, name: str) -> tuple[Header, Any]:
    """The header and the struct of a message that is one struct."""
    header = expect(frame, kind)
    dtype = DTYPES[name]
    if header.size != dtype.itemsize:
        refuse(kind, f"{header.size} bytes, must be {dtype.itemsize}")
    if header.count != 0:
        refuse(kind, f"count {header.count}, must be 0")
    return header, np.frombuffer(frame, dtype=dtype, count=1)[0]


def read_name(kind: Message, body: memoryview, at: int, size: int) -> tuple[str, int]:
    """The padded name at `at`, and where the next thing begins."""
    if not 1 <= size <= native.MAX_NAME:
        refuse(kind, f"name_size {size}, must be 1 to {native.MAX_NAME}")
    end = at + pad(size)
    if end > len(body):
        refuse(kind, "the frame ends inside a name")
    raw = bytes(body[at : at + size])
    if b"\0" in raw or any(body[at + size : end]):
        refuse(kind, "a name contains a zero byte, or its padding is not zero")
    try:
        return raw.decode("utf-8"), end
    except UnicodeDecodeError:
        refuse(kind, f"a name is not UTF-8: {raw!r}")

"""Messages for the tests of the wire: headers, and fields that are wrong."""

from __future__ import annotations

import numpy as np

import ars
from ars import wire
from ars._native import DTYPES, MAGIC, VERSION, DistKind, SiteKind
from ars.columns import Site

TABLE = wire.SiteTable(
    [
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.SAMPLE, DistKind.UNIFORM, "loop/u"),
        Site(2, SiteKind.OBSERVE, DistKind.NORMAL, "y"),
        Site(3, SiteKind.RESULT, None, "mu"),
        Site(4, SiteKind.LOOP, None, "loop"),
    ]
)
NORMAL = ars.Normal(0.0, 1.0).encode(1)[0]
UNIFORM = ars.Uniform(0.0, 1.0).encode(1)[0]


def framed(kind: int, body: bytes = b"", count: int = 0, run: int = 1, **wrong: int) -> bytes:
    """A message with a good header, but for the fields given as wrong."""
    header = np.array([(MAGIC, VERSION, kind, 24 + len(body), count, run)], dtype=DTYPES["header"])
    for field, value in wrong.items():
        header[field] = value
    return header.tobytes() + body


def edited(frame: bytes, dtype: str, field: str, value: object, at: int = 0) -> bytes:
    """The frame with one field of the struct at this offset changed."""
    raw = bytearray(frame)
    np.frombuffer(raw, DTYPES[dtype], 1, at)[field] = value
    return bytes(raw)


HELLO = wire.Hello(VERSION, VERSION, 16, 123, 124, "0123456789abcdef" * 2)


def listed(known: dict[int, list[int]]) -> wire.Listed:
    """These traces, with the tries of their loop entries."""
    tries = [known[trace] for trace in sorted(known)]
    return wire.Listed(
        np.array(sorted(known), dtype=np.uint64),
        np.array([len(each) for each in tries], dtype=np.uint32),
        np.array([x for each in tries for x in each], dtype=np.uint32),
    )


def site_item(number: int, kind: int, dist: int, name: bytes, size: int | None = None) -> bytes:
    head = np.array([(number, kind, dist, len(name) if size is None else size, 0)], dtype=DTYPES["site"])
    return head.tobytes() + name.ljust(-(-len(name) // 8) * 8, b"\0")

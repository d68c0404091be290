"""Densities and samplers of vectors, and streams that give what a simulator will draw: C code for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ars._bridge import ffi, lib
from ars._native import DistKind, doubles

Array = npt.NDArray[np.float64]


def _call(function: Any, kind: DistKind, first: Array, second: Array | None, *arguments: Any) -> None:
    text = ffi.new("char[]", 512)
    factor = ffi.NULL if second is None else doubles(second)
    if function(int(kind), doubles(first), factor, len(first), *arguments, text, len(text)):
        raise ValueError(ffi.string(text).decode("utf-8", "replace"))


def check(kind: DistKind, first: Array, second: Array | None) -> None:
    """Raises ValueError, with what is wrong, unless these are parameters of a vector of this kind."""
    _call(lib.ars__vectors_check, kind, first, second)


def log_density(kind: DistKind, first: Array, second: Array | None, x: Array) -> Array:
    """The joint log density of each row of x [n, dimension]."""
    rows = np.ascontiguousarray(x)
    out = np.empty(len(rows))
    _call(
        lib.ars__vectors_log_density,
        kind,
        first,
        second,
        doubles(rows.reshape(-1)),
        len(rows),
        doubles(out, writable=True),
    )
    return out


def sample(kind: DistKind, first: Array, second: Array | None, n: int, seed: int) -> Array:
    """n draws [n, dimension]; the same for the same seed."""
    out = np.empty((n, len(first)))
    _call(lib.ars__vectors_sample, kind, first, second, seed, n, doubles(out.reshape(-1), writable=True))
    return out


class Streams:
    """The random streams of requests for several draws: they give the values that libars will draw."""

    def __init__(self, places: Sequence[bytes]) -> None:
        self._streams = np.zeros(len(places) * lib.ars__stream_size() // 8, np.uint64)
        lib.ars__streams_begin(len(places), b"".join(places), ffi.from_buffer(self._streams, require_writable=True))

    def draw(self, rows: Sequence[int], proposals: Sequence[bytes], priors: Sequence[bytes]) -> Array:
        """The next value of each of these streams. NaN: the simulator will not draw from this proposal."""
        values = np.empty(len(rows))
        q, p = (np.frombuffer(b"".join(parts), np.uint64) for parts in (proposals, priors))
        index = np.array(rows, dtype=np.int64)
        lib.ars__streams_draw(
            len(rows),
            ffi.from_buffer(self._streams, require_writable=True),
            ffi.from_buffer("int64_t[]", index),
            ffi.from_buffer(q),
            ffi.from_buffer(p),
            doubles(values, writable=True),
        )
        return values

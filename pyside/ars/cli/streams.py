"""stdout and stderr that a reader may close early, as in ``ars infer ... | head``.

A command goes on without them: its files matter more than what it prints, and a long run must not be lost to a pager.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

__all__ = ["BROKEN_PIPE", "tolerant_streams"]

BROKEN_PIPE = 141  # what a shell shows for a program that SIGPIPE ended: 128 + 13


class _Tolerant(io.FileIO):
    """A descriptor that takes everything once it cannot be written any more; ``lost`` is the reason."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def _wrapped(stream: TextIO | None) -> tuple[TextIO, _Tolerant] | None:
    """The same stream on a tolerant descriptor; None if it has none, as where a test has replaced it."""
    if stream is None:
        return None
    try:
        stream.flush()
        raw = _Tolerant(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return None
    at_once = raw.isatty() or stream is sys.stderr or getattr(stream, "write_through", False)
    text = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=at_once
    )
    return text, raw


@contextlib.contextmanager
def tolerant_streams() -> Iterator[Callable[[], bool]]:
    """Replace sys.stdout and sys.stderr for a while.

    Yields
    ------
    callable
        Flushes stdout and says whether its reader is gone. Raises OSError if stdout could not be written for another
        reason, such as a full disk.
    """
    before = sys.stdout, sys.stderr
    out, err = _wrapped(sys.stdout), _wrapped(sys.stderr)
    if out is not None:
        sys.stdout = out[0]
    if err is not None:
        sys.stderr = err[0]

    def reader_is_gone() -> bool:
        if out is None:
            return False
        out[0].flush()
        if out[1].lost is not None and not isinstance(out[1].lost, BrokenPipeError):
            raise out[1].lost
        return out[1].lost is not None

    try:
        yield reader_is_gone
    finally:
        for wrapped in (out, err):
            if wrapped is not None:
                wrapped[0].flush()
        sys.stdout, sys.stderr = before

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
    """A descriptor that takes everything once its reader is gone."""

    broken = False

    def write(self, data: Any, /) -> int:
        if not self.broken:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.broken = True
        return memoryview(data).nbytes


def _wrapped(stream: TextIO | None) -> tuple[TextIO, _Tolerant] | None:
    """The same stream on a tolerant descriptor; None if it has none, as where a test has replaced it."""
    try:
        assert stream is not None
        stream.flush()
        raw = _Tolerant(stream.fileno(), "w", closefd=False)
    except (AssertionError, AttributeError, OSError, ValueError):
        return None
    at_once = raw.isatty() or stream is sys.stderr or getattr(stream, "write_through", False)
    text = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=at_once,
    )
    return text, raw


@contextlib.contextmanager
def tolerant_streams() -> Iterator[Callable[[], bool]]:
    """Replace sys.stdout and sys.stderr for a while. Yields a function that flushes them and says if stdout's reader
    is gone.

    Raises
    ------
    OSError
        From the function: stdout cannot be written for another reason, such as a full disk.
    """
    before = sys.stdout, sys.stderr
    out, err = _wrapped(sys.stdout), _wrapped(sys.stderr)
    if out is not None:
        sys.stdout = out[0]
    if err is not None:
        sys.stderr = err[0]

    def gone() -> bool:
        sys.stdout.flush()
        return out is not None and out[1].broken

    try:
        yield gone
    finally:
        for wrapped in (out, err):
            if wrapped is not None:
                with contextlib.suppress(OSError):
                    wrapped[0].flush()
                with contextlib.suppress(OSError, ValueError):
                    wrapped[0].detach()  # type: ignore[attr-defined]
        sys.stdout, sys.stderr = before

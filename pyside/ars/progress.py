"""Progress of a run: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

__all__ = ["NoProgress", "Progress", "StreamProgress", "make_progress"]

_BAR = 28


class Progress(Protocol):
    """Told how many traces are complete, as often as there is news, and then that the run is over."""

    def update(self, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class NoProgress:
    """Says nothing."""

    def update(self, done: int, total: int) -> None:
        del done, total

    def close(self) -> None:
        pass


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


class StreamProgress:
    """Writes to a stream: redraws one line if it is a terminal, else a new line every few seconds."""

    def __init__(
        self,
        stream: TextIO,
        *,
        label: str = "traces",
        clock: Callable[[], float] = time.monotonic,
        every: float = 5.0,
        begun: int = 0,
    ) -> None:
        """``begun``: how many were done before, which do not count for the speed."""
        self._stream = stream
        self._begun = begun
        self._note = ""
        self._label = label
        self._clock = clock
        self._terminal = stream.isatty()
        self._every = 0.1 if self._terminal else every
        self._started = clock()
        self._shown = self._started - (self._every if self._terminal else 0.0)
        self._latest: tuple[int, int] | None = None
        self._stale = False
        self._width = 0

    def update(self, done: int, total: int) -> None:
        self._latest = (done, total)
        self._stale = True
        if self._clock() - self._shown >= self._every:
            self._show()

    def note(self, text: str) -> None:
        """Something to show with the numbers from now on."""
        self._note = f", {text}" if text else ""

    def line(self, text: str) -> None:
        """Something that stays: a line of its own, above the bar."""
        if self._terminal and self._width:
            self._write(f"\r{' ' * self._width}\r")
            self._width = 0
        self._write(f"ars: {text}\n")

    def close(self) -> None:
        """Shows the last state, if it was not shown, and ends the line."""
        if self._stale:
            self._show()
        if self._terminal and self._latest is not None:
            self._write("\n")
        self._latest = None

    def _show(self) -> None:
        if self._latest is None:
            return
        done, total = self._latest
        now = self._clock()
        elapsed = max(now - self._started, 1e-9)
        rate = (done - self._begun) / elapsed
        left = _span((total - done) / rate) if rate > 0 else "?"
        text = f"{done:,}/{total:,} {self._label}, {rate:,.0f}/s, {_span(elapsed)} gone, {left} left{self._note}"
        if self._terminal:
            full = _BAR * done // max(total, 1)
            text = f"[{'#' * full}{' ' * (_BAR - full)}] {text}"
            padding = " " * max(self._width - len(text), 0)
            self._width = len(text)
            self._write(f"\r{text}{padding}")
        else:
            self._write(f"ars: {text}\n")
        self._shown = now
        self._stale = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a closed stream is no reason to lose a run
            self._latest = None


def make_progress(progress: bool | Progress | None) -> Progress:
    """True: on stderr. None or False: none. Anything with ``update`` and ``close`` is used as it is."""
    if progress is None or progress is False:
        return NoProgress()
    if progress is True:
        return StreamProgress(sys.stderr)
    if callable(getattr(progress, "update", None)) and callable(getattr(progress, "close", None)):
        return progress
    raise TypeError(f"progress must be True, False, None or an object with update() and close(), not {progress!r}")

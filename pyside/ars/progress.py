"""Progress of a run: bars on a terminal or in a notebook, and a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TextIO

from ars.display.notebook import in_notebook

__all__ = ["Bar", "NoProgress", "Progress", "StreamProgress", "make_progress", "part_of"]


class Progress(Protocol):
    """Receives the number of finished traces whenever it changes, and the end of the run."""

    def update(self, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class NoProgress:
    """Shows nothing."""

    def update(self, done: int, total: int) -> None:
        del done, total

    def close(self) -> None:
        pass


@dataclass
class Bar:
    """The state of one bar.

    ``begun`` items were finished before it started, and do not count towards the rate.
    """

    label: str
    started: float
    begun: int = 0
    done: int = 0
    total: int = 0
    note: str = ""

    def elapsed(self, now: float) -> float:
        """Seconds since the start."""
        return max(now - self.started, 1e-9)

    def rate(self, now: float) -> float:
        """Items per second."""
        return (self.done - self.begun) / self.elapsed(now)

    def left(self, now: float) -> float | None:
        """Seconds until the end at this rate; None if nothing has finished yet."""
        rate = self.rate(now)
        return (self.total - self.done) / rate if rate > 0 else None


class Display(Protocol):
    """Draws bars at most once every ``every`` seconds. The first bar is the run's, the others are parts of it."""

    every: float
    eager: bool  # whether the first state is worth showing

    def draw(self, bars: list[Bar], now: float) -> None: ...

    def line(self, text: str) -> None: ...

    def end(self, bars: list[Bar], now: float) -> None: ...


class StreamProgress:
    """Shows bars if the stream is a terminal or a notebook, and otherwise writes a line every few seconds.

    Parameters
    ----------
    stream : text file
        Usually ``sys.stderr``.
    label : str
        What is counted (default: "traces").
    clock : callable
        Gives the time in seconds (default: ``time.monotonic``).
    every : float
        Seconds between two plain lines (default: 5 s).
    begun : int
        Items that had finished before, which do not count towards the rate (default: 0).
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        label: str = "traces",
        clock: Callable[[], float] = time.monotonic,
        every: float = 5.0,
        begun: int = 0,
    ) -> None:
        self._clock = clock
        self._display: Display | None = _display(stream, every)
        self._bars = [Bar(label, clock(), begun)]
        self._shown = clock() - (self._display.every if self._display.eager else 0.0)
        self._stale = self._any = False

    def update(self, done: int, total: int) -> None:
        """So many of so many are done."""
        self._changed(self._bars[0], done, total)

    def label(self, text: str) -> None:
        """Name what is counted."""
        self._bars[0].label = text

    def note(self, text: str) -> None:
        """Show this text with the numbers from now on."""
        self._bars[0].note = text

    def line(self, text: str) -> None:
        """Write a line that stays, above the bars."""
        if self._display is not None:
            self._guarded(lambda display: display.line(text))

    def part(self, label: str) -> Progress:
        """A second bar below the first, for something that runs at the same time; plain lines leave it out.

        Parameters
        ----------
        label : str
            What it counts.

        Returns
        -------
        Progress
            Closing it removes the bar.
        """
        return _Part(self, Bar(label, self._clock()))

    def close(self) -> None:
        """Show the last state if it was not shown, and end."""
        if self._display is not None and self._any:
            if self._stale:
                self._draw()
            now = self._clock()
            self._guarded(lambda display: display.end(self._bars[:1], now))
        self._any = False

    def _changed(self, bar: Bar, done: int, total: int) -> None:
        bar.done, bar.total = done, total
        self._stale = self._any = True
        if self._display is not None and self._clock() - self._shown >= self._display.every:
            self._draw()

    def _draw(self) -> None:
        now = self._clock()
        self._guarded(lambda display: display.draw(self._bars, now))
        self._shown, self._stale = now, False

    def _guarded(self, act: Callable[[Display], None]) -> None:
        try:
            if self._display is not None:
                act(self._display)
        except (OSError, ValueError):  # a closed stream is no reason to lose a run
            self._display = None


class _Part:
    """One bar among several."""

    def __init__(self, whole: StreamProgress, bar: Bar) -> None:
        self._whole, self._bar = whole, bar

    def update(self, done: int, total: int) -> None:
        if self._bar not in self._whole._bars:
            self._whole._bars.append(self._bar)
        self._whole._changed(self._bar, done, total)

    def close(self) -> None:
        if self._bar in self._whole._bars:
            self._whole._bars.remove(self._bar)


def part_of(progress: Progress, label: str) -> Progress:
    """A bar below this one, if it can have several; one that shows nothing otherwise."""
    return progress.part(label) if isinstance(progress, StreamProgress) else NoProgress()


def _display(stream: TextIO, every: float) -> Display:
    if stream is sys.stderr and in_notebook():
        from ars.display.notebook import Notebook

        return Notebook()
    from ars.display import lines, terminal

    return terminal.Terminal(stream) if terminal.can_redraw(stream) else lines.Lines(stream, every)


def make_progress(progress: bool | Progress | None) -> Progress:
    """True: on stderr. None or False: none. Anything with ``update`` and ``close`` is used as it is."""
    if progress is None or progress is False:
        return NoProgress()
    if progress is True:
        return StreamProgress(sys.stderr)
    if callable(getattr(progress, "update", None)) and callable(getattr(progress, "close", None)):
        return progress
    raise TypeError(f"progress must be True, False, None or an object with update() and close(), not {progress!r}")

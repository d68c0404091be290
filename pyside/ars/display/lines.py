"""Progress for a pipe, a log file or a terminal that cannot redraw: a plain line every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ars.progress import Bar

__all__ = ["Lines", "span", "speed"]


def span(seconds: float) -> str:
    """A time in minutes and seconds, with hours if there are any."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def speed(rate: float) -> str:
    """Items per second, or per minute if they are rare."""
    return f"{rate:,.0f}/s" if rate >= 2 or rate == 0 else f"{60 * rate:,.1f}/min"


class Lines:
    """Writes the state of the first bar; the others would make a log too long."""

    eager = False

    def __init__(self, stream: TextIO, every: float) -> None:
        self._stream = stream
        self.every = every

    def draw(self, bars: list[Bar], now: float) -> None:
        bar = bars[0]
        left = bar.left(now)
        note = f", {bar.note}" if bar.note else ""
        self.line(
            f"{bar.done:,}/{bar.total:,} {bar.label}, {speed(bar.rate(now))}, {span(bar.elapsed(now))} elapsed, "
            f"{'?' if left is None else span(left)} left{note}"
        )

    def line(self, text: str) -> None:
        self._stream.write(f"ars: {text}\n")
        self._stream.flush()

    def end(self, bars: list[Bar], now: float) -> None:
        """Every state that is worth a line has one already."""

"""Bars on a terminal, drawn by rich: they fit its width, and colours follow NO_COLOR."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TextIO

from ars.display.lines import span, speed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from ars.progress import Bar

__all__ = ["Terminal", "can_redraw", "console_on"]

_NARROW: Final = 72  # columns below which a bar shows the share and the time alone
_LONGEST_LABEL: Final = 24


def can_redraw(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown", "")


def console_on(stream: TextIO, **options: Any) -> Console:
    """A console of rich's for this stream. FORCE_COLOR does not make a terminal of a pipe: a pipe gets plain text."""
    from rich.console import Console

    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, emoji=False, markup=False, **options)


class Terminal:
    """Redraws all bars in place.

    Nothing is drawn by a thread of its own: the processes of a simulator are started from this one, and threads and
    forks do not go together.
    """

    eager = True
    every = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._console = console_on(stream)
        self._live: Live | None = None

    def draw(self, bars: list[Bar], now: float) -> None:
        from rich.live import Live

        drawn = self._drawn(bars, now, over=False)
        if self._live is None:
            self._live = Live(
                drawn, console=self._console, auto_refresh=False, redirect_stdout=False, vertical_overflow="crop"
            )
            self._live.start()
        self._live.update(drawn, refresh=True)

    def line(self, text: str) -> None:
        self._console.print(f"ars: {text}", soft_wrap=self._live is None)

    def end(self, bars: list[Bar], now: float) -> None:
        if self._live is not None:
            self._live.update(self._drawn(bars, now, over=True), refresh=True)
            self._live.stop()
            self._live = None

    def _drawn(self, bars: list[Bar], now: float, *, over: bool) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        width = self._console.width
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=min(_LONGEST_LABEL, width // 3))
        grid.add_column(ratio=1, min_width=4)
        grid.add_column(no_wrap=True, justify="right")
        for bar in bars:
            figures = _figures(bar, now, over=over, narrow=width < _NARROW)
            drawn = ProgressBar(
                total=max(bar.total, 1), completed=bar.done, complete_style="cyan", finished_style="green"
            )
            grid.add_row(Text(bar.label), drawn, Text(figures))
        notes = [Text(f"  {bar.note}", "dim", no_wrap=True, overflow="ellipsis") for bar in bars if bar.note]
        return Group(grid, *notes)


def _figures(bar: Bar, now: float, *, over: bool, narrow: bool) -> str:
    left = bar.left(now)
    time = span(bar.elapsed(now)) if over else f"{'?' if left is None else span(left)} left"
    if narrow:
        return f"{100 * bar.done // max(bar.total, 1)} %  {time}"
    return f"{bar.done:,}/{bar.total:,}  {speed(bar.rate(now))}  {time}"

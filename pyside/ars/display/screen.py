"""Results on a terminal: text wrapped between words, and tables that fit. A pipe gets plain text of any width.

Tables on a terminal leave out columns that do not fit, in a given order, and say so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ars.display.terminal import console_on

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["on_screen", "print_table", "print_text"]

_GAP: Final = 2  # columns between two columns of a table
_LEAST_NAME: Final = 12  # columns that the first column keeps, however narrow the terminal is
_STYLES: Final = {"!": "yellow", "NOT TRUSTED": "bold red", "NOT CALIBRATED": "bold red"}
_GOOD: Final = {"TRUSTED": "bold green", "CALIBRATED": "bold green", "CONSISTENT": "bold green"}


def on_screen() -> bool:
    """Whether stdout is a terminal. A process may have no stdout at all."""
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _console() -> Console:
    return console_on(sys.stdout)


def print_text(text: str, style: str = "") -> None:
    """Print lines: as they are to a pipe, wrapped between words on a terminal.

    Parameters
    ----------
    text : str
        Lines. One that begins with "!" is a warning and yellow; verdicts are green or red.
    style : str
        Style of rich's for all lines (default: none).
    """
    if not on_screen():
        print(text)
        return
    from rich.padding import Padding
    from rich.text import Text

    console = _console()
    for line in text.split("\n"):
        words = line.lstrip(" ")
        # lines after the first are indented by two more, which shows that they belong to it
        indent = min(len(line) - len(words), console.width // 3)
        wrapped: list[Text] = list(
            Text(words, style or _style(words)).wrap(console, max(console.width - indent - 2, 20))
        )
        console.print(Padding(wrapped[0], (0, 0, 0, indent)) if wrapped else "")
        for more in wrapped[1:]:
            console.print(Padding(more, (0, 0, 0, indent + 2)))


def _style(words: str) -> str:
    for begin, style in (_STYLES | _GOOD).items():
        if words.startswith(begin):
            return style
    return ""


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    drop: Sequence[str | tuple[str, ...]] = (),
    left: Sequence[str] = (),
    title: str = "",
) -> None:
    """Print a table on a terminal, without the columns that do not fit.

    Parameters
    ----------
    heads : sequence of str
        Titles. The first column is text, the others are numbers.
    rows : sequence of sequences of str
        Cells.
    drop : sequence of str or tuple
        Titles of columns that may be left out, the first one first (default: none). Those of a tuple go together.
    left : sequence of str
        Titles of other columns that are text (default: none).
    title : str
        Line above the table (default: none).
    """
    from rich.table import Table
    from rich.text import Text

    console = _console()
    shown = _fitting(heads, rows, drop, console.width)
    made = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, title=title or None, title_justify="left")
    for i in shown:
        first = i == shown[0]
        made.add_column(
            Text(heads[i], "bold"),
            justify="left" if first or heads[i] in left else "right",
            no_wrap=not first and heads[i] not in left,
            overflow="fold",
            min_width=min(_LEAST_NAME, _width(heads, rows, i)) if first else None,
        )
    for row in rows:
        made.add_row(*(Text(row[i], _style(row[i])) for i in shown))
    console.print(made)
    missing = [heads[i] for i in _filled(heads, rows) if i not in shown]
    if missing:
        print_text(
            f"At {console.width} columns there is no room for {', '.join(missing)}: use a wider terminal or a pipe.",
            "dim",
        )


def _width(heads: Sequence[str], rows: Sequence[Sequence[str]], i: int) -> int:
    return max(len(heads[i]), *(len(row[i]) for row in rows)) if rows else len(heads[i])


def _fitting(
    heads: Sequence[str], rows: Sequence[Sequence[str]], drop: Sequence[str | tuple[str, ...]], width: int
) -> list[int]:
    """The columns that fit; the first may be folded."""
    shown = _filled(heads, rows)
    left = list(drop)

    def needed() -> int:
        name = min(_width(heads, rows, shown[0]), max(_LEAST_NAME, width // 4))
        return name + sum(_width(heads, rows, i) + _GAP for i in shown[1:])

    while needed() > width and left:
        together = (leave,) if isinstance(leave := left.pop(0), str) else leave
        shown = [i for i in shown if heads[i] not in together]
    return shown


def _filled(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns in which some row has something."""
    return [i for i in range(len(heads)) if i == 0 or any(row[i] for row in rows)]

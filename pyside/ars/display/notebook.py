"""Results and progress in a notebook: small HTML that is readable on a light and on a dark page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ars.display.lines import span, speed

if TYPE_CHECKING:
    from ars.progress import Bar

__all__ = ["Notebook", "card", "in_notebook", "table"]


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Notebook:
    """Bars as one piece of HTML under the cell, updated in place; it needs no widgets."""

    eager = True
    every = 0.2

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, bars: list[Bar], now: float) -> None:
        self._put("".join(_bar(bar, now, over=False) for bar in bars))

    def line(self, text: str) -> None:
        sys.stderr.write(f"ars: {text}\n")

    def end(self, bars: list[Bar], now: float) -> None:
        self._put("".join(_bar(bar, now, over=True) for bar in bars))
        self._handle = None

    def _put(self, html: str) -> None:
        import IPython.display as ipython

        shown = ipython.HTML(html)  # type: ignore[no-untyped-call, unused-ignore]
        if self._handle is None:
            self._handle = ipython.display(shown, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            self._handle.update(shown)


def _bar(bar: Bar, now: float, *, over: bool) -> str:
    left = bar.left(now)
    time = f"in {span(bar.elapsed(now))}" if over else f"{'?' if left is None else span(left)} left"
    note = f", {escape(bar.note)}" if bar.note else ""
    total = max(bar.total, 1)
    return (
        '<div style="display:flex;gap:.6em;align-items:center;flex-wrap:wrap">'
        f'<progress value="{bar.done}" max="{total}" style="width:16em"></progress>'
        f"<span>{bar.done:,}/{bar.total:,} {escape(bar.label)}, {speed(bar.rate(now))}, {time}{note}</span></div>"
    )


# ---- results ---------------------------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = 30) -> str:
    """A table of text, its first column on the left and the others on the right. Everything is escaped.

    Parameters
    ----------
    heads : sequence of str
        Titles of the columns.
    rows : sequence of sequences of str
        Cells.
    most : int
        Rows that are shown (default: 30); a line counts the others.
    """
    sides = ["left", *["right"] * (len(heads) - 1)]

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align:{side};padding:.15em .6em">{escape(text)}</{tag}>'
            for side, text in zip(sides, texts, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows[:most])
    more = f"<p>... and {len(rows) - most:,} more</p>" if len(rows) > most else ""
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f'<div style="overflow-x:auto"><table>{head}<tbody>{body}</tbody></table></div>{more}'


def card(title: str, lines: Sequence[str], *parts: str) -> str:
    """A titled box. Colours are those of the page, so that it fits a light and a dark one.

    Parameters
    ----------
    title : str
        Escaped, like ``lines``.
    lines : sequence of str
        Lines below the title.
    *parts : str
        HTML, as it is.
    """
    text = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return (
        '<div style="border:1px solid currentColor;border-radius:.4em;padding:.6em .9em;display:inline-block;'
        f'max-width:100%"><div style="font-weight:600">{escape(title)}</div>{text}{"".join(parts)}</div>'
    )

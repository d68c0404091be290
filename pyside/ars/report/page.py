"""The parts of a report, as plain data. Text may hold `code` between backticks; everything else is shown as it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

__all__ = [
    "Block",
    "Cell",
    "Chart",
    "Charts",
    "Code",
    "Column",
    "Fact",
    "Facts",
    "Items",
    "Level",
    "Note",
    "Page",
    "Section",
    "Step",
    "Table",
    "Tabs",
    "Text",
    "Verdict",
    "digits_for",
    "estimate_cell",
    "minus",
    "number_cell",
    "supported",
]

Level: TypeAlias = Literal["good", "caution", "bad", "plain"]


# ---- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    kind: ClassVar = "items"
    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """A command or a call, to be copied; or output of a program."""

    kind: ClassVar = "code"
    text: str
    title: str = ""


@dataclass(frozen=True)
class Note:
    """A sentence that must not be missed."""

    kind: ClassVar = "note"
    level: Level
    text: str


@dataclass(frozen=True)
class Fact:
    """One number that matters, with its name and what to make of it."""

    label: str
    value: str
    note: str = ""
    level: Level = "plain"


@dataclass(frozen=True)
class Facts:
    """A row of them."""

    kind: ClassVar = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Chart:
    """A picture, as SVG (``charts.chart`` makes it), or an image as a ``data:`` address.

    ``title`` stands above it, ``caption`` below. The SVG has its own text alternative; an image takes ``title``.
    """

    kind: ClassVar = "chart"
    title: str
    svg: str = ""
    caption: str = ""
    image: str = ""
    wide: bool = False  # takes the whole width


@dataclass(frozen=True)
class Charts:
    """Pictures side by side, as many as fit."""

    kind: ClassVar = "charts"
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Column:
    """A column of a table. Numbers are aligned to the right; ``help`` explains the title."""

    title: str
    numeric: bool = True
    help: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell: the text that is shown, and the number or text that rows are sorted by (default: the text)."""

    text: str
    sort: float | str | None = None
    level: Level = "plain"
    code: bool = False
    title: str = ""  # shown when the pointer rests on it

    @property
    def key(self) -> str:
        """For sorting: numbers with all their digits. Unknown numbers go last."""
        if self.sort is None:
            return self.text
        if isinstance(self.sort, str):
            return self.sort
        return "" if math.isnan(self.sort) else repr(float(self.sort))


@dataclass(frozen=True)
class Table:
    """A table. The first column names the row. Readers sort it by any column, and filter it if it is long."""

    kind: ClassVar = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    legend: str = ""

    @property
    def long(self) -> bool:
        """Whether it gets a field to filter its rows, and scrolls."""
        return len(self.rows) > 20

    @property
    def narrow(self) -> bool:
        """Whether it is only as wide as it must be."""
        return len(self.columns) < 3


@dataclass(frozen=True)
class Tabs:
    """Several views, one at a time; all of them, one below the other, on paper and without JavaScript."""

    kind: ClassVar = "tabs"
    label: str
    panels: Sequence[tuple[str, Sequence[Block]]]


Block: TypeAlias = Text | Items | Code | Note | Facts | Chart | Charts | Table | Tabs


# ---- pages -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Something to do next: why, and the call or command that does it."""

    title: str
    reason: str
    python: str = ""
    command_line: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the reader should make of the page, in one sentence, then in a few."""

    level: Level
    headline: str
    text: str = ""
    reasons: Sequence[str] = ()
    steps: Sequence[Step] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page with a title of its own, which the navigation lists."""

    title: str
    blocks: Sequence[Block]

    @property
    def id(self) -> str:
        """For links."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str = ""
    verdict: Verdict | None = None
    sections: Sequence[Section] = field(default_factory=tuple)

    @classmethod
    def of(cls, title: str, subtitle: str, verdict: Verdict | None, sections: Iterable[Section | None]) -> Page:
        """From sections, of which some may not apply."""
        return cls(title, subtitle, verdict, tuple(each for each in sections if each is not None and each.blocks))


def estimate_cell(value: float, error: float, level: Level = "plain") -> Cell:
    """A number with its standard error, to as many digits as the error supports."""
    if not error > 0.0 or not math.isfinite(value) or not math.isfinite(error):
        return number_cell(value, ".5g", level)
    decimals = _decimals(value, error)
    shown = f"{error:.2g}" if decimals is None else f"{error:.{decimals}f}"
    return Cell(f"{supported(value, error)} ± {minus(shown)}", value, level)


def supported(value: float, error: float) -> str:
    """A number to as many digits as its standard error supports."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    decimals = _decimals(value, error)
    if decimals is not None:
        return minus(f"{value:.{decimals}f}")
    digits = digits_for(value, 0.1 * error) if error > 0.0 and math.isfinite(error) else 5
    return minus(f"{value:.{digits}g}")


def _decimals(value: float, error: float) -> int | None:
    """Digits after the point, for two of the error; None if they are too many, or the error says nothing."""
    if not error > 0.0 or not math.isfinite(value) or not math.isfinite(error) or abs(value) >= 1e9:
        return None
    decimals = max(1 - math.floor(math.log10(error)), 0)
    return decimals if decimals <= 9 else None


def digits_for(largest: float, difference: float, least: int = 5) -> int:
    """Significant digits that show differences of this size between numbers of that size, as far as doubles do."""
    if not (math.isfinite(largest) and math.isfinite(difference)) or largest == 0.0 or not difference > 0.0:
        return least
    return min(max(math.ceil(math.log10(abs(largest) / difference)) + 1, least), 15)


def minus(number: str) -> str:
    """With a minus sign instead of a hyphen."""
    return number.replace("-", "−")


def number_cell(value: float, form: str = ".4g", level: Level = "plain") -> Cell:
    """A cell with a number; a dash where there is none."""
    if math.isnan(value):
        return Cell("–", math.nan, level)
    if math.isinf(value):
        return Cell("−∞" if value < 0 else "∞", value, level)
    return Cell(minus(format(value, form)), value, level)

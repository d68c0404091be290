"""Charts as SVG text. Colours are classes of the page's style sheet, so a chart follows the reader's theme.

A chart is a list of layers over common axes. Every series has a number, which fixes its colour and, for lines, its
dashes: 1 is the result, 2 what it is compared with, 3 and 4 others; 0 is a plain reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

__all__ = ["Band", "Bars", "Layer", "Line", "Points", "Rule", "chart", "ticks"]

_WIDTH: Final = 360.0
_WIDE: Final = 860.0
_RIGHT, _TOP, _BOTTOM = 14.0, 10.0, 40.0
_LEGEND: Final = 18.0  # height of one line of the legend
_LETTER: Final = 7.6  # width of a letter, about
_LONGEST: Final = 9  # letters that a number at an axis may have


@dataclass(frozen=True)
class Bars:
    """A histogram: heights between edges, from 0; filled, or its outline alone, to lie over another."""

    edges: npt.ArrayLike
    heights: npt.ArrayLike
    series: int = 1
    label: str = ""
    outline: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points; NaN interrupts it."""

    x: npt.ArrayLike
    y: npt.ArrayLike
    series: int = 1
    label: str = ""


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    x: npt.ArrayLike
    low: npt.ArrayLike
    high: npt.ArrayLike
    series: int = 1
    label: str = ""


@dataclass(frozen=True)
class Points:
    """Dots, each with a tooltip if ``titles`` has one."""

    x: npt.ArrayLike
    y: npt.ArrayLike
    series: int = 1
    label: str = ""
    titles: Sequence[str] = ()


@dataclass(frozen=True)
class Rule:
    """A straight line across the chart, at one x or one y."""

    x: float | None = None
    y: float | None = None
    series: int = 0
    label: str = ""


Layer: TypeAlias = Bars | Line | Band | Points | Rule


# ---- scales ----------------------------------------------------------------------------------------------------------


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high, about so many."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if power * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last, digits = math.floor(high / step + 1e-9), 12 - math.floor(math.log10(step))
    return [round(i * step, digits) for i in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, or also 2 and 5 times them where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    within = [10.0**p for p in powers if low * 0.999 <= 10.0**p <= high * 1.001]
    if len(within) >= 3:
        return within[:: math.ceil(len(within) / 6)]
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if low * 0.999 <= m * 10.0**p <= high * 1.001] or [low]


def _label(value: float, step: float) -> str:
    if value == 0.0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-4:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    decimals = max(0, min(8, math.ceil(-math.log10(step) - 1e-9) + (step * 10 ** math.ceil(-math.log10(step)) % 1 > 0)))
    return f"{value:,.{decimals}f}".replace("-", "−")


def _near(low: float, high: float) -> float:
    """A number with few digits between two others, or close to them."""
    power = math.ceil(math.log10(high - low))
    found = [round(0.5 * (low + high) / 10.0**p) * 10.0**p for p in (power, power - 1)]
    inside = [each for each in found if low - 1e-6 * (high - low) <= each <= high]
    return float(f"{(inside or found)[0]:.15g}")


def _whole_label(value: float) -> str:
    """All digits of a number, in the shorter of two forms."""
    mantissa, _, exponent = f"{value:.14e}".partition("e")
    short = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    plain = f"{value:,.15g}" if 1e-4 <= value < 1e15 else short
    return plain if len(plain) <= _LONGEST else min(plain, short, key=len)


class _Scale:
    """From data to positions. Its labels are numbers above ``offset``: 0, unless the axis is short and far away."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool, whole: bool = False) -> None:
        self.log = log
        self.offset = 0.0
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        self.start, self.end = start, end
        self._numbers = _log_ticks(low, high) if log else ticks(low, high)
        if whole:
            self._numbers = [number for number in self._numbers if number == round(number)] or self._numbers
        labels = self.labels()
        if not log and low < high and (len(set(labels)) < len(labels) or max(map(len, labels)) > _LONGEST):
            self.offset = _near(low, high)
            self._numbers = ticks(low - self.offset, high - self.offset)

    @property
    def marks(self) -> list[float]:
        """Positions of the labels, in data."""
        return [self.offset + number for number in self._numbers]

    def __call__(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        x = np.asarray(values, np.float64)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                x = np.log10(x)
        inside = np.clip(x, self.low, self.high)  # NaN stays NaN
        return np.asarray(self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start))

    def labels(self) -> list[str]:
        """Numbers above the offset."""
        numbers = self._numbers
        step = 1.0 if len(numbers) < 2 else float(f"{numbers[1] - numbers[0]:.9g}")  # 0.6 - 0.4 is not 0.2
        return [_label(number, number if self.log else step) for number in numbers]

    def name(self, name: str) -> str:
        """The name of the axis, which says what to add to its numbers."""
        if self.offset == 0.0:
            return name
        more, less = ("+", "−") if self.offset > 0.0 else ("−", "+")
        number = _whole_label(abs(self.offset))
        return f"{name} {less} {number}" if name else f"{more} {number}"


def _extent(values: Iterable[npt.ArrayLike], *, log: bool) -> tuple[float, float]:
    """The smallest and largest finite number; (0, 1) if there is none."""
    arrays = [np.atleast_1d(np.asarray(each, np.float64)).reshape(-1) for each in values]
    found = np.concatenate([np.empty(0), *arrays])
    found = found[np.isfinite(found) & ((found > 0.0) | (not log))]
    if not len(found):
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if low == high:
        return (low / 2, high * 2) if log else (low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2)
    return low, high


def _usable(limits: tuple[float, float] | None) -> tuple[float, float] | None:
    """Limits that an axis can have; None if they are not."""
    return limits if limits is not None and all(map(math.isfinite, limits)) and limits[0] < limits[1] else None


def _across(layer: Layer) -> list[npt.ArrayLike]:
    if isinstance(layer, Rule):
        return [] if layer.x is None else [layer.x]
    return [layer.edges] if isinstance(layer, Bars) else [layer.x]


def _upward(layer: Layer) -> list[npt.ArrayLike]:
    if isinstance(layer, Rule):
        return [] if layer.y is None else [layer.y]
    if isinstance(layer, Bars):
        return [layer.heights, 0.0]
    return [layer.low, layer.high] if isinstance(layer, Band) else [layer.y]


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _pairs(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _path(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> str:
    """Move and line commands; a new start after every gap."""
    there = np.isfinite(x) & np.isfinite(y)
    words, drawing = [], False
    for a, b, known in zip(x.tolist(), y.tolist(), there.tolist(), strict=True):
        if known:
            words.append(f"{'L' if drawing else 'M'}{a:.1f} {b:.1f}")
        drawing = known
    return "".join(words)


def _bars(layer: Bars, x: _Scale, y: _Scale) -> Iterator[str]:
    edges, base = x(layer.edges), float(y(0.0))
    if layer.outline:
        tops = np.repeat(y(layer.heights), 2)
        yield f'<path class="line s{layer.series}" d="{_path(np.repeat(edges, 2), np.r_[base, tops, base])}"/>'
        return
    for left, right, top in zip(edges[:-1].tolist(), edges[1:].tolist(), y(layer.heights).tolist(), strict=True):
        if base - top > 0.05:
            size = f'width="{max(right - left - 0.6, 0.4):.1f}" height="{base - top:.1f}"'
            yield f'<rect class="fill s{layer.series}" x="{left:.1f}" y="{top:.1f}" {size}/>'


def _points(layer: Points, x: _Scale, y: _Scale) -> Iterator[str]:
    across, upward = np.atleast_1d(x(layer.x)).tolist(), np.atleast_1d(y(layer.y)).tolist()
    named = [*layer.titles, *[""] * (len(across) - len(layer.titles))]
    for a, b, title in zip(across, upward, named, strict=True):
        inner = f"<title>{escape(title)}</title>" if title else ""
        if math.isfinite(a) and math.isfinite(b):
            yield f'<circle class="dot s{layer.series}" cx="{a:.1f}" cy="{b:.1f}" r="3">{inner}</circle>'


def _segment(kind: str, series: int | None, start: tuple[float, float], end: tuple[float, float]) -> str:
    name = kind if series is None else f"{kind} s{series}"
    return f'<line class="{name}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _draw(layer: Layer, x: _Scale, y: _Scale) -> Iterator[str]:
    if isinstance(layer, Bars):
        yield from _bars(layer, x, y)
    elif isinstance(layer, Band):
        low, high = y(layer.low), y(layer.high)
        at = x(layer.x)
        there = np.isfinite(low) & np.isfinite(high) & np.isfinite(at)
        around = _pairs(np.r_[at[there], at[there][::-1]], np.r_[low[there], high[there][::-1]])
        yield f'<polygon class="band s{layer.series}" points="{around}"/>'
    elif isinstance(layer, Line):
        yield f'<path class="line s{layer.series}" d="{_path(x(layer.x), y(layer.y))}"/>'
    elif isinstance(layer, Points):
        yield from _points(layer, x, y)
    elif layer.x is not None:
        yield _segment("rule", layer.series, (float(x(layer.x)), y.start), (float(x(layer.x)), y.end))
    elif layer.y is not None:
        yield _segment("rule", layer.series, (x.start, float(y(layer.y))), (x.end, float(y(layer.y))))


def _swatch(layer: Layer, x: float, y: float) -> str:
    if isinstance(layer, Band) or (isinstance(layer, Bars) and not layer.outline):
        kind = "fill" if isinstance(layer, Bars) else "band"
        return f'<rect class="{kind} s{layer.series}" x="{x:.1f}" y="{y - 9:.1f}" width="14" height="9"/>'
    if isinstance(layer, Points):
        return f'<circle class="dot s{layer.series}" cx="{x + 7:.1f}" cy="{y - 4:.1f}" r="3"/>'
    kind = "rule" if isinstance(layer, Rule) else "line"
    return _segment(kind, layer.series, (x, y - 4.0), (x + 14.0, y - 4.0))


def _legend(layers: Sequence[Layer], left: float, right: float, top: float) -> tuple[list[str], float]:
    """Its parts, and the height that they take."""
    parts: list[str] = []
    x, y = left, top + 10.0
    for layer in layers:
        if not layer.label:
            continue
        width = 20.0 + _LETTER * len(layer.label) + 12.0
        if x > left and x + width > right:
            x, y = left, y + _LEGEND
        parts += [_swatch(layer, x, y), _text("key", x + 19.0, y, layer.label)]
        x += width
    return parts, (y + 8.0 - top if parts else 0.0)


def _grid(x: _Scale, y: _Scale, *, hide_y: bool) -> Iterator[str]:
    for at, text in zip(x(x.marks).tolist(), x.labels(), strict=True):
        half = 0.5 * _LETTER * len(text)
        middle = min(max(at, half), x.end + _RIGHT - half)  # a label at either end stays inside the picture
        yield _segment("tick", None, (at, y.start), (at, y.start + 4.0))
        yield _text("mark", middle, y.start + 16.0, text, "middle")
    for at, text in zip(y(y.marks).tolist(), y.labels(), strict=True) if not hide_y else ():
        yield _segment("grid", None, (x.start, at), (x.end, at))
        yield _text("mark", x.start - 6.0, at + 4.0, text, "end")
    yield _segment("axis", None, (x.start, y.start), (x.end, y.start))


def chart(
    alt: str,
    layers: Sequence[Layer],
    *,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
    x_limits: tuple[float, float] | None = None,
    y_limits: tuple[float, float] | None = None,
    whole_x: bool = False,
    whole_y: bool = False,
    hide_y: bool = False,
    height: float = 220.0,
    wide: bool = False,
) -> str:
    """Draw layers over common axes.

    Parameters
    ----------
    alt : str
        The chart in words, for readers who do not see it.
    layers : sequence of Layer
        Drawn in this order. Those with a label are in the legend.
    x_label, y_label : str
        Titles of the axes (default: none).
    log_x, log_y : bool
        Logarithmic axes (default: False).
    x_limits, y_limits : tuple of float, optional
        Ends of the axes (default: those of the layers). Values beyond are drawn at the ends.
    whole_x, whole_y : bool
        Mark whole numbers alone (default: False).
    hide_y : bool
        Leave out the numbers of the y axis (default: False).
    height : float
        In units of which the chart is 360 wide, or 860 (default: 220).
    wide : bool
        Whether it is 860 wide (default: False).

    Returns
    -------
    str
        An ``svg`` element.
    """
    width = _WIDE if wide else _WIDTH
    y_limits, x_limits = _usable(y_limits), _usable(x_limits)
    low, high = y_limits or _extent((each for layer in layers for each in _upward(layer)), log=log_y)
    if y_limits is None and not log_y:
        low, high = low - (0.04 * (high - low) if low != 0.0 else 0.0), high + 0.04 * (high - low)
    rough = _Scale(low, high, 0.0, 1.0, log=log_y, whole=whole_y)
    widest = 0 if hide_y else max(map(len, rough.labels()), default=0)
    y_label = y_label if hide_y else rough.name(y_label)
    left = 16.0 + _LETTER * widest + (18.0 if y_label else 0.0)
    legend, taken = _legend(layers, left, width - _RIGHT, _TOP - 4.0)
    ends = x_limits or _extent((each for layer in layers for each in _across(layer)), log=log_x)
    x = _Scale(*ends, left, width - _RIGHT, log=log_x, whole=whole_x)
    x_label = x.name(x_label)
    bottom = height - (_BOTTOM if x_label else _BOTTOM - 16.0)
    y = _Scale(low, high, bottom, _TOP + taken, log=log_y, whole=whole_y)
    parts = [f'<svg class="chart" role="img" viewBox="0 0 {width:g} {height:g}"><title>{escape(alt)}</title>']
    parts += [*_grid(x, y, hide_y=hide_y)]
    for layer in layers:
        parts += _draw(layer, x, y)
    parts += legend
    if x_label:
        parts.append(_text("name", 0.5 * (left + width - _RIGHT), height - 6.0, x_label, "middle"))
    if y_label:
        at = 0.5 * (y.start + y.end)
        parts.append(_text("name", 12.0, at, y_label, "middle", f' transform="rotate(-90 12 {at:.1f})"'))
    return "".join([*parts, "</svg>"])

"""What benchmarks return: single measurements, the table of a suite, and the file that holds them."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from ars.errors import ArsError
from ars.store.files import write_whole

__all__ = ["BenchError", "Measurement", "Report", "load", "measurement", "table"]

FORMAT = "ars-bench"
VERSION = 1
Better = Literal["lower", "higher", "neither"]


class BenchError(ArsError):
    """A benchmark could not be run, or its file not be read."""


@dataclass(frozen=True)
class Measurement:
    """One figure of one case. ``spread`` is half the range of the repetitions over the value: how far to trust it."""

    suite: str
    case: Mapping[str, str | float]
    metric: str
    value: float
    unit: str = ""
    better: Better = "neither"
    spread: float = 0.0
    target: float | None = None  # what the project wants it to be

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str | float], ...], str]:
        return self.suite, tuple(sorted(self.case.items())), self.metric


def measurement(
    suite: str,
    case: Mapping[str, str | float],
    metric: str,
    values: float | Sequence[float],
    unit: str = "",
    better: Better = "neither",
    target: float | None = None,
) -> Measurement:
    """Of one value, or of repetitions, whose median counts."""
    all_values = [float(values)] if isinstance(values, (int, float)) else [float(v) for v in values]
    value = median(all_values)
    spread = (max(all_values) - min(all_values)) / 2 / abs(value) if value else 0.0
    return Measurement(suite, dict(case), metric, value, unit, better, spread, target)


@dataclass
class Report:
    """All that one call of ``ars bench`` measured, and where."""

    machine: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    made: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, for JSON."""
        made = self.made or dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return {
            "format": FORMAT,
            "version": VERSION,
            "made": made,
            "machine": self.machine,
            "options": self.options,
            "measurements": [asdict(m) for m in self.measurements],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        write_whole(path, [(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode()])


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "suite": str,
    "case": dict,
    "metric": str,
    "value": (int, float),
    "spread": (int, float),
}


def _measurement(path: Path, item: object) -> Measurement:
    try:
        assert isinstance(item, dict)
        found = Measurement(**item)
        assert all(isinstance(item.get(name), kind) for name, kind in _FIELDS.items())
        assert found.better in ("lower", "higher", "neither")
        assert math.isfinite(found.value) and math.isfinite(found.spread)
    except (AssertionError, TypeError) as error:
        raise BenchError(f"{path}: this is not a measurement: {item!r}") from error
    return found


def load(path: str | os.PathLike[str]) -> Report:
    """A file that ``Report.save`` wrote; BenchError if it is something else."""
    where = Path(path)
    try:
        content = json.loads(where.read_bytes())
    except FileNotFoundError:
        raise BenchError(f"{where}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise BenchError(f"{where} cannot be read: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BenchError(f"{where} was not written by ars bench --out")
    if content.get("version") != VERSION:
        raise BenchError(f"{where} has version {content.get('version')!r}; this is version {VERSION}: run it again")
    machine, options, items = (content.get(key) for key in ("machine", "options", "measurements"))
    if not isinstance(machine, dict) or not isinstance(options, dict) or not isinstance(items, list):
        raise BenchError(f"{where} is damaged: machine, options or measurements are missing")
    return Report(machine, options, [_measurement(where, item) for item in items], str(content.get("made", "")))


# ---- tables ----------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits, and thousands with a comma."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(digits, 0)}f}"


def table(measurements: Iterable[Measurement], *, markdown: bool = False) -> str:
    """One row per case, one column per metric. A figure's target is behind it, with an exclamation mark if missed."""
    rows: dict[tuple[tuple[str, str | float], ...], dict[str, str]] = {}
    cases: list[str] = []
    metrics: list[str] = []
    for m in measurements:
        head = f"{m.metric}, {m.unit}" if m.unit else m.metric
        rows.setdefault(tuple(m.case.items()), {})[head] = number(m.value) + _target(m)
        metrics += [head] if head not in metrics else []
        cases += [name for name in m.case if name not in cases]
    heads = [*cases, *metrics]
    lines = [[*(_cell(dict(case).get(name, "")) for name in cases), *(row.get(metric, "") for metric in metrics)]
             for case, row in rows.items()]  # fmt: skip
    if markdown:
        rule = ["---"] * len(cases) + ["---:"] * len(metrics)
        return "\n".join("| " + " | ".join(line) + " |" for line in [heads, rule, *lines])
    widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in [heads, *lines])  # fmt: skip


def _target(m: Measurement) -> str:
    if m.target is None:
        return ""
    missed = m.value > m.target if m.better == "lower" else m.value < m.target
    return f" ({'<=' if m.better == 'lower' else '>='} {m.target:,g}{'!' if missed else ''})"


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,g}"

"""What a calibration found: ranks, coverage and efficiency over all data sets, and a verdict."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ars.calibration.dataset import JOINT, Record
from ars.calibration.ranks import LEVELS, Uniformity, binomial_interval, uniformity
from ars.columns import Floats
from ars.errors import StorageError
from ars.plain import plain
from ars.store.files import parse_json, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Calibration", "Coverage", "Efficiency", "ValueCalibration"]

_LEVEL: Final = 0.01  # of all tests together
_FORMAT: Final = "ars calibration result, 1"
_LARGE_K: Final = 0.7
_FEW: Final = 100.0  # effective traces, below which intervals of single posteriors are rough
_MOST_ROWS: Final = 40


@dataclass(frozen=True)
class Coverage:
    """How often a credible interval holds the truth.

    Attributes
    ----------
    level : float
        Posterior probability of the central interval.
    share : float
        Share of the data sets whose interval holds the truth.
    low, high : float
        Where this share lies with probability 99% if the posteriors are right.
    """

    level: float
    share: float
    low: float
    high: float

    @property
    def right(self) -> bool:
        """Whether the share is in its band."""
        return self.low <= self.share <= self.high


@dataclass(frozen=True)
class ValueCalibration:
    """One value over all data sets.

    Attributes
    ----------
    name : str
    datasets : int
        Data sets whose truth and posterior have the value.
    p_value, mean_rank, rank_variance : float
        Of the ranks: the test of uniformity; 0.5 and 1/12 if they are uniform.
    shape : str
        How the posteriors are wrong, if they are: "too high", "too low", "too narrow" or "too wide".
    contraction : float
        Median share of the prior's variance that the data remove; 0 if they say nothing. NaN if unknown.
    coverage : tuple of Coverage
    """

    name: str
    datasets: int
    p_value: float
    mean_rank: float
    rank_variance: float
    shape: str
    contraction: float
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True)
class Efficiency:
    """Weights over all data sets.

    Attributes
    ----------
    median, low, high : float
        Sample efficiency, the effective share of the traces: its median over data sets, and its 5% and 95% quantiles.
    median_ess : float
        Median number of effective traces.
    median_k : float
        Median Pareto k of the weights; NaN if unknown.
    large_k : int
        Data sets with k of 0.7 or more, or unknown.
    without_weight : int
        Data sets in which no trace has weight: they have no posterior.
    failed : int
        Failed traces in all data sets.
    """

    median: float
    low: float
    high: float
    median_ess: float
    median_k: float
    large_k: int
    without_weight: int
    failed: int


class Calibration:
    """The result of ``ars.calibrate``.

    Parameters
    ----------
    about : mapping
        What was calibrated: ``simulator``, ``network``, ``seed``, ``datasets``, ``traces``, ``weighting``,
        ``options``, ``values``.
    records : sequence of Record
        One per data set.

    Examples
    --------
    >>> found = ars.calibrate(["./decay"], network="decay.safetensors", datasets=200, seed=1)  # doctest: +SKIP
    >>> print(found.summary())  # doctest: +SKIP
    """

    def __init__(self, about: Mapping[str, Any], records: Sequence[Record]) -> None:
        self.about = dict(about)
        self.records = tuple(records)

    def __len__(self) -> int:
        return len(self.records)

    # ---- what was found ----------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of the compared values: those of the simulator, then all together (TARP) and the likelihood."""
        return list(dict.fromkeys(name for record in self.records for name in record.values))

    def ranks(self, name: str) -> Floats:
        """The truth's rank among the weighted traces, per data set: uniform on (0, 1) if the posteriors are right.

        Parameters
        ----------
        name : str
            One of ``names``.

        Returns
        -------
        array
            One rank per data set that has the value.
        """
        return self._column(name, "rank")

    def _column(self, name: str, part: str) -> Floats:
        found = [getattr(record.values[name], part) for record in self.records if name in record.values]
        if not found:
            raise KeyError(f"{name!r} was not compared; these were: {', '.join(self.names)}")
        return np.array(found)

    @cached_property
    def values(self) -> tuple[ValueCalibration, ...]:
        """Every value: its test, its coverage, and what the data say about it."""
        return tuple(self._value(name) for name in self.names)

    def _value(self, name: str) -> ValueCalibration:
        test: Uniformity = uniformity(self.ranks(name))
        middle = np.abs(2.0 * self._column(name, "cdf") - 1.0)
        n = len(middle)
        covered = tuple(
            Coverage(level, float(np.mean(middle <= level)), *binomial_interval(n, level)) for level in LEVELS
        )
        prior = self.about.get("prior_std", {}).get(name, math.nan)
        left = float(np.median(self._column(name, "std") ** 2)) / prior**2 if prior else math.nan
        return ValueCalibration(name, n, *test, test.shape, 1.0 - left, covered)

    @cached_property
    def efficiency(self) -> Efficiency:
        """How good the proposals are."""
        shares = np.array([record.ess / max(record.traces, 1) for record in self.records])
        ks = np.array([record.pareto_k for record in self.records])
        known = ks[~np.isnan(ks)]
        low, median, high = np.quantile(shares, (0.05, 0.5, 0.95)).tolist()
        return Efficiency(
            median,
            low,
            high,
            float(np.median([record.ess for record in self.records])),
            float(np.median(known)) if len(known) else math.nan,
            int(np.count_nonzero(~(ks < _LARGE_K))),
            sum(record.ess == 0.0 for record in self.records),
            sum(record.failed for record in self.records),
        )

    @property
    def suspects(self) -> tuple[ValueCalibration, ...]:
        """Values whose ranks are not uniform, at 1% for all tests together."""
        return tuple(value for value in self.values if value.p_value * len(self.values) < _LEVEL)

    @property
    def ok(self) -> bool:
        """Whether all tests passed: ranks are uniform, and every data set has a posterior."""
        return not self.suspects and not self.efficiency.without_weight and len(self) > 0

    # ---- in words ----------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        if not self.ok:
            return f"NOT CALIBRATED: {'; '.join(self._problems())}"
        return (
            f"CALIBRATED: the truth's ranks are uniform for {len(self.values)} values over {len(self):,} data sets "
            "(1% level for all tests together)"
        )

    def _problems(self) -> list[str]:
        found = []
        for value in self.suspects:
            what = "is wrong for all values together" if value.name == JOINT else f"of {value.name} is {value.shape}"
            found.append(f"the posterior {what} (p = {value.p_value:.2g})")
        none = self.efficiency.without_weight
        if none:
            found.append(f"{none:,} of {len(self):,} data sets have no posterior, since no trace has weight")
        return found or ["there are no data sets"]

    def advice(self) -> list[str]:
        """Recommended steps, one sentence each; empty if there is nothing to do."""
        found, e = [], self.efficiency
        if self.suspects and self.about.get("weighting") in ("biased", "ic"):
            found.append(f'"{self.about["weighting"]}" weights omit the correction of loops: use "ars".')
        elif self.suspects and e.median_ess >= _FEW:
            found.append(
                "Effective traces are not the problem. Run ars check: does the simulator keep the promises that its "
                "weights depend on?"
            )
        if e.median_ess < _FEW or e.without_weight:
            found.append(
                f"The median data set has {e.median_ess:,.0f} effective traces: use more traces, train longer, or "
                "refine the network for each data set."
            )
        if e.large_k > 0.1 * len(self):
            found.append(
                f"Pareto k is {_LARGE_K} or more, or unknown, in {e.large_k:,} of {len(self):,} data sets: their "
                "standard errors cannot be trusted (docs/when-k-is-too-large.md)."
            )
        return found

    def headline(self) -> str:
        """The efficiency in one sentence."""
        e = self.efficiency
        k = "unknown" if math.isnan(e.median_k) else f"{e.median_k:.2f}"
        return (
            f"Median sample efficiency {e.median:.1%} (5% to 95% of data sets: {e.low:.1%} to {e.high:.1%}), "
            f"median ESS {e.median_ess:,.0f} of {self.about.get('traces', 0):,} traces, median Pareto k {k}"
        )

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Titles and rows of the table of ``summary``."""
        heads = ("", "data sets", "p", "mean rank", *(f"{100 * level:g}%" for level in LEVELS), "contraction", "ranks")
        rows = []
        for value in self.values:
            shares = (f"{100 * each.share:.1f}%{'' if each.right else ' !'}" for each in value.coverage)
            contraction = "" if math.isnan(value.contraction) else f"{value.contraction:.2f}"
            verdict = f"! {value.shape}" if value in self.suspects else "uniform"
            numbers = (f"{value.datasets:,}", f"{value.p_value:.2g}", f"{value.mean_rank:.3f}")
            rows.append((value.name, *numbers, *shares, contraction, verdict))
        return heads, rows

    def summary(self) -> str:
        """The verdict, the efficiency, and a table of values, as text.

        Returns
        -------
        str
        """
        heads, rows = self.cells()
        shown = rows[:_MOST_ROWS]
        widths = [max(len(row[i]) for row in [heads, *shown]) for i in range(len(heads))]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:-1], strict=True)), row[-1]]
            )
            for row in [heads, *shown]
        ]
        more = [f"... and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
        return "\n".join([self.verdict, self.headline(), "", *lines, *more, LEGEND, *self.advice()])

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from ars.display.notebook import card, table

        return card(self.verdict, [self.headline(), *self.advice()], table(*self.cells()))

    # ---- files and pictures ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Convert everything to plain values for ``json.dumps``; NaN and infinity become None.

        Returns
        -------
        dict
            ``about``, ``ok``, ``verdict``, ``advice``, ``efficiency``, ``values`` and ``records``.
        """
        content: dict[str, Any] = plain(
            {
                "format": _FORMAT,
                "about": self.about,
                "ok": self.ok,
                "verdict": self.verdict,
                "advice": self.advice(),
                "efficiency": self.efficiency,
                "values": self.values,
                "records": [record.to_dict() for record in self.records],
            }
        )
        return content

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all.

        Parameters
        ----------
        path
            File, such as ``calibration.json``.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        write_whole(path, [(self.to_json() + "\n").encode()])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a file that ``save`` or ``ars calibrate --out`` wrote.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Calibration

        Raises
        ------
        StorageError
            If it is missing, damaged, or not a calibration.
        """
        try:
            content = parse_json(Path(path).read_bytes())
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise ValueError("it was not written by ars calibrate")
            return cls(content["about"], [Record.from_dict(each) for each in content["records"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{os.fspath(path)} cannot be read: {error}") from error

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Ranks, coverage and efficiency in one figure (needs matplotlib).

        Parameters
        ----------
        names : sequence of str, optional
            Values to show (default: all, at most 8).

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ars.calibration.pictures import overview

        return overview(self, names)

    def report(self, path: str | os.PathLike[str], *, command: str = "") -> None:
        """Write a report: one self-contained HTML file that begins with the verdict.

        Parameters
        ----------
        path
            File, such as ``calibration.html``; an existing one is replaced.
        command : str
            Command line to show (default: none).

        Raises
        ------
        ImportError
            If jinja2 is missing.
        StorageError
            If the file cannot be written.
        """
        from ars.report.calibration import calibration_page
        from ars.report.render import write

        write(calibration_page(self, command=command), path)


LEGEND: Final = (
    "p: test that the truth's ranks are uniform. 50% ... 95%: share of data sets whose central interval holds the "
    "truth; ! marks a share outside its 99% band. contraction: share of the prior's variance that the data remove."
)

"""What chains amount to, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ars.columns import Floats
from ars.mcmc import convergence

if TYPE_CHECKING:
    from ars.mcmc.chains import Chains

__all__ = [
    "LARGEST_RHAT",
    "LEAST_ESS",
    "Assessed",
    "Row",
    "Verdict",
    "assess",
    "cells",
    "document",
    "judge",
    "move_cells",
    "text",
]

LARGEST_RHAT: Final = 1.01
LEAST_ESS: Final = 400.0  # both as Vehtari et al. (2021) ask for
_QUANTILES: Final = (0.05, 0.5, 0.95)
_MOST_ROWS: Final = 40  # of the text


_UNKNOWN: Final = (math.nan,) * 9


class Row(NamedTuple):
    """One number that draws have."""

    name: str
    share: float  # of the draws that have it
    mean: float
    std: float
    mcse: float  # Monte Carlo standard error of the mean
    q05: float
    q50: float
    q95: float
    ess_bulk: float
    ess_tail: float
    rhat: float

    @property
    def always_there(self) -> bool:
        """Whether every draw has it; otherwise R-hat and ESS are NaN."""
        return self.share == 1.0

    @property
    def mixed(self) -> bool:
        """Whether the chains agree about it, as far as it can be said."""
        return not self.always_there or (self.rhat <= LARGEST_RHAT and min(self.ess_bulk, self.ess_tail) >= LEAST_ESS)


class Verdict(NamedTuple):
    """Whether the draws can be trusted, and why or what to do."""

    trusted: bool
    text: str


class Assessed(NamedTuple):
    """All rows, and the verdict on them."""

    rows: tuple[Row, ...]
    verdict: Verdict


def _row(name: str, x: Floats) -> Row:
    there = x[~np.isnan(x)]
    share = len(there) / x.size if x.size else 0.0
    if not len(there):
        return Row(name, share, *_UNKNOWN)
    quantiles = np.quantile(there, _QUANTILES).tolist()
    std = float(there.std(ddof=1)) if len(there) > 1 else math.nan
    return Row(
        name,
        share,
        float(there.mean()),
        std,
        convergence.mcse_mean(x),
        quantiles[0],
        quantiles[1],
        quantiles[2],
        convergence.ess_bulk(x),
        convergence.ess_tail(x),
        convergence.rhat(x),
    )


def assess(chains: Chains) -> Assessed:
    """Every number that the draws have, one by one."""
    rows = tuple(_row(name, values) for name, values in chains.elements())
    return Assessed(rows, judge(rows, chains.shape))


def judge(rows: tuple[Row, ...], shape: tuple[int, int]) -> Verdict:
    """The verdict.

    Parameters
    ----------
    rows : tuple of Row
        Everything that was recorded.
    shape : tuple
        Chains, and draws of each.

    Returns
    -------
    Verdict
        Draws are trusted if every R-hat is at most 1.01, and every ESS at least 400. A number that only some draws have
        does not count, and one that never changes does not either.
    """
    counted = [row for row in rows if row.always_there and row.std != 0.0]
    if shape[0] < 2:
        return Verdict(False, "one chain cannot show whether it has mixed: run several, with chains=")
    if not counted:
        return Verdict(False, "no number varies and exists in every draw, so nothing shows whether the chains mixed")
    if all(row.mixed for row in counted):
        return Verdict(
            True, f"the chains have mixed: every R-hat is at most {LARGEST_RHAT}, every ESS at least {LEAST_ESS:g}"
        )
    worst = max(counted, key=lambda row: row.rhat if row.rhat == row.rhat else math.inf)
    least = min(counted, key=lambda row: min(row.ess_bulk, row.ess_tail))
    found = []
    if not worst.rhat <= LARGEST_RHAT:
        found.append(f"R-hat of {worst.name} is {worst.rhat:.3f} (it should be at most {LARGEST_RHAT})")
    fewest = min(least.ess_bulk, least.ess_tail)
    if not fewest >= LEAST_ESS:
        found.append(f"ESS of {least.name} is {fewest:.0f} (it should be at least {LEAST_ESS:g})")
    times = max(2, math.ceil(LEAST_ESS / fewest)) if fewest > 0 else 10
    advice = f"Run with steps={shape[1] * times:,} or more"
    if times > 10:
        advice += ", name latents that depend on each other in blocks=, or give a network="
    return Verdict(False, f"the chains have not mixed: {' and '.join(found)}. {advice}")


# ---- in words --------------------------------------------------------------------------------------------------------


_TITLES: Final = (
    ("mean", 12), ("s.e.", 10), ("std", 10), ("5%", 12), ("50%", 12), ("95%", 12), ("ESS", 8), ("tail", 8), ("R-hat", 7)
)  # fmt: skip


def _line(row: Row) -> str:
    some = "" if row.always_there else f"  in {100 * row.share:.0f}% of the draws"
    mark = "" if row.mixed else "  !"
    return (
        f"{row.name:24} {row.mean:12.6g} {row.mcse:10.2g} {row.std:10.3g} {row.q05:12.6g} {row.q50:12.6g} "
        f"{row.q95:12.6g} {row.ess_bulk:8.0f} {row.ess_tail:8.0f} {row.rhat:7.3f}{mark}{some}"
    )


def cells(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and rows of the table of ``text``, cell by cell; "!" marks a row that has not mixed."""
    found: list[tuple[str, ...]] = []
    for row in rows:
        numbers = (f"{row.mean:.6g}", f"{row.mcse:.2g}", f"{row.std:.3g}", f"{row.q05:.6g}", f"{row.q50:.6g}")
        mixing = (f"{row.q95:.6g}", f"{row.ess_bulk:.0f}", f"{row.ess_tail:.0f}", f"{row.rhat:.3f}")
        found.append((row.name, *numbers, *mixing, "" if row.mixed else "!"))
    return ("", *(title for title, _ in _TITLES), "!"), found


def text(chains: Chains) -> str:
    """``Chains.summary``."""
    assessed = assess(chains)
    n, draws = chains.shape
    about = chains.about
    title = "".join(f" {word:>{width}}" for word, width in _TITLES)
    lines = [
        f"{n} chains of {draws:,} draws each, after {about.get('warmup', 0):,} steps of warm-up",
        f"{about.get('thin', 1)} moves per step, seed {about.get('seed')}",
        f"{'TRUSTED' if assessed.verdict.trusted else 'NOT TRUSTED'}: {assessed.verdict.text}",
        "",
        f"{'':24}{title}",
        *(_line(row) for row in assessed.rows[:_MOST_ROWS]),
    ]
    if len(assessed.rows) > _MOST_ROWS:
        lines.append(f"... and {len(assessed.rows) - _MOST_ROWS} more")
    heads, moves = move_cells(chains)
    lines += ["", *(f"{kind:40} {made:>10} {share:>9}" for kind, made, share in (heads, *moves))]
    if chains.failures:
        lines += ["", repr(chains.failures)]
    return "\n".join(lines)


def move_cells(chains: Chains) -> tuple[tuple[str, str, str], list[tuple[str, str, str]]]:
    """Titles and rows of the table of moves."""
    rows = [(kind, f"{each.made:,}", f"{100 * each.share:.1f}%") for kind, each in chains.acceptance.items()]
    return ("moves", "made", "accepted"), rows


def document(chains: Chains) -> dict[str, Any]:
    """The same for programs: plain JSON values, with None for NaN and infinity."""
    assessed = assess(chains)

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(each) for key, each in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "chains": chains.shape[0],
        "draws": chains.shape[1],
        "trusted": assessed.verdict.trusted,
        "verdict": assessed.verdict.text,
        "about": dict(chains.about),
        "values": [plain(row._asdict()) for row in assessed.rows],
        "acceptance": {
            kind: plain({"made": counted.made, "accepted": counted.accepted, "share": counted.share})
            for kind, counted in chains.acceptance.items()
        },
        "failures": dict(chains.failures),
    }

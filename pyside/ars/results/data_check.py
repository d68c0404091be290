"""Are the data like anything that the simulator produces? They are compared with prior predictive draws.

Half of the draws are the reference: they fix, per element, how far out a value is, and how elements go together. The
data and the other half are then scored alike, so that under the model the data are just one more draw: their rank gives
a p-value that is exact, whatever the scores are (split conformal). Five scores look for different trouble:

    alone   the element furthest out by itself
    given   the element furthest from what the others predict
    all     all elements together (Mahalanobis distance)
    near    the distance to the nearest draws, for data between separate modes
    close   all elements together, too close to the centre: data without noise, or made up; from 20 elements on

The data's best rank among the five is ranked in turn, which corrects for having looked five times.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars.diagnostics import Floats, fit_generalised_pareto

__all__ = ["DataCheck", "StandsOut", "check_data", "check_draws", "least_draws"]

_SCORES: Final = ("alone", "given", "all", "near", "close")
_DRAWS_PER_ALARM: Final = 8  # times 1 / level: so many draws, and those that are furthest by one score raise an alarm
_TAIL: Final = 0.1  # share of the reference on each side to which a tail is fitted
_LEAST_TAIL: Final = 5
_FURTHEST: Final = 37.0  # the largest normal score: 1e-300 of the draws are further out
_NEAREST: Final = 5
_MOST_NAMED: Final = 3
_MANY: Final = 20  # elements that are not all near their centres by chance


@dataclass(frozen=True)
class StandsOut:
    """One number of the data that is unlike the draws.

    Attributes
    ----------
    name : str
        Observation.
    index : tuple of int
        Position in the data of that name; () for a single number.
    value : float
        The number.
    low, high : float
        1% and 99% quantile of the draws.
    beyond : float
        Share of the draws that are expected further out on the same side, extrapolated by a fitted tail.
    given_rest : bool
        False if the number is unusual by itself, True if it only does not go with the other numbers.
    """

    name: str
    index: tuple[int, ...]
    value: float
    low: float
    high: float
    beyond: float
    given_rest: bool

    @property
    def label(self) -> str:
        """The name, with the index if there is one."""
        return self.name + "".join(f"[{i}]" for i in self.index)

    def __str__(self) -> str:
        span = f"{self.low:.4g} to {self.high:.4g}"
        if self.given_rest:
            return f"{self.label} = {self.value:.4g} is unusual given the other values (alone: {span})"
        beyond = "none" if self.beyond < 1e-12 else f"{self.beyond:.1g}"
        return f"{self.label} = {self.value:.4g} (98% of draws: {span}; share beyond: {beyond})"


class DataCheck(NamedTuple):
    """Data compared with prior predictive draws, from ``Simulator.check_data``.

    Attributes
    ----------
    p_value : float
        Probability that data drawn from the model are at least as unusual as these. Its smallest possible value is
        1 / (draws / 2 + 1).
    level : float
        ``alarm`` is True if ``p_value`` is at most this. It is the rate of false alarms.
    stands_out : tuple of StandsOut
        After an alarm, the numbers that are unlike the draws, most unusual first. Empty without one, or if no single
        number is responsible.
    draws : int
        Number of prior predictive draws used.
    compared, skipped : int
        Numbers of the data that were compared, and those that are NaN (not observed).
    scores : dict
        p-value of each of the five scores, not corrected for multiple tests: "alone", "given", "all", "near", "close".
    """

    p_value: float
    level: float
    stands_out: tuple[StandsOut, ...]
    draws: int
    compared: int
    skipped: int
    scores: dict[str, float]

    @property
    def alarm(self) -> bool:
        """Whether the data are unlike the draws."""
        return self.p_value <= self.level

    def sentence(self) -> str:
        """One sentence with the verdict, and the numbers that stand out."""
        compared = f"the {self.draws:,} prior draws that they were compared with"
        if not self.alarm:
            return f"The data are like {compared} (p = {self.p_value:.2g})."
        least = 1.0 / (self.draws // 2 + 1)
        size = f"p = {self.p_value:.2g}" + (", the smallest possible" if self.p_value <= 1.001 * least else "")
        text = f"The data are unlike {compared} ({size})"
        if not self.stands_out:
            closest = self.scores["close"] < min(self.scores[name] for name in _SCORES if name != "close")
            why = "they vary less than draws do, like data without noise" if closest else "together they are unusual"
            return f"{text}: no single number stands out, but {why}."
        named = "; ".join(str(each) for each in self.stands_out[:_MOST_NAMED])
        more = len(self.stands_out) - _MOST_NAMED
        return f"{text}: {named}{f'; and {more:,} more' if more > 0 else ''}."

    def __str__(self) -> str:
        return self.sentence()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        listed = [{**asdict(each), "index": list(each.index), "label": each.label} for each in self.stands_out]
        return {**self._asdict(), "stands_out": listed, "alarm": self.alarm, "sentence": self.sentence()}


# ---- one element -----------------------------------------------------------------------------------------------------


class _Margin:
    """How far out a value of one element is, as a normal score: by rank, and beyond the reference by fitted tails."""

    def __init__(self, reference: Floats) -> None:
        self._sorted = np.sort(reference) if len(reference) else np.zeros(1)
        self._tails = {side: self._fit(side) for side in (-1, 1)}

    def _fit(self, side: int) -> tuple[float, float, float] | None:
        """Where the tail of this side begins, and its shape and scale; None if it has too few different values."""
        ordered = self._sorted if side == 1 else -self._sorted[::-1]
        if len(ordered) <= _LEAST_TAIL:
            return None
        start = ordered[len(ordered) - 1 - max(math.ceil(_TAIL * len(ordered)), _LEAST_TAIL)]
        excess = ordered[ordered > start] - start
        if len(excess) < _LEAST_TAIL or excess[0] == excess[-1]:
            return None
        return float(start), *fit_generalised_pareto(excess)

    @property
    def constant(self) -> bool:
        return bool(self._sorted[0] == self._sorted[-1])

    def quantile(self, q: float) -> float:
        return float(np.quantile(self._sorted, q))

    def log_beyond(self, values: Floats, side: int) -> Floats:
        """Log of the share of draws at or beyond these values, on one side."""
        n, ordered = len(self._sorted), self._sorted if side == 1 else -self._sorted[::-1]
        x = side * values
        equal = np.searchsorted(ordered, x, side="right") - np.searchsorted(ordered, x, side="left")
        above = n - np.searchsorted(ordered, x, side="right")
        log_share = np.log((above + 0.5 * equal + 0.5) / (n + 1.0))  # half of those that tie
        outside = x > ordered[-1]
        tail = self._tails[side]
        if tail is None:  # a few values that repeat: one that no draw has is as far out as the gap to them is wide
            width = float(ordered[-1] - ordered[0])
            gap = (x - ordered[-1]) / width if width > 0.0 else np.full(len(x), np.inf)
            return np.asarray(np.where(outside, log_share - np.minimum(gap, 1e3) * math.log(n), log_share))
        start, shape, scale = tail
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.maximum(x - start, 0.0) / scale
            log_fitted = -np.log1p(np.maximum(shape * excess, -1.0)) / shape if abs(shape) > 1e-12 else -excess
        at_edge = math.log(np.count_nonzero(ordered > start) / n)
        return np.asarray(np.where(outside, np.minimum(at_edge + log_fitted, log_share), log_share))

    def place(self, values: Floats) -> Floats:
        """Values on a linear scale that heavy tails bend to a logarithmic one; 0 for NaN. Gaps stay gaps."""
        low, middle, high = (self.quantile(q) for q in (0.16, 0.5, 0.84))
        scale = 0.5 * (high - low) or float(self._sorted.std()) or 1.0
        return np.where(np.isnan(values), 0.0, np.arcsinh((values - middle) / scale))

    def score(self, values: Floats) -> Floats:
        """Normal scores; 0 for NaN."""
        present = np.where(np.isnan(values), self._sorted[0], values)
        if self.constant:
            far = np.where(present == self._sorted[0], 0.0, _FURTHEST)
            return np.where(np.isnan(values), 0.0, np.copysign(far, present - self._sorted[0]))
        upper, lower = self.log_beyond(present, 1), self.log_beyond(present, -1)
        found = np.where(upper < lower, _normal_score(upper), -_normal_score(lower))
        return np.where(np.isnan(values), 0.0, found)


@functools.cache
def _normal_tail() -> tuple[Floats, Floats]:
    """-log P(Z > z) of a standard normal variable on a grid of z, which is accurate to 1e-4."""
    z = np.linspace(0.0, _FURTHEST, 3701)
    return np.array([-math.log(0.5 * math.erfc(each / math.sqrt(2.0))) for each in z.tolist()]), z


def _normal_score(log_share: Floats) -> Floats:
    """The z >= 0 with this log probability above it."""
    return np.asarray(np.interp(-log_share, *_normal_tail()))


# ---- elements together -----------------------------------------------------------------------------------------------


class _Together:
    """How elements go together in the reference: a correlation matrix, shrunk so that few draws do not mislead it."""

    def __init__(self, reference: Floats) -> None:
        self._centre = reference.mean(axis=0)
        left, singular, self._axes = np.linalg.svd(reference - self._centre, full_matrices=False)
        variance = np.square(singular) / len(reference)
        shrink = _shrinkage(left * singular, variance, reference.shape[1])
        self._level = shrink * float(variance.sum()) / reference.shape[1]  # of directions that the reference lacks
        self._variance = (1.0 - shrink) * variance + self._level
        inverse = 1.0 / self._variance - 1.0 / self._level
        self._diagonal = 1.0 / self._level + np.square(self._axes.T) @ inverse
        self._reference = self._whitened(reference)

    def _whitened(self, scores: Floats) -> Floats:
        """Coordinates along the axes that the reference spans, with variance 1."""
        return np.asarray(((scores - self._centre) @ self._axes.T) / np.sqrt(self._variance))

    def given(self, scores: Floats) -> Floats:
        """For each element, how far it is from what the others predict, in standard deviations."""
        centred = scores - self._centre
        along = centred @ self._axes.T
        solved = centred / self._level + (along * (1.0 / self._variance - 1.0 / self._level)) @ self._axes
        return np.asarray(solved / np.sqrt(self._diagonal))

    def distance(self, scores: Floats) -> Floats:
        """Squared Mahalanobis distance."""
        centred = scores - self._centre
        along = centred @ self._axes.T
        outside = np.maximum(np.square(centred).sum(axis=1) - np.square(along).sum(axis=1), 0.0)
        return np.asarray((np.square(along) / self._variance).sum(axis=1) + outside / self._level)

    def nearest(self, scores: Floats) -> Floats:
        """Mean distance to the nearest reference draws."""
        here, there = self._whitened(scores), self._reference
        found = np.empty(len(here))
        for first in range(0, len(here), 256):  # a part at a time: memory
            part = here[first : first + 256]
            squares = np.square(part).sum(axis=1)[:, None] + np.square(there).sum(axis=1) - 2.0 * part @ there.T
            nearest = np.partition(np.maximum(squares, 0.0), _NEAREST - 1, axis=1)[:, :_NEAREST]
            found[first : first + 256] = np.sqrt(nearest).mean(axis=1)
        return found


def _shrinkage(along: Floats, variance: Floats, m: int) -> float:
    """How far to shrink a covariance matrix of m elements towards a multiple of the identity: Ledoit and Wolf (2004).

    ``along``: the draws along the axes, on which their variances are these.
    """
    n = len(along)
    squares = np.square(along)
    target = float(variance.sum()) / m
    distance = float(np.square(variance).sum()) - m * target**2
    noise = float((np.square(squares.sum(axis=1)) - 2.0 * squares @ variance).sum()) + n * float(
        np.square(variance).sum()
    )
    return min(max(noise / n**2 / distance if distance > 0.0 else 1.0, 0.005), 1.0)


# ---- the check -------------------------------------------------------------------------------------------------------


def _columns(name: str, given: Floats, draws: Floats) -> Floats:
    """The draws of one observation, one column per number of the data."""
    columns = draws[:, None] if draws.ndim == 1 else draws
    if given.size > columns.shape[1]:
        raise ValueError(
            f"observe[{name!r}] has {given.size} numbers; the simulator observed at most {columns.shape[1]} under this "
            "name in any draw"
        )
    return columns[:, : given.size]


def _ranks(scores: Floats) -> Floats:
    """Per column of scores, the share of rows that score at least as much."""
    ordered = np.sort(scores, axis=0)
    found = [len(scores) - np.searchsorted(ordered[:, i], scores[:, i], side="left") for i in range(scores.shape[1])]
    return np.stack(found, axis=1) / len(scores)


def least_draws(level: float) -> int:
    """Draws that it takes to raise an alarm at this level."""
    return max(math.ceil(_DRAWS_PER_ALARM / level), 40)


def check_draws(draws: int, level: object) -> None:
    """Raises before the draws are made if so many cannot do."""
    _check_level(level)
    if draws < (least := least_draws(float(level))):  # type: ignore[arg-type]
        raise ValueError(
            f"{draws:,} draws are too few for a rate of false alarms of {level:g}: it needs {least:,} draws. Give more "
            "traces, or a larger level"
        )


def _check_level(level: object) -> None:
    if isinstance(level, bool) or not isinstance(level, (int, float, np.integer, np.floating)):
        raise TypeError(f"level must be a number between 0 and 1, not {level!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, not {level!r}")


def check_data(
    data: Mapping[str, npt.NDArray[np.float64]], draws: Mapping[str, Floats], *, level: float = 0.01
) -> DataCheck:
    """Compare data with draws of the same observations.

    Parameters
    ----------
    data : mapping
        Observations by name. NaN stands for a number that was not observed, and is skipped.
    draws : mapping
        Draws of each: one number, or one row, per draw. NaN where a draw has none.
    level : float
        Rate of false alarms (default: 0.01). It needs 8 / level draws.

    Returns
    -------
    DataCheck

    Raises
    ------
    ValueError
        If the draws are too few, or lack an observation, or nothing in the data was observed.
    """
    _check_level(level)
    if unknown := [name for name in data if name not in draws]:
        listed = ", ".join(f'"{name}"' for name in draws) or "nothing"
        raise ValueError(f'the simulator observed no "{unknown[0]}" in any draw; it observed {listed}')
    labels = [(name, index) for name, given in data.items() for index in np.ndindex(given.shape)]
    values = np.concatenate([given.ravel() for given in data.values()]) if data else np.empty(0)
    simulated = np.hstack([_columns(name, given, draws[name]) for name, given in data.items()]) if data else values
    simulated = np.where(np.isfinite(simulated), simulated, np.nan)
    used = ~np.isnan(values)
    if not used.any():
        raise ValueError("nothing in the data was observed: there is nothing to check")
    absent = used & np.isnan(simulated).all(axis=0)
    if absent.any():
        name, index = labels[int(np.argmax(absent))]
        raise ValueError(
            f"no draw has a finite {name}{''.join(f'[{i}]' for i in index)}: there is nothing to compare with"
        )
    simulated = simulated[~np.isnan(simulated[:, used]).all(axis=1)]
    if len(simulated) < (least := least_draws(level)):
        raise ValueError(
            f"{len(simulated)} draws with these observations are too few for a rate of false alarms of {level:g}: it "
            f"needs {least:,} draws. Give more traces, or a larger level"
        )
    scored = _score(simulated[:, used], values[used])
    ranks = _ranks(scored.scores)
    best = ranks.min(axis=1)
    p_value = float(np.mean(best <= best[-1]))
    named = [labels[i] for i in np.flatnonzero(used)] if p_value <= level else []
    return DataCheck(
        p_value=p_value,
        level=level,
        stands_out=_standing_out(scored, named, values[used], level) if named else (),
        draws=len(simulated),
        compared=int(used.sum()),
        skipped=int((~used).sum()),
        scores=dict(zip(_SCORES, ranks[-1].tolist(), strict=True)),
    )


class _Scored(NamedTuple):
    margins: list[_Margin]
    alone: Floats  # of each element, in size; a row per calibration draw, the data last
    given: Floats
    scores: Floats  # all scores, a column each


def _score(simulated: Floats, values: Floats) -> _Scored:
    half = len(simulated) // 2
    reference, others = simulated[:half], np.vstack([simulated[half:], values])
    margins = [_Margin(column[~np.isnan(column)]) for column in reference.T]
    normal = np.stack([margin.score(others[:, i]) for i, margin in enumerate(margins)], axis=1)
    alone = np.abs(normal)
    varying = [i for i, margin in enumerate(margins) if not margin.constant]
    given, total, near = np.zeros_like(alone), alone.max(axis=1), alone.max(axis=1)
    if varying:
        # beyond 8 standard deviations an element alone is proof enough, and must not hide how the others go together
        clipped = np.clip(normal[:, varying], -8.0, 8.0)
        known = np.stack([margins[i].score(reference[:, i]) for i in varying], axis=1)
        together = _Together(known)
        given[:, varying] = np.abs(together.given(clipped))
        total = together.distance(clipped)
        placed = [np.stack([margins[i].place(rows[:, i]) for i in varying], axis=1) for rows in (reference, others)]
        near = _Together(placed[0]).nearest(placed[1])
    close = -total if len(varying) >= _MANY else np.zeros(len(total))
    scores = [alone.max(axis=1), given.max(axis=1), total, near, close]
    return _Scored(margins, alone, given, np.stack(scores, axis=1))


def _standing_out(
    scored: _Scored, labels: Sequence[tuple[str, tuple[int, ...]]], values: Floats, level: float
) -> tuple[StandsOut, ...]:
    """The elements whose score is beyond what the largest score of a draw exceeds in ``level`` of the draws."""
    for sizes, given_rest in ((scored.alone, False), (scored.given, True)):
        largest = np.sort(sizes[:-1].max(axis=1))[::-1]
        # the data's p-value is (1 + draws that score at least as much) / (draws + 1): at most ``level`` beyond this one
        limit = largest[math.floor(level * (len(largest) + 1)) - 1]
        order = np.argsort(-sizes[-1], kind="stable")
        found = [
            _stands_out(scored.margins[i], labels[i][0], labels[i][1], float(values[i]), given_rest)
            for i in order.tolist()
            if sizes[-1, i] > limit
        ]
        if found:  # what is unusual alone also spoils how it goes with the others, which says nothing new
            return tuple(found)
    return ()


def _stands_out(margin: _Margin, name: str, index: tuple[int, ...], value: float, given_rest: bool) -> StandsOut:
    at = np.array([value])
    beyond = math.exp(min(float(margin.log_beyond(at, side)[0]) for side in (-1, 1)))
    if margin.constant and value != margin.quantile(0.5):
        beyond = 0.0
    return StandsOut(name, index, value, margin.quantile(0.01), margin.quantile(0.99), beyond, given_rest)

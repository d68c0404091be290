"""Which traces a task gets: ranges that take about as long as they should, by the speed measured so far."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ars.runtime.recorder import Recorder
from ars.wire import RunConfig

__all__ = ["Chunks", "Piece"]

_SECONDS: Final = 2.0  # that a task should take: long beside the scheduler's milliseconds, short beside a run
_FIRST: Final = 128  # traces of a task before anything was measured
_MOST: Final = 65_536
_SMOOTHING: Final = 0.3  # weight of the latest measurement


class Piece(NamedTuple):
    """Some traces of a run, and who takes them in."""

    recorder: Recorder
    config: RunConfig


class Chunks:
    """The traces of one or several runs that no task has yet.

    The numbers of a trace decide its draws, so any division into tasks gives the same bits.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = deque(pieces)
        self.left = sum(piece.config.n_traces for piece in pieces)
        self._rate = math.nan  # traces per second of one worker
        self._losses = 0  # since the last result

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def give_back(self, piece: Piece) -> None:
        """Traces that no task has done; they are next."""
        self._pieces.appendleft(piece)
        self.left += piece.config.n_traces

    def lost(self, piece: Piece) -> None:
        """A task was lost with its worker. Until the next result, every loss halves the tasks: workers that live for
        minutes would else never finish one of hours."""
        self._losses += 1
        self.give_back(piece)

    def measured(self, traces: int, seconds: float) -> None:
        """A task of so many traces took so long."""
        self._losses = 0
        rate = traces / max(seconds, 1e-6)
        self._rate = rate if math.isnan(self._rate) else self._rate + _SMOOTHING * (rate - self._rate)

    def size(self, workers: int) -> int:
        """Traces of the next task. Towards the end they get fewer, so that all workers finish together."""
        wanted = _FIRST if math.isnan(self._rate) else self._rate * _SECONDS
        share = math.ceil(self.left / (2 * max(workers, 1)))
        return max(1, min(int(wanted), share, _MOST) >> self._losses)

    def next(self, workers: int) -> Piece:
        """The traces of the next task, which are of one run."""
        recorder, config = self._pieces.popleft()
        count = min(self.size(workers), config.n_traces)
        self.left -= config.n_traces
        chosen, rest = _split(config, count)
        if rest is not None:
            self.give_back(Piece(recorder, rest))
        return Piece(recorder, chosen)


def _split(part: RunConfig, count: int) -> tuple[RunConfig, RunConfig | None]:
    if count == part.n_traces:
        return part, None
    if part.listed is None:
        return part.part(part.first_trace, count), part.part(part.first_trace + count, part.n_traces - count)
    first = np.arange(part.n_traces) < count
    return part.only(first), part.only(~first)

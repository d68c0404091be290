"""Which traces a task gets: ranges that take about as long as they should, by the speed measured so far."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from ars.wire import RunConfig

__all__ = ["Chunks"]

_SECONDS: Final = 2.0  # that a task should take: long beside the scheduler's milliseconds, short beside a run
_FIRST: Final = 128  # traces of a task before anything was measured
_MOST: Final = 65_536
_SMOOTHING: Final = 0.3  # weight of the latest measurement


class Chunks:
    """The traces of a run that no task has yet.

    The numbers of a trace decide its draws, so any division into tasks gives the same bits.
    """

    def __init__(self, parts: Sequence[RunConfig]) -> None:
        self._parts = deque(parts)
        self.left = sum(part.n_traces for part in parts)
        self._rate = math.nan  # traces per second of one worker

    def __bool__(self) -> bool:
        return bool(self._parts)

    def give_back(self, config: RunConfig) -> None:
        """A task that was not done; its traces are next."""
        self._parts.appendleft(config)
        self.left += config.n_traces

    def measured(self, traces: int, seconds: float) -> None:
        """A task of so many traces took so long."""
        rate = traces / max(seconds, 1e-6)
        self._rate = rate if math.isnan(self._rate) else self._rate + _SMOOTHING * (rate - self._rate)

    def size(self, workers: int) -> int:
        """Traces of the next task. Towards the end they get fewer, so that all workers finish together."""
        wanted = _FIRST if math.isnan(self._rate) else self._rate * _SECONDS
        share = math.ceil(self.left / (2 * max(workers, 1)))
        return max(1, min(int(wanted), share, _MOST))

    def next(self, workers: int) -> RunConfig:
        """The traces of the next task."""
        part = self._parts.popleft()
        count = min(self.size(workers), part.n_traces)
        self.left -= part.n_traces
        chosen, rest = _split(part, count)
        if rest is not None:
            self.give_back(rest)
        return chosen


def _split(part: RunConfig, count: int) -> tuple[RunConfig, RunConfig | None]:
    if count == part.n_traces:
        return part, None
    if part.listed is None:
        return part.part(part.first_trace, count), part.part(part.first_trace + count, part.n_traces - count)
    first = np.arange(part.n_traces) < count
    return part.only(first), part.only(~first)

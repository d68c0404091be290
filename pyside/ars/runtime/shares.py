"""Which traces a simulator gets next, where several share a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ars.wire import RunConfig

__all__ = ["Shares"]

_LEAST: Final = 16  # traces
_MOST: Final = 65_536


class Shares:
    """The traces of a run that nobody has yet. The numbers of a trace decide its draws, so any division gives the same
    bits. Shares get smaller towards the end, so that all finish together, however fast each is."""

    def __init__(self, parts: Sequence[RunConfig]) -> None:
        self._parts = list(reversed(parts))
        self._left = sum(part.n_traces for part in parts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def give_back(self, part: RunConfig) -> None:
        """Traces that were not run; they are next."""
        self._parts.append(part)
        self._left += part.n_traces

    def next(self, simulators: int) -> RunConfig:
        """Some traces for one of so many simulators."""
        part = self._parts.pop()
        self._left -= part.n_traces
        share = math.ceil((self._left + part.n_traces) / (2 * simulators))
        count = min(max(share, _LEAST), _MOST, part.n_traces)
        if count == part.n_traces:
            return part
        if part.listed is None:
            self.give_back(part.part(part.first_trace + count, part.n_traces - count))
            return part.part(part.first_trace, count)
        first = np.arange(part.n_traces) < count
        self.give_back(part.only(~first))
        return part.only(first)

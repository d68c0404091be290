"""The traces that chains have been at, each once, and where each chain was at every step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ars.columns import Columns, Integers, concatenate, empty, merge, select

__all__ = ["History"]

_PENDING = 64  # runs that are kept as they are


class History:
    """Keeps the traces that are needed of those that were run."""

    def __init__(self, chains: int) -> None:
        self._chains = chains
        self._pending: list[Columns] = []
        self._kept: list[Columns] = []
        self._known: set[int] = set()  # numbers of the traces that are kept
        self._wanted: set[int] = set()  # of those to keep of the pending ones
        self._since: set[int] = set()  # of those recorded since the last time that this was tidied
        self._draws: list[list[int]] = []  # per step, the number of each chain's trace

    @property
    def draws(self) -> int:
        """Steps recorded."""
        return len(self._draws)

    def add(self, columns: Columns, accepted: Iterable[int]) -> None:
        """The traces of a run, and the numbers of those that chains moved to."""
        numbers = set(accepted)
        if numbers:
            self._pending.append(columns)
            self._wanted |= numbers

    def record(self, numbers: list[int]) -> None:
        """Where each chain is now."""
        self._draws.append(numbers)
        self._since.update(numbers)

    def forget(self, present: Iterable[int]) -> None:
        """Lets go of traces that no recorded step needs, but for those where the chains are."""
        needed = set(present)
        for step in self._draws:
            needed.update(step)
        self._compact()
        whole = self._whole()
        self._kept = [select(whole, np.isin(whole.traces["trace"], np.array(sorted(needed), dtype=np.uint64)))]
        self._known &= needed

    def tidy(self, present: Iterable[int]) -> None:
        """Now and then: keeps of the pending runs what is needed. Traces that chains left between two recorded steps
        are not."""
        if len(self._pending) >= _PENDING:
            self._wanted &= self._since | set(present)
            self._compact()

    def _compact(self) -> None:
        new = np.array(sorted(self._wanted - self._known), dtype=np.uint64)
        if self._pending:
            whole = concatenate(self._pending)
            self._kept.append(select(whole, np.isin(whole.traces["trace"], new)))
        self._known |= self._wanted
        self._pending, self._wanted, self._since = [], set(), set()

    def _whole(self) -> Columns:
        whole = merge(self._kept) if self._kept else empty()
        self._kept = [whole]
        return whole

    def finished(self) -> tuple[Columns, Integers]:
        """All traces that were recorded, and their rows: chains x draws."""
        self._compact()
        whole = self._whole()
        numbers = np.array(self._draws, dtype=np.uint64).reshape(len(self._draws), self._chains).T
        return whole, np.searchsorted(whole.traces["trace"], numbers)

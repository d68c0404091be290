"""Which traces of a batch are whose."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Share"]


class Share(NamedTuple):
    """One of several ranks. Each has consecutive traces of a batch, in the order of the ranks, so that all shares put
    together are the batch that one process would have."""

    rank: int = 0
    ranks: int = 1

    def bounds(self, n: int) -> tuple[int, int]:
        """This rank's part of n traces: the first, and the one after the last. It may be empty."""
        return n * self.rank // self.ranks, n * (self.rank + 1) // self.ranks

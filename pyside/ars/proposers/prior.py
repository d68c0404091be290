"""The prior as a proposal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars._native import ReplyFlag
from ars.columns import Columns, Site
from ars.proposers.protocol import Array
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

__all__ = ["PriorProposer"]


class PriorProposer:
    """The prior everywhere. (A run that says so to the host asks nothing; this answers where it asks.)"""

    asks = False

    def proposes(self, site: Site) -> bool:
        """Never."""
        del site
        return False

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        del sites
        asks = batch.asks
        flags = np.where(asks, int(ReplyFlag.ALWAYS_PRIOR), 0).astype(np.uint32)
        return Replies(batch.state, flags, [PRIOR if ask else b"" for ask in asks.tolist()])

    def end_trace(self, traces: Array) -> None:
        """It keeps no states."""

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Nothing can be wrong with it."""

    def close(self) -> None:
        """It holds nothing."""

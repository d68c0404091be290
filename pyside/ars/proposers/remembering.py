"""A proposer that remembers which latents it was asked about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars.columns import Columns, Site
from ars.proposers.protocol import Array, Proposer
from ars.wire import Replies, SiteTable, StepBatch

__all__ = ["RememberingProposer"]


class RememberingProposer:
    """Passes everything on to another proposer. ``addresses`` are the latents that it was asked about and proposes.

    The latents that a simulator asks about follow from the traces of a run. The sites that its processes have met do
    not: they may have run other traces before.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer
        self.addresses: set[str] = set()

    @property
    def asks(self) -> bool:
        return self.proposer.asks

    def proposes(self, site: Site) -> bool:
        return self.proposer.proposes(site)

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        for number in np.unique(batch.site[batch.asks]).tolist():
            if self.proposer.proposes(sites[number]):
                self.addresses.add(sites[number].address)
        return self.proposer.step(batch, sites)

    def end_trace(self, traces: Array) -> None:
        self.proposer.end_trace(traces)

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        self.proposer.warn_after_run(columns, sites)

    def close(self) -> None:
        self.proposer.close()

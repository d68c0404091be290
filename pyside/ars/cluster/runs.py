"""The runs of a simulator on a cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from ars.arguments import ON_FAILURE, OnFailure
from ars.cluster.fleet import Fleet
from ars.cluster.shipped import Shipped
from ars.columns import Columns, Site
from ars.inference.options import PosteriorOptions
from ars.progress import NoProgress
from ars.proposers import PriorProposer, Proposer
from ars.runs import Runs, of_chunk

__all__ = ["ClusterRuns"]


class ClusterRuns(Runs):
    """Runs whose proposers can be sent, and whose chunks overlap."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._fleet = fleet

    def proposer(self, asked: PosteriorOptions, lease: int) -> Proposer:
        proposer = super().proposer(asked, lease)
        return Shipped(proposer, asked) if proposer.asks else proposer

    def prior_chunks(
        self,
        seed: int,
        parts: Iterable[tuple[int, int]],
        *,
        on_failure: OnFailure = ON_FAILURE,
        max_rejected: int = 0,
        lease: int | None = None,
    ) -> Generator[tuple[Columns, tuple[Site, ...]], None, None]:
        """In their order. Workers go on with the next chunk while the last traces of one are still under way."""
        configs = [self._chunk_config(seed, first_trace, n, max_rejected) for first_trace, n in parts]
        runs = [(config, self.recorder(config, PriorProposer(), on_failure, NoProgress())) for config in configs]
        with self._fleet.exclusively(lease):
            for recorder in self._fleet.work_together(runs, PriorProposer()):
                yield of_chunk(recorder)
                recorder.forget()

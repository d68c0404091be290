"""Proposers that can be sent to a worker: what they are made of, beside what the client needs of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ars.cluster.sent import SentNetwork
from ars.cluster.tasks import Recipe
from ars.columns import Columns, Site
from ars.errors import ArsError
from ars.inference.options import PosteriorOptions
from ars.proposers import PriorProposer, Proposer
from ars.proposers.protocol import Array
from ars.proposers.remembering import RememberingProposer
from ars.wire import Replies, SiteTable, StepBatch

__all__ = ["Shipped", "recipe_of", "remember"]


class Shipped:
    """A proposer that works on the workers. Here it only answers which latents it proposes, and warns after the run."""

    def __init__(self, proposer: Proposer, asked: PosteriorOptions) -> None:
        self._proposer = proposer
        self.network = None if asked.network is None else SentNetwork.of(asked.network)
        digest = "" if self.network is None else self.network.digest
        # Neither the folder nor the traces that are asked for in all concern a worker.
        self.recipe = Recipe(replace(asked, network=None, resume=None), digest)

    @property
    def asks(self) -> bool:
        return self._proposer.asks

    def proposes(self, site: Site) -> bool:
        return self._proposer.proposes(site)

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:  # noqa: ARG002
        raise AssertionError("a worker answers")

    def end_trace(self, traces: Array) -> None:
        """States are on the workers."""

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        self._proposer.warn_after_run(columns, sites)

    def close(self) -> None:
        self._proposer.close()


def recipe_of(proposer: Proposer) -> Shipped | None:
    """What to send to workers; None if the prior proposes."""
    inner = proposer.proposer if isinstance(proposer, RememberingProposer) else proposer
    if isinstance(inner, Shipped):
        return inner
    if isinstance(inner, PriorProposer) or not inner.asks:
        return None
    raise ArsError(
        "a cluster runs traces of the prior, of posteriors and of recordings. Chains need ars.cluster.mcmc; checks and "
        "predictions need an ars.Simulator on this machine"
    )


def remember(proposer: Proposer, asked: Collection[str]) -> None:
    """A worker was asked about these latents."""
    if isinstance(proposer, RememberingProposer):
        proposer.addresses.update(asked)

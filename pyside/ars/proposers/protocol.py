"""Who proposes: a pure function from (state, values told, site, prior) to (new state, proposal), for a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from ars.columns import Columns, Site
from ars.wire import Replies, SiteTable, StepBatch

__all__ = ["Array", "Proposer"]

Array: TypeAlias = npt.NDArray[Any]


class Proposer(Protocol):
    """Answers requests. States are immutable numbers; 0 is the start of every trace."""

    @property
    def asks(self) -> bool:
        """Whether the simulator has to ask at all; it does not where the prior proposes everything."""

    def proposes(self, site: Site) -> bool:
        """Whether this latent is proposed by anything but its prior."""

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        """One answer per row."""

    def end_trace(self, traces: Array) -> None:
        """These traces are over: their states will not be asked for again."""

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Warns of what the run has shown to be a mistake."""

    def close(self) -> None:
        """The run is over."""

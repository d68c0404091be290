"""Answers the simulator's questions with the plans of the chains: values that are given, or whoever draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars._native import NO_SITE
from ars.columns import Columns, Site
from ars.mcmc.moves import Plan
from ars.proposers import Proposer
from ars.proposers.protocol import Array
from ars.wire import PRIOR, Replies, SiteTable, StepBatch, given

__all__ = ["PlannedProposer"]


class PlannedProposer:
    """One plan per trace of a run. ``base``: whoever proposes for moves that ask for it; None: the prior."""

    def __init__(self, base: Proposer | None) -> None:
        self._base = base
        self.asks = False
        self._first = 0
        self._plans: Sequence[Plan] = ()

    def begin(self, first: int, plans: Sequence[Plan], *, asks: bool) -> None:
        """Before a run whose first trace has this number. Without ``asks`` the prior draws everything."""
        self._first, self._plans, self.asks = first, plans, asks

    def proposes(self, site: Site) -> bool:
        """Whether the base does."""
        return self._base is not None and self._base.proposes(site)

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        base = None if self._base is None else self._base.step(batch, sites)
        answers: list[bytes] = []
        rows = zip(batch.trace.tolist(), batch.site.tolist(), batch.instance.tolist(), strict=True)
        for row, (trace, number, instance) in enumerate(rows):
            if number == NO_SITE:
                answers.append(b"")
                continue
            plan, key = self._plans[trace - self._first], (sites[number].address, instance)
            if base is not None:
                plan.proposed[key] = base.proposals[row]
            value = plan.offered.get(key)
            if value is not None:
                answers.append(given(value))
            else:
                answers.append(base.proposals[row] if base is not None and plan.by_base(key) else PRIOR)
        states = batch.state if base is None else base.state
        return Replies(states, np.zeros(len(answers), dtype=np.uint32), answers)

    def end_trace(self, traces: Array) -> None:
        if self._base is not None:
            self._base.end_trace(traces)

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Once, after all of them."""
        if self._base is not None:
            self._base.warn_after_run(columns, sites)

    def close(self) -> None:
        if self._base is not None:
            self._base.close()

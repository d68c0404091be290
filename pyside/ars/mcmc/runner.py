"""The runs of a simulator that chains are made of: one per move, with a trace per chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ars._native import RunFlag
from ars.columns import Columns, Site
from ars.errors import ChainError
from ars.failures import EXAMPLES_PER_KIND, Failure, Failures, failures_of
from ars.mcmc.moves import Plan
from ars.mcmc.proposer import PlannedProposer
from ars.progress import NoProgress
from ars.runs import Runs
from ars.runtime.recorder import Recorder
from ars.store.site_numbers import SiteNumbers, renumber
from ars.wire import Wanted

__all__ = ["Runner"]

_THEN: Final = '.partial holds the draws so far; on_failure="zero" refuses a move whose trace fails'


class Runner:
    """Runs plans, and keeps one numbering of sites and one count of traces and failures over all of them."""

    def __init__(
        self,
        runs: Runs,
        proposer: PlannedProposer,
        data: Mapping[str, npt.NDArray[np.float64]] | None,
        seed: int,
        *,
        on_failure: str,
        lease: int,
    ) -> None:
        """``data``: None simulates the observations, and the columns have them."""
        self._runs = runs
        self._proposer = proposer
        self._data = None if data is None else {name: array.reshape(-1) for name, array in data.items()}
        self._seed = seed
        self._on_failure = on_failure
        self._lease = lease
        self._numbers = SiteNumbers()
        self._examples: list[Failure] = []
        self._counts: Counter[str] = Counter()  # failures by kind
        self._incidents: list[Failure] = []
        self._said: set[str] = set()
        self.traces = 0  # run so far
        self.wanted = Wanted()  # of each loop entry

    @property
    def sites(self) -> tuple[Site, ...]:
        """All that were met, by their numbers in the columns of all runs."""
        return self._numbers.sites

    @property
    def failures(self) -> Failures:
        """Of all runs."""
        return Failures.counted(self._counts, self._examples, self._incidents)

    def run(
        self, plans: Sequence[Plan], *, asks: bool = True, estimates: bool = True, may_give_up: bool = False
    ) -> Columns:
        """One trace per plan, in their order.

        Parameters
        ----------
        plans : sequence of Plan
            One per trace.
        asks : bool
            Whether the plans say anything but that the prior draws everything (default: True).
        estimates : bool
            Whether loops are estimated (default: True).
        may_give_up : bool
            Whether loops may give up (default: False): the ratio of a move does not hold for them.

        Returns
        -------
        Columns
            Failed traces among them, with weight 0.

        Raises
        ------
        ArsError
            If a trace fails and that is not to be passed over, or the simulator is lost.
        ChainError
            If a loop was given up.
        """
        wanted = self.wanted if estimates else Wanted()
        flags = RunFlag(0) if self._data is None else RunFlag.POSTERIOR
        flags |= RunFlag(0) if asks else RunFlag.PROPOSE_PRIOR
        flags |= RunFlag.ESTIMATE if wanted.runs_p else RunFlag(0)
        more: dict[str, Any] = {"first_trace": self.traces, "wanted": wanted, "observed": self._data}
        config = self._runs.config(self._seed, len(plans), flags, **more)
        self._proposer.begin(self.traces, plans, asks=asks)
        recorder = Recorder(
            len(plans), self._on_failure, NoProgress(), first=self.traces, seed=self._seed, said=self._said
        )
        recorder.sites = self._numbers.sites
        try:
            self._runs.work(config, self._proposer, recorder, self._lease)
        finally:
            self._incidents += recorder.incidents
        columns = renumber(recorder.columns(), self._numbers.adopt(recorder.sites))
        self.traces += len(plans)
        if len(columns.failures):
            for failure in failures_of(columns.failures, self.sites, self._seed, recorder.stderr):
                self._counts[failure.kind] += 1
                if self._counts[failure.kind] <= EXAMPLES_PER_KIND:
                    self._examples.append(failure)
        if error := recorder.error(_THEN):
            raise error
        if not may_give_up:
            _refuse_abandoned(columns, self.sites)
        return columns


def _refuse_abandoned(columns: Columns, sites: Sequence[Site]) -> None:
    """The ratio of a move takes every loop for one that is repeated until it is accepted."""
    loops = columns.loops
    given_up = (loops["abandoned"] > 0) | (loops["abandoned_p"] > 0)
    if given_up.any():
        loop = sites[int(loops["site"][int(np.argmax(given_up))])]
        raise ChainError(
            f'the loop "{loop.name}" gave up (ars_loop_abandon): Markov chains are correct only for loops that are '
            "repeated until a try is accepted. Use weighted traces instead, simulator.posterior(...) or ars infer: "
            "their weights are correct for loops that give up"
        )

"""Traces for a refinement: runs of a simulator, each with a seed of its own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ars.arguments import InLoops, OnFailure
from ars.budget import Budget
from ars.config import RefineConfig
from ars.errors import ArsWarning
from ars.inference.options import PosteriorOptions
from ars.inference.posterior import infer
from ars.network.model.core import ProposalNetwork
from ars.network.refine.learner import Material
from ars.network.refine.rounds import Drawn
from ars.network.train.batches import complete
from ars.progress import Progress

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = ["SimulatorSource"]


class SimulatorSource:
    """Draws traces of one observation, and of the prior.

    Parameters
    ----------
    simulator : Simulator
        Runs them.
    data : mapping
        Name -> array: the observation.
    config : RefineConfig
        Has the budget of loops.
    in_loops, on_failure : str
        As of ``Simulator.posterior``.
    progress : Progress
        Shows the traces of each run.
    """

    def __init__(
        self,
        simulator: Simulator,
        data: Mapping[str, npt.NDArray[np.float64]],
        config: RefineConfig,
        *,
        in_loops: InLoops,
        on_failure: OnFailure,
        progress: Progress,
    ) -> None:
        self._simulator = simulator
        self._data = data
        self._M = config.M
        self._in_loops: InLoops = in_loops
        self._on_failure: OnFailure = on_failure
        self._progress = progress
        self._lease = simulator._lease()
        self._said: set[str] = set()

    def draw(self, network: ProposalNetwork | None, traces: int, seed: int, R: int) -> Drawn:
        """Traces of the observation that this network proposes; None: the prior. R: accepted runs under q per loop
        entry."""
        from ars.network.facade import Network

        asked = PosteriorOptions(
            self._data,
            traces,
            None if network is None else Network(network, simulator=self._simulator.command),
            None,
            Budget(M=self._M, R=R),
            self._in_loops,
            self._on_failure,
            priors=True,
        )
        with self._advice_of_a_round(), warnings.catch_warnings():
            # The run that is reported warns of whatever there is to say.
            warnings.simplefilter("ignore", ArsWarning)
            post = infer(self._simulator._runs, asked, seed, self._lease, self._progress, quiet=True)
            weights = post.log_weights("prior" if self._in_loops == "prior" else "ars")
        return Drawn(post.columns, post.sites, weights, traces)

    def prior(self, traces: int, seed: int) -> Material:
        """Traces of the prior, with their own data."""
        columns, sites = self._simulator._prior_chunk(seed, 0, traces, on_failure=self._on_failure, lease=self._lease)
        return Material(complete(columns), sites)

    @contextlib.contextmanager
    def _advice_of_a_round(self) -> Iterator[None]:
        """The options of the command line are those of the final run, not of a round."""
        runs = self._simulator._runs
        before, runs.options, runs.unsaved, runs.said = runs.options, None, True, self._said
        try:
            yield
        finally:
            runs.options, runs.unsaved, runs.said = before, False, None

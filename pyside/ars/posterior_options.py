"""The options of ``Simulator.posterior``: the home of their defaults and checks, for Python and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from ars._native import RunFlag
from ars.arguments import ON_FAILURE, InLoops, OnFailure, check_on_failure, choice, number_of_traces
from ars.budget import Budget
from ars.posterior import RunInfo
from ars.proposers import Proposal, Proposer
from ars.store.identity import proposed_by

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["PosteriorOptions"]

_DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class PosteriorOptions:
    """What is to be inferred, and how; ``Simulator.posterior`` explains each. The data are arrays here."""

    data: Mapping[str, npt.NDArray[np.float64]]
    traces: int
    network: Network | None = None
    proposals: Mapping[str, Proposal] | None = None
    budget: Budget | None = _DEFAULT_BUDGET
    in_loops: InLoops = "proposal"
    on_failure: OnFailure = ON_FAILURE
    first_trace: int = 0
    resume: str | os.PathLike[str] | None = None
    ask_ahead: bool | None = None  # None: with a network

    def __post_init__(self) -> None:
        object.__setattr__(self, "traces", number_of_traces(self.traces))
        choice("in_loops", self.in_loops, get_args(InLoops))
        check_on_failure(self.on_failure)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise TypeError(f"budget must be an ars.Budget or None, not {self.budget!r}")
        if self.proposals is not None and not isinstance(self.proposals, Mapping):
            raise TypeError(f"proposals must map names to distributions or functions, not {self.proposals!r}")
        if self.network is not None and self.proposals:
            raise ValueError("give network= or proposals=, not both: a latent has one proposal")

    def estimate(self, proposed: bool) -> Budget | None:
        """What estimates may cost; None: no loop is estimated. Where nothing is proposed, every correction is 1."""
        return self.budget if self.in_loops == "proposal" and proposed else None

    def flags(self, proposer: Proposer, estimate: Budget | None) -> RunFlag:
        """The flags that the host receives for this run."""
        ahead = self.network is not None if self.ask_ahead is None else self.ask_ahead
        flags = RunFlag.POSTERIOR
        flags |= RunFlag(0) if proposer.asks else RunFlag.PROPOSE_PRIOR
        flags |= RunFlag.LOOPS_PRIOR if self.in_loops == "prior" else RunFlag(0)
        flags |= RunFlag.ESTIMATE if estimate else RunFlag(0)
        return flags | (RunFlag.ASK_AHEAD if estimate and ahead else RunFlag(0))

    def info(self, seed: int, estimate: Budget | None, command: tuple[str, ...], proposed: bool) -> RunInfo:
        """How the run was asked for, for its result."""
        return RunInfo(
            seed,
            estimate.M if estimate else None,
            estimate.N if estimate else None,
            self.in_loops,
            self.on_failure,
            command,
            proposals=json.dumps(proposed_by(self.proposals, self.network), sort_keys=True),
            proposed=proposed,
        )

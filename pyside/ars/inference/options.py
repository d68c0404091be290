"""The options of ``Simulator.posterior``: the home of their defaults and checks, for Python and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ars._native import RunFlag
from ars.arguments import (
    ON_FAILURE,
    InLoops,
    OnFailure,
    check_on_failure,
    check_path,
    choice,
    first_of,
    number_of_traces,
)
from ars.budget import AutoBudget, Budget, ChosenBudget, budget_to_json
from ars.posterior import RunInfo
from ars.proposers import Proposal, Proposer
from ars.store.identity import proposed_by

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["AnyBudget", "PosteriorOptions"]

AnyBudget: TypeAlias = Budget | AutoBudget | ChosenBudget | Literal["auto"] | None

_DEFAULT_BUDGET: Final = "auto"


@dataclass(frozen=True)
class PosteriorOptions:
    """What is to be inferred, and how; ``Simulator.posterior`` explains each. The data are arrays here."""

    data: Mapping[str, npt.NDArray[np.float64]]
    traces: int
    network: Network | None = None
    proposals: Mapping[str, Proposal] | None = None
    budget: AnyBudget = _DEFAULT_BUDGET
    in_loops: InLoops = "proposal"
    on_failure: OnFailure = ON_FAILURE
    first_trace: int = 0
    resume: str | os.PathLike[str] | None = None
    ask_ahead: bool | None = None  # None: with a network
    priors: bool = False  # traces come with the parameters of their priors: what a network is trained on
    adapted: bool = False  # proposals were adapted; without a network none was better than the prior

    def __post_init__(self) -> None:
        object.__setattr__(self, "traces", number_of_traces(self.traces))
        object.__setattr__(self, "first_trace", first_of("first_trace", self.first_trace, self.traces))
        check_path("resume", self.resume)
        choice("in_loops", self.in_loops, get_args(InLoops))
        check_on_failure(self.on_failure)
        object.__setattr__(self, "budget", _checked_budget(self.budget))
        if self.proposals is not None and not isinstance(self.proposals, Mapping):
            raise TypeError(f"proposals must map names to distributions or functions, not {self.proposals!r}")
        if self.network is not None and self.proposals:
            raise ValueError("give network= or proposals=, not both: a latent has one proposal")

    def estimate(self, proposed: bool) -> Budget | AutoBudget | ChosenBudget | None:
        """What estimates may cost; None: no loop is estimated. Where nothing is proposed, every correction is 1."""
        budget = self.budget if self.in_loops == "proposal" and proposed else None
        assert not isinstance(budget, str)  # "auto" was replaced by what it stands for
        return budget

    def flags(self, proposer: Proposer, estimates: bool) -> RunFlag:
        """The flags that the host receives for a run that estimates loops, or does not."""
        ahead = self.network is not None if self.ask_ahead is None else self.ask_ahead
        flags = RunFlag.POSTERIOR
        flags |= RunFlag(0) if proposer.asks else RunFlag.PROPOSE_PRIOR
        flags |= RunFlag.LOOPS_PRIOR if self.in_loops == "prior" else RunFlag(0)
        flags |= RunFlag.ESTIMATE if estimates else RunFlag(0)
        flags |= RunFlag.RECORD_PRIORS if self.priors else RunFlag(0)
        return flags | (RunFlag.ASK_AHEAD if estimates and ahead else RunFlag(0))

    def info(
        self,
        seed: int,
        budget: Budget | ChosenBudget | None,
        command: tuple[str, ...],
        proposed: bool,
        exact: tuple[str, ...] = (),
    ) -> RunInfo:
        """How the run was asked for, for its result."""
        fixed = budget if isinstance(budget, Budget) else None
        return RunInfo(
            seed,
            fixed.M if fixed else None,
            fixed.N if fixed else None,
            self.in_loops,
            self.on_failure,
            command,
            proposals=json.dumps(proposed_by(self.proposals, self.network), sort_keys=True),
            proposed=proposed,
            budget=budget_to_json(budget),
            exact=exact,
            defensive=0.0 if self.network is None else self.network.config.defensive,
            refined=self.adapted or (self.network is not None and "refinement" in self.network.training),
        )


def _checked_budget(budget: object) -> Budget | AutoBudget | ChosenBudget | None:
    if isinstance(budget, str) and budget == "auto":
        return Budget.auto()
    if budget is None or isinstance(budget, Budget | AutoBudget | ChosenBudget):
        return budget
    raise TypeError(
        f'budget must be "auto", an ars.Budget such as Budget(M=1, N=10) or Budget.auto(error=0.01), the post.budget '
        f"of another run, or None, not {budget!r}"
    )

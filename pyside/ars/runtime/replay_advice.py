"""How to run a failed trace again, alone: a command line that is complete, or a call of Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ars._native import RunFlag
from ars.continuations import MODES
from ars.failures import Failure
from ars.flat_policy import VARIABLE, policy_options
from ars.runtime.limits import Limits
from ars.runtime.setup import Setup
from ars.wire import RunConfig

__all__ = ["Replay", "limit_options", "observe_options", "replay_of"]

_MOST_NUMBERS = 32  # that are written out in a command line


def limit_options(limits: Limits) -> tuple[str, ...]:
    """The limits that are not the default, as options of ``ars replay``."""
    words: list[str] = []
    for name, value in limits.of_a_trace().items():
        if value != getattr(Limits, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return tuple(words)


def observe_options(data: Mapping[str, npt.NDArray[np.float64]]) -> tuple[str, ...] | None:
    """The data as options of ``ars replay``; None if they are too many, have a shape, or a name with "="."""
    if sum(array.size for array in data.values()) > _MOST_NUMBERS:
        return None
    words: list[str] = []
    for name, array in data.items():
        if array.ndim > 1 or not array.size or "=" in name:
            return None
        words += ["--observe", f"{name}={','.join(map(repr, array.reshape(-1).tolist()))}"]
    return tuple(words)


class Replay(NamedTuple):
    """How the traces of a run can be run again."""

    posterior: bool  # or prior
    command: Sequence[str]  # the simulator's command line
    limits: Limits
    options: Sequence[str] | None  # of ars replay, for all that shapes the run but the limits; None: it has none for it
    continuations: str = MODES[0]
    budget: str = ""  # as an argument, if it is not the one that the run was asked for with
    unsaved: bool = False  # a network proposed that exists only within a refinement

    def advice(self, failure: Failure) -> str:
        """The command, or the call, that runs the trace of this failure again."""
        if self.options is None:
            which = f"first_trace={failure.trace}, seed={failure.seed}"
            if not self.posterior:
                return f"sim.prior(1, {which})"
            if self.unsaved:
                return "not possible, because the network that proposed it exists only within this refinement"
            if self.budget:
                return f"sim.posterior(..., traces=1, {which}, {self.budget}), with the same data and proposals"
            return f"sim.posterior(..., traces=1, {which}), with the same data, proposals and budget"
        words = ["ars", "replay", "--seed", str(failure.seed), "--trace", str(failure.trace)]
        words += [*self.options, *limit_options(self.limits)]
        if self.posterior and self.continuations != MODES[0]:
            words += ["--continuations", self.continuations]
        dashes = any(word.startswith("-") for word in self.command)
        return shlex.join([*words, *(["--"] if dashes else []), *self.command])


def replay_of(
    setup: Setup, config: RunConfig, options: Sequence[str] | None, asks: bool, *, unsaved: bool = False
) -> Replay:
    """How the traces of this run can be run again.

    ``options``: those of ``ars replay`` for the data, the network and the budget; None if they are not known. ``asks``:
    whether a proposer is asked. ``unsaved``: it is a network that exists only within a refinement. No command line has
    proposals by hand, networks in memory, env or cwd.
    """
    posterior = bool(config.flags & RunFlag.POSTERIOR)
    words = options if posterior else ()
    if words is None and not asks:
        words = observe_options(config.observed)
    command = setup.command if setup.listen is None else setup.listen.command
    words = None if set(setup.env) - {VARIABLE} or setup.cwd or words is None else [*words, *policy_options(setup.env)]
    budget = _budget_of_second_phase(config)
    return Replay(posterior, command, setup.limits, words, setup.continuations, budget, unsaved and asks)


def _budget_of_second_phase(config: RunConfig) -> str:
    """A budget with all continuations that these traces have, and perhaps more; "" if they are not a second phase."""
    if config.listed is None or not config.wanted.runs_p or config.wanted.tries_q:
        return ""
    wanted = [config.wanted, *config.budgets.values()]
    return f"budget=ars.Budget(M={max(each.runs_p for each in wanted)}, R={max(each.accepted_q for each in wanted)})"

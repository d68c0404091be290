"""How a simulator is started, or awaited, and what each run tells it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ars._native import LIMITS, Limit, RunFlag
from ars.arguments import first_of
from ars.continuations import MODES, checked_mode, continuation_flags
from ars.flat_policy import VARIABLE
from ars.runtime.limits import Limits, limited
from ars.runtime.remote import Announce, Listen
from ars.wire import Listed, RunConfig, Wanted

__all__ = ["Setup"]

_NOTHING: Final = Wanted()  # loops are not estimated


def _workers(per_core: Limit) -> int:
    return min(per_core.standard * len(os.sched_getaffinity(0)), LIMITS["workers"].most)


@dataclass(frozen=True)
class Setup:
    """The options of a Simulator, checked. A new option is a field here and an argument there."""

    command: tuple[str, ...]
    workers: int | None = None  # None: chosen
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)  # added to ours
    cwd: str | None = None
    show_stdout: bool = False
    continuations: str = MODES[0]  # how loops are estimated
    listen: Listen | None = None  # where to wait for a simulator that is started elsewhere

    def __post_init__(self) -> None:
        if self.workers is not None:
            object.__setattr__(self, "workers", limited("workers", self.workers))
        checked_mode(self.continuations)
        if not isinstance(self.limits, Limits):
            raise TypeError(f"limits must be an ars.Limits, not {self.limits!r}")

    def listening(self, listen: Listen, command: tuple[str, ...] | None, announce: Announce | None) -> Setup:
        """The same for a simulator that comes to this address. ``command``: its command line there, if it is known."""
        words = listen.command if command is None else command
        settings = self._settings_elsewhere()
        return replace(self, listen=listen._replace(command=words, settings=settings, announce=announce))

    def _settings_elsewhere(self) -> dict[str, str]:
        """The variables that say there what was asked for here. What is left to itself fits that machine, not ours."""
        wanted = {} if self.workers is None else {"ARS_WORKERS": str(self.workers)}
        asked = self.limits.environment({})
        if self.limits.max_processes == Limits.max_processes:
            del asked["ARS_MAX_PROCESSES"]
        if self.limits.max_memory is None:
            asked.pop("ARS_MAX_MEMORY", None)
        if VARIABLE in self.env:
            wanted[VARIABLE] = self.env[VARIABLE]
        return wanted | asked

    # ---- for a start -------------------------------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """The variables to add for a simulator that is started here."""
        return {**self.limits.environment({**os.environ, **self.env}), **self.env}

    def all_workers(self) -> int | None:
        """How many the family has; None if a variable says so."""
        if self.workers is not None or "ARS_WORKERS" in {**os.environ, **self.env}:
            return self.workers
        return _workers(LIMITS["asking_per_core"])

    # ---- for a run ---------------------------------------------------------------------------------------------------

    def most_workers(self, flags: RunFlag) -> int:
        """How many of the workers a run uses; 0 for all. A process that waits for a proposal leaves its core to others,
        and the more wait the larger are the batches: one that is answered is about half of those that run."""
        if self.workers is not None or self.listen is not None or not flags & RunFlag.PROPOSE_PRIOR:
            return 0  # how many there are was chosen, or is right for the machine that the simulator is on
        return _workers(LIMITS["workers_per_core"])

    def run_config(
        self,
        seed: int,
        n_traces: int,
        flags: RunFlag,
        *,
        first_trace: int = 0,
        wanted: Wanted = _NOTHING,
        budgets: Mapping[str, Wanted] | None = None,
        listed: Listed | None = None,
        observed: Mapping[str, npt.NDArray[np.float64]] | None = None,
        max_rejected: int = 0,
    ) -> RunConfig:
        """A run under these limits. ``wanted``: of loops that ``budgets`` do not have by their address. ``listed``: the
        traces, if they are not the ``n_traces`` from ``first_trace`` on."""
        if listed is not None:
            n_traces, first_trace = len(listed.traces), int(listed.traces[0])
        return RunConfig(
            seed=seed,
            n_traces=n_traces,
            first_trace=first_of("first_trace", first_trace, n_traces),
            flags=continuation_flags(self.continuations, flags),
            wanted=wanted,
            max_workers=self.most_workers(flags),
            max_tries=self.limits.max_tries,
            trace_timeout=self.limits.trace_timeout,
            try_timeout=self.limits.try_timeout,
            observed=observed or {},
            max_rejected=max_rejected,
            budgets=budgets or {},
            listed=listed,
        )

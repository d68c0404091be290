"""One run of a simulator's processes, from its settings to its result."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ars._native import RunFlag
from ars.arguments import ON_FAILURE, OnFailure
from ars.budget import Budget
from ars.columns import Columns, Site
from ars.errors import ArsError, RunInterrupted
from ars.extras import torch_needed
from ars.posterior import RunInfo, Traces
from ars.progress import NoProgress, Progress
from ars.proposers import HandProposer, PriorProposer, Proposer
from ars.runtime.recorder import Recorder
from ars.runtime.replay_advice import replay_of
from ars.runtime.setup import Setup
from ars.store.identity import run_identity
from ars.store.resume import KeptRun
from ars.wire import RunConfig, Wanted

if TYPE_CHECKING:
    from ars.inference.options import PosteriorOptions

__all__ = ["Family", "Runs", "of_chunk"]

_PROBE = 16  # traces that show which sites a simulator has


class Files(Protocol):
    """What is known of the files that processes were started from."""

    @property
    def build(self) -> str:
        """A digest of the code that runs; "": not known."""


class Family(Protocol):
    """What runs traces: the processes of a simulator on this machine (``Processes``), or on those of a cluster."""

    setup: Setup

    @property
    def files(self) -> Files: ...

    @property
    def executable(self) -> str: ...

    @property
    def known_sites(self) -> tuple[Site, ...]: ...

    @property
    def running(self) -> bool: ...

    @property
    def pid(self) -> int | None: ...

    def lease(self) -> int: ...

    def exclusively(self, lease: int | None = None) -> contextlib.AbstractContextManager[None]: ...

    def work(
        self, config: RunConfig, proposer: Proposer, recorder: Recorder, stop: threading.Event | None = None
    ) -> None: ...

    def identity(self, lease: int | None = None) -> dict[str, Any]: ...

    def only_as(self, identity: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]: ...

    def ready(self) -> object: ...

    def close(self) -> None: ...


class Runs:
    """The runs of one simulator, one at a time.

    ``options`` are those of a command line for the data and the budget of its run, and ``network`` is the file of the
    network that proposes: with them, a failure can name the command that repeats it. ``unsaved``: networks that propose
    exist only within the present refinement. ``said``: what its runs have logged once, which is enough.
    """

    def __init__(self, processes: Family) -> None:
        self._processes = processes
        self.options: tuple[str, ...] | None = None
        self.network: str | os.PathLike[str] | None = None
        self.unsaved = False
        self.said: set[str] | None = None
        self._said_of_chunks: set[str] = set()

    # ---- what they are runs of ---------------------------------------------------------------------------------------

    @property
    def command(self) -> tuple[str, ...]:
        """The executable and its arguments."""
        return self._processes.setup.command

    @property
    def continuations(self) -> str:
        """How loops are estimated: "auto", "fork" or "check"."""
        return self._processes.setup.continuations

    @property
    def build(self) -> str:
        """A digest of the simulator's code; "" if it is not known."""
        return self._processes.files.build

    @property
    def known_sites(self) -> tuple[Site, ...]:
        """The sites that the simulator has shown so far."""
        return self._processes.known_sites

    def lease(self) -> int:
        """For work that takes several runs: see ``Processes.lease``."""
        return self._processes.lease()

    def identity(self, lease: int) -> dict[str, Any]:
        """Of the simulator that the next run uses."""
        return self._processes.identity(lease)

    def only_as(self, simulator: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
        """In the block, another simulator is not started."""
        return self._processes.only_as(simulator)

    def run_identity(self, config: RunConfig, asked: PosteriorOptions, simulator: Mapping[str, Any]) -> dict[str, Any]:
        """What makes a run of this simulator the run that it is."""
        setup = self._processes.setup
        return run_identity(
            config,
            simulator=simulator,
            env=setup.env,
            cwd=setup.cwd,
            limits=setup.limits,
            observed=asked.data,
            proposals=asked.proposals,
            network=asked.network,
        )

    # ---- steps of a run ----------------------------------------------------------------------------------------------

    def proposer(self, asked: PosteriorOptions, lease: int) -> Proposer:
        """Who proposes."""
        setup = self._processes.setup
        if asked.network is None:
            return HandProposer(asked.proposals, setup.limits.trace_timeout) if asked.proposals else PriorProposer()
        with torch_needed("network="):
            from ars.network.serve.fitting import network_proposer
        return network_proposer(
            asked.network,
            asked.data,
            command=setup.command,
            known=self._processes.known_sites,
            probe=lambda: self.prior_chunk(0, 0, _PROBE, on_failure="zero", lease=lease),
            told_in_bulk=asked.in_loops == "prior",
        )

    def config(self, seed: int, traces: int, flags: RunFlag, **more: Any) -> RunConfig:
        """The settings that the host receives."""
        return self._processes.setup.run_config(seed, traces, flags, **more)

    def recorder(
        self,
        config: RunConfig,
        proposer: Proposer,
        on_failure: str,
        progress: Progress,
        kept: KeptRun | None = None,
        options: tuple[str, ...] = (),
        said: set[str] | None = None,
    ) -> Recorder:
        """Takes in the traces of a run. ``options``: of a command line, to add to those that repeat a failure."""
        given = self._words(proposer, options)
        return Recorder(
            config.n_traces,
            on_failure,
            progress,
            first=config.first_trace,
            seed=config.seed,
            keeper=kept,
            advice=replay_of(self._processes.setup, config, given, proposer.asks, unsaved=self.unsaved).advice,
            said=self.said if said is None else said,
        )

    def _words(self, proposer: Proposer, options: tuple[str, ...]) -> tuple[str, ...] | None:
        """Options of ``ars replay`` for the data, the proposer and the budget; None if they are not known."""
        if self.options is None:
            return None
        if not proposer.asks:
            return (*self.options, *options)
        return None if self.network is None else (*self.options, "--network", os.fspath(self.network), *options)

    def work(
        self,
        config: RunConfig,
        proposer: Proposer,
        recorder: Recorder,
        lease: int | None,
        stop: threading.Event | None = None,
    ) -> None:
        """Runs until every trace is in, or one has failed."""
        with self._processes.exclusively(lease):
            self._processes.work(config, proposer, recorder, stop)

    # ---- traces of the prior -----------------------------------------------------------------------------------------

    def prior(self, seed: int, traces: int, *, first_trace: int, on_failure: OnFailure, progress: Progress) -> Traces:
        """Traces of the plain simulator. Whatever ends the run early carries those that had finished as ``partial``."""
        config = self.config(seed, traces, RunFlag.PROPOSE_PRIOR, first_trace=first_trace)
        info = RunInfo(config.seed, None, None, "prior", on_failure, self.command, proposed=False)
        recorder = self.recorder(config, PriorProposer(), on_failure, progress)
        try:
            self.work(config, PriorProposer(), recorder, None)
        except (ArsError, RunInterrupted) as error:
            error.partial = self._traces(recorder, info)
            raise
        finally:
            progress.close()
        found = self._traces(recorder, info._replace(ranges=((config.first_trace, config.n_traces),)))
        if failure := recorder.error():
            failure.partial = found
            raise failure
        recorder.warn_of_dropped()
        return found

    def _traces(self, recorder: Recorder, info: RunInfo) -> Traces:
        """What has come, so far."""
        return Traces(
            recorder.columns(),
            recorder.sites,
            run=info._replace(build=self.build),
            stats=recorder.stats(),
            stderr=recorder.stderr,
            incidents=recorder.incidents,
        )

    def prior_chunk(
        self,
        seed: int,
        first_trace: int,
        n: int,
        *,
        on_failure: OnFailure = ON_FAILURE,
        stop: threading.Event | None = None,
        max_rejected: int = 0,
        lease: int | None = None,
        budget: Budget | None = None,
    ) -> tuple[Columns, tuple[Site, ...]]:
        """Traces first_trace .. first_trace + n - 1 of the prior run with this seed, in order, with the parameters of
        their priors: what a network is trained on. Fewer come back if another thread sets ``stop``. max_rejected: they
        come with what rejected tries drew, up to so many tries per loop entry. budget: their loops are estimated."""
        config = self._chunk_config(seed, first_trace, n, max_rejected, budget)
        recorder = self.recorder(config, PriorProposer(), on_failure, NoProgress(), said=self._said_of_chunks)
        self.work(config, PriorProposer(), recorder, lease, stop)
        return of_chunk(recorder)

    def prior_chunks(
        self,
        seed: int,
        parts: Iterable[tuple[int, int]],
        *,
        on_failure: OnFailure = ON_FAILURE,
        max_rejected: int = 0,
        lease: int | None = None,
    ) -> Generator[tuple[Columns, tuple[Site, ...]], None, None]:
        """``prior_chunk`` of each of these pairs of a first trace and a number of traces, in their order."""
        for first_trace, n in parts:
            yield self.prior_chunk(seed, first_trace, n, on_failure=on_failure, max_rejected=max_rejected, lease=lease)

    def _chunk_config(
        self, seed: int, first_trace: int, n: int, max_rejected: int, budget: Budget | None = None
    ) -> RunConfig:
        flags = RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS
        flags |= RunFlag.RECORD_REJECTED if max_rejected else RunFlag(0)
        flags |= RunFlag.ESTIMATE if budget else RunFlag(0)
        wanted = budget.wanted if budget else Wanted()
        return self.config(seed, n, flags, first_trace=first_trace, max_rejected=max_rejected, wanted=wanted)


def of_chunk(recorder: Recorder) -> tuple[Columns, tuple[Site, ...]]:
    """The traces of a chunk that is over; raises what they amount to if one failed and that ended it."""
    if failure := recorder.error():
        raise failure
    return recorder.columns(), recorder.sites

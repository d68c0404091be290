"""One run of a simulator's processes, from its settings to its result."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ars._native import RunFlag
from ars.arguments import ON_FAILURE, OnFailure, seed_or_random
from ars.budget import Budget
from ars.columns import Columns, Site
from ars.errors import ArsError, RunInterrupted
from ars.extras import torch_needed
from ars.posterior import RunInfo, Traces
from ars.posterior_options import PosteriorOptions
from ars.progress import NoProgress, Progress
from ars.proposers import HandProposer, PriorProposer, Proposer
from ars.results.continuations import report_continuations
from ars.results.zero_likelihood import warn_of_impossible
from ars.runtime.processes import Processes
from ars.runtime.recorder import Recorder
from ars.runtime.replay_advice import replay_of
from ars.store.identity import run_identity
from ars.store.resume import KeptRun, kept_seed
from ars.wire import RunConfig, Wanted

__all__ = ["Runs"]

_PROBE = 16  # traces that show which sites a simulator has

_Result = TypeVar("_Result", bound=Traces)


class Runs:
    """The runs of one simulator, one at a time.

    ``options`` are those of a command line for the data, the network and the budget of its run: with them, a failure
    can name the command that repeats it.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.options: tuple[str, ...] | None = None

    def run(
        self,
        config: RunConfig,
        proposer: Proposer,
        info: RunInfo,
        progress: Progress,
        result: Callable[..., _Result],
        kept: KeptRun | None = None,
        lease: int | None = None,
    ) -> _Result:
        """One run. ``result`` is made of its columns; whatever ends the run early carries one as ``partial``."""
        recorder = self._recorder(config, proposer, info.on_failure, progress, kept)
        if kept is not None:
            recorder.start(*kept.load(config.first_trace, config.n_traces))
            recorder.resumed(kept.lost)
        with self._processes.exclusively(lease):
            try:
                self._processes.work(config, proposer, recorder)
            except (ArsError, RunInterrupted) as error:
                error.partial = result(**self._parts(recorder, info))
                raise
            finally:
                progress.close()
        found = result(**self._parts(recorder, info))
        if failure := recorder.error():
            failure.partial = found
            raise failure
        if unkept := recorder.unkept():
            unkept.partial = found
            raise unkept
        proposer.warn_after_run(recorder.columns(), recorder.sites)
        if config.flags & RunFlag.POSTERIOR:
            warn_of_impossible(recorder.columns(), recorder.sites)
            report_continuations(recorder.columns(), recorder.sites)
        recorder.warn_of_dropped()
        return found

    # ---- steps of a posterior ----------------------------------------------------------------------------------------

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

    def posterior_config(
        self, asked: PosteriorOptions, proposer: Proposer, estimate: Budget | None, seed: int | None
    ) -> RunConfig:
        """The settings that the host receives. Without a seed: that of the folder to resume, or a random one."""
        if seed is None and asked.resume is not None:
            seed = kept_seed(asked.resume)
        return self._processes.setup.run_config(
            seed_or_random(seed),
            asked.traces,
            asked.flags(proposer, estimate),
            first_trace=asked.first_trace,
            wanted=Wanted(estimate.M, estimate.N) if estimate else Wanted(),
            observed={name: array.reshape(-1) for name, array in asked.data.items()},
        )

    def kept(
        self, asked: PosteriorOptions, config: RunConfig, lease: int, stack: contextlib.ExitStack
    ) -> KeptRun | None:
        """The folder that keeps this run, if it has one. Until the stack is closed, no other simulator is started."""
        if asked.resume is None:
            return None
        setup = self._processes.setup
        simulator = self._processes.identity(lease)
        identity = run_identity(
            config,
            simulator=simulator,
            env=setup.env,
            cwd=setup.cwd,
            limits=setup.limits,
            observed=asked.data,
            proposals=asked.proposals,
            network=asked.network,
        )
        kept = stack.enter_context(KeptRun(asked.resume, identity, failed_too=asked.on_failure != "raise"))
        stack.enter_context(self._processes.only_as(simulator))
        return kept

    # ---- traces to train on ------------------------------------------------------------------------------------------

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
        flags = RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS
        flags |= RunFlag.RECORD_REJECTED if max_rejected else RunFlag(0)
        flags |= RunFlag.ESTIMATE if budget else RunFlag(0)
        setup = self._processes.setup
        wanted = Wanted(budget.M, budget.N) if budget else Wanted()
        config = setup.run_config(seed, n, flags, first_trace=first_trace, max_rejected=max_rejected, wanted=wanted)
        recorder = self._recorder(config, PriorProposer(), on_failure, NoProgress())
        with self._processes.exclusively(lease):
            self._processes.work(config, PriorProposer(), recorder, stop)
            if failure := recorder.error():
                raise failure
            return recorder.columns(), recorder.sites

    def _recorder(
        self,
        config: RunConfig,
        proposer: Proposer,
        on_failure: str,
        progress: Progress,
        kept: KeptRun | None = None,
    ) -> Recorder:
        return Recorder(
            config.n_traces,
            on_failure,
            progress,
            first=config.first_trace,
            seed=config.seed,
            keeper=kept,
            advice=replay_of(self._processes.setup, config, self.options, proposer.asks).advice,
        )

    def _parts(self, recorder: Recorder, info: RunInfo) -> dict[str, Any]:
        """What a result is made of, so far."""
        return {
            "columns": recorder.columns(),
            "sites": recorder.sites,
            "run": info._replace(build=self._processes.files.build),
            "stderr": recorder.stderr,
            "incidents": recorder.incidents,
            "stats": recorder.stats(),
        }

"""The user's way in: a simulator that can be run forwards (``prior``) and backwards (``posterior``)."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import RunFlag
from ars.arguments import check_posterior_options, choice, first_of, integer, observed_arrays, renamed, seed_or_random
from ars.budget import Budget
from ars.columns import Columns, Site
from ars.continuations import continuation_flags
from ars.errors import ArsError, NetworkError, RunInterrupted
from ars.extras import one_torch_thread, torch_needed
from ars.posterior import Posterior, RunInfo, Traces
from ars.progress import NoProgress, Progress, make_progress
from ars.proposers import HandProposer, PriorProposer, Proposal, Proposer
from ars.results.continuations import report_continuations
from ars.results.zero_likelihood import warn_of_impossible
from ars.runtime.identified import Identified
from ars.runtime.recorder import Recorder
from ars.runtime.replay_advice import Replay, observe_options
from ars.store.identity import proposed_by, run_identity
from ars.store.resume import KeptRun, kept_seed
from ars.wire import RunConfig

if TYPE_CHECKING:
    from torch import nn

    from ars.network.facade import Network
    from ars.network.serve.proposer import NetworkProposer
    from ars.store.shards import Recording

__all__ = ["InLoops", "OnFailure", "Simulator"]

InLoops = Literal["proposal", "prior"]
OnFailure = Literal["raise", "zero", "skip"]

_Result = TypeVar("_Result", bound=Traces)
_DEFAULT_BUDGET = Budget()
_PROBE = 16  # traces that show which sites a simulator has


def _posterior_flags(proposer: Proposer, in_loops: str, estimate: Budget | None, ask_ahead: bool) -> RunFlag:
    flags = RunFlag.POSTERIOR
    flags |= RunFlag(0) if proposer.asks else RunFlag.PROPOSE_PRIOR
    flags |= RunFlag.LOOPS_PRIOR if in_loops == "prior" else RunFlag(0)
    flags |= RunFlag.ESTIMATE if estimate else RunFlag(0)
    return flags | (RunFlag.ASK_AHEAD if estimate and ask_ahead else RunFlag(0))


class Simulator(Identified):
    """An executable that is linked against libars, and its arguments.

    It is started at the first run, stays for the next ones, and ends with ``close``, with the ``with`` block, or at the
    latest with the Python process. One run at a time.

    workers: processes that run traces (default: 8 per core, and 32 per core where proposals are asked for).
    startup_timeout: seconds for the simulator's own initialisation. env: variables to add to its environment.
    show_stdout: let its output through. continuations: how loops are estimated, "auto" (run in place and undone where
    that is safe, else forked), "fork", or "check" (both, compared bit for bit); the numbers are the same.

    Limits: trace_timeout, seconds that a trace may take of its own time (waiting for proposals or for a core does not
    count), and again in proposals written by hand, 0 for no limit; try_timeout, the same for one try of a loop;
    max_tries, of one entry of a loop; max_snapshots, per worker, so the loops that one trace may enter (default: 256);
    max_processes, alive at once; max_memory, bytes that each process may allocate on top of what the initialised
    simulator has, 0 for no limit (default: half of the machine's). max_restarts: how often in a row a
    simulator that is lost in the middle of a run is started again without a trace having finished in between.
    """

    # For tests and benchmarks of the estimates: makes them although nothing is proposed.
    _estimates_the_prior = False
    # The options of a command line for the data, the network and the budget of its run, for the advice on failures.
    _options: tuple[str, ...] | None = None

    # ---- runs --------------------------------------------------------------------------------------------------------

    @renamed(n="traces")
    def prior(
        self,
        traces: int,
        seed: int | None = None,
        *,
        progress: bool | Progress | None = None,
        on_failure: OnFailure = "raise",
        first_trace: int = 0,
    ) -> Traces:
        """Traces of the plain simulator, observations simulated too. first_trace: the number of the first one."""
        count = integer("traces", traces, 1, 2**40)
        choice("on_failure", on_failure, ("raise", "zero", "skip"))
        config = self._config(seed_or_random(seed), count, RunFlag.PROPOSE_PRIOR, first_trace=first_trace)
        info = RunInfo(config.seed, None, None, "prior", on_failure, self.command, proposed=False)

        def result(recorder: Recorder, stats: Mapping[str, float]) -> Traces:
            return Traces(**self._parts(recorder, info), stats=stats)

        return self._run(config, PriorProposer(), on_failure, make_progress(progress), result)

    def posterior(
        self,
        observe: Mapping[str, npt.ArrayLike],
        traces: int,
        network: Network | None = None,
        proposals: Mapping[str, Proposal] | None = None,
        budget: Budget | None = _DEFAULT_BUDGET,
        in_loops: InLoops = "proposal",
        seed: int | None = None,
        *,
        on_failure: OnFailure = "raise",
        progress: bool | Progress | None = None,
        first_trace: int = 0,
        resume: str | os.PathLike[str] | None = None,
        ask_ahead: bool | None = None,
    ) -> Posterior:
        """Weighted traces given data.

        observe: name -> a number or an array. network: from ``train`` or ``ars.Network.load``, made for the same
        observations; the prior proposes the latents that it does not know, and a NetworkWarning lists them. proposals,
        instead of a network: name (or address) of a latent -> a distribution, or a function of the values drawn so far;
        the prior proposes the others. budget: what the correction of each loop may cost;
        None makes no estimate, so "ars" weights are not available. It has no effect without a network and proposals:
        where nothing is proposed, the correction of every loop is exactly 1, and nothing is estimated.
        in_loops="prior": inside loops the prior proposes
        and no correction is needed. on_failure: "raise" stops at the first failed trace, "zero" gives it weight 0,
        "skip" drops it. first_trace: the number of the first trace; its draws depend on that and the seed alone.
        first_trace + traces is at most 2**64 - 1. resume: a folder in which finished traces are kept while the run goes
        on. If it holds some of the same run already, only the others are run, and the result is that of a run without
        interruption. The folder of another run (docs/reliability.md lists what identifies one) is a StorageError, and
        so is a disk that takes no more traces; the latter has all finished ones as ``partial``. ask_ahead: what
        continuations will ask is guessed and asked for all of them together, which is faster and changes no number.
        With a network it is the default. Proposals written by hand must then have an answer for values that the
        simulator would not have asked them about.
        """
        lease = self._lease()
        data = observed_arrays(observe)
        count = integer("traces", traces, 1, 2**40)
        check_posterior_options(network, proposals, budget, in_loops, on_failure)
        proposer = self._proposer(network, proposals, data, in_loops, lease)
        proposed = proposer.asks or self._estimates_the_prior
        estimate = budget if in_loops == "proposal" and proposed else None  # else every factor is 1
        ahead = network is not None if ask_ahead is None else ask_ahead
        if seed is None and resume is not None:
            seed = kept_seed(resume)
        flags = _posterior_flags(proposer, in_loops, estimate, ahead)
        flat = {name: array.reshape(-1) for name, array in data.items()}
        config = self._config(seed_or_random(seed), count, flags, estimate, flat, first_trace)
        info = RunInfo(
            config.seed,
            estimate.M if estimate else None,
            estimate.N if estimate else None,
            in_loops,
            on_failure,
            self.command,
            proposals=json.dumps(proposed_by(proposals, network), sort_keys=True),
            proposed=proposed,
        )

        def result(recorder: Recorder, stats: Mapping[str, float]) -> Posterior:
            return Posterior(**self._parts(recorder, info), stats=stats, observed=data)

        with contextlib.ExitStack() as stack:
            if network is not None:
                stack.enter_context(one_torch_thread())
            stack.callback(proposer.close)
            kept = None
            if resume is not None:
                simulator = self._simulator_identity(lease)
                identity = run_identity(
                    config,
                    simulator=simulator,
                    env=self.env,
                    cwd=self.cwd,
                    limits=self.limits,
                    observed=data,
                    proposals=proposals,
                    network=network,
                )
                kept = stack.enter_context(KeptRun(resume, identity, failed_too=on_failure != "raise"))
                stack.enter_context(self._only_as(simulator))
            return self._run(config, proposer, on_failure, make_progress(progress), result, kept, lease)

    def _parts(self, recorder: Recorder, info: RunInfo) -> dict[str, Any]:
        """What a result is made of, so far."""
        return {
            "columns": recorder.columns(),
            "sites": recorder.sites,
            "run": info._replace(build=self._build),
            "stderr": recorder.stderr,
            "incidents": recorder.incidents,
        }

    def _proposer(
        self,
        network: Network | None,
        proposals: Mapping[str, Proposal] | None,
        data: Mapping[str, npt.NDArray[np.float64]],
        in_loops: str,
        lease: int,
    ) -> Proposer:
        if network is not None:
            return self._network_proposer(network, data, in_loops, lease)
        return HandProposer(proposals, self.limits.trace_timeout) if proposals else PriorProposer()

    def _network_proposer(
        self, network: Network, data: Mapping[str, npt.NDArray[np.float64]], in_loops: str, lease: int
    ) -> NetworkProposer:
        """Checks that the network is for these data and this simulator, before anything runs."""
        with torch_needed("network="):
            from ars.network.facade import Network
            from ars.network.serve.proposer import NetworkProposer, usual_priors
        if not isinstance(network, Network):
            raise TypeError(
                f"network must be an ars.Network, from Simulator.train or ars.Network.load, or None, not {network!r}"
            )
        proposer = NetworkProposer(network.network, data)
        known = self._session.known_sites if self._session is not None and self.running else ()
        told_in_bulk = in_loops == "prior"
        columns = None
        if told_in_bulk or not any(site.kind is native.SiteKind.SAMPLE for site in known):
            columns, known = self._prior_chunk(0, 0, _PROBE, on_failure="zero", lease=lease)
        if wrong := network.mismatches(known):
            raise NetworkError(
                f"the network does not fit the simulator {shlex.join(self.command)}: {'; '.join(wrong)}. It was "
                f"trained for {shlex.join(network.simulator) or 'an unknown one'}; train one for this simulator"
            )
        if columns is not None and told_in_bulk:
            proposer.expect(usual_priors(network.network, columns, known))
        return proposer

    # ---- training ----------------------------------------------------------------------------------------------------

    @renamed(n="traces", checkpoint="out")
    def train(
        self,
        traces: int,
        lstm_dim: int = 512,
        lstm_depth: int = 1,
        batch_size: int = 512,
        seed: int | None = None,
        data: str | os.PathLike[str] | None = None,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | Progress | None = None,
        *,
        components: int = 10,
        lr: float = 1e-3,
        held_out: int = 0,
        patience: int = 0,
        train_on: str = "accepted",
        max_rejected: int = 64,
        shapes: Mapping[str, Sequence[int]] | None = None,
        embeddings: Mapping[str, nn.Module] | None = None,
        architecture: Mapping[str, Any] | None = None,
        threads: int | None = None,
        on_failure: OnFailure = "raise",
        checkpoint_every: float = 120.0,
        tensorboard: str | os.PathLike[str] | None = None,
    ) -> Network:
        """Trains a proposal network on traces of the prior, fresh ones or those of a folder that ``record`` wrote.

        data: that folder. out: the file for the network, written every ``checkpoint_every`` seconds and at the end;
        with resume=True a training that was interrupted goes on from there. components: of mixtures. held_out: number
        of traces to judge by, never trained on (default: chosen by their number). patience: evaluations without a
        better held-out loss after which to stop, 0 for never. train_on: "accepted", what loops accept, or "all", every
        draw, rejected ones too; of the tries that one loop entry rejects, "all" uses the first ``max_rejected``, and
        lets them stand for the others. shapes: of observations that are not flat, such as {"calorimeter": (20, 20)}, an
        image. embeddings: torch modules of your own, by observation. architecture: other sizes, by their names in
        ars.network.NetworkConfig. threads: of torch. tensorboard: a folder for its logs.
        """
        with torch_needed("Simulator.train"):
            from ars.network.checkpoint import load_training, training_path
            from ars.network.model.core import NetworkConfig
            from ars.network.train.fit import train_simulator
            from ars.network.train.training import TrainingConfig
        choice("on_failure", on_failure, ("raise", "zero", "skip"))
        sizes = {"lstm_dim": lstm_dim, "lstm_depth": lstm_depth, "components": components}
        if seed is None and resume and out is not None and training_path(out).exists():
            seed = int(load_training(training_path(out), embeddings).about["config"]["seed"])
        config = TrainingConfig(
            traces=integer("traces", traces, 1, 2**40),
            batch_size=integer("batch_size", batch_size, 1, 2**20),
            lr=lr,
            seed=seed_or_random(seed),
            held_out=integer("held_out", held_out, 0, 2**31),
            patience=patience,
            train_on=train_on,
            max_rejected=integer("max_rejected", max_rejected, 1, 2**31),
        )
        return train_simulator(
            self,
            config,
            NetworkConfig.from_dict({**(architecture or {}), **sizes}),
            data=data,
            out=out,
            resume=resume,
            shapes=shapes,
            embeddings=embeddings,
            on_failure=on_failure,
            checkpoint_every=checkpoint_every,
            threads=threads,
            progress=progress,
            tensorboard=tensorboard,
        )

    @renamed(n="traces", directory="out")
    def record(
        self,
        traces: int,
        out: str | os.PathLike[str],
        seed: int | None = None,
        *,
        shard_traces: int = 16_384,
        max_rejected: int = 0,
        on_failure: OnFailure = "raise",
        progress: bool | Progress | None = None,
    ) -> Recording:
        """Draws prior traces until the folder ``out`` holds ``traces`` of them, for ``train(data=...)``.

        The shards in the folder survive a crash. max_rejected: record also what rejected tries drew, up to so many
        tries of every loop entry; 64 is enough for train_on="all".
        """
        with torch_needed("Simulator.record"):
            from ars.store.shards import record
        choice("on_failure", on_failure, ("raise", "zero", "skip"))
        count, size = integer("traces", traces, 1, 2**40), integer("shard_traces", shard_traces, 1, 2**30)
        return record(
            self,
            count,
            out,
            seed=seed,
            shard_traces=size,
            max_rejected=integer("max_rejected", max_rejected, 0, 2**31),
            on_failure=on_failure,
            progress=progress,
        )

    def _prior_chunk(
        self,
        seed: int,
        first_trace: int,
        n: int,
        *,
        on_failure: OnFailure = "raise",
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
        config = self._config(seed, n, flags, budget, first_trace=first_trace)._replace(max_rejected=max_rejected)
        advice = self._replay(config, PriorProposer()).advice
        recorder = Recorder(n, on_failure, NoProgress(), first=first_trace, seed=seed, advice=advice)
        with self._exclusively(lease):
            self._work(config, PriorProposer(), recorder, stop)
            if failure := recorder.error():
                raise failure
            return recorder.columns(), recorder.sites

    def _config(
        self,
        seed: int,
        n_traces: int,
        flags: RunFlag,
        budget: Budget | None = None,
        observed: Mapping[str, npt.NDArray[np.float64]] | None = None,
        first_trace: int = 0,
    ) -> RunConfig:
        return RunConfig(
            seed=seed,
            n_traces=n_traces,
            first_trace=first_of("first_trace", first_trace, n_traces),
            flags=continuation_flags(self.continuations, flags),
            tries_q=budget.N if budget else 0,
            runs_p=budget.M if budget else 0,
            max_workers=self._most_workers(flags),
            max_tries=self.limits.max_tries,
            trace_timeout=self.limits.trace_timeout,
            try_timeout=self.limits.try_timeout,
            observed=observed or {},
        )

    def _replay(self, config: RunConfig, proposer: Proposer) -> Replay:
        """How its traces can be run again. No command line has proposals by hand, networks in memory, env or cwd."""
        posterior = bool(config.flags & RunFlag.POSTERIOR)
        options = self._options if posterior else ()
        if options is None and not proposer.asks:
            options = observe_options(config.observed)
        command = self.command if self._listen is None else self._listen.command
        return Replay(posterior, command, self.limits, None if self.env or self.cwd else options, self.continuations)

    def _run(
        self,
        config: RunConfig,
        proposer: Proposer,
        on_failure: str,
        progress: Progress,
        result: Callable[[Recorder, Mapping[str, float]], _Result],
        kept: KeptRun | None = None,
        lease: int | None = None,
    ) -> _Result:
        """One run; whatever ends it early carries what had finished as ``partial``."""
        recorder = Recorder(
            config.n_traces,
            on_failure,
            progress,
            first=config.first_trace,
            seed=config.seed,
            keeper=kept,
            advice=self._replay(config, proposer).advice,
        )
        if kept is not None:
            recorder.start(*kept.load(config.first_trace, config.n_traces))
            recorder.resumed(kept.lost)
        with self._exclusively(lease):
            try:
                self._work(config, proposer, recorder)
            except (ArsError, RunInterrupted) as error:
                error.partial = result(recorder, recorder.stats())
                raise
            finally:
                progress.close()
        found = result(recorder, recorder.stats())
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

"""The user's way in: a simulator that can be run forwards (``prior``) and backwards (``posterior``)."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy.typing as npt

from ars._native import LIMITS
from ars.arguments import (
    ON_FAILURE,
    InLoops,
    OnFailure,
    check_on_failure,
    command_words,
    environment_variables,
    integer,
    number_of_traces,
    observed_arrays,
    renamed,
    seed_or_random,
)
from ars.checks.findings import CheckReport
from ars.checks.interventions import Influence, influences
from ars.checks.run import LEAST_TRACES, check_setup
from ars.config import CHECKPOINT_EVERY, NetworkConfig, RefineConfig, TrainingConfig, chosen
from ars.continuations import Continuations
from ars.extras import torch_needed
from ars.flat_policy import FlatPolicy, policy_of, policy_variable
from ars.inference.options import AnyBudget, PosteriorOptions
from ars.inference.posterior import infer
from ars.mcmc.chains import Chains
from ars.mcmc.options import CHAINS, ChainOptions
from ars.mcmc.sampler import run_chains
from ars.posterior import Posterior, Traces
from ars.progress import Progress, make_progress
from ars.proposers import Proposal
from ars.results.data_check import DataCheck, check_data, check_draws
from ars.runs import Family, Runs
from ars.runtime.crowd import MOST_SIMULATORS, Crowd, CrowdRuns
from ars.runtime.keys import read_keys
from ars.runtime.limits import Limits
from ars.runtime.processes import Processes
from ars.runtime.remote import Announce, listen_at
from ars.runtime.setup import Setup
from ars.store.recordings import Folders
from ars.store.shards import SHARD_TRACES, Recording, record

if TYPE_CHECKING:
    from torch import nn

    from ars.network.facade import Network
    from ars.prediction import Prediction

__all__ = ["InLoops", "OnFailure", "Simulator"]


class Simulator:
    """An executable that is linked against libars, and its arguments.

    The first run starts it, and later runs reuse it. It ends with ``close``, with the ``with`` block, or at
    the latest with the Python process. It runs one task at a time.

    Parameters
    ----------
    command : str, path or sequence of str
        The executable, or a list of the executable and its arguments.
    workers : int, optional
        Processes that run traces (default: 8 per core, and 32 per core if traces request proposals).
    limits : Limits, optional
        All limits together (default: ``Limits()``).
    trace_timeout, try_timeout, max_tries, max_snapshots, max_processes, max_memory, max_restarts, startup_timeout
        Single limits, which override those of ``limits``; ``Limits`` describes their units and defaults.
    env : mapping, optional
        Environment variables to add (default: none).
    cwd : path, optional
        Working directory (default: the current one).
    show_stdout : bool
        Show the simulator's own output (default: False).
    continuations : {"auto", "fork", "check"}
        How loops are estimated (default: "auto"). "auto" rewinds continuations where this is safe and forks
        elsewhere; "fork" always forks; "check" does both and compares them bit for bit. The numbers are the same.
    flat_policy : mapping, optional
        Rules for draws without names (``ars_flat``), from patterns to "latent" or "nuisance". A pattern with ``*`` or
        ``?`` must match the entire address; any other pattern must occur in it. The last matching rule wins, and
        overrides the program's own rules (default: no rules; a draw without a rule is a latent).

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used. The message names it.

    Examples
    --------
    >>> with ars.Simulator(["build/csim/marsaglia"], trace_timeout=5) as sim:  # doctest: +SKIP
    ...     prior = sim.prior(10_000, seed=1)
    """

    # For tests and benchmarks of the estimates: makes them although nothing is proposed.
    _estimates_the_prior = False

    def __init__(
        self,
        command: Sequence[str] | str | os.PathLike[str],
        workers: int | None = None,
        *,
        limits: Limits | None = None,
        trace_timeout: float | None = None,
        try_timeout: float | None = None,
        max_tries: int | None = None,
        max_snapshots: int | None = None,
        max_processes: int | None = None,
        max_memory: int | None = None,
        max_restarts: int | None = None,
        startup_timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        show_stdout: bool = False,
        continuations: Continuations = "auto",
        flat_policy: FlatPolicy | None = None,
    ) -> None:
        given = {
            "trace_timeout": trace_timeout,
            "try_timeout": try_timeout,
            "max_tries": max_tries,
            "max_snapshots": max_snapshots,
            "max_processes": max_processes,
            "max_memory": max_memory,
            "max_restarts": max_restarts,
            "startup_timeout": startup_timeout,
        }
        variables = environment_variables(env)
        setup = Setup(
            command_words(command),
            workers=workers,
            limits=Limits() if limits is None else limits,
            env={**variables, **policy_variable(flat_policy, variables)},
            cwd=None if cwd is None else os.fspath(cwd),
            show_stdout=bool(show_stdout),
            continuations=continuations,
        )
        self._use(Processes(dataclasses.replace(setup, limits=setup.limits.changed(given))))

    def _use(self, processes: Family, runs: Runs | None = None) -> None:
        """Run traces with these: processes of this machine, or those of a cluster."""
        self._processes, self._runs = processes, Runs(processes) if runs is None else runs
        self._lease = self._processes.lease
        self._prior_chunk, self._prior_chunks = self._runs.prior_chunk, self._runs.prior_chunks  # to train and record

    @classmethod
    def listen(
        cls,
        endpoint: str,
        key: str | os.PathLike[str] | None = None,
        *,
        insecure_loopback: bool = False,
        startup_timeout: float = float(LIMITS["startup_timeout"].standard),
        command: Sequence[str] | str | os.PathLike[str] | None = None,
        announce: Announce | None = None,
        simulators: int = 1,
        **options: Any,
    ) -> Self:
        """Wait for a simulator that was started by hand or by a batch system, and connects over TCP.

        Start it with ``ARS_ENDPOINT=tcp://OUR_HOST:PORT ARS_KEY=simulator.key``. Its machine needs ars-host as
        well: installed with libars, beside the executable, or on the PATH. If the simulator is lost, a run waits for
        another.

        Parameters
        ----------
        endpoint : str
            Where to listen, ``tcp://ADDRESS:PORT``.
        key : path, optional
            The ``controller.key`` of a pair that ``ars keygen`` made.
        insecure_loopback : bool
            Use no keys, for ``tcp://127.0.0.1:PORT`` on a machine without other users. The simulator then needs
            ``ARS_INSECURE_LOOPBACK=1``.
        startup_timeout : float
            Seconds to wait for it.
        command : sequence of str, optional
            The remote command line, used only to label the run.
        announce : callable, optional
            Called whenever the wait begins, with the address and the command line to run there.
        simulators : int
            Number of simulators to wait for (default: 1). Several connect to the same address and share the traces of
            each run, with the results of one. If one disconnects, the others run its traces, and another may take over.
        **options
            As for ``Simulator``. The number of workers, and the limits on processes, snapshots and memory, are set
            where the simulator is started.

        Returns
        -------
        Simulator
            Connected, and ready to run.

        Raises
        ------
        LaunchError
            If no simulator connected in time, or simulators of different builds did.
        """
        simulator = cls([endpoint] if command is None else command, startup_timeout=startup_timeout, **options)
        keys = None if key is None else read_keys(key)
        listen = listen_at(endpoint, keys, insecure_loopback=insecure_loopback)
        processes = simulator._processes
        there = None if command is None else processes.setup.command
        processes.setup = processes.setup.listening(listen, there, announce)
        if integer("simulators", simulators, 1, MOST_SIMULATORS) > 1:
            crowd = Crowd(processes.setup, simulators)
            simulator._use(crowd, CrowdRuns(crowd))
        simulator._processes.ready()
        return simulator

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def command(self) -> tuple[str, ...]:
        """The executable and its arguments."""
        return self._processes.setup.command

    @property
    def limits(self) -> Limits:
        """Its limits on time, memory and processes."""
        return self._processes.setup.limits

    @property
    def workers(self) -> int | None:
        """Number of processes that run traces; None: chosen automatically. A change takes effect at the next start."""
        return self._processes.setup.workers

    @workers.setter
    def workers(self, workers: int | None) -> None:
        self._processes.setup = dataclasses.replace(self._processes.setup, workers=workers)

    @property
    def env(self) -> Mapping[str, str]:
        """Environment variables added to those of this process."""
        return self._processes.setup.env

    @property
    def flat_policy(self) -> dict[str, str]:
        """The rules for draws without names, from patterns to "latent" or "nuisance"."""
        return policy_of(self._processes.setup.env)

    @property
    def cwd(self) -> str | None:
        """Its working directory; None: the current one."""
        return self._processes.setup.cwd

    @property
    def continuations(self) -> str:
        """How loops are estimated: "auto", "fork" or "check"."""
        return self._processes.setup.continuations

    @property
    def running(self) -> bool:
        """Whether the simulator's processes are running."""
        return self._processes.running

    @property
    def pid(self) -> int | None:
        """The id of the process that was started (ars-host, once the simulator has split), or None."""
        return self._processes.pid

    def close(self) -> None:
        """End the simulator's processes. A later call of ``prior``, ``posterior``, ``train`` or ``record`` starts new
        ones.

        Any thread may call this. A run in progress in another thread ends with RunInterrupted, whose
        ``partial`` holds the finished traces.
        """
        self._processes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Simulator cannot be copied or pickled, because it owns processes: make one where it is needed, with "
            "ars.Simulator(command)"
        )

    def __repr__(self) -> str:
        workers = "" if self.workers is None else f", workers={self.workers}"
        return f"<Simulator {shlex.join(self.command)}{workers}, {'running' if self.running else 'not running'}>"

    # ---- runs --------------------------------------------------------------------------------------------------------

    @renamed(n="traces")
    def prior(
        self,
        traces: int,
        seed: int | None = None,
        *,
        progress: bool | Progress | None = None,
        on_failure: OnFailure = ON_FAILURE,
        first_trace: int = 0,
    ) -> Traces:
        """Run the simulator forwards, for prior traces with simulated observations.

        Parameters
        ----------
        traces : int
            How many.
        seed : int, optional
            Random seed; the same seed gives the same traces with any number of workers (default: random).
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, keep it marked as failed, or drop it (default: "raise").
        first_trace : int
            Number of the first trace (default: 0). A trace's draws depend only on its number and the seed, so runs of
            different ranges are parts of one run.

        Returns
        -------
        Traces
            ``traces["x"]`` has the values of the latent, observation or result x.

        Raises
        ------
        SimulatorError
            If a trace fails and ``on_failure`` is "raise".
        """
        count = number_of_traces(traces)
        check_on_failure(on_failure)
        return self._runs.prior(
            seed_or_random(seed),
            count,
            first_trace=first_trace,
            on_failure=on_failure,
            progress=make_progress(progress),
        )

    def posterior(
        self,
        observe: Mapping[str, npt.ArrayLike],
        traces: int,
        network: Network | None = None,
        proposals: Mapping[str, Proposal] | None = None,
        budget: AnyBudget = PosteriorOptions.budget,
        in_loops: InLoops = PosteriorOptions.in_loops,
        seed: int | None = None,
        *,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
        first_trace: int = 0,
        resume: str | os.PathLike[str] | None = None,
        ask_ahead: bool | None = None,
        refine: bool | RefineConfig = False,
        adapt: bool | RefineConfig = False,
        refined_out: str | os.PathLike[str] | None = None,
    ) -> Posterior:
        """Run the simulator backwards, for weighted traces given data.

        Parameters
        ----------
        observe : mapping of str to array_like
            The data: the name of an observation, and a number or an array. NaN means "not observed": that number is
            omitted from the likelihood, and the simulator draws it instead (docs/output.md, "Missing data").
        traces : int
            Number of traces. With ``Budget.auto(error=...)`` or ``Budget.auto(seconds=...)``, the maximum.
        network : Network, optional
            Proposes the latents: from ``train`` or ``Network.load``, made for the same observations. The prior proposes
            the latents that it does not know, and a NetworkWarning lists them.
        proposals : mapping of str to distribution or callable, optional
            Instead of a network: the name or address of a latent, and its distribution, or a function of the values
            drawn so far. The prior proposes the others.
        budget : "auto", Budget or None
            How much work goes into the correction of each loop. "auto" chooses it by a pilot (docs/budget.md).
            ``Budget.auto(error=0.01)`` and ``Budget.auto(seconds=60)`` stop early. ``Budget(M=1, N=10)`` is the paper's
            estimator with a fixed budget. The ``budget`` of another posterior repeats its choice. None makes no
            estimates, so "ars" weights are not available. Loops in which nothing is proposed are never estimated: their
            correction is exactly 1.
        in_loops : {"proposal", "prior"}
            "prior": inside loops the prior proposes, and no correction is needed (default: "proposal").
        seed : int, optional
            Random seed; the same seed gives the same traces and weights with any number of workers (default: random).
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, give it weight 0, or drop it (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).
        first_trace : int
            Number of the first trace (default: 0); first_trace + traces is at most 2**64 - 1. A trace's draws depend on
            its number and the seed alone, so runs of different ranges are parts of one run (``ars.merge``).
        resume : path, optional
            A folder for finished traces. If it already holds traces of the same run, only the others are run, and the
            result equals that of an uninterrupted run.
        ask_ahead : bool, optional
            Guess the requests of continuations and send them together, which is faster and changes no number (default:
            with a network). Hand-written proposals must then handle values that the simulator would
            never have requested.
        refine : bool or RefineConfig
            First specialise the network to these data, by rounds of training on its own weighted traces
            (``Network.refine``).
        adapt : bool or RefineConfig
            The same without a network, starting from the prior. Both report traces of a separate run, with fixed
            proposals and a seed that no round has used, so the weights are unbiased (docs/refinement.md).
        refined_out : path, optional
            A file for the network that ``refine`` or ``adapt`` made.

        Returns
        -------
        Posterior
            Traces with log weights; ``summary()`` says whether to trust them.

        Raises
        ------
        SimulatorError
            If a trace fails and ``on_failure`` is "raise".
        StorageError
            If the folder ``resume`` holds another run (docs/reliability.md lists what identifies one), or its disk is
            full; the latter has all finished traces as ``partial``.
        RunInterrupted
            After Ctrl-C; ``partial`` holds the finished traces.
        """
        lease = self._lease()
        data = observed_arrays(observe)
        asked = PosteriorOptions(
            data, traces, network, proposals, budget, in_loops, on_failure, first_trace, resume, ask_ahead
        )
        if refine is not False or adapt is not False:
            from ars.adaptation import adapted_network

            seed, network = adapted_network(
                self, data, refine, adapt, network, proposals, seed, in_loops, on_failure, resume, progress, refined_out
            )
            self._runs.network = None if network is None else refined_out
            asked = dataclasses.replace(asked, network=network, adapted=True)
        elif refined_out is not None:
            raise ValueError("refined_out= needs refine= or adapt=, which make the network that it is for")
        shown = make_progress(progress)
        return infer(self._runs, asked, seed, lease, shown, estimates_the_prior=self._estimates_the_prior)

    def predict(
        self,
        post: Posterior,
        n: int = 1000,
        seed: int | None = None,
        *,
        method: str | None = None,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
    ) -> Prediction:
        """Simulate data with latents from a posterior: the posterior predictive distribution.

        Latents are drawn by their weights, with systematic resampling, and passed to the simulator. It redraws the
        observations and everything that it does not record as a latent. Numbers of the data that were not observed
        (NaN) are drawn as well.

        Parameters
        ----------
        post : Posterior
            Result of ``posterior``. This simulator must draw its latents; its observations may differ, for example if
            it has other arguments.
        n : int
            Number of draws (default: 1,000). More draws than ``post`` has effective traces repeat the same latents with
            other data.
        seed : int, optional
            Random seed; the same seed gives the same draws (default: random).
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or rerun it with other random numbers (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        Prediction
            Equally weighted traces: ``predicted.observations["y"]`` has a row per draw.

        Raises
        ------
        ValueError
            If no trace of the posterior has weight, or this simulator draws none of its latents.

        Warns
        -----
        BiasWarning
            If draws are omitted because loops keep rejecting their latents.

        Examples
        --------
        >>> with ars.Simulator(["build/csim/gaussian"]) as sim:  # doctest: +SKIP
        ...     post = sim.posterior({"y": 0.7}, 10_000, seed=1)
        ...     predicted = sim.predict(post, 1_000, seed=2)
        """
        from ars.prediction import predict

        shown = make_progress(progress)
        chosen_seed = seed_or_random(seed)
        return predict(
            self._runs,
            post,
            n,
            chosen_seed,
            lease=self._lease(),
            progress=shown,
            on_failure=on_failure,
            method=method,
        )

    def check_data(
        self,
        observe: Mapping[str, npt.ArrayLike],
        traces: int = 1000,
        seed: int | None = None,
        *,
        level: float = 0.01,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
    ) -> DataCheck:
        """Compare data with observations simulated from the prior.

        Parameters
        ----------
        observe : mapping
            Name -> a number or an array. NaN, for a number that was not observed, is skipped.
        traces : int
            Prior draws to compare with (default: 1,000); at least 8 / level.
        seed : int, optional
            Seed of these draws (default: random). No other run depends on it.
        level : float
            Rate of false alarms, between 0 and 1 (default: 0.01): the share of data sets drawn from the model itself
            that raise one.
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or omit it (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        DataCheck
            ``p_value``, ``alarm``, and ``stands_out`` with the names of the numbers that are unlike the draws.
            ``print`` shows a sentence. ``post.advice(check)`` and ``post.summary(check=check)`` take it into account.

        Raises
        ------
        TypeError, ValueError
            If the data cannot be used, or do not fit the simulator's observations.
        """
        data = observed_arrays(observe)
        check_draws(number_of_traces(traces), level)
        drawn = self.prior(traces, seed, progress=progress, on_failure=on_failure).observations
        return check_data(data, {name: drawn[name] for name in drawn}, level=level)

    def check(self, traces: int = 2000, seed: int | None = None) -> CheckReport:
        """Check the assumptions that a simulator's weights depend on (docs/annotating.md).

        Runs the prior three times in separate processes: normally, in a single process in a different order, and with
        a continuation for every loop entry. Draws that a policy makes nuisances are not recorded, so loops of such
        draws cannot be found.

        Parameters
        ----------
        traces : int
            Traces per run (default: 2,000; at least 100). More find rarer mistakes.
        seed : int, optional
            Seed of all runs (default: random). The same seed gives the same report.

        Returns
        -------
        CheckReport
            ``ok``, ``problems`` and ``findings``; ``print`` shows a readable report.

        Raises
        ------
        LaunchError
            If the simulator does not start.
        ValueError
            If ``traces`` is below 100, or the simulator comes from ``listen``: the check must start it three times.

        Examples
        --------
        >>> print(ars.Simulator(["build/csim/marsaglia"]).check(seed=1))  # doctest: +SKIP
        """
        count = number_of_traces(traces)
        if count < LEAST_TRACES:
            raise ValueError(f"traces must be at least {LEAST_TRACES}, not {count}: with fewer, the tests find nothing")
        setup = self._processes.setup
        if setup.listen is not None:
            raise ValueError("check starts the simulator itself, several times: use ars.Simulator([...]), not listen")
        return check_setup(setup, count, seed_or_random(seed))

    def _influences(self, seed: int) -> dict[str, Influence]:
        """Which latents the data depend on: for ``ars inspect``."""
        return influences(self._runs, seed)

    def mcmc(
        self,
        observe: Mapping[str, npt.ArrayLike],
        steps: int,
        chains: int = CHAINS,
        network: Network | None = None,
        proposals: Mapping[str, Proposal] | None = None,
        seed: int | None = None,
        *,
        warmup: int | None = None,
        thin: int | None = None,
        blocks: Sequence[Sequence[str]] = (),
        M: int | None = None,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
    ) -> Chains:
        """Run Markov chains over the latents given data, for an independent check of ``posterior`` (docs/mcmc.md).

        Parameters
        ----------
        observe : mapping
            Name -> a number or an array. NaN means "not observed", as in ``posterior``.
        steps : int
            Draws that each chain records, after the warm-up.
        chains : int
            Number of chains, which run together (default: 16).
        network : Network, optional
            Adds moves that draw from its proposals (default: the prior draws, and random walks).
        proposals : mapping, optional
            The same, instead of a network: name or address of a latent -> a distribution, or a function of the values
            drawn so far (default: none).
        seed : int, optional
            Random seed; the same seed gives the same draws (default: random).
        warmup : int, optional
            Steps before the first draw, in which random walks adapt their scales (default: half of ``steps``, at least
            100).
        thin : int, optional
            Moves of each chain per step (default: the number of latents of a typical trace, at most 50).
        blocks : sequence of sequences of str
            Groups of names or addresses of latents to move together as well (default: none).
        M : int, optional
            Runs under the prior from each loop entry, which estimate 1/p(A) (default: 2 to 50, by how often the loops
            reject). More runs cost time but let chains move more often. The draws are correct with any number.
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or refuse the move (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        Chains
            ``chains["x"]`` has the draws, chains x draws; ``chains.summary()`` says whether you can trust them.

        Raises
        ------
        ChainError
            If no draw of the prior or the network could have produced the data, a block names no latent, or a loop
            gives up (``ars_loop_abandon``): use :meth:`posterior` then.
        TraceFailure
            If a trace fails and ``on_failure`` is "raise". ``partial`` holds the recorded draws.
        RunInterrupted
            On Ctrl-C. ``partial`` holds the recorded draws.

        Examples
        --------
        >>> with ars.Simulator(["build/csim/gaussian"]) as sim:  # doctest: +SKIP
        ...     print(sim.mcmc({"y": 0.7}, steps=500, seed=1).summary())
        """
        lease = self._lease()
        data = observed_arrays(observe)
        asked = ChainOptions(data, steps, chains, network, proposals, warmup, thin, blocks, M, on_failure)
        return run_chains(self._runs, asked, seed, lease, make_progress(progress))

    # ---- training ----------------------------------------------------------------------------------------------------

    @renamed(n="traces", checkpoint="out")
    def train(
        self,
        traces: int | None = None,
        lstm_dim: int | None = None,
        lstm_depth: int | None = None,
        batch_size: int | None = None,
        seed: int | None = None,
        data: Folders | None = None,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | Progress | None = None,
        *,
        config: TrainingConfig | None = None,
        network: NetworkConfig | None = None,
        components: int | None = None,
        lr: float | None = None,
        held_out: int | None = None,
        patience: int | None = None,
        train_on: str | None = None,
        max_rejected: int | None = None,
        missing: float | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        embeddings: Mapping[str, nn.Module] | None = None,
        architecture: Mapping[str, Any] | None = None,
        threads: int | None = None,
        on_failure: OnFailure = ON_FAILURE,
        checkpoint_every: float = CHECKPOINT_EVERY,
        tensorboard: str | os.PathLike[str] | None = None,
        device: str = "cpu",
    ) -> Network:
        """Train a proposal network on prior traces: fresh ones, or a recording made by ``record``.

        Parameters
        ----------
        traces, batch_size, lr, seed, held_out, patience, train_on, max_rejected, missing
            Single settings, which override those of ``config``; ``TrainingConfig`` explains them.
        lstm_dim, lstm_depth, components
            Single sizes, which override those of ``network``; ``NetworkConfig`` explains them.
        config : TrainingConfig, optional
            All settings together (default: ``TrainingConfig()``).
        network : NetworkConfig, optional
            All sizes together (default: ``NetworkConfig()``).
        architecture : mapping, optional
            Sizes by name, which override those of ``network`` (default: none).
        data : path or sequence of paths, optional
            Folder of recorded traces to train on, or several to use as one (default: fresh traces).
        out : path, optional
            File for the network, written every ``checkpoint_every`` seconds and at the end (default: none).
        resume : bool
            Continue the training that ``out`` holds, if there is one (default: False).
        shapes : mapping, optional
            Shapes of observations that are not flat, such as {"calorimeter": (20, 20)}, an image (default: flat).
        embeddings : mapping, optional
            Your own torch modules, by observation (default: built-in ones).
        threads : int, optional
            Threads (default: as many as torch uses).
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or omit it (default: "raise").
        checkpoint_every : float
            Seconds between two writes of ``out`` (default: 120 s).
        tensorboard : path, optional
            Folder for the logs of TensorBoard (default: none).
        device : {"cpu", "cuda", "cuda:N"}
            Where the network is computed (default: "cpu").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Notes
        -----
        In processes started by torchrun, or with an initialised ``torch.distributed`` process group, all ranks train
        one network together: each draws a share of every batch. The first rank writes ``out`` and shows the progress;
        all return the same network.

        Returns
        -------
        Network
            The trained network; with ``patience``, the one with the lowest held-out loss.

        Raises
        ------
        TrainingError
            If the loss is not finite, or another rank cannot continue (``RankLostError`` if it has ended).
        StorageError
            If ``out`` cannot be written.
        RunInterrupted
            On Ctrl-C, after ``out`` has been written.
        """
        with torch_needed("Simulator.train"):
            from ars.network.train.fit import train_simulator
        check_on_failure(on_failure)
        settings = {
            "traces": traces,
            "batch_size": batch_size,
            "lr": lr,
            "seed": seed,
            "held_out": held_out,
            "patience": patience,
            "train_on": train_on,
            "max_rejected": max_rejected,
            "missing": missing,
        }
        sizes = {"lstm_dim": lstm_dim, "lstm_depth": lstm_depth, "components": components}
        sizes = {name: size for name, size in sizes.items() if size is not None}
        return train_simulator(
            self,
            chosen(TrainingConfig, "config", config, settings),
            chosen(NetworkConfig, "network", network, {**(architecture or {}), **sizes}),
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
            device=device,
        )

    @renamed(n="traces", directory="out")
    def record(
        self,
        traces: int,
        out: str | os.PathLike[str],
        seed: int | None = None,
        *,
        shard_traces: int = SHARD_TRACES,
        max_rejected: int = 0,
        first_trace: int | None = None,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
    ) -> Recording:
        """Draw prior traces until the folder ``out`` holds ``traces`` of them, for ``train(data=...)``.

        The folder survives a crash, and a later call continues from there.

        Parameters
        ----------
        traces : int
            Total number of traces in the folder at the end.
        out : path
            The folder.
        seed : int, optional
            Random seed; the same seed gives the same traces (default: that of the folder, random for a new one).
        shard_traces : int
            Traces per file.
        max_rejected : int
            Also record the draws of up to this many rejected tries per loop entry (default: 0); 64 is enough for
            ``train_on="all"``.
        first_trace : int, optional
            Number of the first trace (default: that of the folder, 0 for a new one), so that several machines record
            ranges of one run (``ars.merge``).
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or omit it (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        Recording
            The folder, for ``train(data=...)``.

        Raises
        ------
        StorageError
            If the folder holds another recording, or cannot be written.
        """
        return record(
            self,
            traces,
            out,
            seed=seed,
            shard_traces=shard_traces,
            max_rejected=max_rejected,
            first_trace=first_trace,
            on_failure=on_failure,
            progress=progress,
        )

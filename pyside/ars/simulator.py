"""The user's way in: a simulator that can be run forwards (``prior``) and backwards (``posterior``)."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import secrets
import shlex
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import FailureKind, RunFlag, failure_name
from ars.budget import Budget
from ars.columns import Columns, Site, concatenate, sort_by_trace
from ars.errors import ArsError, BiasWarning, NetworkError, ObservationError, RunInterrupted, TraceFailure
from ars.failures import Failure, describe, failures_of
from ars.posterior import Posterior, RunInfo, Traces
from ars.progress import NoProgress, Progress, make_progress
from ars.proposers import HandProposer, PriorProposer, Proposal
from ars.session import RunSummary, Session
from ars.wire import RunConfig

if TYPE_CHECKING:
    from torch import nn

    from ars.network.facade import Network
    from ars.network.proposer import NetworkProposer
    from ars.network.shards import Recording

__all__ = ["InLoops", "OnFailure", "Simulator"]

InLoops = Literal["proposal", "prior"]
OnFailure = Literal["raise", "zero", "skip"]

_Result = TypeVar("_Result", bound=Traces)
_LARGEST_WORKERS = 256  # ARS__MAX_WORKERS
_DEFAULT_BUDGET = Budget()
_PROBE = 16  # traces that show which sites a simulator has


# ---- arguments -------------------------------------------------------------------------------------------------------


def _integer(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {number}")
    return number


def _seconds(name: str, value: object, *, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        raise ValueError(f"{name} must be a finite, {'non-negative' if zero else 'positive'} number, not {value!r}")
    return seconds


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be {' or '.join(repr(a) for a in allowed)}, not {value!r}")


def _seed(seed: int | None) -> int:
    return secrets.randbits(63) if seed is None else _integer("seed", seed, 0, 2**64 - 1)


def _command(command: Sequence[str] | str | os.PathLike[str]) -> tuple[str, ...]:
    if isinstance(command, (str, os.PathLike)):
        given: list[Any] = [command]
    else:
        try:
            given = list(command)
        except TypeError:
            raise TypeError(f"command must be a path, or a list of a path and arguments, not {command!r}") from None
    if not given:
        raise ValueError("command is empty: give the path of an executable, and its arguments")
    try:
        words = tuple(os.fspath(word) for word in given)
    except TypeError:
        raise TypeError(f"command must consist of strings, not {command!r}") from None
    if not all(isinstance(word, str) for word in words) or not words[0] or any("\0" in word for word in words):
        raise TypeError(f"command must be non-empty text without zero bytes, not {command!r}")
    return words


def _observed(observe: object) -> dict[str, npt.NDArray[np.float64]]:
    """The data as arrays that keep their shape; every complaint names the observation."""
    if not isinstance(observe, Mapping):
        raise TypeError(f"observe must map names to values, such as {{'y': 0.5}}, not {observe!r}")
    data: dict[str, npt.NDArray[np.float64]] = {}
    for name, value in observe.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"observe: names are non-empty text, not {name!r}")
        if len(name.encode("utf-8")) > native.MAX_NAME or "\0" in name:
            raise ValueError(
                f"observe: the name {name[:40]!r}... is longer than {native.MAX_NAME} bytes or has a zero byte"
            )
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"observe[{name!r}] must be a number or an array of numbers: {error}") from None
        if array.size == 0:
            raise ValueError(f"observe[{name!r}] is empty")
        if not np.isfinite(array).all():
            raise ValueError(f"observe[{name!r}] has a value that is not finite")
        data[name] = array
    if sum(array.nbytes for array in data.values()) > native.MAX_MESSAGE // 8:
        raise ValueError(f"observe: more than {native.MAX_MESSAGE // 8} bytes of data")
    return data


@contextlib.contextmanager
def _torch_needed(what: str) -> Iterator[None]:
    """For imports: says how to get what networks need."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("torch", "safetensors"):
            raise
        raise ImportError(f"{what} needs {error.name}: pip install 'libars[network]'", name=error.name) from error


def _one_torch_thread() -> contextlib.AbstractContextManager[None]:
    """Batches are small, and torch's threads spin while they wait for each other: on two cores that the simulators use
    too, a second thread made serving eight times slower.
    """
    from ars.network.training import one_torch_thread

    return one_torch_thread()


# ---- a run -----------------------------------------------------------------------------------------------------------


class _Recorder:
    """Takes in finished traces, and says when a failure means to stop."""

    def __init__(self, total: int, on_failure: str, progress: Progress) -> None:
        self._parts: list[Columns] = []
        self._total = total
        self._on_failure = on_failure
        self._progress = progress
        self.done = 0
        self.failures: list[Failure] = []

    def take(self, columns: Columns) -> bool:
        self._parts.append(columns)
        self.done += len(columns.traces)
        self._progress.update(self.done, self._total)
        if not len(columns.failures):
            return False
        self.failures += failures_of(columns.failures)
        return self._on_failure == "raise" or bool((columns.failures["kind"] == FailureKind.OBSERVATION).any())

    def columns(self) -> Columns:
        return sort_by_trace(concatenate(self._parts))

    def error(self) -> TraceFailure | None:
        """The error that the failures amount to under the run's policy."""
        wrong_data = [f for f in self.failures if f.kind == failure_name(FailureKind.OBSERVATION)]
        if wrong_data:
            return ObservationError(f"the observed data do not fit the simulator: {wrong_data[0].text}", wrong_data)
        if self.failures and self._on_failure == "raise":
            return TraceFailure(
                f"{len(self.failures)} of {self.done} traces failed. {describe(self.failures)}\n"
                '.partial holds what had finished; on_failure="zero" gives a failed trace weight 0',
                self.failures,
            )
        return None


class Simulator:
    """An executable that is linked against libars, and its arguments.

    It is started at the first run, stays for the next ones, and ends with ``close``, with the ``with`` block, or at the
    latest with the Python process. One run at a time.

    workers: processes that run traces (default: 8 per core). trace_timeout: seconds that a trace may take of its own
    time, 0 for no limit. max_tries: of one rejection loop. startup_timeout: seconds for the simulator's own
    initialisation. env: variables to add to its environment. show_stdout: let its output through.
    """

    def __init__(
        self,
        command: Sequence[str] | str | os.PathLike[str],
        workers: int | None = None,
        *,
        trace_timeout: float = 60.0,
        max_tries: int = 10_000_000,
        startup_timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        show_stdout: bool = False,
    ) -> None:
        self.command = _command(command)
        self.workers = None if workers is None else _integer("workers", workers, 1, _LARGEST_WORKERS)
        self.trace_timeout = _seconds("trace_timeout", trace_timeout, zero=True)
        self.max_tries = _integer("max_tries", max_tries, 1, 2**63)
        self.startup_timeout = _seconds("startup_timeout", startup_timeout, zero=False)
        self.env = dict(env or {})
        self.cwd = None if cwd is None else os.fspath(cwd)
        self.show_stdout = bool(show_stdout)
        self._session: Session | None = None
        self._busy = threading.Lock()

    # ---- runs --------------------------------------------------------------------------------------------------------

    def prior(
        self,
        n: int,
        seed: int | None = None,
        *,
        progress: bool | Progress | None = None,
        on_failure: OnFailure = "raise",
    ) -> Traces:
        """n traces of the plain simulator, observations simulated too."""
        count = _integer("n", n, 1, 2**40)
        _choice("on_failure", on_failure, ("raise", "zero", "skip"))
        config = self._config(_seed(seed), count, RunFlag.PROPOSE_PRIOR)
        info = RunInfo(config.seed, None, None, "prior", on_failure, self.command)

        def result(columns: Columns, sites: Sequence[Site], summary: RunSummary | None) -> Traces:
            return Traces(columns, sites, run=info, stats=summary.stats() if summary else {})

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
    ) -> Posterior:
        """Weighted traces given data.

        observe: name -> a number or an array. network: from ``train`` or ``ars.Network.load``, made for the same
        observations; the prior proposes the latents that it does not know, and a NetworkWarning lists them. proposals,
        instead of a network: name (or address) of a latent -> a distribution, or a function of the values drawn so far;
        the prior proposes the others. budget: what the correction of each loop may cost;
        None makes no estimate, so "ars" weights are not available. in_loops="prior": inside loops the prior proposes
        and no correction is needed. on_failure: "raise" stops at the first failed trace, "zero" gives it weight 0,
        "skip" drops it.
        """
        data = _observed(observe)
        count = _integer("traces", traces, 1, 2**40)
        _choice("in_loops", in_loops, ("proposal", "prior"))
        _choice("on_failure", on_failure, ("raise", "zero", "skip"))
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be an ars.Budget or None, not {budget!r}")
        if proposals is not None and not isinstance(proposals, Mapping):
            raise TypeError(f"proposals must map names to distributions or functions, not {proposals!r}")
        proposer: HandProposer | PriorProposer | NetworkProposer
        if network is not None:
            if proposals:
                raise ValueError("give network= or proposals=, not both: a latent has one proposal")
            proposer = self._network_proposer(network, data, in_loops)
        else:
            proposer = HandProposer(proposals) if proposals else PriorProposer()
        estimate = budget if in_loops == "proposal" else None
        flags = RunFlag.POSTERIOR
        flags |= RunFlag.PROPOSE_PRIOR if isinstance(proposer, PriorProposer) else RunFlag(0)
        flags |= RunFlag.LOOPS_PRIOR if in_loops == "prior" else RunFlag(0)
        flags |= RunFlag.ESTIMATE if estimate else RunFlag(0)
        flat = {name: array.reshape(-1) for name, array in data.items()}
        config = self._config(_seed(seed), count, flags, estimate, flat)
        info = RunInfo(
            config.seed,
            estimate.M if estimate else None,
            estimate.N if estimate else None,
            in_loops,
            on_failure,
            self.command,
        )

        def result(columns: Columns, sites: Sequence[Site], summary: RunSummary | None) -> Posterior:
            return Posterior(columns, sites, run=info, stats=summary.stats() if summary else {}, observed=data)

        with _one_torch_thread() if network is not None else contextlib.nullcontext():
            return self._run(config, proposer, on_failure, make_progress(progress), result)

    def _network_proposer(
        self, network: Network, data: Mapping[str, npt.NDArray[np.float64]], in_loops: str
    ) -> NetworkProposer:
        """Checks that the network is for these data and this simulator, before anything runs."""
        with _torch_needed("network="):
            from ars.network.facade import Network
            from ars.network.proposer import NetworkProposer, usual_priors
        if not isinstance(network, Network):
            raise TypeError(
                f"network must be an ars.Network, from Simulator.train or ars.Network.load, or None, not {network!r}"
            )
        proposer = NetworkProposer(network.network, data)
        known = self._session.known_sites if self._session is not None and self.running else ()
        told_in_bulk = in_loops == "prior"
        columns = None
        if told_in_bulk or not any(site.kind is native.SiteKind.SAMPLE for site in known):
            columns, known = self._prior_chunk(0, 0, _PROBE, on_failure="zero")
        if wrong := network.mismatches(known):
            raise NetworkError(
                f"the network does not fit the simulator {shlex.join(self.command)}: {'; '.join(wrong)}. It was "
                f"trained for {shlex.join(network.simulator) or 'an unknown one'}; train one for this simulator"
            )
        if columns is not None and told_in_bulk:
            proposer.expect(usual_priors(network.network, columns, known))
        return proposer

    # ---- training ----------------------------------------------------------------------------------------------------

    def train(
        self,
        n: int,
        lstm_dim: int = 512,
        lstm_depth: int = 1,
        batch_size: int = 512,
        seed: int | None = None,
        data: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | Progress | None = None,
        *,
        components: int = 10,
        lr: float = 1e-3,
        patience: int = 0,
        train_on: str = "accepted",
        shapes: Mapping[str, Sequence[int]] | None = None,
        embeddings: Mapping[str, nn.Module] | None = None,
        architecture: Mapping[str, Any] | None = None,
        threads: int | None = None,
        on_failure: OnFailure = "raise",
        checkpoint_every: float = 120.0,
        tensorboard: str | os.PathLike[str] | None = None,
    ) -> Network:
        """Trains a proposal network on n traces of the prior, fresh ones or those of a folder that ``record`` wrote.

        data: that folder. checkpoint: the file for the network, written every ``checkpoint_every`` seconds and at the
        end; with resume=True a training that was interrupted goes on from there. components: of mixtures. patience:
        evaluations without a better held-out loss after which to stop, 0 for never. shapes: of observations that are
        not flat, such as {"calorimeter": (20, 20)}, an image. embeddings: torch modules of your own, by observation.
        architecture: other sizes, by their names in ars.network.NetworkConfig. threads: of torch. tensorboard: a folder
        for its logs.
        """
        with _torch_needed("Simulator.train"):
            from ars.network.checkpoint import load_training, training_path
            from ars.network.core import NetworkConfig
            from ars.network.fit import train_simulator
            from ars.network.training import TrainingConfig
        _choice("on_failure", on_failure, ("raise", "zero", "skip"))
        sizes = {"lstm_dim": lstm_dim, "lstm_depth": lstm_depth, "components": components}
        if seed is None and resume and checkpoint is not None and training_path(checkpoint).exists():
            seed = int(load_training(training_path(checkpoint), embeddings).about["config"]["seed"])
        config = TrainingConfig(
            traces=_integer("n", n, 1, 2**40),
            batch_size=_integer("batch_size", batch_size, 1, 2**20),
            lr=lr,
            seed=_seed(seed),
            patience=patience,
            train_on=train_on,
        )
        return train_simulator(
            self,
            config,
            NetworkConfig.from_dict({**(architecture or {}), **sizes}),
            data=data,
            out=checkpoint,
            resume=resume,
            shapes=shapes,
            embeddings=embeddings,
            on_failure=on_failure,
            checkpoint_every=checkpoint_every,
            threads=threads,
            progress=progress,
            tensorboard=tensorboard,
        )

    def record(
        self,
        n: int,
        directory: str | os.PathLike[str],
        seed: int | None = None,
        *,
        shard_traces: int = 16_384,
        on_failure: OnFailure = "raise",
        progress: bool | Progress | None = None,
    ) -> Recording:
        """Draws prior traces until the folder holds n, in shards that survive a crash; for ``train(data=...)``."""
        with _torch_needed("Simulator.record"):
            from ars.network.shards import record
        _choice("on_failure", on_failure, ("raise", "zero", "skip"))
        count, size = _integer("n", n, 1, 2**40), _integer("shard_traces", shard_traces, 1, 2**30)
        return record(self, count, directory, seed=seed, shard_traces=size, on_failure=on_failure, progress=progress)

    def _prior_chunk(
        self,
        seed: int,
        first_trace: int,
        n: int,
        *,
        on_failure: OnFailure = "raise",
        stop: threading.Event | None = None,
    ) -> tuple[Columns, tuple[Site, ...]]:
        """Traces first_trace .. first_trace + n - 1 of the prior run with this seed, in order, with the parameters of
        their priors: what a network is trained on. Fewer come back if another thread sets ``stop``."""
        flags = RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS
        config = self._config(seed, n, flags)._replace(first_trace=first_trace)
        recorder = _Recorder(n, on_failure, NoProgress())
        with self._exclusively():
            session = self._ready()
            session.run(config, PriorProposer(), recorder.take, stop)
            if failure := recorder.error():
                raise failure
            return recorder.columns(), session.known_sites

    def _config(
        self,
        seed: int,
        n_traces: int,
        flags: RunFlag,
        budget: Budget | None = None,
        observed: Mapping[str, npt.NDArray[np.float64]] | None = None,
    ) -> RunConfig:
        return RunConfig(
            seed=seed,
            n_traces=n_traces,
            flags=flags,
            tries_q=budget.N if budget else 0,
            runs_p=budget.M if budget else 0,
            max_tries=self.max_tries,
            trace_timeout=self.trace_timeout,
            observed=observed or {},
        )

    def _run(
        self,
        config: RunConfig,
        proposer: HandProposer | PriorProposer | NetworkProposer,
        on_failure: str,
        progress: Progress,
        result: Callable[[Columns, Sequence[Site], RunSummary | None], _Result],
    ) -> _Result:
        """One run; whatever ends it early carries what had finished as ``partial``."""
        recorder = _Recorder(config.n_traces, on_failure, progress)
        with self._exclusively():
            session = self._ready()
            try:
                summary = session.run(config, proposer, recorder.take)
            except (ArsError, RunInterrupted) as error:
                error.partial = result(recorder.columns(), session.known_sites, None)
                raise
            finally:
                progress.close()
        columns = recorder.columns()
        found = result(columns, session.known_sites, summary)
        if failure := recorder.error():
            failure.partial = found
            raise failure
        if isinstance(proposer, HandProposer):
            proposer.warn_of_unused(session.known_sites)
        elif not isinstance(proposer, PriorProposer):
            proposer.warn_of_unknown(columns, session.known_sites)
        if on_failure == "skip" and recorder.failures:
            warnings.warn(
                f"{len(recorder.failures)} of {recorder.done} traces failed and were dropped, which biases what is "
                f"left unless failures have nothing to do with the values drawn. {describe(recorder.failures)}",
                BiasWarning,
                stacklevel=3,
            )
        return found

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "this Simulator is in the middle of a run; use another Simulator for one at the same time"
            )
        try:
            yield
        finally:
            self._busy.release()

    # ---- the processes -----------------------------------------------------------------------------------------------

    def _ready(self) -> Session:
        """The running family, started if there is none."""
        if self._session is None or self._session.closed:
            self._session = Session(
                self.command,
                workers=self.workers,
                env=self.env,
                cwd=self.cwd,
                startup_timeout=self.startup_timeout,
                show_stdout=self.show_stdout,
            )
        return self._session

    @property
    def running(self) -> bool:
        """Whether the simulator's processes are there."""
        return self._session is not None and not self._session.closed

    @property
    def pid(self) -> int | None:
        """The process that was started (ars-host, once the simulator has split), or None."""
        return self._session.pid if self._session is not None and self.running else None

    def close(self) -> None:
        """Ends the simulator's processes. The next run starts new ones."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        workers = "" if self.workers is None else f", workers={self.workers}"
        return f"<Simulator {shlex.join(self.command)}{workers}, {'running' if self.running else 'not running'}>"

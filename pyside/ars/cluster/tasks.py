"""The work that a Dask worker does: a range of traces, run by the simulator that it keeps.

A worker's simulator, and its copy of the network, belong to a plugin. Dask installs the plugin on workers that join
later too, and takes it down when the run is over or the worker ends, which ends the simulator's processes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import pickle

from ars._native import VERSION
from ars.columns import Columns, Site
from ars.errors import ArsError, HostLostError, NetworkError, RunInterrupted
from ars.extras import one_torch_thread
from ars.failures import Failure
from ars.inference.options import PosteriorOptions
from ars.progress import NoProgress
from ars.proposers import PriorProposer, Proposer
from ars.proposers.remembering import RememberingProposer
from ars.runs import Runs
from ars.runtime.processes import Processes
from ars.runtime.recorder import Recorder
from ars.runtime.run_summary import RunSummary
from ars.runtime.setup import Setup
from ars.runtime.started_files import Executable
from ars.wire import RunConfig

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = [
    "Outcome",
    "Recipe",
    "Refused",
    "SentNetwork",
    "Simulators",
    "Task",
    "ended",
    "packed",
    "run_task",
    "unpacked",
    "version_here",
    "worker_name",
]


@dataclass(frozen=True)
class Recipe:
    """Who proposes, in a form that can be sent: the options of a posterior, whose network travels by itself."""

    asked: PosteriorOptions
    network: str  # digest of the network's bytes; "" if there is none


@dataclass(frozen=True)
class Task:
    """A range of traces, and all that a worker has to know about it."""

    plugin: str  # the name of the plugin that keeps the simulator
    config: RunConfig
    recipe: Recipe | None  # None: the prior proposes
    executable: str  # digest of the executable that must be there; "": any


@dataclass(frozen=True)
class SentNetwork:
    """A network as bytes, with the user's own modules if it has any: those are code, which no file of ours holds."""

    file: bytes
    embeddings: bytes  # packed

    @staticmethod
    def of(network: Network) -> SentNetwork:
        """To be sent."""
        with tempfile.TemporaryDirectory(prefix="ars-") as folder:
            path = os.path.join(folder, "network.safetensors")
            network.save(path)
            with open(path, "rb") as file:
                return SentNetwork(file.read(), packed(dict(network.network.observer.user_modules)))

    @functools.cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.file).hexdigest()

    def network(self, digest: str) -> Network:
        """As it was; a NetworkError if these are not the bytes with this digest."""
        from ars.network.facade import Network

        found = hashlib.sha256(self.file).hexdigest()  # of what is here, not of what was sent
        if found != digest:
            raise NetworkError(
                f"the network is another one here (sha256 {found[:12]} instead of {digest[:12]}): it was damaged on "
                "its way, or replaced during the run"
            )
        with tempfile.TemporaryDirectory(prefix="ars-") as folder:
            path = os.path.join(folder, "network.safetensors")
            with open(path, "wb") as file:
                file.write(self.file)
            return Network.load(path, embeddings=unpacked(self.embeddings) or None)


def packed(thing: object) -> bytes:
    """For ``unpacked``. Code of the user's goes in this form: a worker that lacks its module would else fail where Dask
    reads messages, and be lost."""
    return bytes(pickle.dumps(thing))


def unpacked(data: bytes) -> Any:
    """What was packed; an ArsError if it cannot be made here."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ArsError(
            f"this worker cannot load the code that comes with the run ({type(error).__name__}: {error}): workers need "
            "the client's modules"
        ) from error


class Outcome(NamedTuple):
    """What a task brings back."""

    columns: Columns
    sites: tuple[Site, ...]
    asked: frozenset[str]  # addresses of the latents that were proposed
    summary: RunSummary | None
    stderr: dict[int, str]
    incidents: list[Failure]
    seconds: float
    executable: str  # digest
    build: str  # digest of the code that ran, as on one machine; "": not known


class Refused(NamedTuple):
    """A task that this worker could not do, and none will do here."""

    worker: str
    error: ArsError

    def named(self) -> ArsError:
        """The error, with the worker's name."""
        self.error.args = (f"worker {self.worker}: {self.error}", *self.error.args[1:])
        return self.error


class Simulators(WorkerPlugin):  # type: ignore[misc]
    """Keeps one simulator and one network on a worker. One task at a time uses them."""

    def __init__(self, name: str, setup: Setup, version: str) -> None:
        self.name = name
        self.setup_of_simulator = setup
        self.version = version
        self.executable = ""  # digest of the executable on this worker
        self._lock: Any = None  # made on the worker: a lock cannot be sent
        self._file = Executable(setup)
        self._processes: Processes | None = None
        self._network: tuple[str, Network | None] = ("", None)

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        self._lock = threading.Lock()

    def teardown(self, worker: Any) -> None:  # noqa: ARG002
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def unfit(self, name: str, executable: str) -> Refused | None:
        """Why this worker cannot take part: another libars, another executable, or none. None if it can."""
        if self.version != version_here():
            text = f"this worker has libars {version_here()}, and the client {self.version}: install the same on both"
            return Refused(name, ArsError(text))
        setup = self.setup_of_simulator
        try:
            found = self._file.digest()
        except (ArsError, OSError) as error:
            return Refused(name, error if isinstance(error, ArsError) else ArsError(str(error)))
        if executable and found != executable:
            text = (
                f"{setup.command[0]} is another build on this worker (sha256 {found[:12]} instead of "
                f"{executable[:12]}): copy the same executable to all machines"
            )
            return Refused(name, ArsError(text))
        self.executable = found
        return None

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[Processes]:
        """The simulator's processes, for one thread."""
        with self._lock:
            if self._processes is None:
                self._processes = Processes(self.setup_of_simulator)
            yield self._processes

    def network(self, digest: str, sent: SentNetwork | None) -> Network | None:
        """The network with this digest, made of what was sent unless it is here already."""
        if digest != self._network[0]:
            self._network = (digest, None if sent is None else sent.network(digest))
        return self._network[1]


def run_task(data: bytes, network: SentNetwork | None) -> Outcome | Refused:
    """Run a range of traces on this worker.

    Parameters
    ----------
    data : bytes
        The Task, packed.
    network : SentNetwork or None
        The network that proposes.

    Returns
    -------
    Outcome or Refused
        The traces, failed ones among them; or why this machine cannot run them.
    """
    worker = get_worker()
    name = worker_name(worker)
    try:
        task: Task = unpacked(data)
        plugin: Simulators = worker.plugins[task.plugin]
        if (refused := plugin.unfit(name, task.executable)) is not None:
            return refused
        with plugin.exclusively() as processes:
            return _run(task, network, plugin, processes)
    except (ArsError, OSError) as error:
        known = error if isinstance(error, ArsError) else ArsError(str(error))
        known.partial = None
        return Refused(name, known)
    except RunInterrupted as interrupt:
        return Refused(name, ended(interrupt))


def ended(interrupt: RunInterrupted) -> ArsError:
    """That the plugin was taken down in the middle of a task, because the run is over. As the KeyboardInterrupt that it
    is, it would end the worker."""
    return HostLostError(str(interrupt))


def worker_name(worker: Any) -> str:
    """The worker's address and its machine."""
    return f"{worker.address} ({os.uname().nodename})"


def version_here() -> str:
    """The version of libars, and of the protocol."""
    from importlib.metadata import version

    return f"{version('libars')}, protocol {VERSION}"


def _run(task: Task, network: SentNetwork | None, plugin: Simulators, processes: Processes) -> Outcome:
    begin = time.monotonic()
    runs = Runs(processes)
    config = task.config
    with contextlib.ExitStack() as stack:
        proposer = RememberingProposer(_proposer(task.recipe, network, plugin, runs, stack))
        recorder = Recorder(config.n_traces, "zero", NoProgress(), first=config.first_trace, seed=config.seed)
        runs.work(config, proposer, recorder, None)
    return Outcome(
        recorder.columns(),
        recorder.sites,
        frozenset(proposer.addresses),
        recorder.summary,
        dict(recorder.stderr),
        list(recorder.incidents),
        time.monotonic() - begin,
        plugin.executable,
        processes.files.build,
    )


def _proposer(
    recipe: Recipe | None, network: SentNetwork | None, plugin: Simulators, runs: Runs, stack: contextlib.ExitStack
) -> Proposer:
    if recipe is None:
        return PriorProposer()
    asked = recipe.asked
    if recipe.network:
        asked = replace(asked, network=plugin.network(recipe.network, network))
        stack.enter_context(one_torch_thread())
    proposer = runs.proposer(asked, runs.lease())
    stack.callback(proposer.close)
    return proposer

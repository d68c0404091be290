"""What a Dask worker keeps for a run: one simulator, and one copy of the network.

They belong to a plugin. Dask installs it on workers that join later too, and takes it down when the run is over or the
worker ends, which ends the simulator's processes. A client that is killed takes nothing down: a thread of the plugin
looks whether its work is still wanted, and its client still there.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import sync

from ars._native import VERSION
from ars.cluster.sent import SentNetwork, unpacked
from ars.errors import ArsError, HostLostError, RunInterrupted
from ars.runtime.processes import Processes
from ars.runtime.setup import Setup
from ars.runtime.started_files import Executable

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["Answer", "Refused", "Simulators", "executable_here", "on_worker", "version_here"]

_T = TypeVar("_T")
_LOOK: Final = 1.0  # seconds between two looks at a task: is its result still wanted?
_QUIET: Final = 60.0  # seconds without a task, after which the scheduler is asked for the client


class Answer(NamedTuple):
    """What a task gave."""

    worker: str
    build: str  # digest of the code that ran, libraries too; "": not known
    own_build: str  # the same without libars
    found: Any


class Refused(NamedTuple):
    """A task that this worker could not do, and none will do here."""

    worker: str
    error: ArsError

    def named(self) -> ArsError:
        """The error, with the worker's name."""
        self.error.args = (f"worker {self.worker}: {self.error}", *self.error.args[1:])
        return self.error


def version_here() -> str:
    """The version of libars, and of the protocol."""
    from importlib.metadata import version

    return f"{version('libars')}, protocol {VERSION}"


class Simulators(WorkerPlugin):  # type: ignore[misc]
    """Keeps one simulator and one network on a worker. One task at a time uses them.

    Parameters
    ----------
    name : str
        Of the plugin.
    setup : Setup
        Of the simulator.
    version : str
        Of the client's libars.
    presence : str
        Key of a task that the scheduler knows as long as the client is there.
    """

    def __init__(self, name: str, setup: Setup, version: str, presence: str) -> None:
        self.name = name
        self.setup_of_simulator = setup
        self.version = version
        self.presence = presence
        self.executable = ""  # digest of the executable on this worker
        self._file = Executable(setup)
        self._processes: Processes | None = None
        self._network: tuple[str, Network | None] = ("", None)
        self._task: str | None = None  # key of the task that uses them
        # Made on the worker: locks cannot be sent.
        self._worker: Any = None
        self._lock: Any = None  # held by the task that uses them
        self._state: Any = None  # held for a moment, to look at what is above or change it
        self._over: Any = None  # set when the run is over
        self._watching = False

    def setup(self, worker: Any) -> None:
        self._worker = worker
        self._lock, self._state, self._over = threading.Lock(), threading.Lock(), threading.Event()

    def teardown(self, worker: Any) -> None:  # noqa: ARG002
        self._over.set()
        with self._state:
            processes, self._processes = self._processes, None
        if processes is not None:
            processes.close()

    def unfit(self, executable: str) -> ArsError | None:
        """Why this worker cannot take part: another libars, another executable, or none. None if it can."""
        if self.version != version_here():
            return ArsError(
                f"this worker has libars {version_here()}, and the client {self.version}: install the same on both"
            )
        try:
            found = self._file.digest()
        except (ArsError, OSError) as error:
            return error if isinstance(error, ArsError) else ArsError(str(error))
        if executable and found != executable:
            return ArsError(
                f"{self.setup_of_simulator.command[0]} is another build on this worker (sha256 {found[:12]} instead of "
                f"{executable[:12]}): copy the same executable to all machines"
            )
        self.executable = found
        return None

    @contextlib.contextmanager
    def exclusively(self, task: str) -> Iterator[Processes]:
        """The simulator's processes, for the task with this key. Nothing is started for a run that is over."""
        with self._lock:
            with self._state:
                if self._over.is_set() or self._given_up(task):
                    raise RunInterrupted("the run is over")
                if self._processes is None:
                    self._processes = Processes(self.setup_of_simulator)
                processes, self._task = self._processes, task
                watched, self._watching = self._watching, True
            if not watched:
                threading.Thread(target=self._watch, name="ars-watch", daemon=True).start()
            try:
                yield processes
            finally:
                with self._state:
                    self._task = None
                if self._over.is_set():  # and perhaps was before they had begun to start
                    processes.close()

    def network(self, digest: str, sent: SentNetwork | None) -> Network | None:
        """The network with this digest, made of what was sent unless it is here already."""
        if digest != self._network[0]:
            self._network = (digest, None if sent is None else sent.network(digest))
        return self._network[1]

    # ---- is anyone left who wants this? ------------------------------------------------------------------------------

    def _watch(self) -> None:
        """In a thread, as long as there are processes: ends them when nobody wants their work any more."""
        quiet = 0.0
        while not self._over.wait(_LOOK):
            with self._state:
                processes, task = self._processes, self._task
            if task is not None:
                quiet = 0.0
                if processes is not None and self._given_up(task):
                    processes.close()  # which interrupts it; a task that comes later starts them again
                continue
            quiet += _LOOK
            if quiet >= _QUIET:
                quiet = 0.0
                if self._client_is_gone() and self._forget():
                    return

    def _given_up(self, task: str) -> bool:
        """Whether nobody waits for the result: it was cancelled, or the client is gone. Dask only takes a note."""
        state = self._worker.state.tasks.get(task)
        return state is None or state.state == "cancelled"

    def _client_is_gone(self) -> bool:
        """Whether the scheduler says so. A scheduler that is lost takes the worker with it, and so the plugin."""
        try:
            found = sync(
                self._worker.loop, self._worker.scheduler.get_task_status, keys=[self.presence], callback_timeout=_QUIET
            )
        except Exception:
            return False
        return found.get(self.presence) is None

    def _forget(self) -> bool:
        """Ends the processes, and lets go of the network, unless a task has come after all."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            with self._state:
                processes, self._processes, self._watching = self._processes, None, False
                self._network = ("", None)
            if processes is not None:
                processes.close()
        finally:
            self._lock.release()
        return True


# ---- tasks -----------------------------------------------------------------------------------------------------------


def on_worker(data: bytes, work: Callable[[Any, Simulators, Processes], object]) -> Answer | Refused:
    """Does a task with this worker's simulator.

    Parameters
    ----------
    data : bytes
        The task, packed. It has ``plugin``, the name of the plugin that keeps the simulator, and ``executable``, the
        digest of the executable that must be there ("": any).
    work : callable
        Gets the task, the plugin and the simulator's processes.

    Returns
    -------
    Answer or Refused
        What ``work`` returned; or why this machine cannot do the task.
    """
    worker = get_worker()
    name = f"{worker.address} ({os.uname().nodename})"
    try:
        task = unpacked(data)
        plugin: Simulators | None = worker.plugins.get(task.plugin)
        if plugin is None:
            return Refused(name, HostLostError("the run has ended, or this worker never received it"))
        if (unfit := plugin.unfit(task.executable)) is not None:
            return Refused(name, unfit)
        with plugin.exclusively(worker.get_current_task()) as processes:
            found = _fitting(task, plugin, processes, work)
            return Answer(name, processes.files.build, processes.files.own_build, found)
    except (ArsError, OSError) as error:
        known = error if isinstance(error, ArsError) else ArsError(str(error))
        known.partial = None
        return Refused(name, known)
    except RunInterrupted as interrupt:
        # The plugin was taken down in the middle of the task, because the run is over. As the KeyboardInterrupt that it
        # is, it would end the worker.
        return Refused(name, HostLostError(str(interrupt)))


def _fitting(
    task: Any, plugin: Simulators, processes: Processes, work: Callable[[Any, Simulators, Processes], _T]
) -> _T:
    """What ``work`` gives. Raises what ``unfit`` finds if the executable was replaced or removed while it started: its
    traces may be those of the other one, and what went wrong went wrong for that reason."""
    before = processes.session
    try:
        found = work(task, plugin, processes)
    except (ArsError, OSError) as error:
        if (unfit := plugin.unfit(task.executable)) is not None:
            raise unfit from error
        raise
    if processes.session is not before and (unfit := plugin.unfit(task.executable)) is not None:
        raise unfit
    return found


def executable_here(data: bytes, network: SentNetwork | None) -> Answer | Refused:  # noqa: ARG001
    """The digest of this worker's executable: what all others must have if the client has none itself."""
    return on_worker(data, lambda _, plugin, __: plugin.executable)

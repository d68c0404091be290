"""The processes of a simulator on all workers of a Dask cluster, used like those of one machine.

Everything that decides what is run stays with the client: pilots, phases, stopping, rounds. A run is a set of trace
numbers; ``Fleet.work`` divides it over the workers. A trace's number decides its draws, so the result is, bit for bit,
that of one machine.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from distributed import Client, Future

from ars.cluster.chunks import Chunks, Piece
from ars.cluster.errands import errands
from ars.cluster.flight import Flight
from ars.cluster.sent import SentNetwork, packed
from ars.cluster.shipped import recipe_of, remember
from ars.cluster.simulators import Answer, Simulators, executable_here, version_here
from ars.cluster.tasks import Outcome, Task, run_task
from ars.columns import Site
from ars.errors import ArsError, HostLostError, LaunchError, RunInterrupted
from ars.proposers import Proposer
from ars.runtime.recorder import Recorder
from ars.runtime.setup import Setup
from ars.runtime.started_files import Executable, StartedFiles
from ars.store.site_numbers import SiteNumbers, renumber
from ars.wire import RunConfig

if TYPE_CHECKING:
    from ars.calibration.dataset import DataSet, Record
    from ars.cluster.shipped import Shipped
    from ars.network.facade import Network

__all__ = ["Fleet"]

_ATTEMPTS: Final = 5  # to reach all workers
_PAUSE: Final = 2.0  # seconds between two of them
_CLOSE_WITHIN: Final = 15.0  # seconds that a run has to stop when another thread closes the simulator


class _Files:
    """What ``Runs`` asks of the files that the processes were started from."""

    build = ""  # a digest of the code that runs, once a worker has said it
    own_build = ""  # the same without libars
    worker = ""  # that has said it


class _Question(NamedTuple):
    """A task for ``executable_here``."""

    plugin: str
    executable: str = ""  # any


class Fleet:
    """See the module. It offers what ``Runs`` needs of ``Processes``."""

    def __init__(self, client: Client, setup: Setup) -> None:
        self.setup = setup
        self.files = _Files()
        self._client = client
        self._address = client.scheduler.address  # a client that has lost its scheduler does not know it
        self.name = f"ars-{secrets.token_hex(6)}"
        self._installed = False
        self._presence: Future | None = None
        self._busy = threading.Lock()
        self._thread: int | None = None  # that holds it
        self._closings = 0
        self._sites = SiteNumbers()
        self.executable = ""  # digest that every worker must have
        self._networks: dict[str, Future] = {}
        with contextlib.suppress(LaunchError, OSError):  # the client need not have the executable
            self.executable = Executable(setup).digest()

    # ---- what Runs asks for ------------------------------------------------------------------------------------------

    @property
    def known_sites(self) -> tuple[Site, ...]:
        """The sites that the workers have shown so far."""
        return self._sites.sites

    @property
    def running(self) -> bool:
        """Whether workers may have simulators."""
        return self._installed

    @property
    def pid(self) -> int | None:
        """None: the processes are on other machines."""
        return None

    def ready(self) -> None:
        """Waits for workers, and installs the plugin that keeps the simulators."""
        if self._installed:
            return
        seconds = self.setup.limits.startup_timeout
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise LaunchError(
                f"the cluster at {self._address} has no workers after {seconds:g} s: start some with "
                "dask worker, or wait longer with startup_timeout="
            ) from None
        presence = f"{self.name}-client"
        # A task whose result is wanted as long as the client is there; not code of ours, which a worker may not have.
        self._presence = self._client.submit(bool, pure=False, key=presence)
        try:
            self._install(Simulators(self.name, self.setup, version_here(), presence))
        except BaseException:
            self._uninstall()  # from those workers that have it
            raise
        self._installed = True
        if not self.executable:
            question = packed(_Question(self.name))
            [(_, self.executable)] = errands(self, executable_here, [question], None, "a question about its executable")

    def _install(self, plugin: Simulators) -> None:
        """Sends the plugin. A worker lost a moment ago may still be on the scheduler's list: try again then."""
        for attempt in range(_ATTEMPTS):
            try:
                self._client.register_plugin(plugin, name=self.name)
                return
            except OSError as error:
                if attempt == _ATTEMPTS - 1:
                    raise HostLostError(f"the cluster's workers are lost as soon as they connect: {error}") from error
                time.sleep(_PAUSE)
            except Exception as error:  # of a worker that cannot make the plugin; Dask does not say which
                raise self._who_has_no_libars(error) from error

    def _uninstall(self) -> None:
        """Takes the plugin down on all workers, which ends their simulators."""
        with contextlib.suppress(Exception):  # a cluster that is gone has no simulators
            self._client.unregister_worker_plugin(self.name)
        self._presence = None

    def _who_has_no_libars(self, error: Exception) -> ArsError:
        """The error for workers on which the plugin could not be made."""
        with contextlib.suppress(OSError):
            answers = self._client.run(find_spec, Simulators.__module__, on_error="return")
            for worker, answer in answers.items():
                if answer is None or isinstance(answer, ImportError):
                    return ArsError(
                        f"worker {worker}: libars cannot be loaded there ({answer or 'another version'}): install the "
                        "client's version on all workers, with the extra cluster"
                    )
        return ArsError(f"a worker cannot take part: {error}")

    def lease(self) -> int:
        """For work that takes several runs: ``close`` ends it."""
        return self._closings

    @contextlib.contextmanager
    def exclusively(self, lease: int | None = None) -> Iterator[None]:
        """For one thread at a time."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "this simulator is in the middle of a run; use another ars.cluster.simulator for one at the same time"
            )
        self._thread = threading.get_ident()
        try:
            if lease is not None and lease != self._closings:
                raise RunInterrupted("the simulator was closed")
            yield
        finally:
            self._thread = None
            self._busy.release()

    def identity(self, lease: int | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Of the simulator, for the folder of ``resume``."""
        self.ready()
        if not self.executable:
            raise ArsError(
                f"{self.setup.command[0]} is not on this machine, so resume= cannot tell whether the workers still "
                "have the same one: copy the executable to the client too"
            )
        return StartedFiles(self.setup).identity_on_disk()  # so that one machine can go on with it, and the other way

    @contextlib.contextmanager
    def only_as(self, identity: Mapping[str, Any]) -> Iterator[None]:  # noqa: ARG002
        """In the block, another simulator is not started: every task names the digest of the executable anyway."""
        yield

    def close(self) -> None:
        """Ends the simulators on all workers. Any thread may call this: a run in another one is interrupted."""
        self._closings += 1
        mine = self._thread == threading.get_ident()  # called by the progress, say, of the run that it is to end
        waited = not mine and self._busy.acquire(timeout=_CLOSE_WITHIN)
        try:
            if self._installed:
                self._installed = False
                self._networks.clear()
                self._uninstall()
        finally:
            if waited:
                self._busy.release()

    # ---- runs --------------------------------------------------------------------------------------------------------

    def work(
        self, config: RunConfig, proposer: Proposer, recorder: Recorder, stop: threading.Event | None = None
    ) -> None:
        """Runs until every trace is in, or one has failed and that ends the run."""
        for _ in self.work_together([(config, recorder)], proposer, stop):
            pass

    def work_together(
        self,
        runs: Sequence[tuple[RunConfig, Recorder]],
        proposer: Proposer,
        stop: threading.Event | None = None,
    ) -> Iterator[Recorder]:
        """Several runs without a pause between them. Their recorders come in order, each when its run is over."""
        waiting = deque(recorder for _, recorder in runs)
        pieces = [
            Piece(recorder, part) for config, recorder in runs if not recorder.stopped for part in recorder.left(config)
        ]
        if pieces:
            flight: Flight | None = None
            try:
                self.ready()
                flight = Flight(self, Chunks(pieces), recipe_of(proposer))
                for recorder, outcome in flight.outcomes(stop):
                    self._take(outcome, proposer, recorder)
                    while waiting and waiting[0].complete and not waiting[0].stopped:
                        yield waiting.popleft()
                    if waiting and waiting[0].stopped:
                        break
            except KeyboardInterrupt as interrupt:
                if isinstance(interrupt, RunInterrupted):
                    raise
                raise RunInterrupted("the run was interrupted; .partial holds the finished traces") from interrupt
            finally:
                if flight is not None:
                    flight.cancel()
        yield from waiting

    def _take(self, outcome: Outcome, proposer: Proposer, recorder: Recorder) -> None:
        """Hands on what a task brought."""
        self._sites.adopt(outcome.sites)
        remember(proposer, outcome.asked)
        numbers = SiteNumbers()
        numbers.adopt(recorder.sites)
        columns = renumber(outcome.columns, numbers.adopt(outcome.sites))
        recorder.sites = numbers.sites
        recorder.count(outcome.summary)
        recorder.incidents += outcome.incidents
        said = "\n".join(dict.fromkeys(outcome.stderr.values()))
        recorder.take(columns, lambda: numbers.sites, lambda: said)

    def check_build(self, answer: Answer) -> None:
        """Raises ArsError if a worker has run other code than the first that has run any: another shared library, since
        their executables are the same. That of libars has the same version on all, and may have been compiled on
        each."""
        if answer.own_build and not self.files.own_build:
            self.files.build, self.files.own_build, self.files.worker = answer.build, answer.own_build, answer.worker
        if answer.own_build and answer.own_build != self.files.own_build:
            raise ArsError(
                f"worker {answer.worker}: {self.setup.command[0]} loads another build of a shared library here than on "
                f"worker {self.files.worker}: install the same libraries on all machines"
            )

    def records(
        self, left: Sequence[DataSet], network: Network | None, options: Mapping[str, Any], weighting: str | None
    ) -> Iterator[Record]:
        """Data sets of a calibration, each inferred by one worker; in the order in which they finish."""
        from ars.cluster.datasets import infer_on_workers

        with self.exclusively():
            self.ready()
            yield from infer_on_workers(self, left, network, options, weighting)

    # ---- the cluster -------------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """Workers, and the threads of all of them."""
        try:
            with self._open():
                threads = self._client.nthreads()
        except OSError as error:
            raise self.gone(error) from error
        return len(threads), sum(threads.values())

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        """In the block, a client that was closed becomes an error of ours. One that lost its scheduler closes itself.
        Its methods then fail in ways of their own."""
        try:
            yield
        except Exception as error:
            if self._client.status not in ("closing", "closed"):
                raise
            raise HostLostError(
                f"the client was closed during the run, or has given up the scheduler at {self._address}; .partial "
                "holds the finished traces"
            ) from error

    def gone(self, error: Exception) -> HostLostError:
        """The error that there is no connection to the scheduler any more."""
        text = f"the scheduler at {self._address} no longer answers ({error}); .partial holds the finished traces"
        return HostLostError(text)

    def give_up(self, futures: Sequence[Future]) -> None:
        """Cancels tasks. A cluster that is gone has none."""
        with contextlib.suppress(Exception):
            self._client.cancel(list(futures), force=True)

    def submit(self, config: RunConfig, shipped: Shipped | None, network: Future | None) -> Future:
        """Sends a task."""
        recipe = None if shipped is None else shipped.recipe
        return self.errand(run_task, packed(Task(self.name, config, recipe, self.executable), "the proposals"), network)

    def errand(self, function: Callable[..., Any], task: bytes, network: Future | None) -> Future:
        """Sends a task for ``function(task, network)``."""
        key = f"{self.name}-{secrets.token_hex(8)}"
        with self._open():
            return self._client.submit(function, task, network, pure=False, key=key)

    @contextlib.contextmanager
    def told(self, topic: str, hear: Callable[[Any], object]) -> Iterator[None]:
        """In the block, what workers say of this topic is given to ``hear``, in the client's own thread."""
        self._client.subscribe_topic(topic, lambda event: hear(event[1]))
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # of a client that has lost its scheduler
                self._client.unsubscribe_topic(topic)

    # ---- networks ----------------------------------------------------------------------------------------------------

    def send(self, network: SentNetwork | None, lost: Future | None = None) -> Future | None:
        """A network in the cluster's memory: sent once, and the last one alone is kept.

        Parameters
        ----------
        network : SentNetwork or None
            None: there is none to send.
        lost : Future, optional
            Where it was. It was lost there, and is sent again (default: it is not lost).

        Raises
        ------
        HostLostError
            If there is no worker to send it to, or no scheduler.
        """
        if network is None:
            return None
        if self._networks.get(network.digest) in (None, lost):
            self._networks = {network.digest: self._scattered(network)}
        return self._networks[network.digest]

    def _scattered(self, network: SentNetwork) -> Future:
        seconds = self.setup.limits.startup_timeout
        for attempt in range(_ATTEMPTS):
            try:
                with self._open():
                    return self._client.scatter(network, hash=False, timeout=seconds)
            except TimeoutError:
                raise HostLostError(
                    f"the cluster has had no workers for {seconds:g} s; .partial holds the finished traces"
                ) from None
            except OSError as error:  # the worker that it was for is lost, or the scheduler
                if attempt == _ATTEMPTS - 1:
                    raise self.gone(error) from error
                time.sleep(_PAUSE)
        raise AssertionError("the last attempt returns or raises")

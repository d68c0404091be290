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
from typing import TYPE_CHECKING, Any, Final

from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError, FuturesCancelledError
from distributed.comm import CommClosedError

from ars.cluster.chunks import Chunks, Piece
from ars.cluster.flight import Flight
from ars.cluster.shipped import recipe_of, remember
from ars.cluster.tasks import Outcome, SentNetwork, Simulators, Task, packed, run_task, version_here
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


class _Files:
    """What ``Runs`` asks of the files that the processes were started from."""

    build = ""  # a digest of the code that runs, once a worker has said it


class Fleet:
    """See the module. It offers what ``Runs`` needs of ``Processes``."""

    def __init__(self, client: Client, setup: Setup) -> None:
        self.setup = setup
        self.files = _Files()
        self._client = client
        self._address = client.scheduler.address  # a client that has lost its scheduler does not know it
        self.name = f"ars-{secrets.token_hex(6)}"
        self._installed = False
        self._busy = threading.Lock()
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
        self._install()
        self._installed = True

    def _install(self) -> None:
        """Sends the plugin. A worker lost a moment ago may still be on the scheduler's list: try again then."""
        plugin = Simulators(self.name, self.setup, version_here())
        for attempt in range(_ATTEMPTS):
            try:
                self._client.register_plugin(plugin, name=self.name)
                return
            except OSError as error:
                if attempt == _ATTEMPTS - 1:
                    raise HostLostError(f"the cluster's workers are lost as soon as they connect: {error}") from error
                time.sleep(_PAUSE)

    def lease(self) -> int:
        """For work that takes several runs: ``close`` ends it."""
        return self._closings

    @contextlib.contextmanager
    def exclusively(self, lease: int | None = None) -> Iterator[None]:
        """For one thread at a time."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("this simulator is in the middle of a run")
        try:
            if lease is not None and lease != self._closings:
                raise RunInterrupted("the simulator was closed")
            yield
        finally:
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
        """Ends the simulators on all workers."""
        self._closings += 1
        if self._installed:
            self._installed = False
            self._networks.clear()
            with contextlib.suppress(Exception):  # a cluster that is gone has no simulators
                self._client.unregister_worker_plugin(self.name)

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
            self.ready()
            shipped = recipe_of(proposer)
            flight = Flight(self, Chunks(pieces), shipped, self._network(shipped))
            try:
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
                flight.cancel()
        yield from waiting

    def _take(self, outcome: Outcome, proposer: Proposer, recorder: Recorder) -> None:
        """Hands on what a task brought."""
        self.executable = self.executable or outcome.executable
        self.files.build = self.files.build or outcome.build
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

    def _network(self, shipped: Shipped | None) -> Future | None:
        """The network in the cluster's memory, sent once."""
        if shipped is None or shipped.network is None:
            return None
        return self.send(shipped.network)

    def send(self, network: SentNetwork) -> Future:
        """A network in the cluster's memory: sent once, and the last one alone is kept."""
        if network.digest not in self._networks:
            self._networks = {network.digest: self._client.scatter(network, hash=False)}
        return self._networks[network.digest]

    def send_again(self, shipped: Shipped | None) -> Future | None:
        """The network, sent anew."""
        self._networks.clear()
        return self._network(shipped)

    def gather(self, function: Callable[..., Any], tasks: Sequence[Any], network: Future | None) -> list[Any]:
        """One task each for ``function(task, network)``, all at once; Ctrl-C gives them up."""
        futures = [self._client.submit(function, task, network, pure=False) for task in tasks]
        try:
            with self._losses_named():
                return list(self._client.gather(futures))
        finally:
            self.give_up([each for each in futures if not each.done()])

    def records(
        self, left: Sequence[DataSet], network: Network | None, options: Mapping[str, Any], weighting: str | None
    ) -> Iterator[Record]:
        """Data sets of a calibration, each inferred by one worker; in the order in which they finish."""
        from ars.cluster.datasets import infer_on_workers

        self.ready()
        sent = None if network is None else SentNetwork.of(network)
        there = None if sent is None else self.send(sent)
        with self._losses_named():
            yield from infer_on_workers(
                self._client, self.name, self.executable, left, sent, there, dict(options), weighting
            )

    # ---- the cluster -------------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """Workers, and the threads of all of them."""
        try:
            threads = self._client.nthreads()
        except (OSError, TimeoutError) as error:
            raise self.gone(error) from error
        return len(threads), sum(threads.values())

    @contextlib.contextmanager
    def _losses_named(self) -> Iterator[None]:
        """In the block, lost workers and a lost scheduler become errors of ours."""
        try:
            yield
        except (KilledWorker, FutureCancelledError, FuturesCancelledError) as error:
            raise HostLostError(f"a worker was lost repeatedly: {error}") from error
        except CommClosedError as error:
            raise self.gone(error) from error

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
        task = packed(Task(self.name, config, recipe, self.executable))
        return self._client.submit(run_task, task, network, pure=False, key=f"{self.name}-{secrets.token_hex(8)}")

"""Several simulators that are started elsewhere, used like the processes of one.

A run is a set of trace numbers. Each simulator gets some of them, then more, until all have come. A trace's number
decides its draws, so the result is, bit for bit, that of one simulator, whoever leaves or comes on the way.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ars.columns import Columns, Site
from ars.errors import ArsError, HostLostError, LaunchError, RunInterrupted
from ars.progress import NoProgress
from ars.proposers import Proposer
from ars.proposers.protocol import Array
from ars.proposers.remembering import RememberingProposer
from ars.runs import Runs
from ars.runtime.processes import Processes, identity_elsewhere
from ars.runtime.reception import Guest, Reception
from ars.runtime.recorder import Recorder
from ars.runtime.session import Session
from ars.runtime.setup import Setup
from ars.runtime.shares import Shares
from ars.runtime.started_files import check_same
from ars.store.site_numbers import SiteNumbers, renumber
from ars.wire import Replies, RunConfig, SiteTable, StepBatch

if TYPE_CHECKING:
    from ars.inference.options import PosteriorOptions

__all__ = ["MOST_SIMULATORS", "Crowd", "CrowdRuns"]

_log = logging.getLogger(__name__)

MOST_SIMULATORS: Final = 256
_WAIT: Final = 0.1  # seconds between two looks at who has come, and at the user's wish to stop
_CLOSE_WITHIN: Final = 15.0  # seconds that a run has to stop when another thread closes the simulators


class Several:
    """One proposer per simulator: sites have other numbers in each, and answers are made in several threads."""

    def __init__(self, proposers: Sequence[Proposer]) -> None:
        self.proposers = proposers

    @property
    def asks(self) -> bool:
        return self.proposers[0].asks

    def proposes(self, site: Site) -> bool:
        return self.proposers[0].proposes(site)

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        """Where one simulator does all."""
        return self.proposers[0].step(batch, sites)

    def end_trace(self, traces: Array) -> None:
        self.proposers[0].end_trace(traces)

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        self.proposers[0].warn_after_run(columns, sites)

    def close(self) -> None:
        for each in self.proposers:
            each.close()


class CrowdRuns(Runs):
    """Runs whose proposers serve several simulators at once."""

    def proposer(self, asked: PosteriorOptions, lease: int) -> Proposer:
        first = super().proposer(asked, lease)
        if not first.asks:
            return first
        assert isinstance(self._processes, Crowd)
        return Several(
            [first, *(super(CrowdRuns, self).proposer(asked, lease) for _ in range(self._processes.size - 1))]
        )


@dataclass
class _Member:
    """A simulator that is here."""

    place: int
    name: str
    session: Session


class _Files:
    """What ``Runs`` asks of the files that the processes were started from: they are elsewhere."""

    build = ""


class Crowd:
    """See the module. It offers what ``Runs`` needs of ``Processes``."""

    executable = ""  # it is elsewhere
    pid = None

    def __init__(self, setup: Setup, size: int) -> None:
        self.setup = setup
        self.size = size
        self.files = _Files()
        self._members: dict[int, _Member] = {}
        self.working: dict[int, threading.Thread] = {}  # by place: who talks to a simulator now
        self._sites = SiteNumbers()
        self._identity: dict[str, Any] | None = None
        self._first = ""  # whose identity that is
        self._busy = threading.Lock()
        self._closing = threading.Event()
        self._closings = 0
        self._reception: Reception | None = None

    # ---- who is here -------------------------------------------------------------------------------------------------

    @property
    def known_sites(self) -> tuple[Site, ...]:
        """The sites that the simulators have shown so far."""
        return self._sites.sites

    @property
    def running(self) -> bool:
        """Whether a simulator is here."""
        return any(not member.session.closed for member in self._members.values())

    def ready(self) -> None:
        """Waits until all have come, the first time; later, until one is here."""
        reception = self._open()
        wanted = self.size if self._identity is None else 1
        within = self.setup.limits.startup_timeout
        deadline = time.monotonic() + within
        try:
            while len(self._here()) < wanted:
                guest = self._next_guest(reception)
                if guest is not None:
                    self._admit(guest)
                elif time.monotonic() > deadline:
                    raise reception.never_came(len(self._members), within)
        except BaseException:
            if self._identity is None or wanted == self.size:
                self._end()
            raise

    def _open(self) -> Reception:
        if self._reception is None:
            assert self.setup.listen is not None
            self._reception = Reception(self.setup.listen, self.size)
            weakref.finalize(self, self._reception.close)
        return self._reception

    def _next_guest(self, reception: Reception, wait: float = _WAIT) -> Guest | None:
        if self._closing.is_set():
            raise RunInterrupted("the simulator was closed while waiting for others")
        try:
            return reception.arrivals.get(timeout=wait) if wait else reception.arrivals.get_nowait()
        except queue.Empty:
            return None

    def _here(self) -> list[_Member]:
        """Those who have not left, the others being forgotten. A session is closed by the thread that uses it."""
        for place, member in list(self._members.items()):
            if place in self.working:
                continue
            if member.session.closed or member.session._family.exited():
                member.session.close()
                del self._members[place]
        return list(self._members.values())

    def _admit(self, guest: Guest) -> _Member | None:
        """A newcomer, if it is the same simulator as the others."""
        try:
            session = Session(
                self.setup.command,
                guest=guest,
                sites=self._sites.sites,
                startup_timeout=self.setup.limits.startup_timeout,
                closing=self._closing,
            )
            found = identity_elsewhere(self.setup, session)
        except (HostLostError, LaunchError) as error:
            _log.warning("%s", error)
            return None
        if self._identity is None:
            self._identity, self._first = found, guest.name
        elif found != self._identity:
            text = (
                f"{guest.name} is another simulator, or another build, than {self._first}: its first traces differ. "
                "Start the same executable, with the same arguments, everywhere"
            )
            session._refuse(text)
            session.close()
            raise ArsError(text)
        place = min(set(range(self.size)) - set(self._members))
        member = self._members[place] = _Member(place, guest.name, session)
        self._sites.adopt(session.known_sites)
        _log.info("%s is here: %d of %d", guest.name, len(self._members), self.size)
        return member

    def newcomers(self) -> list[_Member]:
        """Who has come in the middle of a run. Another simulator is turned away."""
        found: list[_Member] = []
        reception = self._open()
        self._here()
        while len(self._members) < self.size and (guest := self._next_guest(reception, 0)) is not None:
            try:
                member = self._admit(guest)
            except ArsError as error:
                _log.warning("turned away: %s", error)
                continue
            found += [] if member is None else [member]
        return found

    # ---- what Runs asks for ------------------------------------------------------------------------------------------

    def lease(self) -> int:
        """For work that takes several runs: ``close`` ends it."""
        return self._closings

    @contextlib.contextmanager
    def exclusively(self, lease: int | None = None) -> Iterator[None]:
        """For one thread at a time."""
        if not self._busy.acquire(blocking=self._closing.is_set()):
            raise RuntimeError("this Simulator is in the middle of a run; use another for one at the same time")
        try:
            if lease is not None and lease != self._closings:
                raise RunInterrupted("the simulator was closed")
            yield
        finally:
            self._busy.release()

    def identity(self, lease: int | None = None) -> dict[str, Any]:
        """Of all of them, for the folder of ``resume``."""
        with self.exclusively(lease):
            self.ready()
        assert self._identity is not None
        return dict(self._identity)

    @contextlib.contextmanager
    def only_as(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """In the block, another simulator does not take part: none does anyway."""
        check_same(identity, self._identity)
        yield

    def close(self) -> None:
        """Sends the simulators away. Any thread may call this."""
        self._closings += 1
        self._closing.set()
        if not self._busy.acquire(timeout=_CLOSE_WITHIN):
            return  # the run is in the hands of somebody's code; it ends when that returns
        try:
            self._end()
        finally:
            self._closing.clear()
            self._busy.release()

    def _end(self) -> None:
        for member in self._members.values():
            member.session.close()
        self._members.clear()
        self._identity = None
        reception, self._reception = self._reception, None
        if reception is not None:
            reception.close()

    def work(
        self, config: RunConfig, proposer: Proposer, recorder: Recorder, stop: threading.Event | None = None
    ) -> None:
        """Runs until every trace is in, or one has failed and that ends the run."""
        left = [] if recorder.stopped else recorder.left(config)
        if left:
            self.ready()
            _Run(self, Shares(left), proposer, recorder, stop).until_done()


# ---- one run ---------------------------------------------------------------------------------------------------------


@dataclass
class _Brought:
    """What a simulator has done with some of the traces."""

    member: _Member
    config: RunConfig
    recorder: Recorder
    asked: set[str]
    error: BaseException | None


class _Run:
    """The traces of one run, and the threads that talk to one simulator each."""

    def __init__(
        self, crowd: Crowd, shares: Shares, proposer: Proposer, recorder: Recorder, stop: threading.Event | None
    ) -> None:
        self._crowd = crowd
        self._shares = shares
        self._proposer = proposer
        self._recorder = recorder
        self._stop = stop
        self._halt = threading.Event()
        self._brought: queue.SimpleQueue[_Brought] = queue.SimpleQueue()
        self._working = crowd.working
        self._fruitless = 0
        self._alone_since = time.monotonic()
        inner = proposer.proposer if isinstance(proposer, RememberingProposer) else proposer
        several = isinstance(inner, Several)
        self._proposers = inner.proposers if isinstance(inner, Several) else [proposer] * crowd.size
        # A proposer that knows nothing of several simulators serves one of them.
        self._most = crowd.size if several or not proposer.asks else 1

    def until_done(self) -> None:
        try:
            while self._shares or self._working:
                if self._stop is not None and self._stop.is_set():
                    self._halt.set()
                if self._halt.is_set() and not self._working:
                    return
                self._give_work()
                with contextlib.suppress(queue.Empty):
                    self._take(self._brought.get(timeout=_WAIT))
        except KeyboardInterrupt as interrupt:
            self._finish()
            if isinstance(interrupt, RunInterrupted):
                raise
            raise RunInterrupted("the run was interrupted; .partial holds the finished traces") from interrupt
        finally:
            self._finish()

    def _give_work(self) -> None:
        """Some traces for everybody who has none. Nobody here for too long is an error."""
        crowd = self._crowd
        if crowd._closing.is_set() and not self._working:
            raise RunInterrupted("the simulator was closed during the run; .partial holds the finished traces")
        crowd.newcomers()
        free = [member for place, member in crowd._members.items() if place not in self._working]
        if crowd._members:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > crowd.setup.limits.startup_timeout:
            raise HostLostError(
                f"all simulators have left, and none came within {crowd.setup.limits.startup_timeout:g} s "
                "(startup_timeout); .partial holds the finished traces"
            )
        for member in free:
            if self._halt.is_set() or not self._shares or len(self._working) >= self._most:
                return
            config = self._shares.next(min(len(crowd._members), self._most))
            thread = threading.Thread(target=self._serve, args=(member, config), name="ars-guest", daemon=True)
            self._working[member.place] = thread
            thread.start()

    def _serve(self, member: _Member, config: RunConfig) -> None:
        """In a thread: has one simulator run these traces."""
        recorder = Recorder(config.n_traces, "zero", NoProgress(), first=config.first_trace, seed=config.seed)
        proposer = RememberingProposer(self._proposers[member.place])
        error: BaseException | None = None
        try:
            for part in config.messages():
                if not self._halt.is_set():
                    Processes.one_run(member.session, part, proposer, recorder, self._halt)
        except BaseException as caught:
            error = caught
        self._brought.put(_Brought(member, config, recorder, proposer.addresses, error))

    def _take(self, brought: _Brought) -> None:
        """Hands on what a simulator brought. What it did not bring is given to others."""
        self._working.pop(brought.member.place).join()
        mine, whole = brought.recorder, self._recorder
        self._crowd._sites.adopt(mine.sites)
        if isinstance(self._proposer, RememberingProposer):
            self._proposer.addresses.update(brought.asked)
        whole.count(mine.summary)
        left = mine.left(brought.config)
        if mine.done:
            numbers = SiteNumbers()
            numbers.adopt(whole.sites)
            columns = renumber(mine.columns(), numbers.adopt(mine.sites))
            whole.sites = numbers.sites
            if whole.take(columns, lambda: numbers.sites, lambda: ""):
                self._halt.set()
        if isinstance(brought.error, HostLostError):
            self._lost(brought, bool(mine.done))
        elif brought.error is not None:
            raise brought.error
        for part in left:
            self._shares.give_back(part)

    def _lost(self, brought: _Brought, fruitful: bool) -> None:
        self._fruitless = 1 if fruitful else self._fruitless + 1
        assert isinstance(brought.error, HostLostError)
        if self._fruitless > self._crowd.setup.limits.max_restarts:
            raise brought.error
        self._recorder.lost(brought.error)

    def _finish(self) -> None:
        """Stops whoever is at work, and takes what had finished."""
        self._halt.set()
        while self._working:
            with contextlib.suppress(Exception, RunInterrupted):  # the first reason is the one to report
                self._take(self._brought.get(timeout=_CLOSE_WITHIN))

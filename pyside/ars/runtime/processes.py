"""The processes of a simulator: started when a run needs them, started again when they are lost."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ars._native import RunFlag
from ars.columns import Columns, Site
from ars.errors import ArsError, HostLostError, LaunchError, RunInterrupted
from ars.progress import NoProgress
from ars.proposers import PriorProposer, Proposer
from ars.runtime.interrupts import Interrupts
from ars.runtime.recorder import Recorder
from ars.runtime.session import Session
from ars.runtime.setup import Setup
from ars.runtime.started_files import Executable, StartedFiles, check_same
from ars.store.identity import ELSEWHERE, behaviour
from ars.wire import RunConfig

__all__ = ["Processes", "identity_elsewhere"]

_log = logging.getLogger(__name__)

_OTHER_DESCRIPTORS = 16  # that a simulator may have besides those for its workers
_FIRST_TRACES = 4  # of the prior, that a simulator elsewhere is known by
_STOP_WITHIN = 5.0  # seconds that a daemon thread's run has to stop when the interpreter ends
_CLOSE_WITHIN = 15.0  # seconds that a run has to stop when another thread closes the simulator


def _advice(workers: int) -> str:
    """What to do about refused forks. A simulator needs a descriptor per worker, and has our limit."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < workers + _OTHER_DESCRIPTORS:
        return "raise the limit of open files (ulimit -n)"
    return "raise the limit of processes (max_processes, ulimit -u, pids.max)"


class _Use:
    """Who uses the processes. One object per process: a fork gets a new one."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.busy = threading.Lock()  # held during a run
        self.thread: int | None = None  # that holds it for a run
        self.closing = threading.Event()  # whoever runs is asked to stop
        self.closings = 0

    def stop(self) -> None:
        """At the end of the interpreter: the thread that runs is asked to stop, and waited for. Python ends the threads
        that are left by unwinding their stacks, which aborts the process if one is inside of C++, such as numpy's."""
        self.closing.set()
        for thread in threading.enumerate():
            if thread.ident == self.thread:
                thread.join(_STOP_WITHIN)


class Processes:
    """The processes of one simulator. What a run needs of them: ``lease``, ``exclusively``, ``work``.

    A simulator that was rebuilt is started again before a run that keeps its traces; one that is rebuilt in the middle
    of such a run, and lost, is not started again.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.files = StartedFiles(setup)
        self.session: Session | None = None
        self.use = _Use()
        self._expected: Mapping[str, Any] | None = None  # the identity of the simulator that the present run must have

    # ---- runs --------------------------------------------------------------------------------------------------------

    def work(
        self,
        config: RunConfig,
        proposer: Proposer,
        recorder: Recorder,
        stop: threading.Event | None = None,
    ) -> None:
        """Runs until every trace is in. A simulator that is lost is started again and does what is missing."""
        fruitless = 0
        build = ""  # with which the run began
        while True:
            before = recorder.done
            try:
                left = [] if recorder.stopped else recorder.left(config)
                session = self.ready(recorder.sites) if left else None
                if build and self.files.build and self.files.build != build:
                    raise ArsError(
                        f"{self.setup.command[0]} was lost in the middle of a run, and was rebuilt in the meantime: "
                        "the run would mix traces of two simulators. .partial holds those of the first; run again"
                    )
                build = build or self.files.build
                for part in left:
                    assert session is not None
                    self.one_run(session, part, proposer, recorder, stop)
                    if recorder.stopped or (stop is not None and stop.is_set()):
                        break
                return
            except (HostLostError, LaunchError) as error:
                fruitless = 1 if recorder.done > before else fruitless + 1
                never_began = isinstance(error, LaunchError) and not recorder.restarts
                if never_began or fruitless > self.setup.limits.max_restarts:
                    raise
                recorder.lost(error)
            except KeyboardInterrupt as interrupt:
                if isinstance(interrupt, RunInterrupted):
                    raise
                raise RunInterrupted("the run was interrupted; .partial holds the finished traces") from interrupt

    @staticmethod
    def one_run(
        session: Session,
        config: RunConfig,
        proposer: Proposer,
        recorder: Recorder,
        stop: threading.Event | None,
    ) -> None:
        def take(columns: Columns) -> bool:
            return recorder.take(columns, lambda: session.known_sites, session.stderr_text)

        try:
            done = session.run(config, proposer, take, stop)
        finally:
            recorder.sites = session.known_sites
            recorder.count(session.summary)
        if done.forks_refused:
            _log.warning(
                "the system refused %d forks, and the run continued with %d workers; %s or give fewer workers",
                done.forks_refused,
                done.fewest_workers,
                _advice(session.hello.workers),
            )
        if done.replays > done.forks_refused and "replays" not in recorder.said:
            recorder.said.add("replays")
            _log.warning(
                "%s because the process had died; the second run gives the result. If it succeeds although "
                "nobody killed the process, the simulator crashes only after certain earlier traces, for instance "
                "because it writes past the end of an array",
                "a trace was rerun" if done.replays == 1 else f"traces were rerun {done.replays} times",
            )

    @contextlib.contextmanager
    def exclusively(self, lease: int | None = None) -> Iterator[None]:
        """For one thread at a time. If another one asks for the end meanwhile, the processes end here, when the run has
        stopped: ZeroMQ's sockets are for the thread that uses them.

        ``lease``, from ``lease``: what this is a part of. After a ``close`` it does not begin.
        """
        use = self._in_this_process()
        mine = False
        try:
            with Interrupts() as interrupts:  # Ctrl-C could leave the lock held by nobody
                mine = use.busy.acquire(blocking=use.closing.is_set())  # one that closes it is done in a moment
                if mine:
                    use.thread = threading.get_ident()
            interrupts.check()
            if not mine:
                raise RuntimeError(
                    "this Simulator is in the middle of a run; use another Simulator for one at the same time"
                )
            if lease is not None and lease != use.closings:
                raise RunInterrupted("the simulator was closed")
            yield
        finally:
            if mine:
                self._release(use)

    def _release(self, use: _Use) -> None:
        """Lets others run."""
        try:
            if use.closing.is_set():
                self._end_session()
        finally:
            use.thread = None
            use.busy.release()

    def lease(self) -> int:
        """For work that takes several runs: ``close`` ends it, so that it does not start the simulator again."""
        return self._in_this_process().closings

    def _in_this_process(self) -> _Use:
        """A forked copy has nothing to do with the processes, the locks and the threads of the original."""
        if self.use.owner != os.getpid():
            self.use = _Use()
            self.session = None
        return self.use

    # ---- the processes -----------------------------------------------------------------------------------------------

    def ready(self, sites: Sequence[Site] = ()) -> Session:
        """The running family, started if there is none. ``sites``: what this run has met in an earlier one."""
        if self.session is not None and not self.session.closed:
            return self.session
        elsewhere = self.setup.listen is not None
        session = self._start(sites) if elsewhere else self.files.look_at(lambda: self._start(sites))
        if self._expected is not None:
            check_same(self._expected, self._identity_now(session))
        return session

    def _start(self, sites: Sequence[Site]) -> Session:
        self.session = Session(
            self.setup.command,
            workers=self.setup.all_workers(),
            env=self.setup.environment(),
            cwd=self.setup.cwd,
            startup_timeout=self.setup.limits.startup_timeout,
            show_stdout=self.setup.show_stdout,
            sites=sites,
            listen=self.setup.listen,
            closing=self._in_this_process().closing,
            stop=self.use.stop,
        )
        return self.session

    @property
    def running(self) -> bool:
        """Whether the simulator's processes are running."""
        return self.session is not None and not self.session.closed

    @property
    def pid(self) -> int | None:
        """The id of the process that was started (ars-host, once the simulator has split), or None."""
        return self.session.pid if self.session is not None and self.running else None

    @property
    def executable(self) -> str:
        """The SHA-256 of the executable as it is now; "" if it is elsewhere or cannot be read."""
        if self.setup.listen is None:
            with contextlib.suppress(LaunchError, OSError):
                return Executable(self.setup).digest()
        return ""

    @property
    def known_sites(self) -> tuple[Site, ...]:
        """The sites that they have shown so far."""
        return self.session.known_sites if self.session is not None and self.running else ()

    def close(self) -> None:
        """Ends them, or has them ended by the thread that is in the middle of a run. Any thread may call this."""
        use = self._in_this_process()
        use.closings += 1
        use.closing.set()
        if use.thread == threading.get_ident():
            return  # called by a proposal, say, of the run that it is to end
        if not use.busy.acquire(timeout=_CLOSE_WITHIN):
            # The run is in the hands of somebody's code, such as a proposal that takes long. It ends when that returns.
            if (session := self.session) is not None:
                session.end_processes()
            return
        try:
            self._end_session()
        finally:
            use.busy.release()

    def _end_session(self) -> None:
        """By the thread that holds ``busy``."""
        session, self.session = self.session, None
        try:
            if session is not None:
                session.close()
        finally:
            self.use.closing.clear()

    # ---- which simulator they are ------------------------------------------------------------------------------------

    def identity(self, lease: int | None = None) -> dict[str, Any]:
        """Of the simulator that the next run uses. Starts it, again if its files were replaced in the meantime."""
        with self.exclusively(lease):
            if self.setup.listen is not None:
                return identity_elsewhere(self.setup, self.ready())
            if self.session is not None and self.running and not self.files.still_the_same():
                _log.info("%s was rebuilt after it was started: it is restarted", self.setup.command[0])
                self.session.close()
            self.ready()
        return self.files.identity()

    @contextlib.contextmanager
    def only_as(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """In the block, another simulator is not started."""
        self._expected = identity
        try:
            yield
        finally:
            self._expected = None

    def _identity_now(self, session: Session) -> dict[str, Any] | None:
        if self.setup.listen is not None:
            return identity_elsewhere(self.setup, session)
        return self.files.identity() if self.files.known else None


def identity_elsewhere(setup: Setup, session: Session) -> dict[str, Any]:
    """Of a simulator whose files are on another machine: it is known by its first traces."""
    words = setup.command
    named = setup.listen is None or words != (setup.listen.endpoint,)
    config = setup.run_config(0, _FIRST_TRACES, RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS)
    recorder = Recorder(_FIRST_TRACES, "zero", NoProgress(), seed=0)
    Processes.one_run(session, config, PriorProposer(), recorder, None)
    return {
        "command": [os.path.basename(words[0]), *words[1:]] if named else [],
        "executable": ELSEWHERE,
        "first_traces": behaviour(recorder.columns(), recorder.sites),
        "files": {},
    }

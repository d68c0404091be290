"""The processes of a simulator: started when a run needs them, started again when they are lost."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from ars._native import LIMITS, Limit, RunFlag
from ars.arguments import command_words, environment_variables, seconds
from ars.columns import Columns, Site
from ars.continuations import Continuations, checked_mode
from ars.errors import ArsError, HostLostError, LaunchError, RunInterrupted
from ars.proposers import Proposer
from ars.runtime.keys import read_keys
from ars.runtime.limits import Limits, limited
from ars.runtime.recorder import Recorder
from ars.runtime.remote import Announce, Listen, listen_at
from ars.runtime.session import Session
from ars.wire import RunConfig

__all__ = ["Processes"]

_log = logging.getLogger(__name__)

_OTHER_DESCRIPTORS = 16  # that a simulator may have besides those for its workers
_CLOSE_WITHIN = 15.0  # seconds that a run has to stop when another thread closes the simulator
_MAX_RESTARTS = LIMITS["max_restarts"].standard
_STARTUP_TIMEOUT = float(LIMITS["startup_timeout"].standard)


def _workers(per_core: Limit) -> int:
    return min(per_core.standard * len(os.sched_getaffinity(0)), LIMITS["workers"].most)


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


class Processes:
    """How a simulator is started and what it may use (see Simulator), and its processes while they are there."""

    _build = ""  # a digest of the code that runs; "": not known

    def __init__(
        self,
        command: Sequence[str] | str | os.PathLike[str],
        workers: int | None = None,
        *,
        trace_timeout: float = Limits.trace_timeout,
        try_timeout: float = Limits.try_timeout,
        max_tries: int = Limits.max_tries,
        max_snapshots: int | None = None,
        max_processes: int = Limits.max_processes,
        max_memory: int | None = None,
        max_restarts: int = _MAX_RESTARTS,
        startup_timeout: float = _STARTUP_TIMEOUT,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        show_stdout: bool = False,
        continuations: Continuations = "auto",
    ) -> None:
        self.command = command_words(command)
        self.workers = None if workers is None else limited("workers", workers)
        self.limits = Limits(trace_timeout, try_timeout, max_tries, max_snapshots, max_processes, max_memory)
        self.max_restarts = limited("max_restarts", max_restarts)
        self.startup_timeout = seconds("startup_timeout", startup_timeout, zero=False)
        self.env = environment_variables(env)
        self.cwd = None if cwd is None else os.fspath(cwd)
        self.show_stdout = bool(show_stdout)
        self.continuations = checked_mode(continuations)
        self._listen: Listen | None = None
        self._use = _Use()
        self._session: Session | None = None

    @classmethod
    def listen(
        cls,
        endpoint: str,
        key: str | os.PathLike[str] | None = None,
        *,
        insecure_loopback: bool = False,
        startup_timeout: float = _STARTUP_TIMEOUT,
        command: Sequence[str] | str | os.PathLike[str] | None = None,
        announce: Announce | None = None,
        **limits: Any,
    ) -> Self:
        """A simulator that is started elsewhere, by hand or by a batch system, and comes to us at tcp://ADDRESS:PORT.

        key: the controller.key of a pair that ``ars keygen`` made. The simulator is started with
        ``ARS_ENDPOINT=tcp://OUR_HOST:PORT ARS_KEY=simulator.key``; this call waits for it, at most startup_timeout
        seconds. If it is lost, the run waits for another. limits: as of Simulator, and ``continuations``; the number of
        workers and the limits on processes, snapshots and memory are set where it is started. insecure_loopback: no
        keys, for tcp://127.0.0.1:PORT on a machine without other users (and ARS_INSECURE_LOOPBACK=1 for the simulator).
        command: the remote command line; used only to label the run. announce: called whenever the wait begins, with
        the address and the line to run there.
        """
        simulator = cls([endpoint] if command is None else command, startup_timeout=startup_timeout, **limits)
        keys = None if key is None else read_keys(key)
        listen = listen_at(endpoint, keys, insecure_loopback=insecure_loopback)
        words = listen.command if command is None else simulator.command
        simulator._listen = listen._replace(
            command=tuple(words), settings=simulator._settings_elsewhere(), announce=announce
        )
        simulator._ready()
        return simulator

    # ---- how many workers --------------------------------------------------------------------------------------------

    def _all_workers(self) -> int | None:
        """How many the family has; None if a variable says so."""
        if self.workers is not None or "ARS_WORKERS" in {**os.environ, **self.env}:
            return self.workers
        return _workers(LIMITS["asking_per_core"])

    def _settings_elsewhere(self) -> dict[str, str]:
        """The variables that say there what was asked for here. What is left to itself fits that machine, not ours."""
        wanted = {} if self.workers is None else {"ARS_WORKERS": str(self.workers)}
        asked = self.limits.environment({})
        if self.limits.max_processes == Limits.max_processes:
            del asked["ARS_MAX_PROCESSES"]
        if self.limits.max_memory is None:
            asked.pop("ARS_MAX_MEMORY", None)
        return wanted | asked

    def _most_workers(self, flags: RunFlag) -> int:
        """How many of the workers a run uses; 0 for all. A process that waits for a proposal leaves its core to others,
        and the more wait the larger are the batches: one that is answered is about half of those that run."""
        if self.workers is not None or self._listen is not None or not flags & RunFlag.PROPOSE_PRIOR:
            return 0  # how many there are was chosen, or is right for the machine that the simulator is on
        return _workers(LIMITS["workers_per_core"])

    # ---- runs --------------------------------------------------------------------------------------------------------

    def _work(
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
                missing = [] if recorder.stopped else recorder.missing()
                session = self._ready(recorder.sites) if missing else None
                if build and self._build and self._build != build:
                    raise ArsError(
                        f"{self.command[0]} was lost in the middle of a run, and was rebuilt in the meantime: the run "
                        "would mix traces of two simulators. .partial holds those of the first; run again"
                    )
                build = build or self._build
                for first, count in missing:
                    assert session is not None
                    part = config._replace(first_trace=first, n_traces=count)
                    self._one_run(session, part, proposer, recorder, stop)
                    if recorder.stopped or (stop is not None and stop.is_set()):
                        break
                return
            except (HostLostError, LaunchError) as error:
                fruitless = 1 if recorder.done > before else fruitless + 1
                if fruitless > self.max_restarts or (isinstance(error, LaunchError) and not recorder.restarts):
                    raise
                recorder.lost(error)
            except KeyboardInterrupt as interrupt:
                if isinstance(interrupt, RunInterrupted):
                    raise
                raise RunInterrupted("the run was interrupted; .partial holds what had finished") from interrupt

    @staticmethod
    def _one_run(
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
                "the system refused %d forks, and the run went on with %d workers; %s or give fewer workers",
                done.forks_refused,
                done.fewest_workers,
                _advice(session.hello.workers),
            )
        if done.replays > done.forks_refused:
            _log.warning(
                "%d times a trace was run again because its process had died; its result is that of the second run. "
                "If a trace finished then and nobody had killed its process, the simulator crashes depending on the "
                "traces that it ran before, for instance because it runs past the end of an array",
                done.replays,
            )

    @contextlib.contextmanager
    def _exclusively(self, lease: int | None = None) -> Iterator[None]:
        """For one thread at a time. If another one asks for the end meanwhile, the processes end here, when the run has
        stopped: ZeroMQ's sockets are for the thread that uses them.

        ``lease``, from ``_lease``: what this is a part of. After a ``close`` it does not begin.
        """
        use = self._in_this_process()
        if not use.busy.acquire(blocking=use.closing.is_set()):  # one that closes it is done in a moment
            raise RuntimeError(
                "this Simulator is in the middle of a run; use another Simulator for one at the same time"
            )
        use.thread = threading.get_ident()
        try:
            if lease is not None and lease != use.closings:
                raise RunInterrupted("the simulator was closed")
            yield
        finally:
            if use.closing.is_set():
                self._end_session()
            use.thread = None
            use.busy.release()

    def _lease(self) -> int:
        """For work that takes several runs: ``close`` ends it, so that it does not start the simulator again."""
        return self._in_this_process().closings

    def _in_this_process(self) -> _Use:
        """A forked copy has nothing to do with the processes, the locks and the threads of the original."""
        if self._use.owner != os.getpid():
            self._use = _Use()
            self._session = None
        return self._use

    # ---- the processes -----------------------------------------------------------------------------------------------

    def _ready(self, sites: Sequence[Site] = ()) -> Session:
        """The running family, started if there is none. ``sites``: what this run has met in an earlier one."""
        if self._session is None or self._session.closed:
            self._session = Session(
                self.command,
                workers=self._all_workers(),
                env={**self.limits.environment({**os.environ, **self.env}), **self.env},
                cwd=self.cwd,
                startup_timeout=self.startup_timeout,
                show_stdout=self.show_stdout,
                sites=sites,
                listen=self._listen,
                closing=self._in_this_process().closing,
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
        """Ends the simulator's processes. A later call of ``prior``, ``posterior``, ``train`` or ``record`` starts new
        ones.

        Any thread may call this. A run that another thread is in the middle of ends with RunInterrupted, whose
        ``partial`` holds what had finished.
        """
        use = self._in_this_process()
        use.closings += 1
        use.closing.set()
        if use.thread == threading.get_ident():
            return  # called by a proposal, say, of the run that it is to end
        if not use.busy.acquire(timeout=_CLOSE_WITHIN):
            # The run is in the hands of somebody's code, such as a proposal that takes long. It ends when that returns.
            if (session := self._session) is not None:
                session.end_processes()
            return
        try:
            self._end_session()
        finally:
            use.busy.release()

    def _end_session(self) -> None:
        """By the thread that holds ``busy``."""
        session, self._session = self._session, None
        try:
            if session is not None:
                session.close()
        finally:
            self._use.closing.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        workers = "" if self.workers is None else f", workers={self.workers}"
        return f"<Simulator {shlex.join(self.command)}{workers}, {'running' if self.running else 'not running'}>"

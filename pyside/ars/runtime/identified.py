"""Processes of which it is known from which files they were started."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ars._native import RunFlag
from ars.columns import Site
from ars.errors import StorageError
from ars.progress import NoProgress
from ars.proposers import PriorProposer
from ars.runtime.launch import resolve_command
from ars.runtime.processes import Processes
from ars.runtime.recorder import Recorder
from ars.runtime.session import Session
from ars.store.executable import Program, loaded_files, read_program
from ars.store.identity import ELSEWHERE, behaviour, differences
from ars.wire import RunConfig

__all__ = ["Identified"]

_log = logging.getLogger(__name__)

_FIRST_TRACES = 4  # of the prior, that a simulator elsewhere is known by


class Identified(Processes):
    """Knows the files of the simulator that runs, so that a run's folder can name them.

    A simulator that was rebuilt is started again before a run that keeps its traces; one that is rebuilt in the middle
    of such a run, and lost, is not started again.
    """

    _files: Program | None = None  # of the running family, as they were when it was started; None: not known
    _started_as: Program | None = None  # the same, without what it has loaded by itself
    _expected: Mapping[str, Any] | None = None  # the identity of the simulator that the present run must have

    def _program(self) -> Program:
        """The files of the simulator as they are now."""
        env = {**os.environ, **self.env}
        argv = resolve_command(self.command, env, self.cwd)
        program = read_program(argv, env, self.cwd)
        return program._replace(command=(os.path.basename(self.command[0]), *self.command[1:]))

    def _ready(self, sites: Sequence[Site] = ()) -> Session:
        """The running family, started if there is none, and then compared with the one that the run must have."""
        if self.running:
            return super()._ready(sites)
        session = super()._ready(sites) if self._listen is not None else self._start_here(sites)
        if self._expected is not None:
            self._check_expected(self._expected)
        return session

    def _start_here(self, sites: Sequence[Site]) -> Session:
        """Starts the family, and looks at its files before and after."""
        self._files = self._started_as = None
        self._build = ""
        before = None
        with contextlib.suppress(OSError):  # of an executable that cannot be read; it can be run all the same
            before = self._program()
        session = super()._ready(sites)
        if before is not None:
            files = before.plus(loaded_files(session.hello.zygote_pid, session.hello.host_pid))
            with contextlib.suppress(OSError):
                self._build = files.build()
            if before.unchanged():
                self._files, self._started_as = files, before
            else:
                self._build = ""
        return session

    def _check_expected(self, expected: Mapping[str, Any]) -> None:
        odd = ["its files were replaced while it started"]
        if self._listen is not None:
            odd = differences({"simulator": dict(expected)}, {"simulator": self._identity_elsewhere()})
        elif self._files is not None:
            odd = differences({"simulator": dict(expected)}, {"simulator": self._hashed(self._files)})
        if odd:
            raise StorageError(
                f"the simulator was lost, and is another one now, so the run cannot go on: {'; '.join(odd)}. .partial "
                "holds every trace that had finished; resume with the simulator that the run began with"
            )

    @staticmethod
    def _hashed(program: Program) -> dict[str, Any]:
        try:
            identity = program.identity()
        except OSError as error:
            raise StorageError(
                f"{error.filename or program.command[0]} cannot be read ({error.strerror}): with resume=, every file "
                "that the simulator consists of must be readable"
            ) from error
        if not program.unchanged():
            raise StorageError(
                f"{program.command[0]}: its files were replaced while they were read. With resume=, they must stay as "
                "they are during a run"
            )
        return identity

    def _simulator_identity(self, lease: int | None = None) -> dict[str, Any]:
        """Of the simulator that the next run uses. Starts it, again if its files were replaced in the meantime."""
        if self._listen is not None:
            with self._exclusively(lease):
                self._ready()
                return self._identity_elsewhere()
        with self._exclusively(lease):
            if self.running and not self._still_the_same():
                _log.info("%s was rebuilt since it was started: it is started again", self.command[0])
                assert self._session is not None
                self._session.close()
            self._ready()
        if self._files is None:
            raise StorageError(
                f"{self.command[0]}: its files cannot be read, or were replaced while it started. With resume=, they "
                "must be readable, and must stay as they are during a run"
            )
        return self._hashed(self._files)

    def _identity_elsewhere(self) -> dict[str, Any]:
        """Of a simulator whose files are on another machine: it is known by its first traces."""
        assert self._listen is not None and self._session is not None
        command = [os.path.basename(self.command[0]), *self.command[1:]]
        if self.command == (self._listen.endpoint,):
            command = []
        config = RunConfig(
            seed=0,
            n_traces=_FIRST_TRACES,
            flags=RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS,
            max_tries=self.limits.max_tries,
            trace_timeout=self.limits.trace_timeout,
            try_timeout=self.limits.try_timeout,
        )
        recorder = Recorder(_FIRST_TRACES, "zero", NoProgress(), seed=0)
        self._one_run(self._session, config, PriorProposer(), recorder, None)
        first = behaviour(recorder.columns(), recorder.sites)
        return {"command": command, "executable": ELSEWHERE, "first_traces": first, "files": {}}

    def _still_the_same(self) -> bool:
        """Whether what runs is what the files hold now."""
        if self._files is None or not self._files.unchanged():
            return False
        with contextlib.suppress(OSError):
            return self._program() == self._started_as
        return False

    @contextlib.contextmanager
    def _only_as(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """In the block, a simulator with other files is not started."""
        self._expected = identity
        try:
            yield
        finally:
            self._expected = None

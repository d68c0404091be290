"""The files that running processes were started from."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from ars.errors import StorageError
from ars.runtime.launch import resolve_command
from ars.runtime.session import Session
from ars.runtime.setup import Setup
from ars.store.executable import Program, loaded_files, read_program
from ars.store.identity import differences

__all__ = ["Executable", "StartedFiles", "check_same"]


class Executable:
    """The executable as this machine has it. It is read again only if another file is there, or it has changed."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._known: tuple[tuple[object, ...], str] = ((), "")

    def digest(self) -> str:
        """SHA-256 of its content. Raises LaunchError or OSError if there is none that can be started."""
        try:
            return self._digest_of(self._path())
        except FileNotFoundError:  # it has gone in between
            return self._digest_of(self._path())

    def _path(self) -> str:
        setup = self._setup
        return resolve_command(setup.command, {**os.environ, **setup.env}, setup.cwd)[0]

    def _digest_of(self, path: str) -> str:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            # ctime: a file that was copied over keeps its inode, and may get its size and time of before
            key = (path, about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            if key != self._known[0]:
                self._known = (key, hashlib.file_digest(file, "sha256").hexdigest())
        return self._known[1]


def check_same(expected: Mapping[str, Any], found: Mapping[str, Any] | None) -> None:
    """Raises a StorageError unless the simulator that was found is the one that a run began with."""
    odd = ["its files were replaced while it started"]
    if found is not None:
        odd = differences({"simulator": dict(expected)}, {"simulator": dict(found)})
    if odd:
        raise StorageError(
            f"the simulator was lost, and the one found now is different, so the run cannot continue: {'; '.join(odd)}."
            " .partial holds every trace that had finished; resume with the simulator that the run began with"
        )


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


class StartedFiles:
    """Knows the files of the simulator that runs, so that a run's folder can name them."""

    build = ""  # a digest of the code that runs; "": not known
    own_build = ""  # the same without libars, for comparison with other machines

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._files: Program | None = None  # of the running family, as they were at its start; None: not known
        self._started_as: Program | None = None  # the same, without what it has loaded by itself

    @property
    def known(self) -> bool:
        """Whether they could be read, and stayed as they were while the family started."""
        return self._files is not None

    def _now(self) -> Program:
        """The files of the simulator as they are now."""
        command, cwd = self._setup.command, self._setup.cwd
        env = {**os.environ, **self._setup.env}
        program = read_program(resolve_command(command, env, cwd), env, cwd)
        return program._replace(command=(os.path.basename(command[0]), *command[1:]))

    def look_at(self, start: Callable[[], Session]) -> Session:
        """Starts the family, and looks at its files before and after."""
        self._files = self._started_as = None
        self.build = self.own_build = ""
        before = None
        with contextlib.suppress(OSError):  # of an executable that cannot be read; it can be run all the same
            before = self._now()
        session = start()
        if before is not None:
            files = before.plus(loaded_files(session.hello.zygote_pid, session.hello.host_pid))
            with contextlib.suppress(OSError):
                self.build, self.own_build = files.build(), files.build(libars=False)
            if before.unchanged():
                self._files, self._started_as = files, before
            else:
                self.build = self.own_build = ""
        return session

    def still_the_same(self) -> bool:
        """Whether what runs is what the files hold now."""
        if self._files is None or not self._files.unchanged():
            return False
        with contextlib.suppress(OSError):
            return self._now() == self._started_as
        return False

    def identity(self) -> dict[str, Any]:
        """Names and hashes, for the identity of a run."""
        if self._files is None:
            raise StorageError(
                f"{self._setup.command[0]}: its files cannot be read, or were replaced while it started. With resume=, "
                "they must be readable, and must stay as they are during a run"
            )
        return _hashed(self._files)

    def identity_on_disk(self) -> dict[str, Any]:
        """The same of a simulator that is started elsewhere from copies of these files."""
        try:
            return _hashed(self._now())
        except OSError as error:
            raise StorageError(f"{self._setup.command[0]} cannot be read: {error}") from error

"""Starting a simulator's family of processes, and ending it so that nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ars import installed
from ars.errors import LaunchError
from ars.runtime.interrupts import Interrupts
from ars.runtime.leftovers import remove_stale
from ars.runtime.pipes import AlivePipe, LastLines

__all__ = ["Family", "find_host", "resolve_command"]

_log = logging.getLogger(__name__)

_LOADED_WITHIN = 4.5  # seconds; an executable without libars is found out within 5
_QUIT_WITHIN = 3.0
_TERMINATE_WITHIN = 1.0
_SOCKET_PATH_LIMIT = 100  # sockaddr_un holds 107 bytes
_TUNABLE = "glibc.malloc.hugetlb"
# glibc's words; it exits with 127 then, as shells do.
_LOADER_FAILED = re.compile(r"error while loading shared libraries: ([^\s:]+):")


def find_host(env: Mapping[str, str]) -> str:
    """The path of ars-host: $ARS_HOST if it is set, else the one in this package, else the one on the PATH."""
    if given := env.get("ARS_HOST"):
        if not os.access(given, os.X_OK) or os.path.isdir(given):
            raise LaunchError(f"ARS_HOST={given}: this is not an executable file; point it at ars-host or unset it")
        return os.path.abspath(given)
    packaged = installed.find("bin/ars-host")
    if packaged is not None and os.access(packaged, os.X_OK):
        return str(packaged)
    if found := shutil.which("ars-host", path=env.get("PATH")):
        return os.path.abspath(found)
    raise LaunchError(
        "ars-host was not found, neither in the Python package nor on the PATH. Install the package with its native "
        "parts, or set ARS_HOST to the path of ars-host in your build directory"
    )


def resolve_command(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> list[str]:
    """The command with its executable found and checked. A name without a slash is looked up on the PATH."""
    name = command[0]
    if cwd is not None and not os.path.isdir(cwd):
        problem = "this is not a directory" if os.path.lexists(cwd) else "there is no such directory"
        raise LaunchError(f"cwd={cwd}: {problem}; the simulator {name} was to be started there")
    if os.sep in name:
        path = os.path.join(cwd or os.getcwd(), name)
        if not os.path.lexists(path):
            raise LaunchError(f"{name}: there is no such file (looked in {cwd or os.getcwd()}); has it been built?")
        if os.path.isdir(path):
            raise LaunchError(f"{name}: this is a directory, not an executable")
        if not os.path.exists(path):
            raise LaunchError(f"{name}: this link is broken")
        if not os.access(path, os.X_OK):
            raise LaunchError(
                f"{name}: this file is not executable; try chmod +x {name}, or compile it first if it is source code "
                "(ars compile)"
            )
        return [path, *command[1:]]
    if found := shutil.which(name, path=env.get("PATH")):
        return [os.path.abspath(found), *command[1:]]
    hint = (
        f"; a file in the current directory is written ./{name}"
        if os.path.exists(os.path.join(cwd or ".", name))
        else ""
    )
    raise LaunchError(f"{name}: there is no such executable on the PATH{hint}")


class Family:
    """One running simulator: ars-host, the zygote and the workers. Ends with ``close``, at the latest at exit."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        workers: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        show_stdout: bool = False,
        before_start: Callable[[str], object] | None = None,
    ) -> None:
        """``before_start`` is given the endpoint while nobody uses it yet: the place to bind."""
        environment = {**os.environ, **(env or {})}
        argv = resolve_command(command, environment, cwd)
        self._host = host = find_host(environment)
        self.name = command[0]
        self.token = secrets.token_hex(16)
        self.owner = os.getpid()
        self.directory = _socket_directory()
        self.endpoint = f"ipc://{self.directory}/host"
        alive_read, alive_write = os.pipe()
        self._alive = AlivePipe(alive_read)
        try:
            if before_start is not None:
                before_start(self.endpoint)
            environment.update(_variables(self.endpoint, self.token, host, alive_write, workers, environment))
            with Interrupts() as interrupts:  # Ctrl-C could leave processes that nobody ends
                self.process = _start(argv, environment, cwd, show_stdout, alive_write, self.name)
                self._hold()
        except BaseException:
            self._alive.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        finally:
            os.close(alive_write)
        try:
            interrupts.check()
        except KeyboardInterrupt:
            self.end()
            raise

    def _hold(self) -> None:
        """From now on the processes end with this object."""
        assert self.process.stderr is not None
        self._stderr = LastLines(os.dup(self.process.stderr.fileno()))
        self.process.stderr.close()
        #: Ends the processes at once, without asking; called when nobody refers to this object any more, and at exit.
        self.end = weakref.finalize(
            self, _end, self.owner, self.process, self.directory, self.token, self._stderr, self._alive
        )

    patient = False  # nobody but our own child can reach the socket

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self.process.pid

    def attend(self) -> None:
        """Nobody else can come."""

    def refused(self, why: object) -> None:
        """Not asked: who errs here is our own child, and ends the handshake."""

    def admitted(self, peer: bytes) -> None:
        """It has said HELLO. Its end is that of the process, so its connection does not matter."""

    # ---- watching it start -------------------------------------------------------------------------------------------

    def wait_loaded(self, within: float = _LOADED_WITHIN) -> None:
        """Returns when libars has said that it is loaded; raises LaunchError if it does not."""
        deadline = time.monotonic() + within
        while True:
            left = deadline - time.monotonic()
            ended = self.exited()  # asked before the pipe is read, so that last words are not missed
            self._read_alive(0.0 if ended else max(min(left, 0.1), 0.0))
            if self._alive.loaded:
                return
            if ended:
                raise LaunchError(f"{self.name}: {self.exit_text()} {self._why_not_loaded()}{self._stderr_text()}")
            if left <= 0:
                raise LaunchError(
                    f"{self.name}: no sign of libars within {within:g} s of its start. It is probably not linked "
                    f"against libars{self._stderr_text()}"
                )

    def _why_not_loaded(self) -> str:
        self._stderr.finish(0.3)
        if (library := self._library_missing()) is not None:
            if library.startswith("libars."):
                return (
                    f"before it began: {library} is not where it was when the program was linked. Compile it again "
                    "(ars compile), or set LD_LIBRARY_PATH to the folder of the library (ars config --libdir)"
                )
            return (
                f"before it began: the shared library {library} could not be loaded. Install it, or name its folder in "
                "LD_LIBRARY_PATH (env={'LD_LIBRARY_PATH': ...})"
            )
        return "without a sign of libars. It is probably not linked against libars"

    def _library_missing(self) -> str | None:
        """The library that the loader did not find, if that is why the process has ended."""
        found = _LOADER_FAILED.search(self.stderr_text())
        return None if found is None else found[1]

    def _why_no_greeting(self) -> str:
        self._stderr.finish(0.3)
        library = self._library_missing()
        if library is None:
            return f"failed before the handshake: {self.exit_text()}"
        advice = ""
        if library.startswith("libzmq"):
            advice = (
                " (Debian and Ubuntu: apt-get install libzmq5; Fedora: dnf install zeromq; conda: conda install -c "
                "conda-forge zeromq), or install a wheel of libars that has libzmq inside"
            )
        return f"({self._host}) cannot be loaded, because it needs {library}. Install it{advice}"

    def check_starting(self) -> None:
        """Raises LaunchError if the program has said that it cannot become a simulator, or has ended."""
        ended = self.exited()
        self._read_alive(0.0)
        if ended and self._alive.split:
            raise LaunchError(f"{self.name}: its ars-host {self._why_no_greeting()}{self._stderr_text()}")
        if ended:
            raise LaunchError(
                f"{self.name}: {self.exit_text()} before it asked for its first trace. It is linked against libars but "
                f"never called ars_main or ars_next_trace{self._stderr_text()}"
            )

    def never_began(self, within: float) -> LaunchError:
        """The error for a program that is loaded, lives, and does not say hello."""
        return LaunchError(
            f"{self.name}: it did not ask for its first trace within {within:g} s (startup_timeout). Either it never "
            f"calls ars_main or ars_next_trace, or its initialisation takes longer{self._stderr_text()}"
        )

    def _read_alive(self, seconds: float) -> None:
        if reason := self._alive.read(seconds):
            raise LaunchError(f"{self.name}: {reason}{self._stderr_text()}")

    # ---- watching it run ---------------------------------------------------------------------------------------------

    def exited(self) -> bool:
        """Whether the process that we started has ended. It is not reaped: its number stays ours."""
        return _exited(self.process)

    def pulse(self) -> int | None:
        """A number that changes as long as the process gets to run; ars-host does every 50 ms. None: not known."""
        try:
            return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[2])
        except (OSError, ValueError, IndexError):
            return None

    def exit_text(self) -> str:
        """ "it exited with code 3", "it was ended by SIGSEGV"; for a process that has ended."""
        if self.process.returncode is not None:
            code = self.process.returncode
        else:
            status = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if status is None:
                return "it is still running"
            code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        if code >= 0:
            return f"it exited with code {code}"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"

    def stderr_text(self) -> str:
        """The last lines that the family wrote to stderr."""
        return self._stderr.text()

    def _stderr_text(self) -> str:
        if self.exited():
            self._stderr.finish(0.3)
        text = self.stderr_text()
        return f". Its last lines on stderr:\n{text}" if text else ""

    # ---- ending it ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return not self.end.alive

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """Ends the family: ``ask`` (send QUIT), 3 s, SIGTERM, 1 s, SIGKILL. A second call does nothing.

        A copy of this object in a forked process does nothing at all.
        """
        if os.getpid() != self.owner or not self.end.alive:
            return
        if ask is not None and not self.exited():
            ask()
            _wait(self.process, _QUIT_WITHIN)
        self.end()

    def __enter__(self) -> Family:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _variables(
    endpoint: str, token: str, host: str, alive: int, workers: int | None, env: Mapping[str, str]
) -> dict[str, str]:
    variables = {
        "ARS_ENDPOINT": endpoint,
        "ARS_TOKEN": token,
        "ARS_HOST": host,
        "ARS_CONTROLLER_PID": str(os.getpid()),
        "ARS_ALIVE_FD": str(alive),
    }
    if workers is not None:
        variables["ARS_WORKERS"] = str(workers)
    tunables = env.get("GLIBC_TUNABLES", "")
    if _TUNABLE not in tunables:
        # Huge pages make fork cheap: a process with a large heap has far fewer page table entries to copy.
        variables["GLIBC_TUNABLES"] = f"{tunables}:{_TUNABLE}=1" if tunables else f"{_TUNABLE}=1"
    return variables


def _socket_directory() -> str:
    """A private directory (0700) whose path is short enough for a socket."""
    parents = ["/tmp", "/dev/shm"]
    with contextlib.suppress(OSError):  # Python knows no directory that it can write to; it does not try the last one
        parents.insert(0, tempfile.gettempdir())
    remove_stale(parents)
    for parent in parents:
        try:
            directory = tempfile.mkdtemp(prefix=f"ars-{os.getpid()}-", dir=parent)
        except OSError:
            continue
        if len(os.fsencode(directory)) <= _SOCKET_PATH_LIMIT:
            return directory
        os.rmdir(directory)
    raise LaunchError("no writable directory with a short path for the socket: set TMPDIR to one, such as /tmp")


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, show_stdout: bool, alive: int, name: str
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=None if show_stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(alive,),
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for us; we tell the family
        )
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise LaunchError(
                f"{name}: the system cannot execute this format. Is it an executable for this machine, or a script "
                "without a #! line?"
            ) from error
        if error.errno == errno.ENOENT and os.path.exists(argv[0]) and (cwd is None or os.path.isdir(cwd)):
            raise LaunchError(f"{name}: the interpreter or loader that it names does not exist") from error
        if error.errno == errno.ENOENT and not os.path.lexists(argv[0]):
            raise LaunchError(f"{name}: the file no longer exists ({argv[0]})") from error
        raise LaunchError(f"{name}: could not be started: {error.strerror or error}") from error


def _exited(process: subprocess.Popen[bytes]) -> bool:
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:  # somebody else reaped it
        return True


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while not _exited(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """To the whole session; the leader is not reaped yet, so the group's number cannot be somebody else's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill_members(token: str) -> list[int]:
    """SIGKILL to the processes that carry our token in their environment: what is left of the family. Who they were."""
    wanted = f"ARS_TOKEN={token}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted not in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                continue
            descriptor = os.pidfd_open(int(entry))
            try:  # asked again, now that the number is held: it may have become somebody else's in between
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
    return found


def _end(
    owner: int, process: subprocess.Popen[bytes], directory: str, token: str, stderr: LastLines, alive: AlivePipe
) -> None:
    """Whatever is still there goes: processes, pipe, thread, socket. Only in the process that started them."""
    if os.getpid() != owner:
        process.returncode = 0  # nobody's child here: nothing to wait for, nor to warn of
        return
    if not _exited(process):
        _signal_group(process, signal.SIGTERM)
        _wait(process, _TERMINATE_WITHIN)
    _signal_group(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_TERMINATE_WITHIN)
    _end_stragglers(token)
    stderr.close()
    alive.close()
    shutil.rmtree(directory, ignore_errors=True)


def _end_stragglers(token: str, within: float = 2.0) -> None:
    """Family members in sessions of their own die with their parent; this makes sure, and waits until they are gone."""
    deadline = time.monotonic() + within
    while members := _kill_members(token):
        if time.monotonic() > deadline:
            _log.warning("processes %s of a simulator could not be ended", members)
            return
        time.sleep(0.005)

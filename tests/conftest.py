"""What all tests share: built simulators, and a check that every test cleans up after itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import ars
from ars.runtime.leftovers import owner_lives

ROOT = Path(__file__).resolve().parents[1]
MARK = f"ARS_TEST_SESSION={uuid.uuid4().hex}"  # every process that a test starts inherits it, and keeps it as an orphan
NO_SIMULATORS = ("unit", "fuzz")  # folders of tests
PATIENCE = 30.0  # seconds that processes have to disappear after a test


def build_directory() -> Path:
    return Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build"))


def pytest_configure(config: pytest.Config) -> None:
    name, _, value = MARK.partition("=")
    os.environ[name] = value
    _own_temporary_directory(config)
    # A stall of the machine is not a finding, and a run finds what the one before it found.
    settings.register_profile("ars", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ars")
    _usual_signals()
    packaged = Path(ars.__file__).parent / "bin" / "ars-host"
    if "ARS_HOST" not in os.environ and not packaged.exists():
        built = build_directory() / "bridge" / "ars-host"
        if built.exists():
            os.environ["ARS_HOST"] = str(built)


def _usual_signals() -> None:
    """Undoes what a parent has blocked or switched off, as a shell switches off Ctrl-C for a job in the background.
    Tests send signals to this process and to others, which inherit what is set here."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start simulators have a marker and rooms of their own."""
    quiet = [ROOT / "tests" / folder for folder in NO_SIMULATORS]
    for item in items:
        if not any(item.path.is_relative_to(folder) for folder in quiet):
            item.add_marker("simulator")
        elif asks := {"csim", "started"} & set(getattr(item, "fixturenames", ())):
            raise pytest.UsageError(f"{item.nodeid} asks for {', '.join(asks)}: move it to tests/system")


def pytest_collection_finish() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        raise pytest.UsageError(f"a package that tests import replaced Ctrl-C: {signal.getsignal(signal.SIGINT)}")


def _own_temporary_directory(config: pytest.Config) -> None:
    """What lies there is ours, also when another session of tests runs on this machine. tmp_path stays where it was."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    directory = tempfile.mkdtemp(prefix="arstest-")
    os.environ["TMPDIR"] = tempfile.tempdir = directory
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


# ---- nothing is left behind ------------------------------------------------------------------------------------------


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[bytes]:
    """State, parent, ... as in proc(5), from field 3 on; empty for a process that is gone."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


BEGAN = int(_stat(os.getpid())[19])  # no process that a test starts is older than we are


def _processes() -> dict[int, str]:
    """Our descendants, zombies too, and orphans that a test started: pid -> what it is."""
    me = os.getpid()
    stats = {int(entry): _stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    parents = {pid: int(stat[1]) for pid, stat in stats.items() if stat}
    found: dict[int, str] = {}
    for pid, at in parents.items():
        if pid == me or int(stats[pid][19]) < BEGAN:
            continue
        while at not in (0, 1, me):
            at = parents.get(at, 0)
        if at == me or MARK.encode() in _read(f"/proc/{pid}/environ").split(b"\0"):
            command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
            if "multiprocessing.resource_tracker" in command:  # a helper that Python ends with itself
                continue
            found[pid] = command or ("a zombie" if stats[pid][0] == b"Z" else "a process that is ending")
    return found


class _Started:
    """Whether this process has started another one since the last look. A test that has not leaves none behind, so the
    walk through /proc is for the others."""

    events = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"})

    def __init__(self) -> None:
        self.noticed = False
        sys.addaudithook(self._notice)

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        del arguments
        if event in self.events:
            self.noticed = True

    def any(self) -> bool:
        """Also if it was started in a way that the interpreter does not see, and is still there."""
        return self.noticed or any(_has_children(task) for task in os.listdir("/proc/self/task"))


def _has_children(task: str) -> bool:
    try:
        return bool(Path(f"/proc/self/task/{task}/children").read_bytes())
    except ProcessLookupError:  # the thread has ended
        return False
    except OSError:  # a kernel that does not say
        return os.path.exists(f"/proc/self/task/{task}")


STARTED = _Started()


def _owned(pid: str, path: Path) -> bool:
    return pid.isdigit() and owner_lives(int(pid), path)


def _files() -> set[str]:
    """Socket directories of controllers that are us or are gone: elsewhere than in our own directory, only ours."""
    found: set[str] = set()
    for directory in {tempfile.gettempdir(), "/tmp", "/dev/shm"}:
        for path in Path(directory).glob("ars-*"):
            owner = path.name.split("-")[1]
            if owner == str(os.getpid()) or (directory == tempfile.gettempdir() and not _owned(owner, path)):
                found.add(str(path))
    return found


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ars-")}


def _everything() -> dict[str, str]:
    found = {f"process {pid}": what for pid, what in _processes().items()} if STARTED.any() else {}
    found.update({f"file {path}": "" for path in _files()})
    found.update({f"thread {name}": "" for name in _threads()})
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        found["handler of SIGINT"] = repr(signal.getsignal(signal.SIGINT))
    return found


@pytest.fixture(scope="session")
def known_leftovers() -> dict[str, str]:
    """What was there before, so that a test answers for its own only."""
    return _everything()


@pytest.fixture(scope="session")
def own_processes() -> Callable[[], dict[int, str]]:
    """All processes that tests have started and that are still there: pid -> what each is."""
    return _processes


@pytest.fixture(autouse=True)
def nothing_left_behind(known_leftovers: dict[str, str]) -> Iterator[None]:
    """Fails a test that leaves a process, a socket, shared memory, a thread of ours or a handler of Ctrl-C behind."""
    yield
    deadline = time.monotonic() + PATIENCE
    while (
        left := {k: v for k, v in _everything().items() if k not in known_leftovers}
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    STARTED.noticed = False
    if left:
        known_leftovers.update(left)
        pytest.fail("this test left behind:\n" + "\n".join(f"{k} {v}" for k, v in left.items()), pytrace=False)


# ---- simulators ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def csim() -> Callable[[str], str]:
    """The path of a simulator that the build made: csim("marsaglia")."""
    directory = Path(os.environ.get("ARS_CSIM_DIR", build_directory() / "csim"))

    def path(name: str) -> str:
        found = shutil.which(str(directory / name))
        if found is None:
            pytest.fail(f"{directory / name} does not exist; build it (make build) or set ARS_CSIM_DIR", pytrace=False)
        return found

    return path


@pytest.fixture
def started(nothing_left_behind: None) -> Iterator[Callable[[Any], Any]]:
    """Closes what it is given after the test, and before the test answers for what is left: started(Simulator(...))."""
    del nothing_left_behind
    with contextlib.ExitStack() as stack:

        def close_later(thing: Any) -> Any:
            stack.callback(thing.close)
            return thing

        yield close_later


@pytest.fixture
def simulator(
    csim: Callable[[str], str], started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[..., ars.Simulator]:
    """Simulators that are closed after the test: simulator("truncated_normal", "b", workers=4)."""

    def make(name: str, *arguments: object, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([csim(name), *map(str, arguments)], **options))

    return make


@pytest.fixture(params=["fork", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    """How a simulator runs continuations: for tests of what holds either way, whether they are forked or rewound."""
    return str(request.param)


@pytest.fixture(scope="module")
def estimates_the_prior() -> Iterator[None]:
    """Loops are estimated although nothing is proposed: for tests of the forks, whatever is proposed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ars.Simulator, "_estimates_the_prior", True)
        yield


# ---- torch -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """The same sums in the same order on every machine, and cores for the simulators."""
    import torch  # not above: tests without networks run without it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

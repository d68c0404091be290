"""Starting and ending real processes. The peers are fake_host.py and programs that every system has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ars import LaunchError, ProtocolError, Simulator
from ars.runtime.launch import Family, find_host, resolve_command
from ars.runtime.session import Session

FAKE = Path(__file__).resolve().parents[1] / "system" / "fake_simulator.py"


@pytest.fixture(autouse=True)
def any_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """fake_host.py is its own host; the path only has to be there."""
    monkeypatch.setenv("ARS_HOST", "/bin/true")


@pytest.fixture
def fake(started: Callable[[Session], Session]) -> Callable[..., Session]:
    def start(mode: str = "good", **options: float) -> Session:
        return started(Session([sys.executable, str(FAKE), mode], **options))  # type: ignore[arg-type]

    return start


# ---- what cannot be started ------------------------------------------------------------------------------------------


def test_a_missing_executable(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no/such/simulator: there is no such file"):
        Simulator(["no/such/simulator"], cwd=tmp_path).prior(1)
    with pytest.raises(LaunchError, match="no-such-simulator: there is no such executable on the PATH"):
        Simulator("no-such-simulator").prior(1)
    (tmp_path / "sim").write_text("")
    with pytest.raises(LaunchError, match=r"is written \./sim"):
        Simulator("sim", cwd=tmp_path).prior(1)


def test_a_directory_a_dead_link_and_a_file_that_is_not_executable(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="is a directory"):
        Simulator([str(tmp_path)]).prior(1)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(LaunchError, match="link is broken"):
        Simulator([str(tmp_path / "link")]).prior(1)
    (tmp_path / "data").write_text("1 2 3")
    with pytest.raises(LaunchError, match=r"not executable; try chmod \+x"):
        Simulator([str(tmp_path / "data")]).prior(1)


def test_a_format_that_the_system_cannot_execute(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01\x02 not a program")
    program.chmod(0o755)
    with pytest.raises(LaunchError, match="cannot execute this format"):
        Simulator([str(program)]).prior(1)
    program.write_text("#!/no/such/interpreter\n")
    with pytest.raises(LaunchError, match="interpreter or loader that it names does not exist"):
        Simulator([str(program)]).prior(1)


def test_a_program_without_libars_that_ends() -> None:
    with pytest.raises(LaunchError, match=r"exited with code 3 .*probably not linked against libars(.|\n)*oh dear"):
        Simulator(["sh", "-c", "echo oh dear >&2; exit 3"]).prior(1)
    with pytest.raises(LaunchError, match="ended by SIGKILL"):
        Simulator(["sh", "-c", "kill -9 $$"]).prior(1)


def test_a_program_without_libars_that_goes_on_is_found_after_4_5_seconds() -> None:
    started = time.monotonic()
    with pytest.raises(LaunchError, match=r"no sign of libars within 4\.5 s.*probably not linked against libars"):
        Simulator(["sleep", "3600"]).prior(1)
    assert time.monotonic() - started < 30  # 4.5 for the verdict, and the rest for a machine that stands still


def test_a_program_with_libars_that_never_begins(fake: Callable[..., Session]) -> None:
    with pytest.raises(LaunchError, match=r"code 2 before .*never called ars_main or ars_next_trace(.|\n)*usage: prog"):
        fake("exit")
    with pytest.raises(LaunchError, match=r"within 0\.5 s \(startup_timeout\)"):
        fake("nohello", startup_timeout=0.5)


def test_the_reason_that_libars_gives_is_reported(fake: Callable[..., Session]) -> None:
    with pytest.raises(LaunchError, match="the program has 3 threads when it asks for its first trace"):
        fake("giveup")


def test_another_protocol_version_and_another_token(fake: Callable[..., Session]) -> None:
    with pytest.raises(ProtocolError, match="host speaks protocol versions 98 to 99, this package 5 to 5"):
        fake("version")
    with pytest.raises(ProtocolError, match="token is not the one"):
        fake("token")


def test_the_host_program_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARS_HOST", str(tmp_path / "missing"))
    with pytest.raises(LaunchError, match=r"ARS_HOST=.*not an executable file"):
        Simulator(["true"]).prior(1)
    monkeypatch.setattr("ars.__path__", [str(tmp_path / "package")])  # one without an ars-host
    with pytest.raises(LaunchError, match=r"ars-host was not found.*set ARS_HOST"):
        find_host({"PATH": str(tmp_path)})
    (tmp_path / "ars-host").symlink_to("/bin/true")
    assert find_host({"PATH": str(tmp_path)}) == str(tmp_path / "ars-host")
    assert resolve_command(["ars-host", "x"], {"PATH": str(tmp_path)}, None) == [str(tmp_path / "ars-host"), "x"]


# ---- what a simulator is given ---------------------------------------------------------------------------------------


def _environment(family: Family) -> dict[str, str]:
    raw = Path(f"/proc/{family.process.pid}/environ").read_bytes().split(b"\0")
    end = time.monotonic() + 20
    while raw == [b""] and time.monotonic() < end:  # for a moment, in the middle of exec
        raw = Path(f"/proc/{family.process.pid}/environ").read_bytes().split(b"\0")
    return dict(line.decode().split("=", 1) for line in raw if line)


def test_the_environment_and_the_private_directory() -> None:
    with Family(["sleep", "60"], workers=3, env={"MINE": "1"}) as family:
        env = _environment(family)
        assert env["ARS_ENDPOINT"] == f"ipc://{family.directory}/host"
        assert env["ARS_TOKEN"] == family.token
        assert len(family.token) == 32
        assert env["ARS_WORKERS"] == "3"
        assert env["ARS_HOST"] == "/bin/true"
        assert env["ARS_CONTROLLER_PID"] == str(os.getpid())
        assert env["MINE"] == "1"
        assert env["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
        assert os.stat(family.directory).st_mode & 0o777 == 0o700
        assert os.readlink(f"/proc/{family.process.pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{family.process.pid}/fd/{env['ARS_ALIVE_FD']}").startswith("pipe:")
        assert os.getsid(family.process.pid) == family.process.pid


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("glibc.malloc.perturb=1", "glibc.malloc.perturb=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=2", "glibc.malloc.hugetlb=2"),
    ],
)
def test_the_users_tunables_are_kept(given: str, used: str) -> None:
    with Family(["sh", "-c", 'echo "$GLIBC_TUNABLES" >&2; sleep 60'], env={"GLIBC_TUNABLES": given}) as family:
        while not family.stderr_text():
            time.sleep(0.01)
        assert family.stderr_text() == used


def test_a_long_temporary_directory_is_not_used_for_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Family(["sleep", "60"]) as family:
        assert family.directory.startswith("/tmp/")
        assert list(deep.iterdir()) == []


def test_without_a_temporary_directory_of_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only system, or a limit of 0 bytes per file: Python writes a file to find its directory."""

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with Family(["sleep", "60"]) as family:
        assert family.directory.startswith("/tmp/")
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: none())
    with pytest.raises(LaunchError, match=r"no writable directory .* set TMPDIR"):
        Family(["sleep", "60"])


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_closing_asks_first_and_twice_is_once(fake: Callable[..., Session]) -> None:
    session = fake()
    directory = session._family.directory
    session.close()
    assert session._family.process.returncode == 0  # it left by itself
    assert not os.path.exists(directory)
    session.close()


def test_a_family_that_will_not_go_is_killed_with_its_children() -> None:
    script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 3600' & echo started >&2; sleep 3600"
    family = Family(["sh", "-c", script])
    while "started" not in family.stderr_text():
        time.sleep(0.01)
    family.close()
    assert family.process.returncode == -signal.SIGKILL


def test_a_forked_copy_ends_nothing(fake: Callable[..., Session]) -> None:
    session = fake()
    child = os.fork()
    if child == 0:
        session.close()
        session._family.close()
        session._family.end()
        os._exit(0 if session.closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not session._family.exited()
    assert os.path.isdir(session._family.directory)


def test_a_program_that_forgets_to_close_leaves_nothing_behind() -> None:
    code = (
        "import sys; from ars.runtime.session import Session\n"
        f"s = Session([sys.executable, {str(FAKE)!r}]); print(s._family.directory, s.pid)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    directory, pid = out.stdout.split()
    assert not os.path.exists(directory)
    assert not os.path.exists(f"/proc/{pid}")

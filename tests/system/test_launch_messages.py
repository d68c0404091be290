"""Starting a simulator goes wrong: the message names the true reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ars import LaunchError, Simulator


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"cwd=.*nowhere: there is no such directory; the simulator \./sim was to be"):
        Simulator("./sim", cwd=tmp_path / "nowhere").prior(1)
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"cwd=.*file: this is not a directory"):
        Simulator("sim", cwd=tmp_path / "file").prior(1)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"A": 1}, r"env\['A'\] must be text without zero bytes, such as '1', not 1"),
        ({"A": "x\0"}, r"env\['A'\] must be text"),
        ({1: "A"}, "env: names of variables are non-empty text without '=', not 1"),
        ({"A=B": "1"}, "env: names of variables"),
        (["A=1"], r"env must map names of variables to text.*not \['A=1'\]"),
    ],
)
def test_an_environment_that_is_none_is_named(env: object, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Simulator("true", env=env)  # type: ignore[arg-type]


def test_a_library_that_is_missing_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader exits with 127, as a shell does for a command that it does not find."""
    monkeypatch.setenv("ARS_HOST", "/bin/true")
    (tmp_path / "empty.c").write_text("int nothing_at_all(void) { return 0; }\n")
    (tmp_path / "main.c").write_text("int nothing_at_all(void);\nint main(void) { return nothing_at_all(); }\n")
    library = tmp_path / "libnothing_at_all.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "empty.c"], check=True)
    subprocess.run(["cc", "-o", tmp_path / "sim", tmp_path / "main.c", library], check=True, cwd=tmp_path)
    library.unlink()
    with pytest.raises(LaunchError, match=r"exited with code 127 before it began: the shared library") as caught:
        Simulator(tmp_path / "sim").prior(1)
    assert "libnothing_at_all.so" in str(caught.value)
    assert "not linked against libars" not in str(caught.value)


def _limited(descriptors: int, path: str, traces: int = 2000) -> subprocess.CompletedProcess[str]:
    code = (
        "import resource, sys, logging; logging.basicConfig(level=logging.WARNING); import ars, zmq, numpy\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))\n"
        "try:\n"
        "    with ars.Simulator(sys.argv[1], workers=64) as sim:\n"
        f"        print(len(sim.prior({traces}, seed=1)))\n"
        "except ars.ArsError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("descriptors", [6, 8, 10, 12, 13, 14, 16, 18, 20])
def test_too_few_descriptors_for_anything(descriptors: int, csim: Callable[[str], str]) -> None:
    """However far it gets: right results, or an error of ours that says what to raise."""
    done = _limited(descriptors, csim("gaussian"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2000") or "ulimit -n" in done.stdout, done.stdout + done.stderr


def test_too_few_descriptors_for_all_workers(csim: Callable[[str], str]) -> None:
    traces = 500_000  # so many that the run is not over before the last worker is asked for
    done = _limited(48, csim("gaussian"), traces)
    assert done.stdout.strip() == str(traces), done.stdout + done.stderr
    assert "ulimit -u" not in done.stderr
    assert "raise the limit of open files (ulimit -n)" in done.stderr

"""Where a simulator that is started by hand finds ars-host, with libars shared and static."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import ars
from ars.toolchain.compiler import command_for

pytestmark = pytest.mark.compiler

SOURCE = """\
#include <ars.h>
static void model(void *user) {
    (void)user;
    ars_sample("x", ars_normal(0, 1));
}
int main(int argc, char **argv) { return ars_main(argc, argv, model, 0); }
"""
FOUND = 42  # exit code of our ars-host, which says where it was found
FAILED = 86  # that of libars if it cannot begin


def fake_host(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "host $0"\nexit {FOUND}\n')
    path.chmod(0o755)
    return path


def found_by(program: Path, **env: str) -> str:
    """The ars-host that the program becomes, or its words if it finds none."""
    # /proc/self/maps does not depend on the directory, nor on the name that the program was started by.
    clean = {
        "ARS_ENDPOINT": "tcp://127.0.0.1:1",
        "PATH": "/nowhere",
        "ARS_TEST_SESSION": os.environ["ARS_TEST_SESSION"],
    }
    done = subprocess.run([program], cwd="/", env={**clean, **env}, capture_output=True, text=True, timeout=60)
    if done.returncode == FOUND:
        return os.path.normpath(done.stdout.strip().removeprefix("host "))
    assert done.returncode == FAILED, done
    return done.stderr


class Installation(NamedTuple):
    """A copy of the package's native files, and programs linked against it."""

    prefix: Path
    shared: Path
    static: Path


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    package = Path(ars.get_include()).parent
    prefix = tmp_path / "prefix"
    for folder in ("include", "lib"):
        shutil.copytree(package / folder, prefix / folder)
    fake_host(prefix / "bin" / "ars-host")
    monkeypatch.setattr("ars.__path__", [str(prefix)])
    source = tmp_path / "sim.c"
    source.write_text(SOURCE)
    programs = []
    for static in (False, True):
        program = tmp_path / "programs" / ("static" if static else "shared") / "sim"
        program.parent.mkdir(parents=True)
        subprocess.run(command_for([str(source), "-o", str(program)], static=static), check=True)
        programs.append(program)
    return Installation(prefix, *programs)


def test_the_shared_library_finds_the_host_of_its_installation(installation: Installation, tmp_path: Path) -> None:
    assert found_by(installation.shared) == str(installation.prefix / "bin" / "ars-host")
    moved = tmp_path / "elsewhere"
    installation.prefix.rename(moved)
    words = found_by_loader(installation.shared)
    assert "libars.so.0" in words
    assert found_by(installation.shared, LD_LIBRARY_PATH=str(moved / "lib")) == str(moved / "bin" / "ars-host")


def found_by_loader(program: Path) -> str:
    done = subprocess.run([program], env={}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 127
    return done.stderr


def test_the_order_of_the_places(installation: Installation, tmp_path: Path) -> None:
    """ARS_HOST, then libars's own installation, then the program's folder, then the PATH."""
    static, shared = installation.static, installation.shared
    on_path = fake_host(tmp_path / "path" / "ars-host")
    path = f"/nowhere::{on_path.parent}"
    assert found_by(static, PATH=path) == str(on_path)
    beside = fake_host(static.parent / "ars-host")
    assert found_by(static, PATH=path) == str(beside)
    relative = fake_host(static.parent.parent / "bin" / "ars-host")  # seen from the file that holds libars
    assert found_by(static, PATH=path) == str(relative)
    named = fake_host(tmp_path / "named")
    for program in (static, shared):
        assert found_by(program, PATH=path, ARS_HOST=str(named)) == str(named)
    (installation.prefix / "bin" / "ars-host").unlink()
    assert found_by(shared, PATH=path) == str(on_path)
    beside = fake_host(shared.parent / "ars-host")
    assert found_by(shared, PATH=path) == str(beside)


def test_none_is_found_and_the_message_says_what_to_do(installation: Installation) -> None:
    folder = installation.static.parent
    words = found_by(installation.static)
    assert "ars-host was not found. Put it beside the simulator or on the PATH, or set ARS_HOST to its path." in words
    assert f"It is not at {folder}/../bin/ars-host, {folder}/ars-host, and not on the PATH" in words
    words = found_by(installation.static, ARS_HOST="/nowhere/ars-host")
    assert "ARS_HOST=/nowhere/ars-host is not an executable file; set it to the path of ars-host, or unset it" in words
    broken = folder / "ars-host"
    broken.write_text("no program")
    assert f"{broken}, and not on the PATH" in found_by(installation.static)  # it cannot be run
    broken.chmod(0o755)
    assert f"cannot run ars-host at {broken}: Exec format error" in found_by(installation.static)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_host_that_somebody_else_left_beside_the_program_is_not_run(installation: Installation) -> None:
    """As in /tmp, where everybody may write."""
    beside = fake_host(installation.static.parent / "ars-host")
    os.chown(beside, 12345, -1)
    words = found_by(installation.static)
    assert f"{beside} (which belongs to another user), and not on the PATH" in words
    os.chown(installation.static, 12345, -1)  # who wrote the program may name its host
    assert found_by(installation.static) == str(beside)


def test_the_real_one_serves_a_program_that_is_started_by_hand(
    started: Callable[[ars.Simulator], ars.Simulator], tmp_path: Path
) -> None:
    """Linked against the package's libars.so, and started with nothing in its environment but the printed line."""
    source, program = tmp_path / "sim.c", tmp_path / "sim"
    source.write_text(SOURCE)
    subprocess.run(command_for([str(source), "-o", str(program)]), check=True)
    lines: list[subprocess.Popen[bytes]] = []

    def start(endpoint: str, line: str) -> None:
        assert endpoint.startswith("tcp://127.0.0.1:")
        env = {"PATH": "/usr/bin:/bin", "ARS_TEST_SESSION": os.environ["ARS_TEST_SESSION"]}
        lines.append(subprocess.Popen(["sh", "-c", line], env=env, cwd=tmp_path))

    simulator = ars.Simulator.listen(
        "tcp://127.0.0.1:*", insecure_loopback=True, command="./sim", announce=start, startup_timeout=60.0
    )
    assert len(started(simulator).prior(200, seed=1)) == 200
    simulator.close()
    assert [line.wait(30) for line in lines] == [0]

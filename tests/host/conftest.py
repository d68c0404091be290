"""ars-host between a fake family (fake_family.c, real processes) and a fake controller (fake_controller.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_controller import ROOT, Controller, Launch


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The fake family and ars-host: the one in ARS_HOST, or one built here."""
    where = tmp_path_factory.mktemp("host")
    compiler = [
        os.environ.get("CC", "cc"),
        "-std=gnu11",
        "-O1",
        "-g",
        "-DARS__NO_REGISTER",
        *(f"-I{ROOT}/bridge/{room}" for room in ("include", "common")),
    ]
    family, host = where / "fake_family", Path(os.environ.get("ARS_HOST", where / "ars-host"))
    subprocess.run([*compiler, str(ROOT / "tests/host/fake_family.c"), "-o", str(family)], check=True)
    if not host.exists():
        sources = [*sorted((ROOT / "bridge/host").glob("*.c")), *sorted((ROOT / "bridge/common").glob("*.c"))]
        subprocess.run([*compiler, *map(str, sources), "-o", str(host), "-lzmq", "-lpthread", "-lm"], check=True)
    return family, host


def descendants_are_gone(mark: str) -> bool:
    """No process has this word in its environment."""
    word = f"FAKE_MARK={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word in (entry / "environ").read_bytes().split(b"\0"):
                    return False
            except OSError:
                continue
    return True


@pytest.fixture
def launch(programs: tuple[Path, Path], tmp_path: Path) -> Iterator[Launch]:
    started: list[Controller] = []
    mark = str(tmp_path)  # its name alone may be that of a test in another process of this session
    directory = tempfile.mkdtemp(prefix="arst-")

    def start(endpoint: str = f"ipc://{directory}/s", receive_limit: int = 1000, **settings: str) -> Controller:
        plan = settings.pop("plan", "")
        settings = {f"FAKE_{name.upper()}" if name.islower() else name: value for name, value in settings.items()}
        settings.update(FAKE_PLAN=f",{plan},".replace(",", ",,"), FAKE_MARK=mark)
        started.append(Controller(programs, endpoint, settings, tmp_path, receive_limit))
        return started[-1]

    yield start
    for controller in started:
        controller.close()
    shutil.rmtree(directory)
    end = time.monotonic() + 30
    while not descendants_are_gone(mark):
        assert time.monotonic() < end, "a process was left behind"
        time.sleep(0.02)

"""The check that every test cleans up after itself sees what a test can leave, and skips what it cannot have left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


@pytest.fixture
def check(request: pytest.FixtureRequest, nothing_left_behind: None) -> Any:
    """tests/conftest.py, as pytest has loaded it."""
    del nothing_left_behind
    mine = str(Path(__file__).resolve().parents[1] / "conftest.py")
    return next(p for p in request.config.pluginmanager.get_plugins() if getattr(p, "__file__", None) == mine)


def test_nothing_is_looked_for_where_nothing_was_started(check: Any) -> None:
    """Asked in a forked copy, which has no children. Ours may have one that a package keeps: Dask's workers leave the
    resource tracker of multiprocessing."""
    copy = os.fork()
    if copy == 0:
        try:
            check.STARTED.noticed = False
            os._exit(int(check.STARTED.any()))
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0


def test_a_child_is_seen_until_somebody_has_waited_for_it(check: Any) -> None:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as child:
        assert check.STARTED.noticed
        check.STARTED.noticed = False  # as if started behind the interpreter's back
        assert f"process {child.pid}" in check._everything()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert check._everything()[f"process {child.pid}"] == "a zombie"
    assert f"process {child.pid}" not in check._everything()


def test_an_orphan_is_seen(check: Any) -> None:
    """Its parent is gone; the environment tells whose it was."""
    check.STARTED.noticed = False
    code = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid)"
    found = subprocess.run([sys.executable, "-c", code, *SLEEP], stdout=subprocess.PIPE, check=True)
    orphan = int(found.stdout)
    try:
        assert f"process {orphan}" in check._everything()
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_files_and_threads_are_seen_without_a_process(check: Any) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="ars-left")
    thread.start()
    with tempfile.TemporaryDirectory(prefix=f"ars-{os.getpid()}-") as folder:
        found = check._everything()
        assert f"file {folder}" in found and "thread ars-left" in found
    done.set()
    thread.join()

"""tools/soak.py for a few seconds; `make soak` runs it for 20 minutes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mode", ["fork", "auto", "check"])
def test_nothing_grows(mode: str, csim: Callable[[str], str]) -> None:
    command = [sys.executable, str(ROOT / "tools" / "soak.py"), "--seconds", "3", "--traces", "15"]
    command += ["--continuations", mode]
    found = subprocess.run(
        [*command, "--simulators", str(Path(csim("marsaglia")).parent)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("flat") == 8

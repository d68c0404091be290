"""What the tests of clusters share: their data, and waiting for processes to disappear."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

DATA = {"y": 0.7}  # for csim/nested


def gone(left: Callable[[], dict[int, str]]) -> bool:
    """Whether these processes disappear in time."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if not left():
            return True
        time.sleep(0.05)
    pytest.fail(f"left behind: {left()}", pytrace=False)

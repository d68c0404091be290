"""What the tests of clusters share: comparing two results bit for bit, and waiting for processes to disappear."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ars.columns import HOW, Columns

DATA = {"y": 0.7}  # for csim/nested


def assert_same(one: Any, other: Any) -> None:
    """The same traces, apart from how they were computed."""
    names = [site.address for site in one.sites], [site.address for site in other.sites]
    for column in Columns._fields:
        a, b = getattr(one.columns, column), getattr(other.columns, column)
        assert len(a) == len(b), column
        for field in a.dtype.names or ():
            if field in HOW.get(column, ()):
                continue
            if field == "site":
                assert [names[0][i] for i in a[field]] == [names[1][i] for i in b[field]]
            else:
                assert np.array_equal(a[field], b[field], equal_nan=a[field].dtype.kind == "f"), (column, field)
        if a.dtype.names is None:
            assert np.array_equal(a, b, equal_nan=True), column


def gone(left: Callable[[], dict[int, str]]) -> bool:
    """Whether these processes disappear in time."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        if not left():
            return True
        time.sleep(0.05)
    pytest.fail(f"left behind: {left()}", pytrace=False)

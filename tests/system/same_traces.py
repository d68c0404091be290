"""Whether two results hold the same traces, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ars.columns import HOW, Columns


def assert_same(one: Any, other: Any) -> None:
    """The same traces, apart from how they were computed. Numbers of sites depend on timing, so addresses count."""
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

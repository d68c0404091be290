from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from ars import Budget


@pytest.mark.parametrize(
    ("given", "m", "n"),
    [({}, 1, 10), ({"M": 3}, 3, 10), ({"M": 25}, 25, 25), ({"M": 2, "N": 1}, 2, 1), ({"M": np.int32(4)}, 4, 10)],
)
def test_n_is_at_least_ten_unless_given(given: dict[str, int], m: int, n: int) -> None:
    budget = Budget(**given)
    assert (budget.M, budget.N) == (m, n)
    assert type(budget.M) is int


@pytest.mark.parametrize("field", ["M", "N"])
@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (0, ValueError, "at least 1, not 0"),
        (-2, ValueError, "at least 1, not -2"),
        (2**31, ValueError, "at most 2147483647"),
        (True, TypeError, "integer, not True"),
        (np.True_, TypeError, "integer"),
        (1.0, TypeError, "integer, not 1.0"),
        ("3", TypeError, "integer, not '3'"),
    ],
)
def test_the_wrong_field_is_named(field: str, value: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(f"{field} must be ") + ".*" + re.escape(says)):
        Budget(**{field: value})  # type: ignore[arg-type]


def test_a_budget_is_a_value() -> None:
    assert Budget(2) == Budget(M=2, N=10)
    assert hash(Budget(2)) == hash(Budget(2, 10))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Budget().M = 2  # type: ignore[misc]

"""How much work a run spends on estimating the correction of each rejection loop."""

from __future__ import annotations

import operator
from dataclasses import dataclass

_LARGEST = 2**31 - 1  # continuations are numbered with 31 bits in the names of their random streams


def _count(field: str, value: object) -> int:
    """The value as a Python integer of at least 1; the error names the field."""
    if isinstance(value, bool):
        raise TypeError(f"Budget: {field} must be an integer, not {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"Budget: {field} must be an integer, not {value!r}") from None
    if number < 1:
        raise ValueError(f"Budget: {field} must be at least 1, not {number}")
    if number > _LARGEST:
        raise ValueError(f"Budget: {field} must be at most {_LARGEST}, not {number}")
    return number


@dataclass(frozen=True, init=False)
class Budget:
    """Per loop: ``M`` runs under the prior until accepted (for 1/p(A)), ``N`` tries under the proposal (for q(A)).

    ``N`` is ``max(M, 10)`` unless given. The weights are unbiased for every M and N; larger ones make them less noisy.
    A budget has no effect in a run without a network and proposals: its weights are exact.
    """

    M: int
    N: int

    def __init__(self, M: int = 1, N: int | None = None) -> None:
        runs_p = _count("M", M)
        tries_q = max(runs_p, 10) if N is None else _count("N", N)
        object.__setattr__(self, "M", runs_p)
        object.__setattr__(self, "N", tries_q)

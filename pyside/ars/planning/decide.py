"""The level of each trace and the probability of keeping it, for a given price of work.

A trace with uncorrected weight a, estimated at a level with relative variance V at cost c and kept with probability r,
adds a^2 (1 + V) / r to the second moment of the weights and r c to the work. At price λ the sum
a^2 (1 + V) / r + λ r c is smallest for r = min(1, a sqrt((1 + V) / (λ c))).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ars.columns import Booleans, Floats, Integers
from ars.planning.entries import Entries

__all__ = ["Decision", "best_level", "entered", "sum_per_trace"]


class Decision(NamedTuple):
    """Per trace: the index of its level, and the logarithm of the probability r of keeping it."""

    level: Integers
    log_keep: Floats


def sum_per_trace(entries: Entries, table: Floats) -> Floats:
    """Sums over each trace's entries; ``table`` has a row per loop and a column per level."""
    sums = [
        np.bincount(entries.rows, weights=column[entries.loop], minlength=entries.n_traces)
        for column in np.ascontiguousarray(table.T)
    ]
    return np.stack(sums, axis=1).astype(np.float64, copy=False)


def entered(entries: Entries) -> Booleans:
    """True for traces with an entry that needs an estimate."""
    out = np.zeros(entries.n_traces, dtype=np.bool_)
    out[entries.rows] = True
    return out


def best_level(log_a: Floats, log_factor: Floats, cost: Floats, log_price: float) -> Decision:
    """The cheapest level per trace; ``log_keep`` is not yet capped at 0.

    ``log_factor`` and ``cost`` have a row per trace and a column per level. Every ``log_a`` is finite.
    """
    log_a = log_a[:, None]
    log_cost = np.log(cost)
    free = log_a + 0.5 * (log_factor - log_price - log_cost)
    log_keep = np.minimum(free, 0.0)
    spent = np.logaddexp(2 * log_a + log_factor - log_keep, log_price + log_cost + log_keep)
    level = np.argmin(spent, axis=1)
    return Decision(level, np.take_along_axis(free, level[:, None], axis=1)[:, 0])

"""One run with M runs under p per loop serves every smaller M.

The tries T_1 .. T_M of the runs under p are independent and geometric, so, given their sum, they are any M positive
numbers with that sum, all equally likely, whatever p(A) is. The sum is what a trace records. Drawing the first m of
them given the sum therefore gives what a run with a budget of m would have recorded: not approximately, but with
exactly the same distribution, and still independent of the accepted draws and of the tries under q.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ars.columns import Columns, Integers

__all__ = ["first_of_sum", "thin"]


def first_of_sum(total: Integers, parts: int, first: int, rng: np.random.Generator) -> Integers:
    """The sum of the first ``first`` of ``parts`` positive numbers that add up to each total, drawn at random.

    Such numbers are the gaps between parts - 1 dividers, laid at random on the total - 1 places between total items.
    Walking along the places, each has a divider with the probability (dividers left) / (places left).
    """
    if not 1 <= first <= parts:
        raise ValueError(f"first is {first}, must be from 1 to {parts}")
    sums = np.asarray(total, dtype=np.int64)
    if np.any(sums < parts):
        raise ValueError(f"{parts} positive numbers cannot add up to {int(sums.min())}")
    found = sums.copy()
    if first == parts:
        return found
    rows = np.arange(len(sums))
    places, dividers = sums - 1, np.full(len(sums), parts - 1)
    at = 0
    while len(rows):
        at += 1
        hit = rng.random(len(rows)) * places < dividers
        dividers = dividers - hit
        places = places - 1
        done = dividers == parts - 1 - first
        found[rows[done]] = at
        rows, places, dividers = rows[~done], places[~done], dividers[~done]
    return found


def thin(columns: Columns, runs_p: int, seed: int | np.random.Generator) -> Columns:
    """The same traces as if every loop's budget had been M = ``runs_p``, which is no more than it was."""
    loops = columns.loops.copy()
    had: npt.NDArray[np.uint64] = np.unique(loops["runs_p"])
    if len(had) > 1 or (len(had) and had[0] < runs_p):
        raise ValueError(f"the loops have {had.tolist()} runs under p, not one number of at least {runs_p}")
    if len(had):
        rng = np.random.default_rng(seed)
        loops["tries_p"] = first_of_sum(loops["tries_p"].astype(np.int64), int(had[0]), runs_p, rng)
        loops["runs_p"] = runs_p
    return columns._replace(loops=loops)

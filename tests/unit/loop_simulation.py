"""Rejection loops in numpy: traces whose tries are geometric draws, as columns, with an evidence known by quadrature.

A trace draws a state x in (0, 1), enters loop "first", and with probability 1/2 loop "second". Acceptance depends on x.
Its uncorrected weight depends on x and on noise, never on the number of tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from column_builder import loop_site

from ars import columns as columns_module
from ars._native import DTYPES
from ars.budget import Budget, ChosenBudget
from ars.columns import Columns
from ars.planning.entries import entries_of
from ars.planning.roulette import kept

Floats = npt.NDArray[np.float64]
SITES = [loop_site(0, "first"), loop_site(1, "second")]
NOISE = 0.5


def p_of(x: Floats, loop: npt.ArrayLike) -> Floats:
    return np.where(np.asarray(loop) == 0, 0.3 + 0.5 * x, 0.9 - 0.4 * x)


def q_of(x: Floats, loop: npt.ArrayLike) -> Floats:
    return np.where(np.asarray(loop) == 0, 0.9 - 0.6 * x, 0.25 + 0.5 * x)


def _log_evidence() -> float:
    x, w = np.polynomial.legendre.leggauss(60)
    x, w = (x + 1) / 2, w / 2
    first, second = (q_of(x, k) / p_of(x, k) for k in (0, 1))
    return math.log(float(np.sum(w * np.exp(3 * x + NOISE**2 / 2) * first * (1 + second) / 2)))


LOG_EVIDENCE = _log_evidence()


class Run(NamedTuple):
    columns: Columns
    x: Floats  # per loop entry
    rng: np.random.Generator


def main_runs(n: int, seed: int) -> Run:
    """n traces without estimates."""
    rng = np.random.default_rng(seed)
    state = rng.random(n)
    traces = np.zeros(n, DTYPES["trace"])
    traces["trace"] = np.arange(n)
    traces["n_loops"] = 1 + rng.integers(0, 2, n)
    traces["log_likelihood"] = 3 * state
    traces["log_ratio_accepted"] = NOISE * rng.standard_normal(n)
    loops = np.zeros(int(traces["n_loops"].sum()), DTYPES["loop"])
    begin = np.cumsum(traces["n_loops"]) - traces["n_loops"]
    loops["site"] = 1
    loops["site"][begin] = 0
    x = np.repeat(state, traces["n_loops"])
    loops["tries"] = rng.geometric(q_of(x, loops["site"]))
    return Run(columns_module.empty()._replace(traces=traces, loops=loops), x, rng)


def tries_until(
    rng: np.random.Generator, accepted: npt.NDArray[np.int64], probability: Floats
) -> npt.NDArray[np.int64]:
    """Tries until so many were accepted."""
    some = np.maximum(accepted, 1)
    return np.where(accepted > 0, some + rng.negative_binomial(some, probability), 0)


def continue_entries(run: Run, M: npt.ArrayLike, R: npt.ArrayLike, where: npt.NDArray[np.bool_]) -> None:
    """Estimates the entries ``where`` with M runs under p and R accepted runs under q."""
    loops = run.columns.loops
    runs, accepted = (np.broadcast_to(np.asarray(each, np.int64), len(loops)) for each in (M, R))
    loops["runs_p"][where] = runs[where]
    loops["tries_p"][where] = tries_until(run.rng, runs, p_of(run.x, loops["site"]))[where]
    loops["accepted_q"][where] = accepted[where]
    loops["tries_q"][where] = tries_until(run.rng, accepted, q_of(run.x, loops["site"]))[where]


def simulate(n: int, budget: Budget | ChosenBudget, seed: int) -> Run:
    """n traces with the estimates that this budget makes."""
    run = main_runs(n, seed)
    loops = run.columns.loops
    everywhere = np.ones(len(loops), dtype=np.bool_)
    if isinstance(budget, ChosenBudget):
        traces = run.columns.traces
        log_a = traces["log_likelihood"] + traces["log_ratio_accepted"]
        decision = budget.decide(log_a, entries_of(run.columns, SITES))
        keep = kept(seed, traces["trace"], decision.log_keep)
        level = np.repeat(decision.level, traces["n_loops"])
        table = np.array([[(each.M, each.R) for each in budget.levels[site.address]] for site in SITES])
        chosen = table[loops["site"], level]
        continue_entries(run, chosen[:, 0], chosen[:, 1], np.repeat(keep, traces["n_loops"]))
    elif budget.R is not None:
        continue_entries(run, budget.M, budget.R, everywhere)
    else:
        assert budget.N is not None
        continue_entries(run, budget.M, 0, everywhere)
        loops["tries_q"] = budget.N
        loops["accepted_q"] = run.rng.binomial(budget.N, q_of(run.x, loops["site"]))
    return run


def with_factors(run: Run, factor: Callable[[npt.NDArray[np.void]], Floats]) -> Floats:
    """Log weights with a factor of one's own for every loop entry."""
    traces, loops = run.columns.traces, run.columns.loops
    rows = np.repeat(np.arange(len(traces)), traces["n_loops"])
    with np.errstate(divide="ignore"):
        logs = np.log(factor(loops)) + np.log(loops["tries_p"] / loops["runs_p"])
    return traces["log_likelihood"] + traces["log_ratio_accepted"] + np.bincount(rows, weights=logs)

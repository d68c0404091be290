"""p(A) and q(A) of ``post.loops`` are the same kind of average, also where the acceptance depends on the state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from column_builder import Loop, Trace, loop_site, pack

from ars.columns import Columns
from ars.loops import LoopSummary, summarise_loops

SITES = [loop_site(0, "draw")]
STATES = np.array([0.05, 0.3, 0.95])  # acceptance in three equally likely states
HARMONIC = 1 / np.mean(1 / STATES)


def entries(n: int, *, N: int, M: int, seed: int, estimated: float = 1.0) -> Columns:
    """The proposal is the prior: every try, of the main run, under q and under p, accepts with the same probability."""
    rng = np.random.default_rng(seed)
    traces = []
    for number in range(n):
        accept = float(rng.choice(STATES))
        loop = Loop(0, tries=int(rng.geometric(accept)))
        if rng.random() < estimated:
            loop.tries_q, loop.accepted_q = N, int(rng.binomial(N, accept))
            loop.runs_p, loop.tries_p = M, int(rng.geometric(accept, size=M).sum())
        traces.append(Trace(number, loops=[loop]))
    return pack(traces)


def summary(columns: Columns) -> LoopSummary:
    return summarise_loops(columns, SITES)["draw"]


@pytest.mark.parametrize(("N", "M"), [(10, 1), (10, 10), (1, 1)])
def test_identical_p_and_q_look_identical(N: int, M: int) -> None:
    columns = entries(6000, N=N, M=M, seed=N + M)
    found = summary(columns)
    error = math.hypot(found.p_accept_error, found.q_accept_error)
    assert 0.0 < error < 0.01
    assert abs(found.p_accept - found.q_accept) < 3.5 * error
    assert abs(found.p_accept - HARMONIC) < 3.5 * found.p_accept_error
    assert abs(found.q_accept - HARMONIC) < 3.5 * found.q_accept_error
    # accepted over all tries under q, which was shown before, is an arithmetic mean and far away
    loops = columns.loops
    assert abs(loops["accepted_q"].sum() / loops["tries_q"].sum() - found.p_accept) > 10 * error


def test_the_errors_are_those_of_repeated_runs() -> None:
    runs = [summary(entries(400, N=10, M=2, seed=seed)) for seed in range(300)]
    for which in ("p_accept", "q_accept"):
        found = np.array([getattr(run, which) for run in runs])
        errors = np.array([getattr(run, f"{which}_error") for run in runs])
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(found.std(), rel=0.15)  # 1/sqrt(2 * 300) is 0.04
        assert abs(1 / (1 / found).mean() - HARMONIC) < 4 * found.std() / math.sqrt(300)


def test_tries_under_q_take_noise_away() -> None:
    """With a constant acceptance the error is near that of all tries together, not that of the main runs alone."""
    rng = np.random.default_rng(4)
    q, n, N = 0.9, 4000, 10
    loops = [
        Loop(0, tries=int(t), tries_q=N, accepted_q=int(k), runs_p=1, tries_p=1)
        for t, k in zip(rng.geometric(q, n), rng.binomial(N, q, n), strict=True)
    ]
    found = summary(pack([Trace(i, loops=[loop]) for i, loop in enumerate(loops)]))
    assert abs(found.q_accept - q) < 4 * found.q_accept_error
    assert found.q_accept_error < 1.3 * math.sqrt(q * (1 - q) / (n * N))
    assert q * math.sqrt((1 - q) / n) > 2.5 * found.q_accept_error


def test_entries_without_estimates_are_left_out_of_both() -> None:
    columns = entries(3000, N=10, M=2, seed=8, estimated=0.5)
    columns.loops["tries"][columns.loops["runs_p"] == 0] = 1_000_000
    found = summary(columns)
    assert abs(found.q_accept - HARMONIC) < 4 * found.q_accept_error
    assert found.entries == 3000


def test_without_estimates_the_main_runs_give_q() -> None:
    found = summary(entries(3000, N=10, M=2, seed=9, estimated=0.0))
    assert math.isnan(found.p_accept) and math.isnan(found.p_accept_error)
    assert abs(found.q_accept - HARMONIC) < 4 * found.q_accept_error


def test_the_table_says_which_average_it_shows() -> None:
    text = repr(summarise_loops(entries(10, N=2, M=1, seed=1), SITES))
    assert "harmonic mean over entries" in text

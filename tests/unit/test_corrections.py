"""What the corrections of a run cost, and how much noise they add."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, pack

from ars._native import DTYPES
from ars.budget import Budget, ChosenBudget, Level, budget_to_json
from ars.columns import empty
from ars.posterior import Posterior, RunInfo
from ars.results.corrections import budget_of, squared_factors

X, DRAW, SPIN, SPIN_Z = range(4)
SITES = (latent(X, "draw/x"), loop_site(DRAW, "draw"), loop_site(SPIN, "spin"), latent(SPIN_Z, "spin/z"))
RUN = RunInfo(7, None, None, "proposal", "zero", ("./sim",))


def entries(budget: Budget, p: float, q: float, n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Estimated loop entries in one state."""
    loops = np.zeros(n, DTYPES["loop"])
    loops["site"], loops["parent"], loops["s_pq_main"] = DRAW, -1, np.nan
    loops["tries"] = rng.geometric(q, n)
    loops["runs_p"], loops["tries_p"] = budget.M, rng.geometric(p, (n, budget.M)).sum(axis=1)
    if budget.R is None:
        loops["tries_q"], loops["accepted_q"] = budget.N, rng.binomial(budget.N or 0, q, n)
    else:
        loops["tries_q"], loops["accepted_q"] = rng.geometric(q, (n, budget.R)).sum(axis=1), budget.R
    return loops


def posterior(
    loops: npt.NDArray[Any], log_a: npt.NDArray[np.float64], budget: Budget | ChosenBudget | None, **run: Any
) -> Posterior:
    """One trace per loop entry, with this uncorrected weight."""
    traces = np.zeros(len(loops), DTYPES["trace"])
    traces["trace"], traces["n_loops"], traces["log_likelihood"] = np.arange(len(loops)), 1, log_a
    columns = empty()._replace(traces=traces, loops=loops)
    info = RUN._replace(budget=budget_to_json(budget), **run)
    return Posterior(columns, SITES, run=info, stats={"seconds": 1.0}, observed={})


BUDGETS = [Budget(M=M, R=R) for M, R in ((1, 0), (1, 1), (2, 2), (3, 5))] + [
    Budget(M=1, N=1),
    Budget(M=1, N=10),
    Budget(M=3, N=4, reuse=True),
]


def relative_variance(budget: Budget, p: float, q: float) -> float:
    """Of one entry's factor, by adding up distributions."""
    under_p = (1 - p) / budget.M
    if budget.R == 0:
        under_q = (1 - q) / q
    elif budget.R is not None:
        from scipy.stats import nbinom

        failures = np.arange(20_000)
        estimate = budget.R / (budget.R + failures)
        under_q = float(nbinom.pmf(failures, budget.R + 1, q) @ estimate**2) / q**2 - 1
    else:
        under_q = (1 - q) / q / ((budget.N or 0) + budget.reuse)
    return (1 + under_p) * (1 + under_q) - 1


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.8), (0.3, 0.2)])
def test_squared_factors_are_unbiased(budget: Budget, p: float, q: float) -> None:
    found = squared_factors(
        entries(budget, p, q, 200_000, np.random.default_rng(1)), until_accepted=budget.R is not None
    )
    error = found.std() / math.sqrt(len(found))
    exact = (q / p) ** 2
    assert abs(found.mean() - exact) < 4 * error
    assert 4 * error < relative_variance(budget, p, q) * exact  # the squares of the estimates are too large by that


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_the_noise_of_corrections_is_told_from_that_of_the_weights(budget: Budget) -> None:
    p, q, n, rng = 0.5, 0.6, 40_000, np.random.default_rng(2)
    post = posterior(entries(budget, p, q, n, rng), 0.8 * rng.standard_normal(n), budget)
    variance = relative_variance(budget, p, q)
    assert post.stats["correction_variance"] == pytest.approx(variance / (1 + variance), abs=0.04)
    assert post.stats["zero_weights"] == post.zero_share()
    # that is, effective traces that the corrections cost
    a = np.exp(post.log_weights("biased"))
    gained = (a.sum() ** 2 / np.square(a).sum()) / post.ess()
    assert gained == pytest.approx(1 / (1 - post.stats["correction_variance"]), rel=0.1)


def test_roulette_counts_as_noise() -> None:
    n, rng, p, q = 40_000, np.random.default_rng(3), 0.5, 0.6
    fixed = Budget(M=1, R=1)
    loops, log_a = entries(fixed, p, q, n, rng), rng.standard_normal(n)
    variance = relative_variance(fixed, p, q)
    levels = (Level(1, 1, math.log1p(variance), 1.0),)
    budget = ChosenBudget(2, {"draw": levels}, levels, trace_cost=1.0, log_price=1.0)
    every = posterior(loops.copy(), log_a, Budget(M=1, R=1))
    decision = budget.decide(log_a, _entries(every))
    left_out = rng.random(n) >= np.exp(decision.log_keep)
    assert 0.3 < left_out.mean() < 0.9
    for field in ("tries_q", "accepted_q", "runs_p", "tries_p"):
        loops[field][left_out] = 0
    post = posterior(loops, log_a, budget)
    assert post.budget == budget
    second = np.mean(np.exp(2 * log_a - decision.log_keep)) * (1 + variance)
    assert post.stats["correction_variance"] == pytest.approx(1 - np.mean(np.exp(2 * log_a)) / second, abs=0.04)
    assert post.stats["zero_weights"] == left_out.mean()
    assert post.stats["entries_estimated"] == n - left_out.sum()
    assert abs(post.log_evidence().distance(float(np.exp(0.5) * q / p))) < 4
    assert not post.diagnostics(values=())["ars"].warnings


def _entries(post: Posterior) -> Any:
    from ars.planning.entries import entries_of

    return entries_of(post.columns, post.sites, ())


def both(n: int = 60, **run: Any) -> Posterior:
    """Two loops per trace, of which the second has estimates in none."""
    made = Loop(DRAW, tries=1, runs_p=1, tries_p=2, s_pq_main=0.0)
    traces = [
        Trace(i, samples=[Sample(X, 0.5, loop=0)], loops=[made, Loop(SPIN, tries=1 + i % 2, s_pq_main=i % 2)])
        for i in range(n)
    ]
    info = RUN._replace(**{"budget": budget_to_json(Budget(M=1, R=0)), "exact": ("spin",), **run})
    return Posterior(pack(traces), SITES, run=info, stats={"seconds": 1.0, "traces_replayed": 7}, observed={})


def test_statistics_and_summary_say_what_was_corrected() -> None:
    post = both()
    assert {name: post.stats[name] for name in ("entries_estimated", "loops_estimated", "traces_replayed")} == {
        "entries_estimated": 60,
        "loops_estimated": 1,
        "traces_replayed": 7,
    }
    assert np.allclose(post.log_weights(), math.log(2))
    line = next(line for line in post.summary().splitlines() if line.startswith("corrections"))
    assert line.startswith(
        "corrections: 1 of 2 loops estimated (draw: M=1, R=0), 7 of 60 traces replayed, 0.0% zero weights, "
    )
    assert (post.loops["draw"].budget, post.loops["draw"].estimated) == ("M=1, R=0", 60)
    spin = post.loops["spin"]
    assert (spin.budget, spin.estimated, spin.note) == ("-", 0, "nothing was proposed")
    assert spin.naive_variance_infinite is False
    assert spin.p_accept == spin.q_accept == pytest.approx(2 / 3)


def test_without_estimates_there_are_no_weights_and_no_noise() -> None:
    nothing = both(budget="", exact=())
    assert "zero_weights" not in nothing.stats and "correction_variance" not in nothing.stats
    exact = both(budget="", exact=("spin", "draw"))
    assert (exact.stats["zero_weights"], exact.stats["correction_variance"]) == (0.0, 0.0)
    assert "corrections: exactly 1 in every loop" in exact.summary()
    assert both(proposed=False).stats["correction_variance"] == 0.0
    assert both(in_loops="prior", exact=()).stats["correction_variance"] == 0.0


def test_weights_that_are_all_zero() -> None:
    post = both()
    post.columns.loops["tries"][post.columns.loops["site"] == DRAW] = 2  # R = 0: every estimate of q(A) is 0
    assert post.stats["zero_weights"] == 1.0
    assert "correction_variance" not in post.stats
    assert "every weight is 0" in post.summary()
    with pytest.raises(ValueError, match="or no trace that does has a correction above 0"):
        post.resample()


def test_the_budget_of_a_run() -> None:
    assert budget_of(RUN) is None
    assert budget_of(RUN._replace(runs_p=2, tries_q=10)) == Budget(M=2, N=10)  # a file of an earlier version
    assert budget_of(RUN._replace(runs_p=1, budget=budget_to_json(Budget(M=1, R=3)))) == Budget(M=1, R=3)
    assert both().budget == Budget(M=1, R=0)
    assert both(budget="").budget is None

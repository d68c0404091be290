"""Every estimator finds the evidence, and every known mistake fails the same test."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from loop_simulation import LOG_EVIDENCE, SITES, Floats, continue_entries, main_runs, p_of, q_of, simulate, with_factors

from ars.budget import Budget, ChosenBudget, Level
from ars.planning.choose import PilotLoop, choose
from ars.planning.entries import entries_of
from ars.weights import log_weight_ars, log_weight_biased
from exactness import assert_exact, is_exact, z_scores

TRACES, SEEDS = 4000, range(100)


def planned(phases: int, seed: int = 9999, n: int = 2000) -> ChosenBudget:
    """The plan that a pilot of such traces leads to, with estimates that cost as much as forks do."""
    run = main_runs(n, seed)
    x = run.x[:100]
    pilot = {}
    for site in SITES:
        tries_p, tries_q = (float(np.sum(2 / of(x, site.id))) for of in (p_of, q_of))
        pilot[site.address] = PilotLoop(200.0, tries_p, 200.0, tries_q, 1.0, 1.0, "fork", None)
    return choose(
        pilot,
        log_weight_biased(run.columns),
        entries_of(run.columns, SITES),
        trace_draws=3.0,
        trace_asked=3.0,
        network=False,
        auto=Budget.auto(phases=phases),
    )


def by_hand() -> ChosenBudget:
    """Several levels in use, and small probabilities of being kept."""
    levels = (Level(5, 5, 0.1, 30.0), Level(2, 1, 0.3, 8.0), Level(1, 0, 0.6, 2.0))
    return ChosenBudget(2, {"first": levels, "second": levels}, levels, 10.0, 4.0)


BUDGETS = [
    *(Budget(M=2, R=R) for R in (0, 1, 2, 5)),
    *(Budget(M=1, N=N, reuse=reuse) for N in (1, 10) for reuse in (False, True)),
]


def evidence_with(budget: Budget | ChosenBudget) -> Floats:
    runs = (simulate(TRACES, budget, seed) for seed in SEEDS)
    return z_scores((log_weight_ars(run.columns, SITES, budget=budget) for run in runs), LOG_EVIDENCE)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_every_estimator_is_exact(budget: Budget) -> None:
    assert_exact(evidence_with(budget))


@pytest.mark.parametrize("phases", [1, 2])
def test_planned_budgets_are_exact(phases: int) -> None:
    budget = planned(phases)
    assert budget.phases == phases
    assert_exact(evidence_with(budget))


def test_a_plan_may_come_from_the_weights_of_the_same_traces() -> None:
    def log_weights(seed: int) -> Floats:
        budget = planned(2, seed, 1500)
        return log_weight_ars(simulate(1500, budget, seed).columns, SITES, budget=budget)

    assert_exact(z_scores(map(log_weights, SEEDS), LOG_EVIDENCE))


def test_roulette_with_several_levels_is_exact() -> None:
    budget = by_hand()
    run = simulate(TRACES, budget, 0)
    decision = budget.decide(log_weight_biased(run.columns), entries_of(run.columns, SITES))
    assert set(decision.level) == {0, 1, 2}, "all levels must be in use, or the test misses them"
    assert np.mean(np.exp(decision.log_keep)) < 0.6
    assert_exact(evidence_with(budget))


def _last_try_counted(seed: int) -> Floats:
    return with_factors(simulate(TRACES, Budget(M=2, R=0), seed), lambda loops: 1 / loops["tries"])


def _two_over_s(seed: int) -> Floats:
    run = simulate(TRACES, Budget(M=2, R=1), seed)
    return with_factors(run, lambda loops: 2 / (loops["tries"] + loops["tries_q"]))


def _r_chosen_by_l(seed: int) -> Floats:
    run = main_runs(TRACES, seed)
    loops = run.columns.loops
    continue_entries(run, 2, np.where(loops["tries"] == 1, 0, 1), np.ones(len(loops), dtype=np.bool_))
    return log_weight_ars(run.columns, SITES, budget=Budget(M=2, R=1))


def _k_and_l_pooled(seed: int) -> Floats:
    """The first try of the main run is used, and the last one, which is always accepted, a second time."""
    run = simulate(TRACES, Budget(M=2, N=3), seed)
    return with_factors(run, lambda loops: (loops["accepted_q"] + 1) / (loops["tries_q"] + loops["tries"]))


def _decided_again(seed: int) -> Floats:
    """Traces that the roulette would drop by their own estimates are estimated again, and it decides once more."""
    budget = Budget(M=2, R=1)
    run = simulate(TRACES, budget, seed)
    first = log_weight_ars(run.columns, SITES, budget=budget)
    light = np.repeat(first < LOG_EVIDENCE, run.columns.traces["n_loops"])
    continue_entries(run, 2, 1, light)
    return log_weight_ars(run.columns, SITES, budget=budget)


def _kept_by_own_estimate(seed: int) -> Floats:
    """The corrected weight decides whether a trace is kept; the uncorrected one what its weight is divided by."""
    budget, chosen = Budget(M=2, R=1), by_hand()
    run = simulate(TRACES, budget, seed)
    log_w, log_a = log_weight_ars(run.columns, SITES, budget=budget), log_weight_biased(run.columns)
    entries = entries_of(run.columns, SITES)
    kept = np.log(run.rng.random(TRACES)) < chosen.decide(log_w, entries).log_keep
    return np.where(kept, log_w - chosen.decide(log_a, entries).log_keep, -math.inf)


MUTANTS = [_last_try_counted, _two_over_s, _r_chosen_by_l, _k_and_l_pooled, _decided_again, _kept_by_own_estimate]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_known_mistakes_fail(mutant: Callable[[int], Floats]) -> None:
    z = z_scores((mutant(seed) for seed in SEEDS), LOG_EVIDENCE)
    assert not is_exact(z)
    assert abs(np.mean(z)) > 1.0, "a mistake must be seen clearly, not by luck"


def test_uncorrected_weights_fail() -> None:
    z = z_scores((log_weight_biased(main_runs(TRACES, seed).columns) for seed in SEEDS), LOG_EVIDENCE)
    assert not is_exact(z)


# ---- the test itself ---------------------------------------------------------------------------------------------


def test_normal_scores_pass_and_others_do_not() -> None:
    z = np.random.default_rng(1).standard_normal(100)
    assert_exact(z)
    for wrong, says in (
        (z + 0.5, "off by"),
        (2 * z, "spread"),
        (z / 3, "spread"),
        (abs(z) - 0.8, "not normal"),
        (z * np.inf, "finite"),
    ):
        assert not is_exact(wrong)
        with pytest.raises(AssertionError, match=says):
            assert_exact(wrong)


def test_scores_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 20 seeds"):
        is_exact(np.zeros(3))
    with pytest.raises(ValueError, match="equal"):
        z_scores([np.zeros(5)], 0.0)

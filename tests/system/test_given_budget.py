"""Budgets that are given back, loops in any order, and interruptions between the steps of a posterior."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.inference import fixed, job, phases

PROPOSALS = {"mass": ars.Normal(1, 1), "lifetime": ars.Gamma(2, 0.8), "position": ars.Normal(1.5, 1.2)}
DATA = {"y": 0.8}

Csim = Callable[[str], str]


def test_the_order_in_which_loops_are_met_changes_nothing(csim: Csim) -> None:
    found = set()
    for seeds in ([], [1], [4]):  # traces that meet one loop first, or the others
        with ars.Simulator([csim("branching")], workers=2) as simulator:
            for seed in seeds:
                simulator.prior(1, seed=seed)
            post = simulator.posterior(DATA, traces=1_000, seed=3, proposals=PROPOSALS)
            found.add((post.run.budget, post.log_weights().tobytes()))
    assert len(found) == 1


def test_parts_that_never_enter_a_loop_can_be_joined(csim: Csim) -> None:
    with ars.Simulator([csim("branching")], workers=2) as simulator:
        mine = {"mass": PROPOSALS["mass"]}
        first = simulator.posterior(DATA, traces=200, seed=3, proposals=mine)
        more = [
            simulator.posterior(DATA, traces=1, seed=3, first_trace=i, proposals=mine, budget=first.budget)
            for i in range(200, 206)
        ]
    assert first.run.exact and any(not part.run.exact for part in more)
    whole = ars.Posterior.concat([first, *more])
    assert whole.run.exact == first.run.exact and len(whole.log_weights()) == 206


def test_a_budget_of_one_phase_is_resumed_with_its_seed(csim: Csim, tmp_path: Path) -> None:
    with ars.Simulator([csim("branching")], workers=2) as simulator:
        one = ars.Budget.auto(phases=1)
        budget = simulator.posterior(DATA, traces=300, seed=3, proposals=PROPOSALS, budget=one).budget
        first = simulator.posterior(DATA, traces=50, proposals=PROPOSALS, budget=budget, resume=tmp_path)
        more = simulator.posterior(DATA, traces=80, proposals=PROPOSALS, budget=budget, resume=tmp_path)
    assert more.run.seed == first.run.seed and more.stats["traces_resumed"] == 50


def test_a_budget_for_much_larger_weights_warns(csim: Csim) -> None:
    with ars.Simulator([csim("branching")], workers=2) as simulator:
        two = ars.Budget.auto(phases=2)
        budget = simulator.posterior(DATA, traces=1_000, seed=3, proposals=PROPOSALS, budget=two).budget
        with pytest.warns(ars.FewTracesWarning, match="planned for larger weights") as seen:
            simulator.posterior({"y": 14.0}, traces=1_000, seed=3, proposals=PROPOSALS, budget=budget)
    assert os.path.samefile(seen[0].filename, __file__)


@pytest.mark.parametrize("names", [["mass"], list(PROPOSALS)])
def test_ctrl_c_between_two_steps_has_what_had_finished(
    csim: Csim, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(phases, "pilot_rows", interrupt)
    with ars.Simulator([csim("branching")], workers=2) as simulator, pytest.raises(ars.RunInterrupted) as error:
        simulator.posterior(DATA, traces=500, seed=3, proposals={name: PROPOSALS[name] for name in names})
    partial = error.value.partial
    assert isinstance(partial, ars.Posterior) and len(partial) == 100
    assert bool(partial.run.exact) == (len(names) == 1)  # what is certain is known without estimates
    with pytest.raises(ars.WeightError):
        partial.log_weights("ars")


@pytest.mark.parametrize(
    ("module", "function", "budget"),
    [
        (job, "report_continuations", None),
        (job, "report_continuations", ars.Budget(M=1, N=2)),
        (job, "report_continuations", ars.Budget.auto(phases=1)),
        (job, "report_continuations", ars.Budget.auto(phases=2)),
        (fixed, "without_estimates", ars.Budget(M=1, N=2)),
    ],
)
def test_ctrl_c_after_the_last_trace_loses_none(
    csim: Csim, module: Any, function: str, budget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    asked: dict[str, Any] = {"traces": 300, "seed": 3, "proposals": {"mass": PROPOSALS["mass"]}, "budget": budget}
    with ars.Simulator([csim("branching")], workers=2) as simulator:
        right = simulator.posterior(DATA, **asked)
        monkeypatch.setattr(module, function, interrupt)
        with pytest.raises(ars.RunInterrupted) as error:
            simulator.posterior(DATA, **asked)
    partial = error.value.partial
    assert isinstance(partial, ars.Posterior)
    np.testing.assert_array_equal(partial.trace_numbers, right.trace_numbers)
    assert partial.budget == right.budget
    if budget is not None:
        np.testing.assert_array_equal(partial.log_weights("ars"), right.log_weights("ars"))

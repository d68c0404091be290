"""Budgets at their limits: simulators that do not repeat themselves, no weight, failures, one trace, many loops."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from budget_tools import MODELS, Y, distance, entries, infer

import ars
from ars.budget import Level
from ars.cli import main
from ars.errors import BiasWarning, ReplayWarning, TraceFailure, WeightError

pytestmark = pytest.mark.compiler

TRACES = 500
PLANS = [ars.Budget.auto(), ars.Budget.auto(phases=1), ars.Budget.auto(phases=2)]
each_plan = pytest.mark.parametrize("plan", PLANS, ids=["free", "one phase", "two phases"])
GIVEN = ars.ChosenBudget(phases=2, levels={}, default=(Level(2, 2, 0.5, 10.0),), trace_cost=10.0, log_price=-math.inf)


# ---- simulators that do not repeat themselves ------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [PLANS[0], PLANS[2], GIVEN], ids=["free", "two phases", "given"])
@pytest.mark.parametrize("source", ["generator", "clock", "counter"])
def test_traces_that_do_not_repeat_are_estimated_in_one_phase(
    start: Callable[..., ars.Simulator], source: str, budget: Any
) -> None:
    with pytest.warns(ReplayWarning, match=r"does not repeat its traces: \d+ of \d+ .*phases=1"):
        post = infer(start("own", source), TRACES, budget)
    assert post.stats["phases"] == 1
    assert isinstance(post.budget, ars.ChosenBudget)
    assert post.budget.phases == 1
    assert (entries(post, "loop")["runs_p"] > 0).all()
    assert len(np.unique(post["shift"])) == TRACES
    assert distance(post, MODELS["own"].evidence) < 4


def test_who_asks_for_one_phase_is_not_warned(start: Callable[..., ars.Simulator]) -> None:
    """Nothing that counts is run a second time."""
    post = infer(start("own", "clock"), TRACES, ars.Budget.auto(phases=1))
    assert post.stats["phases"] == 1
    assert distance(post, MODELS["own"].evidence) < 4


@pytest.mark.parametrize("model", ["rare", "seldom", "two"])
def test_one_phase_that_was_asked_for_is_one_phase(start: Callable[..., ars.Simulator], model: str) -> None:
    """Also where the first traces enter no loop that needs estimates."""
    post = infer(start(model), 1500, ars.Budget.auto(phases=1), seed=1)
    assert post.stats["phases"] == 1
    assert post.stats["traces_replayed"] == 0
    assert distance(post, MODELS[model].evidence) < 4


# ---- no weight, few traces -------------------------------------------------------------------------------------------


@each_plan
@pytest.mark.filterwarnings("ignore::ars.ArsWarning")  # that the likelihood is 0
def test_no_trace_has_weight(start: Callable[..., ars.Simulator], plan: ars.AutoBudget) -> None:
    """Nothing is worth an estimate, and there is an answer."""
    post = infer(start("weightless"), 200, plan)
    assert len(post) == 200
    assert (post.log_weights() == -np.inf).all()
    assert post.log_evidence().evidence == 0.0
    assert post.ess() == 0.0
    post.summary()
    if post.stats["phases"] == 2:
        assert post.stats["continuations"] == 0
        assert post.stats["traces_replayed"] == 0


@each_plan
@pytest.mark.parametrize("traces", [1, 2, 3])
def test_few_traces(start: Callable[..., ars.Simulator], plan: ars.AutoBudget, traces: int) -> None:
    sim = start("nested", "marked")
    post = infer(sim, traces, plan)
    assert len(post) == traces
    assert post.stats["continuations"] > 0
    again = infer(sim, traces, post.budget)
    assert again.log_weights().tobytes() == post.log_weights().tobytes()


def test_single_traces_are_unbiased(start: Callable[..., ars.Simulator]) -> None:
    """The budget of a run of one trace is chosen by that trace."""
    sim, plan = start("nested", "marked"), ars.Budget.auto(phases=2)
    weights = np.array([math.exp(infer(sim, 1, plan, seed=seed).log_weights()[0]) for seed in range(150)])
    assert abs(weights.mean() - MODELS["nested"].evidence) < 4 * weights.std() / math.sqrt(len(weights))


@each_plan
def test_a_simulator_without_loops(csim: Callable[[str], str], plan: ars.AutoBudget) -> None:
    with ars.Simulator([csim("gaussian"), "2"]) as sim:
        options: dict[str, Any] = {"proposals": {"mu": ars.Normal(0.5, 0.5)}, "seed": 1}
        post = sim.posterior({"y": [0.8, 0.1]}, 200, budget=plan, **options)
        plain = sim.posterior({"y": [0.8, 0.1]}, 200, in_loops="prior", **options)
    assert post.stats["continuations"] == post.stats["traces_replayed"] == 0
    assert post.log_weights().tobytes() == plain.log_weights().tobytes()


def test_without_a_budget_there_are_no_estimates(start: Callable[..., ars.Simulator]) -> None:
    post = infer(start("two"), 200, None)
    assert post.budget is None
    assert post.stats["continuations"] == 0
    assert np.isfinite(post.log_weights("biased")).all()
    with pytest.raises(WeightError):
        post.log_weights("ars")


# ---- many loops ------------------------------------------------------------------------------------------------------


@each_plan
@pytest.mark.parametrize(("model", "traces", "loops"), [("entries", 40, 1), ("sixty", 60, 60)])
def test_many_loops(
    start: Callable[..., ars.Simulator], plan: ars.AutoBudget, model: str, traces: int, loops: int
) -> None:
    """200 entries of one loop, and 60 different loops, in every trace."""
    post = infer(start(model, "200"), traces, plan)
    assert len(post.columns.loops) == traces * (200 if model == "entries" else 60)
    assert isinstance(post.budget, ars.ChosenBudget)
    assert len(post.budget.levels) == loops
    assert distance(post, MODELS[model].evidence) < 4
    assert post.ess() > traces / 4  # corrections may not drown the weights


# ---- failures --------------------------------------------------------------------------------------------------------


def test_failures_in_the_second_phase_stop_the_run(start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(TraceFailure, match="crash") as caught:
        infer(start("fragile"), 300, ars.Budget.auto(phases=2))
    partial = caught.value.partial
    assert isinstance(partial, ars.Posterior)
    assert len(partial) == 300  # the first phase was complete
    assert partial.budget is None


@each_plan
@pytest.mark.parametrize("policy", ["zero", "skip"])
def test_failures_in_continuations_follow_the_policy(
    start: Callable[..., ars.Simulator], plan: ars.AutoBudget, policy: Any
) -> None:
    sim = start("fragile")
    if policy == "zero":
        post = infer(sim, 300, plan, on_failure=policy)
        failed = post.columns.traces["failure"] != 0
        assert len(post) == 300
        assert (post.log_weights()[failed] == -np.inf).all()
    else:
        with pytest.warns(BiasWarning, match=r"\d+ of 300 traces failed and were dropped"):
            post = infer(sim, 300, plan, on_failure=policy)
        assert len(post) + sum(post.failures.values()) == 300
    assert 0 < sum(post.failures.values()) < 300
    assert np.isfinite(post.log_weights()).any()


@each_plan
def test_a_pilot_without_acceptances(start: Callable[..., ars.Simulator], plan: ars.AutoBudget) -> None:
    """The prior is accepted once in 741 tries and may try 20 times: almost every trace fails when it is estimated."""
    sim = start("hard", max_tries=20)
    with pytest.raises(TraceFailure, match="20 tries"):
        infer(sim, 200, plan)
    post = infer(sim, 200, plan, on_failure="zero")
    failed = post.columns.traces["failure"] != 0
    assert set(post.failures) == {"too_many_tries"}
    assert 100 < np.count_nonzero(failed) == post.failures["too_many_tries"]
    assert (post.log_weights()[failed] == -np.inf).all()
    post.summary()


def test_with_enough_tries_the_same_is_exact(start: Callable[..., ars.Simulator]) -> None:
    post = infer(start("hard"), TRACES)
    assert distance(post, MODELS["hard"].evidence) < 4


@pytest.mark.usefixtures("estimates_the_prior")
def test_a_failed_estimate_is_repeated_by_the_command_that_is_named(
    models: str, capfd: pytest.CaptureFixture[str]
) -> None:
    common = [models, "fragile", "--observe", f"y={Y}", "--seed", "3", "--quiet"]
    assert main(["infer", *common, "--traces", "200", "--phases", "2"]) == 1
    said = capfd.readouterr().err
    command = re.search(r"ars (replay .*)", said)
    assert command, said
    words = shlex.split(command[1])
    assert words[words.index("--budget") + 1].startswith("M=")
    assert main(words) == 1
    assert "crash (SIGABRT)" in capfd.readouterr().out

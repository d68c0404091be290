"""A budget that decides itself gives the same bits however it is run: workers, interruptions, lost hosts, in parts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget_tools import MODELS, assert_same_bits, distance, infer
from family_tools import end, environment, members

import ars
from ars.budget import budget_from_json, budget_to_json
from ars.errors import StorageError, WeightError
from ars.runtime.launch import find_host

pytestmark = pytest.mark.compiler

TRACES = 600


NESTED = ("nested", "marked")
PLANS = [ars.Budget.auto(phases=1), ars.Budget.auto(phases=2), ars.Budget.auto()]
each_plan = pytest.mark.parametrize("plan", PLANS, ids=["one phase", "two phases", "free"])


class At:
    """Does something once, when so many traces have been counted. The second phase counts on from the first."""

    def __init__(self, done: int, action: Callable[[], object]) -> None:
        self._done, self._action = done, action
        self.happened = False

    def update(self, done: int, total: int) -> None:
        del total
        if done >= self._done and not self.happened:
            self.happened = True
            self._action()

    def close(self) -> None:
        pass


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# ---- the same bits ---------------------------------------------------------------------------------------------------


@each_plan
def test_any_number_of_workers_gives_the_same_bits(
    start: Callable[..., ars.Simulator], mode: str, plan: ars.AutoBudget
) -> None:
    traces = TRACES if mode == "auto" else 150  # forks are slow
    alone, many = (infer(start(*NESTED, workers=workers, continuations=mode), traces, plan) for workers in (1, 8))
    assert alone.stats["continuations"] > 0
    assert_same_bits(alone, many)
    assert distance(alone, MODELS["nested"].evidence) < 4


@each_plan
def test_a_budget_can_be_given_back(start: Callable[..., ars.Simulator], plan: ars.AutoBudget) -> None:
    sim = start(*NESTED)
    post = infer(sim, TRACES, plan)
    assert isinstance(post.budget, ars.ChosenBudget)
    assert plan.phases in (None, post.budget.phases)
    again = infer(sim, TRACES, post.budget)
    assert_same_bits(post, again)
    assert again.stats.get("pilot_traces", 0) == 0
    assert budget_from_json(budget_to_json(post.budget)) == post.budget
    other_seed = infer(sim, TRACES, post.budget, seed=99)
    assert other_seed.budget == post.budget
    assert distance(other_seed, MODELS["nested"].evidence) < 4


@pytest.mark.parametrize("phases", [1, 2])
def test_parts_with_one_budget_are_one_run(start: Callable[..., ars.Simulator], phases: int) -> None:
    sim = start(*NESTED)
    whole = infer(sim, TRACES, ars.Budget.auto(phases=phases))
    halves = [infer(sim, TRACES // 2, whole.budget, first_trace=first) for first in (0, TRACES // 2)]
    assert_same_bits(ars.Posterior.concat(halves), whole)
    with pytest.raises(ValueError, match="budget"):
        ars.Posterior.concat([halves[0], infer(sim, 200, ars.Budget(M=1, R=1), first_trace=TRACES // 2)])


def test_a_result_is_the_same_from_its_file(start: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    post = infer(start(*NESTED), TRACES, ars.Budget.auto(phases=2))
    post.save(tmp_path / "post.nc")
    loaded = ars.Posterior.load(tmp_path / "post.nc")
    assert loaded.budget == post.budget
    assert loaded.log_weights().tobytes() == post.log_weights().tobytes()


# ---- interrupted, resumed, lost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("done", [40, TRACES // 2, TRACES + 100], ids=["first", "rest", "estimates"])
def test_an_interrupted_run_goes_on_with_the_same_bits(
    start: Callable[..., ars.Simulator], tmp_path: Path, done: int, phases: int
) -> None:
    """Ctrl-C among the first traces, among the others, or among the estimates."""
    sim, plan, folder = start(*NESTED), ars.Budget.auto(phases=phases), tmp_path / "run"
    if phases == 1 and done > TRACES:
        done = 200  # its traces are counted again when they are estimated
    whole = infer(sim, TRACES, plan)
    with pytest.raises(ars.RunInterrupted) as caught:
        infer(sim, TRACES, plan, resume=folder, progress=At(done, ctrl_c))
    partial = caught.value.partial
    assert isinstance(partial, ars.Posterior)
    assert 0 < len(partial) <= TRACES
    assert np.isfinite(partial.log_weights("biased")).any()
    resumed = infer(sim, TRACES, plan, resume=folder)
    assert_same_bits(resumed, whole)
    assert resumed.stats["traces_resumed"] > 0
    again = infer(sim, TRACES, plan, resume=folder)  # everything is there
    assert_same_bits(again, whole)


def test_an_interrupted_second_phase_leaves_the_first(start: Callable[..., ars.Simulator]) -> None:
    """To leave out the traces that still wait for their estimates would bias the others."""
    with pytest.raises(ars.RunInterrupted) as caught:
        infer(start(*NESTED), TRACES, ars.Budget.auto(phases=2), progress=At(TRACES + 50, ctrl_c))
    partial = caught.value.partial
    assert isinstance(partial, ars.Posterior)
    assert len(partial) == TRACES
    assert partial.budget is None
    with pytest.raises(WeightError):
        partial.log_weights("ars")


@each_plan
def test_a_resumed_run_may_have_more_traces(
    start: Callable[..., ars.Simulator], tmp_path: Path, plan: ars.AutoBudget
) -> None:
    sim = start(*NESTED)
    infer(sim, TRACES // 2, plan, resume=tmp_path / "run")
    longer = infer(sim, TRACES, plan, resume=tmp_path / "run")
    assert longer.stats["traces_resumed"] > 0
    assert_same_bits(longer, infer(sim, TRACES, plan))
    with pytest.raises(StorageError, match="holds another run"):
        infer(sim, TRACES, plan, resume=tmp_path / "run", proposals={"b": ars.Beta(1.0, 1.7)})


@pytest.mark.parametrize("role", ["host", "zygote", "worker"])
@pytest.mark.parametrize("done", [TRACES // 2, TRACES + 50], ids=["first phase", "second phase"])
def test_a_death_in_any_phase_costs_nothing(start: Callable[..., ars.Simulator], role: str, done: int) -> None:
    sim, plan = start(*NESTED, workers=2), ars.Budget.auto(phases=2)
    right = infer(sim, TRACES, plan)

    def kill() -> None:
        assert sim.pid is not None
        token = environment(sim.pid)["ARS_TOKEN"]
        assert any(end(member.pid, token) for member in list(members(sim.pid)) if member.role == role)

    killer = At(done, kill)
    post = infer(sim, TRACES, plan, progress=killer)
    assert killer.happened
    assert_same_bits(post, right)
    assert not post.failures
    assert post.stats["restarts"] == (role != "worker")


# ---- a simulator elsewhere -------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(models: str, started: Callable[[Any], Any]) -> Iterator[Callable[..., ars.Simulator]]:
    """A simulator that is started by hand and comes to us."""
    processes: list[subprocess.Popen[bytes]] = []

    def make(*arguments: str) -> ars.Simulator:
        def begin(address: str, line: str) -> None:
            del line
            env = {**os.environ, "ARS_HOST": find_host(os.environ), "ARS_INSECURE_LOOPBACK": "1"}
            processes.append(subprocess.Popen([models, *arguments], env={**env, "ARS_ENDPOINT": address}))

        return started(
            ars.Simulator.listen(
                "tcp://127.0.0.1:*", insecure_loopback=True, command=[models, *arguments], announce=begin
            )
        )

    yield make
    for process in processes:
        process.kill()
        process.wait()


def test_a_simulator_elsewhere_gives_the_same(
    start: Callable[..., ars.Simulator], elsewhere: Callable[..., ars.Simulator]
) -> None:
    for plan in PLANS[:2]:
        assert_same_bits(infer(elsewhere(*NESTED), TRACES, plan), infer(start(*NESTED), TRACES, plan))

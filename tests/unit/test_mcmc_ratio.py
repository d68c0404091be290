"""The ratio of moves, on a small simulator with an exact posterior. Ratios that are wrong on purpose must fail."""

from __future__ import annotations

import math
from typing import Any

import chain_toy as toy
import numpy as np
import pytest

from ars.mcmc import convergence, ratio
from ars.mcmc.moves import Everything, Group, Loop, Move, Plan, Rest, Scales, Single, Walk, WalkAll
from ars.mcmc.states import State

STEPS = 12_000
LIMIT = 4.0  # standard errors
SINGLE, REST, LOOP, ALL = Single("redraw"), Rest("rest"), Loop("loop"), Everything("all")
GROUP = Group("group", False, frozenset({"x", "v"}))


def walk() -> Move:
    scales = Scales(0.44)
    scales.start("first/a", 0.1)
    return Walk("walk", toy.KINDS, scales)


def walk_all() -> Move:
    scales = Scales(0.44)
    for address in toy.KINDS:
        scales.start(address, 0.1)
    return WalkAll("walk all", toy.KINDS, scales, Scales(0.3))


SWITCH = Single("redraw", among=lambda address: address in ("x", "more"))
MIXES = {
    "single": [SINGLE],
    "rest": [REST],
    "all and switch": [ALL, SWITCH],
    "group and loops": [GROUP, LOOP],
    "walks": [walk(), walk_all(), LOOP],
}


def distance(model: toy.Model, *moves: Move, runs: int = 1, steps: int = STEPS) -> float:
    """How many standard errors the share of x = 1 is off."""
    found = toy.chain(model, list(moves), steps, runs, seed=1)
    return abs(found.mean() - toy.POSTERIOR) / convergence.mcse_mean(found.reshape(4, -1))


@pytest.mark.slow
@pytest.mark.parametrize("model", [toy.one_loop, toy.two_loops])
@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_of_moves_has_the_right_posterior(model: toy.Model, mix: str) -> None:
    assert distance(model, *MIXES[mix]) < LIMIT


@pytest.mark.slow
def test_more_runs_per_entry_change_nothing_but_noise() -> None:
    assert distance(toy.one_loop, SWITCH, LOOP, runs=3) < LIMIT


# ---- wrong on purpose ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_forgetting_the_loops_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratio, "loops_term", lambda *_: 0.0)
    assert distance(toy.one_loop, SWITCH, LOOP) > LIMIT


@pytest.mark.slow
def test_carrying_the_plain_estimate_of_a_repeated_loop_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """T/M instead of (T + L - 1)/M."""

    def forgets(state: State, index: int, once: bool) -> float:
        del once
        return math.log(state.entries[index].tries_p / state.entries[index].runs)

    monkeypatch.setattr(ratio, "_log_inverse", forgets)
    assert distance(toy.one_loop, SWITCH, LOOP, steps=8 * STEPS) > LIMIT


@pytest.mark.slow
def test_a_fresh_estimate_for_the_present_state_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Monte Carlo within Metropolis."""
    rng = np.random.default_rng(5)
    correct = ratio.log_ratio

    def anew(old: State, new: State, move: Move, plan: Plan) -> ratio.Ratio:
        again = toy.run(toy.one_loop, Plan(None, dict(zip(old.keys, old.values, strict=True))), rng, 1)
        old.log_inverse = [math.log(e.tries_p / e.runs) for e in again.entries]
        return correct(old, new, move, plan)

    monkeypatch.setattr(toy, "log_ratio", anew)
    assert distance(toy.one_loop, SWITCH, LOOP) > LIMIT


@pytest.mark.slow
def test_repeating_a_loop_in_which_something_is_kept_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop counts as drawn by the prior although a value could have been given in it."""

    def wrong(state: State, loops: Any) -> list[int]:
        return [i for i, entry in enumerate(state.entries) if entry.address in loops and entry.address != "outer"]

    monkeypatch.setattr(ratio, "_tried_once", wrong)
    assert distance(toy.two_loops, SINGLE, LOOP) > LIMIT


@pytest.mark.slow
def test_forgetting_how_many_targets_there_were_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where x is 1 there is a latent more to choose from."""
    monkeypatch.setattr(ratio, "log_choices", lambda *_: 0.0)
    assert distance(toy.one_loop, SWITCH, LOOP) > LIMIT


# ---- refusals --------------------------------------------------------------------------------------------------------


def state(**changes: Any) -> State:
    found = toy.run(toy.two_loops, Plan(None, {}), np.random.default_rng(3), 2)
    found.log_inverse = [0.0] * len(found.entries)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_trace_that_is_impossible_is_refused() -> None:
    old = state()
    plan = SINGLE.plan(old, old.keys[0], np.random.default_rng(1))
    assert ratio.log_ratio(old, state(possible=False), SINGLE, plan).log == -math.inf
    assert ratio.log_ratio(old, state(log_likelihood=-math.inf), SINGLE, plan).log == -math.inf


def test_a_target_that_is_gone_is_refused() -> None:
    old, new = state(), state()
    plan = Plan(("gone", 0), {})
    assert ratio.log_ratio(old, new, SINGLE, plan).log == -math.inf


def test_a_loop_without_an_estimate_is_refused() -> None:
    old, new = state(), state()
    plan = SINGLE.plan(old, old.keys[0], np.random.default_rng(1))
    new.entries = [entry._replace(runs=0, tries=1) for entry in new.entries]
    assert ratio.log_ratio(old, new, SINGLE, plan).log == -math.inf


def test_values_that_stay_the_same_have_ratio_1_but_for_the_estimates() -> None:
    old = state()
    new = state()
    new.entries = [entry._replace(tries=1, runs=1, tries_p=1) for entry in new.entries]
    plan = Plan(old.keys[0], dict(zip(old.keys, old.values, strict=True)))
    assert ratio.log_ratio(old, new, walk(), plan).log == pytest.approx(0.0)

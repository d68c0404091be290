"""Which loops are estimated: those under which something is proposed, as soon as that is known, and no others."""

from __future__ import annotations

import dataclasses
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from budget_tools import MODELS, assert_same_bits, distance, entries, infer

import ars

pytestmark = pytest.mark.compiler

TRACES = 600
not_drawn = pytest.mark.filterwarnings("ignore:.*no trace drew a latent of this name")
BUDGETS = ["auto", ars.Budget.auto(phases=1), ars.Budget.auto(phases=2), ars.Budget(M=1, N=10), ars.Budget(M=2, R=2)]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=["auto", "one phase", "two phases", "paper", "fixed"])


# ---- nothing is proposed ---------------------------------------------------------------------------------------------


@each_budget
def test_nothing_is_estimated_where_nothing_is_proposed(start: Callable[..., ars.Simulator], budget: Any) -> None:
    """Proposals outside loops only: the weights are those of in_loops="prior", bit for bit."""
    sim, proposals = start("two"), {"x": ars.Normal(0.3, 0.9)}
    first = infer(sim, TRACES, budget, proposals=proposals)
    post = infer(sim, TRACES, budget, proposals=proposals)
    plain = infer(sim, TRACES, proposals=proposals, in_loops="prior")
    assert_same_bits(first, post)
    assert first.stats["continuations"] < 50  # a fixed budget meets the sites by its first trace
    assert post.stats["continuations"] == 0
    assert set(post.run.exact) == {"first", "second"}
    assert post.log_weights().tobytes() == plain.log_weights().tobytes() == post.log_weights("biased").tobytes()
    assert not post.columns.loops["runs_p"].any()
    assert distance(post, MODELS["two"].evidence) < 4


@each_budget
def test_without_proposals_nothing_is_estimated(start: Callable[..., ars.Simulator], budget: Any) -> None:
    sim = start("two")
    post = infer(sim, TRACES, budget, proposals=None)
    assert post.stats["continuations"] == 0
    assert post.log_weights().tobytes() == infer(sim, TRACES, in_loops="prior", proposals=None).log_weights().tobytes()


@each_budget
def test_only_the_loop_with_a_proposal_is_estimated(start: Callable[..., ars.Simulator], budget: Any) -> None:
    post = infer(start("two"), TRACES, budget)
    assert post.run.exact == ("first",)
    assert not entries(post, "first")["runs_p"].any()
    estimated = entries(post, "second")["runs_p"] > 0
    assert estimated.any()
    if post.stats.get("phases") != 2:
        assert estimated.all()
    assert distance(post, MODELS["two"].evidence) < 4


@each_budget
def test_the_prior_as_a_proposal_is_a_proposal(start: Callable[..., ars.Simulator], budget: Any) -> None:
    """A loop is exact if its latents have no proposals, not if these happen to be priors."""
    post = infer(start("two"), TRACES, budget, proposals={"v": ars.Uniform(0.0, 1.0)})
    assert post.run.exact == ("first",)
    assert entries(post, "second")["runs_p"].any()
    assert distance(post, MODELS["two"].evidence) < 4


# ---- a proposal that turns up later ----------------------------------------------------------------------------------


@not_drawn
@each_budget
def test_a_latent_that_turns_up_late_makes_earlier_entries_be_estimated(
    start: Callable[..., ars.Simulator], budget: Any
) -> None:
    """Seed 1 draws "v" in trace 467 for the first time."""
    sim = start("rare")
    early = infer(sim, 400, budget, seed=1)
    assert early.run.exact == ("loop",)
    assert early.stats["continuations"] < 50
    assert not early.columns.loops["runs_p"].any()
    late = infer(sim, 1500, budget, seed=1)
    assert late.run.exact == ()
    estimated = entries(late, "loop")["runs_p"] > 0
    if late.stats.get("phases") == 2:
        assert estimated[:400].any()
    else:
        assert estimated.all()
    assert distance(late, MODELS["rare"].evidence) < 4


@not_drawn
@each_budget
def test_other_runs_do_not_matter(start: Callable[..., ars.Simulator], budget: Any) -> None:
    """The loop is exact in the traces of one run, whatever another run of the same processes has met."""
    sim = start("rare")
    before = infer(sim, 400, budget, seed=1)
    assert infer(sim, 700, budget, seed=1).run.exact == ()
    after = infer(sim, 400, budget, seed=1)
    assert after.run.exact == ("loop",)
    assert_same_bits(before, after)


@not_drawn
def test_a_latent_may_turn_up_in_a_continuation(start: Callable[..., ars.Simulator]) -> None:
    """Seed 3 draws it in no trace, but in a continuation of the outer loop. The inner loop is estimated after all."""
    plain = infer(start("hidden"), 150, None, seed=3)
    assert "outer/inner/v" not in {site.address for site in plain.sites}
    post = infer(start("hidden"), 150, ars.Budget.auto(phases=2), seed=3)
    assert "outer/inner/v" in {site.address for site in post.sites}
    assert post.run.exact == ()
    assert entries(post, "outer/inner")["runs_p"].any()
    assert distance(post, MODELS["hidden"].evidence) < 4


def test_a_loop_that_few_traces_enter(start: Callable[..., ars.Simulator]) -> None:
    sim = start("seldom")
    for budget in BUDGETS:
        post = infer(sim, 3000, budget)
        entered = entries(post, "loop")
        assert 0 < len(entered) < 15
        assert (entered["runs_p"] > 0).all()
        assert distance(post, MODELS["seldom"].evidence) < 4


@not_drawn
def test_a_budget_for_a_loop_that_its_pilot_never_met(start: Callable[..., ars.Simulator]) -> None:
    """Given back to a run that enters other loops: they get the default of the budget."""
    sim = start("seldom")
    budget = infer(sim, 100).budget
    assert isinstance(budget, ars.ChosenBudget)
    assert not budget.levels
    post = infer(sim, 3000, budget)
    assert (entries(post, "loop")["runs_p"] > 0).all()
    assert distance(post, MODELS["seldom"].evidence) < 4


# ---- loops within loops ----------------------------------------------------------------------------------------------


class Counter:
    """A number that all processes of a simulator add to."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(mmap.PAGESIZE))
        self._path = path

    def take(self) -> int:
        """The count since the last call."""
        (found,) = struct.unpack("L", self._path.read_bytes()[:8])
        with self._path.open("r+b") as file:
            file.write(bytes(8))
        return int(found)


@pytest.mark.parametrize("how", ["marked", "reject"])
def test_inner_loops_of_rejected_tries_are_not_estimated_in_two_phases(
    start: Callable[..., ars.Simulator], mode: Any, how: str, tmp_path: Path
) -> None:
    """The program counts the inner tries of all continuations that begin in the inner loop."""
    counter = Counter(tmp_path / "counter")
    sim = start("nested", how, str(tmp_path / "counter"), continuations=mode)
    traces = 300 if mode == "auto" else 100
    budget = infer(sim, traces, ars.Budget.auto(phases=2)).budget
    assert isinstance(budget, ars.ChosenBudget)

    def tries_in_accepted_tries(post: ars.Posterior) -> int:
        inner = entries(post, "outer/inner")
        return int(inner["tries_p"].sum() + inner["tries_q"].sum())

    counter.take()
    two = infer(sim, traces, budget)  # a budget that is given needs no pilot
    assert counter.take() == tries_in_accepted_tries(two) > 0
    one = infer(sim, traces, dataclasses.replace(budget, phases=1))
    if how == "reject":  # such loops are estimated before it is known whether the outer try will be accepted
        assert counter.take() > 2 * tries_in_accepted_tries(one) > 0
    for post in (one, two):
        assert distance(post, MODELS["nested"].evidence) < 4

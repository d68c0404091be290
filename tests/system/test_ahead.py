"""Asking ahead (bridge/lib/ahead.c): right or wrong, a guess changes how long a trace takes and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars
from ars.columns import HOW

pytestmark = pytest.mark.compiler

SOURCE = Path(__file__).resolve().parent / "ahead" / "guesses.c"
OBSERVE = {"data": 0.3}
TRACES = 80
BUDGET = ars.Budget(M=2, N=10)
WEIGHTS = np.arange(1.0, 101.0) / np.arange(1.0, 101.0).sum()

# All but "before" and "unasked" are proposed, each by what was drawn before it.
PROPOSALS: dict[str, Any] = {
    "x": lambda t: ars.Normal(0.1 * t["before"], 0.6) if "before" in t else ars.Normal(0.1, 0.7),
    "y": lambda t: ars.Normal(0.5 * t["x"], 0.8) if "x" in t else ars.Normal(0.2, 0.8),
    "v": lambda t: ars.Normal(-0.2 * t["x"], 0.9),
    "w": lambda t: ars.Normal(0.3 * t["v"] + 0.1, 1.1),
    "z": lambda t: ars.Normal(0.2 * t["w"] - 0.1, 0.9),
    "c": lambda t: ars.Categorical(np.where(t["x"][:, None] > 0, WEIGHTS, WEIGHTS[::-1])),
}

# The latents that are proposed, and how much is asked, at most, against the same run without asking ahead: every wrong
# guess is a question for nothing.
MODELS = {
    "plain": ("xy", 1.35),
    "longer": ("xyvwz", 1.6),
    "at_once": ("xyvwz", 1.6),
    "branching": ("xyv", 1.5),
    "nested": ("xyvw", 1.5),
    "wide": ("xc", 1.6),
    # Mostly wrong: given up for a while after a few tries.
    "dependent": ("xy", 1.3),
    "nuisance": ("xyvw", 1.3),
    "nuisance_first": ("xy", 1.3),
    "unasked": ("xy", 1.05),
    "swapped": ("xyv", 1.6),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("ahead"))
    return builder.programs([([SOURCE], Variant(COMPILERS[0], ("-O2",)))])[0]


def run(
    program: Path, model: str, kind: str, *, ahead: bool, budget: ars.Budget = BUDGET, workers: int = 2
) -> ars.Posterior:
    proposals = {name: PROPOSALS[name] for name in MODELS[model][0]}
    with ars.Simulator([str(program), model, kind], workers=workers) as sim:
        return sim.posterior(OBSERVE, TRACES, proposals=proposals, budget=budget, seed=7, ask_ahead=ahead)


def assert_same(a: ars.Posterior, b: ars.Posterior) -> None:
    addresses = [[site.address for site in post.sites] for post in (a, b)]
    assert sorted(addresses[0]) == sorted(addresses[1])
    for table in ("traces", "samples", "loops", "results"):
        of_a, of_b = getattr(a.columns, table), getattr(b.columns, table)
        for field in set(of_a.dtype.names) - {"site", *HOW.get(table, ())}:  # sites are numbered as they are met
            np.testing.assert_array_equal(of_a[field], of_b[field], err_msg=f"{table}.{field}")
    np.testing.assert_array_equal(a.log_weights("ars"), b.log_weights("ars"))


@pytest.mark.parametrize("kind", ["forked", "place"])
@pytest.mark.parametrize("model", list(MODELS))
def test_nothing_depends_on_a_guess(program: Path, model: str, kind: str) -> None:
    guessed, asked = (run(program, model, kind, ahead=ahead) for ahead in (True, False))
    assert_same(guessed, asked)
    assert len(np.unique(asked.columns.loops["accepted_q"])) > 2  # continuations were rejected, too
    assert guessed.stats["requests"] <= MODELS[model][1] * asked.stats["requests"]


@pytest.mark.parametrize("kind", ["forked", "place"])
@pytest.mark.parametrize("model", ["plain", "longer", "at_once", "wide"])
def test_what_can_be_guessed_is_asked_together(program: Path, model: str, kind: str) -> None:
    """Ten continuations, of which most are accepted at once, ask in a few messages.

    One worker: what several of them ask comes in one message or in two as the scheduler likes it.
    """
    guessed, asked = (run(program, model, kind, ahead=ahead, workers=1) for ahead in (True, False))
    assert asked.stats["requests_per_message"] == 1.0
    assert guessed.stats["requests_per_message"] > 1.5


def test_more_continuations_than_one_question_holds(program: Path) -> None:
    budget = ars.Budget(M=1, N=300)
    assert_same(*(run(program, "plain", "forked", ahead=ahead, budget=budget) for ahead in (True, False)))


def test_a_network_is_asked_ahead(simulator: Callable[..., ars.Simulator]) -> None:
    """Its answers do not depend on what else is in a batch, so they are the same bits."""
    sim = simulator("marsaglia", workers=1)
    network = sim.train(2_000, lstm_dim=32, batch_size=200, seed=1, progress=False)
    observe = {"y1": 0.1, "y2": 0.2}
    posts = [
        sim.posterior(observe, 100, network=network, budget=BUDGET, seed=3, ask_ahead=ahead) for ahead in (None, False)
    ]
    assert_same(*posts)
    assert posts[1].stats["requests_per_message"] == 1.0
    assert posts[0].stats["requests_per_message"] > 2.0


def test_proposals_by_hand_are_asked_only_what_is_wanted(program: Path) -> None:
    """A function need not know what to say of values that the simulator never brings to it."""

    def of_y(t: Any) -> ars.Normal:
        assert (t["x"] < 0.8).all()  # else the simulator draws v
        return ars.Normal(0.5 * t["x"], 0.8)

    proposals = {**{name: PROPOSALS[name] for name in "xv"}, "y": of_y}
    with ars.Simulator([str(program), "branching", "forked"], workers=2) as sim:
        sim.posterior(OBSERVE, 40, proposals=proposals, budget=BUDGET, seed=7)
        with pytest.raises(ars.errors.ProposalError):
            sim.posterior(OBSERVE, 40, proposals=proposals, budget=BUDGET, seed=7, ask_ahead=True)

"""Runs that stop at an error or after a time: how many traces they run, and why their evidence stays unbiased."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from budget_tools import MODELS, assert_same_bits, distance, infer

import ars
from ars.errors import FewTracesWarning
from exactness import assert_exact

pytestmark = pytest.mark.compiler

Floats = npt.NDArray[np.float64]
NESTED = ("nested", "marked")
EVIDENCE = MODELS["nested"].evidence
SEEDS = 40
WORKERS = 16


def test_a_run_stops_at_the_error_that_was_asked_for(start: Callable[..., ars.Simulator]) -> None:
    sim = start(*NESTED)
    coarse, fine = (infer(sim, 100_000, ars.Budget.auto(error=error), seed=4) for error in (0.04, 0.02))
    for post, error in ((coarse, 0.04), (fine, 0.02)):
        assert post.stats["error_reached"] <= error
        assert post.stats["error_reached"] == post.log_evidence().relative_error
        assert distance(post, EVIDENCE) < 4
        assert int(post.trace_numbers[0]) == post.stats["stage_traces"] > 0  # the stages are no part of the answer
        assert isinstance(post.budget, ars.ChosenBudget)
    assert 2 * len(coarse) < len(fine) < 20_000  # four times as many are expected


def test_the_error_may_be_that_of_a_mean(start: Callable[..., ars.Simulator]) -> None:
    sim = start("two")
    post = infer(sim, 100_000, ars.Budget.auto(error=0.05, of="sum"))
    assert len(post) < 50_000
    found = float(post.mean_error("sum")) / abs(float(post.mean("sum")))
    assert post.stats["error_reached"] == pytest.approx(found)
    assert found <= 0.05
    with pytest.raises(KeyError, match="total"):
        infer(sim, 1000, ars.Budget.auto(error=0.05, of="total"))


def test_the_maximum_of_traces_is_kept_and_said(start: Callable[..., ars.Simulator]) -> None:
    with pytest.warns(FewTracesWarning, match=r"relative error of .* more than the requested 0\.001.*increase traces="):
        post = infer(start(*NESTED), 800, ars.Budget.auto(error=0.001))
    assert len(post) + post.stats["stage_traces"] == 800
    assert post.stats["error_reached"] > 0.001
    assert distance(post, EVIDENCE) < 4


def test_an_error_can_be_asked_for_where_nothing_is_estimated(start: Callable[..., ars.Simulator]) -> None:
    post = infer(start("two"), 100_000, ars.Budget.auto(error=0.01), proposals={"x": ars.Normal(0.3, 0.9)})
    assert post.stats["error_reached"] <= 0.01
    assert post.stats["continuations"] == 0
    assert len(post) < 50_000


def test_the_same_seed_stops_at_the_same_trace(start: Callable[..., ars.Simulator]) -> None:
    budget = ars.Budget.auto(error=0.05)
    one, other = (infer(start(*NESTED, workers=workers), 50_000, budget) for workers in (2, 8))
    assert one.stats["stage_traces"] == other.stats["stage_traces"]
    assert_same_bits(one, other)


def test_a_run_to_an_error_can_be_resumed(start: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    sim, budget = start(*NESTED), ars.Budget.auto(error=0.05)
    whole = infer(sim, 50_000, budget)
    for _ in range(2):
        assert_same_bits(infer(sim, 50_000, budget, resume=tmp_path / "run"), whole)


def test_time_is_a_limit(start: Callable[..., ars.Simulator]) -> None:
    """Whatever the machine, this many traces need more than a tenth of a second."""
    post = infer(start(*NESTED), 10_000_000, ars.Budget.auto(seconds=0.1))
    assert 0 < len(post) < 5_000_000
    assert np.isfinite(post.log_weights()).all()


def test_time_cannot_be_resumed(start: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seconds= cannot be combined with resume="):
        infer(start(*NESTED), 1000, ars.Budget.auto(seconds=1.0), resume=tmp_path / "run")


# ---- the evidence of runs that stop is unbiased ----------------------------------------------------------------------


def stopped(weights: Floats, error: float) -> int:
    """Where a run would stop that looks at its own error after every trace."""
    n = np.arange(1, len(weights) + 1)
    mean, square = np.cumsum(weights) / n, np.cumsum(weights**2) / n
    error_of_mean = np.sqrt(np.maximum(square - mean**2, 0.0) / n)
    enough = np.flatnonzero((error_of_mean <= error * mean) & (error_of_mean > 0.0))
    return int(enough[0]) + 1 if len(enough) else len(weights)


def scores(runs: list[Floats]) -> Floats:
    """z-scores with one variance for all runs, whose lengths differ."""
    variance = float(np.mean([np.var(w, ddof=1) for w in runs]))
    return np.array([(w.mean() - EVIDENCE) / math.sqrt(variance / len(w)) for w in runs])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ars.errors.FewTracesWarning")  # in some runs the maximum comes first
def test_the_evidence_of_stopped_runs_is_unbiased(start: Callable[..., ars.Simulator]) -> None:
    sim, error = start(*NESTED), 0.1
    runs = [infer(sim, 3000, ars.Budget.auto(error=error), seed=seed) for seed in range(SEEDS)]
    lengths = {len(post) for post in runs}
    assert len(lengths) > SEEDS // 2  # they do stop at different traces
    assert_exact(scores([np.exp(post.log_weights()) for post in runs]))


def test_stopping_by_a_running_estimate_is_biased(start: Callable[..., ars.Simulator]) -> None:
    """Why the traces that decide are no part of the answer. Weights of a real run, drawn again and again."""
    weights = np.exp(infer(start(*NESTED), 6000, ars.Budget(M=1, R=0)).log_weights())
    drawn = np.random.default_rng(1).choice(weights / weights.mean(), (2000, 500))
    running = np.array([w[: stopped(w, 0.3)].mean() for w in drawn])
    fresh = np.array([w[-stopped(w[:250], 0.3) :].mean() for w in drawn])  # as many, but others
    off = [(found.mean() - 1) / (found.std() / math.sqrt(len(found))) for found in (running, fresh)]
    assert off[0] > 4
    assert abs(off[1]) < 3

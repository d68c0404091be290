"""Where nothing is proposed, nothing is estimated: the correction of every loop is exactly 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import exact

import ars
from ars.cli import main
from ars.errors import WeightError

NESTED = exact.nested()
OUTER, INNER = NESTED.p_accept
TRACES = 2000


def posterior(sim: ars.Simulator, **options: object) -> ars.Posterior:
    return sim.posterior(NESTED.observed, TRACES, seed=3, **options)  # type: ignore[arg-type]


def test_the_prior_alone_forks_nothing_and_has_no_zero_weights(simulator: Callable[..., ars.Simulator]) -> None:
    """It took 5,232 snapshots, and where none of the N tries was accepted, the weight was 0."""
    post = posterior(simulator("nested"))
    for name in ("snapshots", "continuations", "forks", "tries_q", "tries_p"):
        assert post.stats[name] == 0, name
    assert np.isfinite(post.log_weights("ars")).all()
    found = post.log_evidence("ars")
    assert abs(found.evidence - NESTED.evidence) < 3 * found.standard_error
    # The same distance tells a wrong estimate from a right one.
    biased = posterior(simulator("nested"), proposals=NESTED.proposals(ars)).log_evidence("biased")
    assert abs(biased.evidence - NESTED.evidence) > 3 * biased.standard_error


@pytest.mark.parametrize("budget", [ars.Budget(), ars.Budget(M=7, N=3), None])
def test_ars_weights_are_those_of_the_prior_in_loops(
    budget: ars.Budget | None, simulator: Callable[..., ars.Simulator]
) -> None:
    """Bit for bit, whatever the budget."""
    sim = simulator("nested")
    post, prior = posterior(sim, budget=budget), posterior(sim, in_loops="prior")
    for method in ("ars", "ic", "biased"):
        assert post.log_weights(method).tobytes() == prior.log_weights("prior").tobytes(), method
    assert post["sum"].tobytes() == prior["sum"].tobytes()
    assert (post.method, post.run.runs_p, post.run.tries_q, post.run.proposed) == ("ars", None, None, False)
    assert "ars" in post.summary()


def test_its_draws_are_those_of_a_run_with_estimates(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("nested")
    exactly = posterior(sim)
    sim._estimates_the_prior = True
    estimated = posterior(sim, budget=ars.Budget(M=1, N=2))
    assert estimated.stats["continuations"] > TRACES
    assert exactly["sum"].tobytes() == estimated["sum"].tobytes()
    assert exactly.log_weights("biased").tobytes() == estimated.log_weights("biased").tobytes()
    # The estimates add noise to the same answer.
    assert exactly.ess("ars") > 1.5 * estimated.ess("ars")


def test_loops_know_their_acceptance_from_their_own_tries(simulator: Callable[..., ars.Simulator]) -> None:
    post = posterior(simulator("nested"))
    outer, inner = post.loops[OUTER], post.loops[INNER]
    p = NESTED.p_accept[OUTER]
    assert isinstance(p, float)
    error = np.sqrt((1 - p) / p**2 / outer.entries)
    assert abs(outer.mean_tries - 1 / p) < 4 * error
    assert 0.16 < inner.p_accept < 0.84
    for loop in (outer, inner):
        assert loop.p_accept == pytest.approx(loop.q_accept)
        assert loop.s_pq == pytest.approx(1 - 1 / loop.mean_tries)
        assert loop.naive_variance_infinite is False
        assert loop.note == "nothing was proposed"
        assert not loop.s_pq_bound > loop.s_pq  # "at least 0.7" of what is 0.5
    assert "wrong on purpose" not in post.summary()
    for weighting in post.diagnostics(["ars", "biased"], values=()).weightings:
        assert weighting.note is None


def test_a_run_that_proposes_is_estimated_as_before(simulator: Callable[..., ars.Simulator]) -> None:
    """Also if what is proposed is the prior: the weights of a run do not depend on what a function happens to say."""
    sim = simulator("nested")
    post = sim.posterior(NESTED.observed, 50, proposals={"a": ars.Prior()}, budget=ars.Budget(M=2, N=3), seed=3)
    assert post.run.proposed
    assert post.stats["continuations"] >= 100
    outer = post.columns.loops["parent"] < 0
    assert (post.columns.loops["tries_q"] == np.where(outer, 3, 0)).all()  # "a" lies in the outer loop alone
    without = sim.posterior(NESTED.observed, 50, proposals={"a": ars.Normal(0.1, 1.0)}, budget=None, seed=3)
    with pytest.raises(WeightError, match="need estimates of p"):
        without.log_weights("ars")


def test_the_command_line_has_exact_weights_too(csim: Callable[[str], str], tmp_path: Path) -> None:
    common = ["infer", csim("nested"), "--observe", "y=2", "--traces", "200", "--seed", "3", "--quiet"]
    assert main([*common, "--budget", "2", "4", "--out", str(tmp_path / "a.npz")]) == 0
    assert main([*common, "--in-loops", "prior", "--out", str(tmp_path / "b.npz")]) == 0
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert a["log_weight_ars"].tobytes() == b["log_weight_prior"].tobytes()

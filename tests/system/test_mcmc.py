"""Markov chains against exact posteriors, in Monte Carlo standard errors; wrong samplers must fail the same tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests import exact

import ars
from ars.mcmc import ratio

LIMIT = 4.0  # standard errors
SEED = 20261118

# The rest are the same simulators with other data, or other proposals, which chains do not use.
CASES = {
    case.name: case
    for case in (
        exact.gaussian(),
        exact.marsaglia(),
        exact.beta_bernoulli(3, "finite"),
        exact.truncated_normal("a"),
        exact.truncated_normal("b"),
        exact.nested(),
        exact.recursive(),
        exact.sequence(),
        exact.branching(),
        exact.event_loop(),
    )
}


def distances(chains: ars.Chains, case: exact.Case) -> list[float]:
    """How many standard errors each posterior mean is off."""
    return [abs(chains.mean(name) - truth) / chains.mcse(name) for name, truth in case.posterior_mean.items()]  # type: ignore[operator]


def run(simulator: Callable[..., ars.Simulator], case: exact.Case, steps: int = 200, **options: Any) -> ars.Chains:
    return simulator(*case.command).mcmc(case.observed, steps, seed=SEED, **{"thin": 2, **options})


@pytest.mark.parametrize("name", CASES)
def test_posterior_means_are_exact(simulator: Callable[..., ars.Simulator], name: str) -> None:
    case = CASES[name]
    chains = run(simulator, case)
    assert max(distances(chains, case)) < LIMIT
    for result in case.posterior_mean:
        assert chains.ess(result) > 100
        assert chains.rhat(result) < 1.1


# ---- proposals: independence moves with the unbiased weights --------------------------------------------------------


@pytest.mark.parametrize("name", ["truncated_normal-b", "nested", "branching", "event_loop"])
def test_proposals_by_hand_serve_as_a_network_does(simulator: Callable[..., ars.Simulator], name: str) -> None:
    case = CASES[name]
    chains = run(simulator, case, 150, proposals=case.proposals(ars))
    assert max(distances(chains, case)) < LIMIT
    assert {"propose", "propose rest", "propose all"} <= set(chains.acceptance)
    assert chains.acceptance["propose all"].share > 0.01


# ---- samplers that are wrong on purpose -----------------------------------------------------------------------------

# Few runs per entry: what is done with the noise shows.
WRONG = {"M": 1, "chains": 64, "warmup": 20, "thin": 4}


def test_the_noisiest_estimates_are_exact_too(simulator: Callable[..., ars.Simulator]) -> None:
    case = CASES["truncated_normal-b"]
    assert max(distances(run(simulator, case, **WRONG), case)) < LIMIT


def test_without_the_loops_the_chains_are_wrong(
    simulator: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws of a loop are kept, and 1/p(A) is forgotten."""
    monkeypatch.setattr(ratio, "loops_term", lambda *_: 0.0)
    case = CASES["truncated_normal-b"]
    assert max(distances(run(simulator, case, **WRONG), case)) > 2 * LIMIT

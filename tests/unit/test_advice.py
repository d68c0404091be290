"""What to do next: the rules, on numbers and on columns that are made for them, and no advice where none is needed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, observation, pack

from ars.budget import Budget, ChosenBudget, Level, budget_to_json
from ars.diagnostics import ParetoK, ess, pareto_k
from ars.posterior import Posterior, RunInfo
from ars.results.advice import Advice, advice_lines, advise, call_of, enough
from ars.results.data_check import DataCheck, check_data
from ars.results.seen import LoopSeen, Seen, predicted_ess, seen_of, spread_shares, tempered
from ars.results.unexplained import Noise, noise_variance

NETWORK = json.dumps({"proposals": {}, "network": {"sha256": "0"}})
HAND = json.dumps({"proposals": {"x": "Normal(0, 1)"}, "network": None})
RUN = RunInfo(3, None, None, "proposal", "zero", ("./sim",), proposals=HAND)
LIGHT, HEAVY = ParetoK(0.3, threshold=0.7, tail=60), ParetoK(1.1, threshold=0.7, tail=60)
GOOD = Seen(10_000, 5_000.0, LIGHT, uncorrected_ess=6_000.0, uncorrected_k=LIGHT)
BAD = replace(GOOD, ess=4.0, pareto_k=HEAVY, uncorrected_ess=4.0, uncorrected_k=HEAVY)
LOOP = LoopSeen("spin", 0.4, 0.02)


def kinds(seen: Seen, check: DataCheck | None = None) -> list[str]:
    return [step.kind for step in advise(seen, check)]


def first(seen: Seen) -> Advice:
    return advise(seen)[0]


# ---- rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proposer", ["network", "hand", "prior"])
def test_enough_is_enough(proposer: Any) -> None:
    """However noisy the corrections, and however long the traces: what works is left alone."""
    noisy = replace(
        GOOD,
        proposer=proposer,
        correction_noise=0.9,
        loops=(LOOP,),
        defensive=0.05,
        proposed_draws=100.0,
        left_to_prior=("u",),
        ess_prior=9_000.0,
        noise=Noise(4.0, 0.9),
    )
    assert enough(noisy) and advise(noisy) == ()
    assert advise(replace(noisy, ess=100.0)) == ()
    assert advise(replace(noisy, ess=99.0)) != ()


@pytest.mark.parametrize(
    ("seen", "traces"),
    [
        (replace(GOOD, traces=1_000, ess=40.0), 3_000),
        (replace(GOOD, traces=60, ess=30.0, pareto_k=ParetoK(-0.5, threshold=0.44)), 240),
        (replace(GOOD, traces=200, ess=120.0, pareto_k=ParetoK(0.62, threshold=0.565)), 520),
        (replace(GOOD, traces=15, ess=15.0, pareto_k=ParetoK(math.nan, threshold=0.15, reason="too few")), 120),
        (replace(GOOD, traces=5, ess=2.0, pareto_k=ParetoK(math.nan, threshold=0.1, reason="too few")), 300),
    ],
    ids=["few effective", "light tail", "k is vouched for by more traces", "too few for k", "too few to judge"],
)
def test_more_traces_suffice(seen: Seen, traces: int) -> None:
    """Effective traces grow in proportion; k = 0.62 takes 10^(1/0.38) = 428 traces; a fifth more for safety."""
    assert kinds(seen) == ["traces"]
    step = first(seen)
    assert f"traces={traces:_}" in step.python and step.command_line == f"--traces {traces}"
    assert f"About {traces:,} traces" in step.reason


@pytest.mark.parametrize(
    ("proposer", "kind", "python", "command_line"),
    [
        ("network", "refine", "network=network, refine=True)", "--refine"),
        ("hand", "adapt", "simulator.posterior(observe, traces=10_000, adapt=True)", "--adapt"),
        ("prior", "adapt", "simulator.posterior(observe, traces=10_000, adapt=True)", "--adapt"),
    ],
)
def test_proposals_that_do_not_fit(proposer: Any, kind: str, python: str, command_line: str) -> None:
    found = advise(replace(BAD, proposer=proposer, spread={"x": 0.7, "u": 0.01, "log likelihood": 0.29}))
    assert found[0].kind == kind and found[-1].kind == "mcmc"
    assert "traces" not in [step.kind for step in found], "no number of traces helps where k is 1.1"
    assert ("train" in [step.kind for step in found]) == (proposer == "prior")
    assert python in found[0].python and found[0].command_line == command_line
    assert "4.0 of 10,000 traces are effective" in found[0].reason and "k is 1.10 (limit 0.70)" in found[0].reason
    assert ('"x" (70%)' in found[0].reason) == (proposer != "prior") and '"u"' not in found[0].reason
    assert any("check_data" in step.python for step in found)


def test_a_network_that_was_refined_already() -> None:
    step = first(replace(BAD, proposer="network", refined=True))
    assert step.kind == "refine" and "although the network was refined" in step.reason
    assert "refine=ars.RefineConfig(" in step.python and step.command_line.startswith("--refine-rounds")


def test_adapting_that_kept_the_prior_is_not_advised_once_more() -> None:
    step = first(replace(BAD, proposer="prior", refined=True))
    assert step.kind == "adapt" and "adaptation found nothing better than the prior" in step.reason
    assert "adapt=ars.RefineConfig(" in step.python and step.command_line.startswith("--refine-rounds")


def test_patience_is_the_alternative_where_the_tail_is_light() -> None:
    seen = replace(GOOD, proposer="network", traces=100_000, ess=8.0)
    assert kinds(seen) == ["refine", "traces", "check data", "mcmc"]
    assert "1,500,000 are enough" in advise(seen)[1].reason


def test_k_is_large_only_because_the_run_is_short() -> None:
    """Uniform weights for one trace in 15, tiny ones elsewhere: the tail of 42 weights reaches into the tiny ones."""
    rng = np.random.default_rng(12)

    def run(n: int) -> Posterior:
        x = rng.normal(size=n)
        hit = rng.random(n) < 1 / 15
        weights = np.where(hit, np.log(rng.uniform(0.5, 1.0, n)), -3.0 - 8.0 * rng.exponential(size=n))
        traces = [Trace(i, float(weights[i]), samples=[Sample(0, float(x[i]))]) for i in range(n)]
        return run_of(traces, [latent(0, "x")], proposed=False)

    short = run(200)
    assert 10 < short.ess() < 20 and short.pareto_k() > 0.7 and seen_of(short).inner_k < 0.5
    assert [step.kind for step in short.advice()] == ["traces"]
    assert "have a light tail: their k is" in short.advice()[0].reason
    assert run(int(short.advice()[0].command_line.removeprefix("--traces "))).advice() == ()


@pytest.mark.parametrize("k", [0.9, 1.2, 2.0])
def test_a_heavy_tail_is_not_taken_for_a_short_run(k: float) -> None:
    rng = np.random.default_rng(13)
    wrong = 0
    for _ in range(40):
        log_weights = k * rng.exponential(size=300)  # Pareto weights of shape k
        seen = Seen(300, ess(log_weights), pareto_k(log_weights))
        if seen.ess >= 10 and seen.pareto_k >= 0.7:
            share = min(seen.ess / seen.pareto_k.tail, 1.0)
            wrong += kinds(replace(seen, inner_k=pareto_k(log_weights, tail_share=share))) == ["traces"]
    assert wrong <= 4


def test_corrections_are_the_problem() -> None:
    seen = replace(
        GOOD, ess=30.0, pareto_k=HEAVY, correction_noise=0.95, loops=(LOOP,), budget=Budget(M=1, N=10), proposer="hand"
    )
    assert kinds(seen) == ["corrections"], "before corrections the weights are sound: nothing else is to blame"
    step = first(seen)
    assert (
        "95%" in step.reason
        and '"spin" accepts a share of 0.02' in step.reason
        and "0.4 under the prior" in step.reason
    )
    assert "accepted more often" in step.reason
    assert "budget=ars.Budget(M=2, R=4)" in step.python and step.command_line == "--budget M=2,R=4"
    assert kinds(replace(seen, proposer="network")) == ["corrections", "refine"], "a network can learn to be accepted"
    # a heavy tail before corrections is the proposals' doing
    assert kinds(replace(seen, uncorrected_k=HEAVY))[:2] == ["corrections", "adapt"]
    assert "corrections" not in kinds(replace(seen, correction_noise=0.1, uncorrected_k=HEAVY))
    # q(A) is large: the budget alone is to blame
    large = replace(seen, loops=(LoopSeen("spin", 0.4, 0.3),))
    assert "larger budget" in first(large).reason and "accepted more often" not in first(large).reason
    levels = (Level(3, 5, 0.1, 1.0),)
    chosen = replace(seen, budget=ChosenBudget(2, {"spin": levels}, levels, 1.0, 0.0))
    assert "Budget(M=6, R=10)" in first(chosen).python


def test_corrections_of_nothing_are_not_blamed() -> None:
    assert "corrections" not in kinds(replace(BAD, correction_noise=0.9))
    assert "corrections" not in kinds(replace(BAD, correction_noise=0.9, loops=(LOOP,), in_loops="prior"))


def test_the_prior_in_loops() -> None:
    seen = replace(GOOD, proposer="network", ess=20.0, ess_prior_in_loops=300.0)
    assert kinds(seen)[0] == "prior in loops"
    assert "about 300 instead of 20.0" in first(seen).reason
    assert 'network=network, in_loops="prior")' in first(seen).python and first(seen).command_line == "--in-loops prior"
    assert "prior in loops" not in kinds(replace(seen, ess_prior_in_loops=30.0))
    assert "prior in loops" not in kinds(replace(seen, ess=2.0)), "two weights predict nothing"


def test_noise_that_no_proposal_removes() -> None:
    seen = replace(BAD, ess=30.0, proposer="network", noise=Noise(4.0, 0.8))
    assert kinds(seen) == ["nuisance"], "neither refinement nor MCMC helps"
    assert "standard deviation of 2" in first(seen).reason and "ars_draw" in first(seen).reason
    assert "1.8% of the traces" in first(seen).reason
    for noise in (Noise(), Noise(0.4, 0.9), Noise(4.0, 0.1)):
        assert "nuisance" not in kinds(replace(seen, noise=noise))
    assert "nuisance" not in kinds(replace(seen, ess=1.0, noise=Noise(1.5, 0.8))), "noise explains little of this loss"


def test_a_defensive_share_that_is_too_large_for_long_traces() -> None:
    seen = replace(BAD, ess=30.0, proposer="network", defensive=0.01, proposed_draws=120.0)
    assert kinds(seen)[:2] == ["defensive", "refine"]
    assert "about 120 draws" in first(seen).reason and "30% of the traces" in first(seen).reason
    assert "NetworkConfig(defensive=0.0008)" in first(seen).python
    assert "defensive" not in kinds(replace(seen, proposed_draws=20.0))
    assert "defensive" not in kinds(replace(seen, proposer="hand", defensive=0.0))


def test_a_proposal_that_does_worse_than_the_prior() -> None:
    seen = replace(BAD, ess=9.0, ess_without={"x": 700.0, "u": 10.0}, ess_prior=650.0)
    assert kinds(seen)[0] == "proposals" and '"x"' in first(seen).reason and "about 700 " in first(seen).reason
    network = replace(seen, proposer="network", ess_without={})
    assert "the prior does better than the network" in first(network).reason
    assert first(network).python == "simulator.posterior(observe, traces=10_000)"
    assert "proposals" not in kinds(replace(seen, ess_without={"x": 12.0}, ess_prior=12.0))


def test_latents_that_a_network_does_not_know() -> None:
    seen = replace(BAD, proposer="network", left_to_prior=("u", "v", "w", "z"))
    assert kinds(seen)[:2] == ["unknown latents", "refine"]
    assert '"u", "v", "w" and 1 more' in first(seen).reason


def test_failures_and_impossible_data() -> None:
    assert kinds(replace(BAD, failed_share=0.3))[0] == "failures"
    nothing = replace(BAD, ess=0.0, pareto_k=ParetoK(math.nan, reason="every weight is 0"), impossible=("y",))
    assert kinds(nothing) == ["data"] and '"y" is 0 in every trace' in first(nothing).reason


def test_traces_with_likelihood_0_are_counted() -> None:
    """As of a detector that sees one trace in ten."""
    n = 400
    traces = [Trace(i, 0.0 if i % 10 == 0 else -math.inf, samples=[Sample(0, i / n)]) for i in range(n)]
    traces[3].failure = 1
    post = run_of(traces, [latent(0, "x")], proposed=False)
    seen = seen_of(post)
    assert seen.excluded_share == pytest.approx(359 / 400) and seen.failed_share == pytest.approx(1 / 400)
    assert seen.zero_share == pytest.approx(0.9)
    assert "40.0 of 400 traces are effective (90% have likelihood 0)" in post.advice()[0].reason


def test_data_that_are_unlike_the_draws() -> None:
    rng = np.random.default_rng(1)
    draws = {"y": rng.normal(size=1000)}
    alarm, calm = check_data({"y": np.array(9.0)}, draws), check_data({"y": np.array(0.3)}, draws)
    assert kinds(replace(BAD, proposer="network"), alarm) == ["data", "refine", "mcmc"]
    assert kinds(replace(BAD, proposer="network"), calm) == ["refine", "mcmc"]
    assert "y = 9" in advise(BAD, alarm)[0].reason and "network" not in advise(BAD, alarm)[0].reason
    assert "The network has hardly seen such data" in advise(replace(BAD, proposer="network"), alarm)[0].reason
    assert advise(BAD, alarm)[0].python == 'simulator.prior(1_000).observations["y"]'
    assert kinds(GOOD, alarm) == ["data"] and kinds(GOOD, calm) == []


def test_nothing_finished_nothing_to_say() -> None:
    assert advise(Seen(0, 0.0, ParetoK(math.nan))) == ()


# ---- words ------------------------------------------------------------------------------------------------------


def test_lines_name_the_calls_of_the_interface() -> None:
    steps = advise(replace(BAD, proposer="network"))
    python, shell = advice_lines(steps, "python"), advice_lines(steps, "command line")
    assert python[0].startswith("next: 1. ") and python[-1].strip().startswith("docs/when-k-is-too-large.md")
    assert any("refine=True" in line for line in python) and not any("--refine" in line for line in python)
    assert any(line.strip() == "ars infer ... --refine" for line in shell)
    assert any(line.strip() == "ars mcmc ... --steps 2000" for line in shell)
    only_python = Advice("defensive", "Why.", "f()", "")
    assert call_of(only_python, "command line") == "in Python: f()", "a step that the command line cannot take"
    assert max(map(len, [*python, *shell])) <= 100
    assert sum(line.lstrip(" next:")[:2] in ("1.", "2.", "3.", "4.") for line in python) == 3, "at most three steps"
    alone = advice_lines(steps[:1], "python")
    assert not alone[0].startswith("next: 1.")
    assert advice_lines((), "python") == []
    assert call_of(Advice("x", "", "f()", "ars train"), "command line") == "ars train"


# ---- what a run shows ---------------------------------------------------------------------------------------------


def run_of(traces: list[Trace], sites: list[Any], **run: Any) -> Posterior:
    return Posterior(pack(traces), sites, run=RUN._replace(**run), stats={}, observed={})


def log_normal(x: np.ndarray, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    return -0.5 * np.square((x - mean) / std) - math.log(std) - 0.5 * math.log(2 * math.pi)


def two_latents(n: int, std: float, **run: Any) -> Posterior:
    """Priors N(0, 1); y = u + N(0, 1) is 0.5. x has the proposal N(0, std), u its posterior."""
    rng = np.random.default_rng(2)
    x, u = std * rng.normal(size=n), 0.25 + math.sqrt(0.5) * rng.normal(size=n)
    likelihood = log_normal(0.5 - u)
    traces = [
        Trace(
            i,
            float(likelihood[i]),
            samples=[
                Sample(0, float(x[i]), log_p=float(log_normal(x[i])), log_q=float(log_normal(x[i], 0.0, std))),
                Sample(1, float(u[i]), log_p=float(log_normal(u[i])), log_q=float(log_normal(u[i], 0.25, 0.5**0.5))),
            ],
        )
        for i in range(n)
    ]
    return run_of(traces, [latent(0, "x"), latent(1, "u")], **run)


def test_a_healthy_run_gets_no_advice() -> None:
    post = two_latents(2000, 1.1)
    assert post.ess() > 1500 and post.advice() == ()
    assert "next:" not in post.summary() and "next:" not in post.summary("command line")


def test_the_latent_that_is_to_blame_is_named() -> None:
    """A proposal for x that is too narrow. Leaving x to the prior gives equal weights, which the weights predict."""
    post = two_latents(2000, 0.35)
    seen = seen_of(post)
    assert seen.proposer == "hand" and seen.proposed_draws == 2.0 and seen.left_to_prior == ()
    assert seen.spread["x"] > 0.95 and abs(seen.spread["u"]) < 0.05
    assert sum(seen.spread.values()) == pytest.approx(1.0)
    assert seen.ess_without["x"] > 4 * seen.ess_without["u"]
    steps = post.advice()
    assert any('"x"' in step.reason for step in steps) and not any('"u"' in step.reason for step in steps)
    assert "next: " in post.summary() and "adapt=True" in post.summary() and "--adapt" in post.summary("command line")


def test_who_proposed() -> None:
    assert seen_of(two_latents(300, 0.2, proposals=NETWORK, defensive=0.02)).defensive == 0.02
    assert seen_of(two_latents(300, 0.2, proposals=NETWORK)).proposer == "network"
    assert seen_of(two_latents(300, 0.2, proposals="")).proposer == "hand"
    assert seen_of(two_latents(300, 0.2, proposed=False)).proposer == "prior"


def test_a_latent_without_a_proposal() -> None:
    n = 400
    x = np.random.default_rng(3).normal(size=n)
    traces = [
        Trace(i, float(-50 * x[i] ** 2), samples=[Sample(0, float(x[i])), Sample(1, 0.0, log_p=0.1 * (i % 2))])
        for i in range(n)
    ]
    seen = seen_of(run_of(traces, [latent(0, "x"), latent(1, "u")]))
    assert seen.left_to_prior == ("x",) and seen.proposed_draws == 1.0


def looped(p: float, q: float, n: int, budget: Budget, better: float = 1.0) -> Posterior:
    """Flat uncorrected weights, a loop with these acceptances; log p/q inside it varies by ``better``."""
    rng = np.random.default_rng(5)
    traces = []
    for i in range(n):
        spread = float(better * rng.normal())
        entry = Loop(
            0,
            tries=int(rng.geometric(q)),
            runs_p=budget.M,
            tries_p=int(rng.geometric(p, budget.M).sum()),
            tries_q=budget.N or 0,
            accepted_q=int(rng.binomial(budget.N or 0, q)),
        )
        traces.append(Trace(i, 0.0, samples=[Sample(1, spread, loop=0, log_p=spread)], loops=[entry]))
    return run_of(traces, [loop_site(0, "spin"), latent(1, "spin/z")], budget=budget_to_json(budget))


def test_noise_of_corrections_is_recognised() -> None:
    post = looped(0.5, 0.01, 2000, Budget(M=1, N=1), better=0.0)
    seen = seen_of(post)
    assert seen.correction_noise > 0.8 and seen.loops[0].address == "spin" and seen.loops[0].q_accept < 0.02
    assert seen.uncorrected_ess == pytest.approx(2000)
    assert post.advice()[0].kind == "corrections"
    assert "Budget(M=2, R=4)" in post.summary() and "--budget M=2,R=4" in post.summary("command line")


def test_the_prior_in_loops_is_predicted() -> None:
    """Ratios inside the loop vary for nothing: with the prior there, all weights would be equal."""
    post = looped(0.5, 0.5, 700, Budget(M=50, N=50), better=2.0)
    seen = seen_of(post)
    assert 5 < seen.ess < 0.1 * len(post) and seen.ess_prior_in_loops > 5 * seen.ess
    assert "prior in loops" in [step.kind for step in post.advice()]


def noisy(n: int, noise: float, latents: int = 1) -> Posterior:
    """Proposals that fit; the likelihood has lognormal noise that no latent explains."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(n, latents))
    likelihood = np.sin(x[:, 0]) * 0.3 + noise * rng.normal(size=n)
    traces = [
        Trace(i, float(likelihood[i]), samples=[Sample(j, float(x[i, j])) for j in range(latents)]) for i in range(n)
    ]
    return run_of(traces, [latent(j, f"x{j}") for j in range(latents)], proposed=False)


def test_draws_that_are_not_recorded_are_recognised() -> None:
    post = noisy(3000, 2.5)
    seen = seen_of(post)
    assert seen.noise.variance == pytest.approx(2.5**2, rel=0.25) and seen.noise.share > 0.8
    assert [step.kind for step in post.advice()] in (["nuisance"], ["nuisance", "traces"]), "proposals are not to blame"
    assert "ars_draw" in post.summary()
    assert math.isnan(seen_of(noisy(3000, 2.5, latents=9)).noise.variance), "too many latents to tell"


@pytest.mark.parametrize("width", [0.3, 0.03, 0.003])
def test_a_narrow_likelihood_is_not_taken_for_noise(width: float) -> None:
    """y = a curved function of two latents, observed precisely: the prior rarely hits, and latents explain it all."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 2))
    likelihood = -0.5 * np.square((np.sin(2 * x[:, 0]) + 0.5 * np.square(x).sum(axis=1) - 1.0) / width)
    traces = [
        Trace(i, float(likelihood[i]), samples=[Sample(0, float(x[i, 0])), Sample(1, float(x[i, 1]))])
        for i in range(2000)
    ]
    post = run_of(traces, [latent(0, "a"), latent(1, "b")], proposed=False)
    assert "nuisance" not in [step.kind for step in post.advice()]


@pytest.mark.parametrize("latents", [1, 2, 3, 5])
def test_noise_is_told_from_smooth_functions(latents: int) -> None:
    rng = np.random.default_rng(latents)
    x = rng.normal(size=(1000, latents))
    functions: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda x: -0.5 * np.square((np.sin(2 * x[:, 0]) + 0.3 * np.square(x).sum(axis=1) - 1.0) / 0.1),
        lambda x: 3.0 * np.cos(3.0 * x).sum(axis=1),
    ]
    for function in functions:
        y = function(x)
        assert noise_variance(x, y).share < 0.35
        assert noise_variance(x, y + 2.0 * y.std() * rng.normal(size=1000)).share > 0.6
    assert noise_variance(x[:, :0], x[:, 0]).share == 1.0
    assert math.isnan(noise_variance(x[:50], x[:50, 0]).share)


def test_impossible_data_are_named() -> None:
    traces = [Trace(i, -math.inf, observes=[(0, [])]) for i in range(30)]
    columns = pack(traces)
    columns.observes["log_p"] = -math.inf
    post = Posterior(columns, [observation(0, "y")], run=RUN, stats={}, observed={"y": np.array(3.0)})
    assert [step.kind for step in post.advice()] == ["data"] and '"y"' in post.advice()[0].reason


def test_a_run_without_weights_or_traces_has_no_advice() -> None:
    unestimated = run_of(
        [Trace(0, 0.0, samples=[Sample(1, 0.0, loop=0)], loops=[Loop(0)])], [loop_site(0, "l"), latent(1, "l/z")]
    )
    assert unestimated.advice() == () and "next:" not in unestimated.summary()
    assert run_of([], []).advice() == ()


# ---- functions of weights -------------------------------------------------------------------------------------------


def test_predictions_are_those_of_another_run() -> None:
    """Target N(0, 1), proposals N(0, 1.5) here and N(0.5, 1.2) there: weights of the first predict the second."""
    rng = np.random.default_rng(8)
    x, z = 1.5 * rng.normal(size=40_000), 0.5 + 1.2 * rng.normal(size=40_000)
    here = log_normal(x) - log_normal(x, 0.0, 1.5)
    expected = predicted_ess(here, log_normal(x) - log_normal(x, 0.5, 1.2))
    assert expected == pytest.approx(ess(log_normal(z) - log_normal(z, 0.5, 1.2)), rel=0.03)
    assert predicted_ess(here, here) == pytest.approx(ess(here))
    assert predicted_ess(np.full(3, -np.inf), np.zeros(3)) == 0.0
    assert predicted_ess(np.array([0.0, -np.inf]), np.array([0.0, np.nan])) == 1.0


def test_tempering_reaches_what_was_asked_for() -> None:
    weights = 5.0 * np.random.default_rng(9).normal(size=1000)
    weights[:300] = -np.inf
    shares = tempered(weights, 350.0)
    assert shares.sum() == pytest.approx(1.0) and 1.0 / np.square(shares).sum() == pytest.approx(350.0, rel=0.01)
    assert (shares[:300] == 0.0).all()
    np.testing.assert_allclose(tempered(np.zeros(10), 5.0), 0.1)


def test_terms_that_cancel_have_no_share() -> None:
    a, b = np.random.default_rng(10).normal(size=(2, 5000))
    shares = spread_shares({"a": a, "minus a": -a, "b": b}, np.full(5000, 1.0))
    assert shares["b"] == pytest.approx(1.0, abs=0.05) and abs(shares["a"] + shares["minus a"]) < 1e-12
    assert spread_shares({"a": np.zeros(5)}, np.ones(5)) == {}
    assert pareto_k(np.zeros(30)).reliable

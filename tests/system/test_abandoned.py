"""Loops that give up (ars_loop_abandon): the evidence against exact answers, and that of weights which ignore it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from test_reject import assert_same_traces
from tests.exact import Floats, normal_cdf, normal_pdf, panels

import ars
from ars._native import LoopMethod
from ars.errors import TraceFailure, WeightError
from ars.weights import log_weight_ars

HERE = Path(__file__).resolve().parent / "handles"
Y, NOISE, EDGE = 1.2, 0.5, 0.5
X, DX = panels((-8, -4, -2, 0, 2, 4, 8))
PRIOR = DX * normal_pdf(X, 0, 1)
BUDGETS = {
    "paper": ars.Budget(M=2, N=4),
    "reuse": ars.Budget(M=1, N=3, reuse=True),
    "R=0": ars.Budget(M=2, R=0),
    "R=1": ars.Budget(M=1, R=1),
    "R=3": ars.Budget(M=2, R=3),
    "one phase": ars.Budget.auto(phases=1),
    "two phases": ars.Budget.auto(phases=2),
}


class Normal(NamedTuple):
    """The distribution of a try, by x: the prior, or what proposes instead."""

    slope: float
    shift: float
    std: float

    def mean(self, x: Any) -> Any:
        return self.slope * x + self.shift

    def below(self, z: float, x: Any) -> Any:
        return normal_cdf(z, self.mean(x), self.std)


P, Q = Normal(1.0, 0.0, 1.0), Normal(0.7, -0.7, 1.2)
PROPOSALS = {name: lambda t, name=name: ars.Normal(0.7 * t[name] - 0.7, 1.2) for name in ("x", "beam")}


def likelihood_within(x: Floats, low: float, high: float) -> Floats:
    """The integral of the prior of z times the likelihood of Y."""
    z, dz = panels(np.linspace(low, high, 9).tolist())
    return np.asarray((normal_pdf(z, x[:, None], 1) * normal_pdf(Y, z, NOISE) * dz).sum(axis=1))


def other() -> float:
    """The likelihood if a draw from Exponential(2) takes the place of z."""
    z, dz = panels((0, 1, 2, 4, 20))
    return float((2 * np.exp(-2 * z) * normal_pdf(Y, z, NOISE) * dz).sum())


def tries(retried: Floats, cap: int) -> Floats:
    """The expected number of tries, each of which is followed by another with this probability."""
    return sum((retried**i for i in range(cap)), np.zeros_like(retried))


class Truth(NamedTuple):
    """What the traces of a capped loop contribute to the evidence: those that accept, and those that give up."""

    accepted: float
    given_up: float
    accepted_as_if_never_given_up: float  # by weights that take the loop for one without a cap
    given_up_without_draws: float  # by weights without p/q of the draws of loops that were given up

    @property
    def evidence(self) -> float:
        return self.accepted + self.given_up


def truth(cap: int, floor: float = -math.inf) -> Truth:
    ends = {}
    for name, d in (("p", P), ("q", Q)):
        made = tries(d.below(EDGE, X) - d.below(floor, X), cap)
        ends[name] = (made, (1 - d.below(EDGE, X)) * made)  # expected tries, probability of acceptance
    hit = PRIOR * likelihood_within(X, EDGE, 12) * ends["p"][0]
    lost_p, lost_q = (PRIOR * (1 - ends[name][1]) * other() for name in "pq")
    return Truth(*(float(part.sum()) for part in (hit, lost_p, hit * ends["q"][1], lost_q)))


def as_if_never_given_up(post: ars.Posterior) -> Floats:
    """The weights of a library that does not know that loops can end without acceptance."""
    columns = post.columns._replace(loops=post.columns.loops.copy())
    columns.loops["abandoned_q"] = columns.loops["abandoned_tries"] = 0
    return log_weight_ars(columns, post.sites, budget=post.budget)


def distance(log_weights: Floats, evidence: float, some: Any = True) -> float:
    """How many standard errors the mean weight is off; of some traces, if the others count 0."""
    w = np.exp(log_weights) * some
    return float((w.mean() - evidence) / (w.std() / math.sqrt(len(w))))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("capped"))
    return builder.program([HERE / "capped.c"], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    def make(model: str, cap: int, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(program), model, str(cap)], **options))

    return make


# ---- the evidence ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUDGETS)
def test_the_evidence_for_every_budget(simulator: Callable[..., ars.Simulator], name: str) -> None:
    """The acceptance depends on the beam. The wrong weights are far off, so the test would see them."""
    known = truth(4)
    post = simulator("capped", 4).posterior(
        {"y": Y}, 3_000, proposals={"z": PROPOSALS["beam"]}, budget=BUDGETS[name], seed=23
    )
    loops, weights, hit = post.columns.loops, post.log_weights("ars"), post["hit"] == 1
    assert (loops["abandoned"] == ~hit).all() and 0.4 < hit.mean() < 0.6
    for found in (weights, post.log_weights("ic")):
        assert abs(distance(found, known.evidence)) < 3.5
        assert abs(distance(found, known.accepted, hit)) < 3.5
        assert abs(distance(found, known.given_up, ~hit)) < 3.5
    assert abs(distance(post.log_weights("biased"), known.accepted, hit)) > 5
    # mutants: the same weights without one of the two parts
    without_draws = weights - np.where(hit, 0.0, loops["log_ratio_rejected"])
    assert distance(without_draws, known.given_up, ~hit) > 5
    assert abs(distance(without_draws, known.given_up_without_draws, ~hit)) < 3.5
    wrong = as_if_never_given_up(post)
    if name == "R=0":  # whether the first try was accepted needs no correction
        np.testing.assert_array_equal(wrong, weights)
    else:
        assert distance(wrong, known.accepted, hit) < -5
    if name == "paper":
        assert abs(distance(wrong, known.accepted_as_if_never_given_up, hit)) < 3.5


@pytest.mark.parametrize("name", ["reuse", "R=1", "R=3"])
def test_a_try_may_decide_that_it_was_the_last(start: Callable[..., ars.Simulator], name: str) -> None:
    """Abandoned runs have different numbers of tries then."""
    known = truth(6, floor=-1.0)
    with start("floor", 6) as sim:
        post = sim.posterior({"y": Y}, 3_000, proposals={"z": PROPOSALS["x"]}, budget=BUDGETS[name], seed=3)
    given_up = post.columns.loops["abandoned"] == 1
    assert len(np.unique(post.columns.loops["tries"][given_up])) == 6
    assert abs(distance(post.log_weights("ars"), known.accepted, ~given_up)) < 3.5
    assert abs(distance(post.log_weights("ars"), known.given_up, given_up)) < 3.5
    assert distance(as_if_never_given_up(post), known.accepted, ~given_up) < -5


def test_the_last_try_may_be_used_after_all(start: Callable[..., ars.Simulator]) -> None:
    """All draws of an abandoned loop are in the weight, so whatever the program keeps of them is right."""
    retried = P.below(EDGE, X)
    hit = likelihood_within(X, EDGE, 12) * tries(retried, 3)
    last = likelihood_within(X, -12, EDGE) * retried**2
    with start("last", 3) as sim:
        post = sim.posterior({"y": Y}, 2_000, proposals={"z": PROPOSALS["x"]}, budget=BUDGETS["paper"], seed=4)
    assert abs(distance(post.log_weights("ars"), float((PRIOR * (hit + last)).sum()))) < 3.5


def test_a_capped_loop_within_one_without_a_cap(start: Callable[..., ars.Simulator]) -> None:
    shift, d_shift = panels((-10, -5, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 5, 10))
    z, dz = panels((0, 0.25, 0.5, 1, 2, 4, 12))
    cap, retried = 2, P.below(EDGE, shift)
    density = (z > EDGE) * normal_pdf(z, shift[:, None], 1) * tries(retried, cap)[:, None]
    density = density + (retried**cap)[:, None] * 2 * np.exp(-2 * z)
    density = density * (shift[:, None] + z > 0) * dz
    kernel = normal_pdf(shift, X[:, None], 1) * d_shift
    accepted = kernel @ density.sum(axis=1)
    found = kernel @ (density * normal_pdf(Y, z, NOISE)).sum(axis=1)
    evidence = float((PRIOR * found / accepted).sum())
    proposals = {"shift": lambda t: ars.Normal(0.8 * t["x"] + 0.2, 1.1), "z": ars.Normal(0.2, 1.4)}
    with start("within_marks", cap) as sim:
        post = sim.posterior({"y": Y}, 2_000, proposals=proposals, budget=ars.Budget(M=2, N=5), seed=5)
    inner = post.columns.loops[post.columns.loops["parent"] >= 0]
    assert inner["abandoned"].any() and not inner["abandoned"].all()
    assert abs(distance(post.log_weights("ars"), evidence)) < 3.5
    assert abs(distance(post.log_weights("biased"), evidence)) > 5


def test_a_loop_without_a_cap_within_a_capped_one(start: Callable[..., ars.Simulator]) -> None:
    cap, inside = 3, 1 - P.below(-1.0, X)
    accepted = (1 - P.below(EDGE, X)) / inside
    hit = likelihood_within(X, EDGE, 12) / inside * tries(1 - accepted, cap)
    evidence = float((PRIOR * (hit + (1 - accepted) ** cap * other())).sum())
    with start("around_marks", cap) as sim:
        post = sim.posterior(
            {"y": Y},
            2_000,
            proposals={"z": lambda t: ars.Normal(0.7 * t["x"] + 0.1, 1.1)},
            budget=ars.Budget(M=2, N=5),
            seed=5,
        )
    assert (post.columns.loops["abandoned"] == 1).any()
    assert abs(distance(post.log_weights("ars"), evidence)) < 3.5
    assert abs(distance(post.log_weights("biased"), evidence)) > 3.5


# ---- how it is computed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "R=1", "R=0"])
def test_forked_rewound_and_checked_by_any_number_of_workers(
    simulator: Callable[..., ars.Simulator], name: str
) -> None:
    def run(workers: int, how: str) -> ars.Posterior:
        sim = simulator("capped", 3, workers=workers, continuations=how)
        return sim.posterior({"y": Y}, 150, proposals={"z": PROPOSALS["beam"]}, budget=BUDGETS[name], seed=8)

    forked = run(1, "fork")
    assert_same_traces(run(8, "auto"), forked)
    checked = run(3, "check")
    assert_same_traces(checked, forked)
    given_up = checked.columns.loops["abandoned"] == 1
    assert (checked.columns.loops["method"][~given_up] == LoopMethod.CHECKED).all()
    assert (forked.columns.loops["runs_p"] > 0).tolist() == (~given_up).tolist()
    if name != "R=0":
        assert (forked.columns.loops["abandoned_q"] > 0).any() and (forked.columns.loops["abandoned_p"] > 0).any()


def test_a_state_in_which_no_try_is_accepted(start: Callable[..., ars.Simulator], mode: str) -> None:
    """Nothing is estimated there: runs until one is accepted would never end."""
    retried = np.where(X < 0, 1.0, P.below(EDGE, X))
    hit = np.where(X < 0, 0.0, likelihood_within(X, EDGE, 12)) * tries(retried, 4)
    evidence = float((PRIOR * (hit + retried**4 * normal_pdf(Y, 0, NOISE))).sum())
    proposals = {"z": lambda t: ars.Normal(np.where(t["x"] < 0, -1000.0, 0.8 * t["x"] + 0.3), 1.2)}
    with start("impossible", 4, continuations=mode) as sim:
        post = sim.posterior({"y": Y}, 1_500, proposals=proposals, budget=ars.Budget(M=1, R=2), seed=6)
    assert (post["accepted"][post["x"] < 0] == 0).all() and (post["accepted"] == 1).any()
    assert abs(distance(post.log_weights("ars"), evidence)) < 3.5


def test_nothing_to_correct_where_the_prior_proposes(simulator: Callable[..., ars.Simulator]) -> None:
    known = truth(4).evidence
    sim = simulator("capped", 4)
    proposals = {"z": PROPOSALS["beam"], "beam": ars.Normal(0.2, 1.1)}
    post = sim.posterior({"y": Y}, 2_000, proposals=proposals, in_loops="prior", seed=9)
    assert (post.columns.loops["abandoned"] == 1).any()
    assert not post.columns.loops["log_ratio_rejected"].any()
    assert abs(distance(post.log_weights("prior"), known)) < 3.5
    plain = sim.posterior({"y": Y}, 6_000, seed=9)
    assert abs(distance(plain.log_weights("ars"), known)) < 3.5
    loop = plain.loops["scatter"]
    assert loop.abandoned == plain.columns.loops["abandoned"].sum() > 0
    assert loop.p_accept == loop.q_accept == pytest.approx(plain["hit"].sum() / plain.columns.loops["tries"].sum())


def test_rejected_tries_of_an_abandoned_loop_are_recorded(simulator: Callable[..., ars.Simulator]) -> None:
    columns, _ = simulator("capped", 3, workers=2)._prior_chunk(2, 0, 200, max_rejected=5)
    loops, tried = columns.loops, columns.tries
    assert (loops["abandoned"] == 1).any()
    rejected = loops["tries"] - 1 + loops["abandoned"]
    per_trace = np.repeat(np.arange(len(loops)), rejected.astype(int))  # one loop per trace, all tries kept
    assert len(tried) == rejected.sum()
    assert (tried["rejected"] == rejected[per_trace]).all()


def test_collapsed_weights_say_that_they_do_not_apply(simulator: Callable[..., ars.Simulator]) -> None:
    post = simulator("capped", 2, workers=2).posterior({"y": Y}, 100, proposals={"z": PROPOSALS["beam"]}, seed=1)
    with pytest.raises(WeightError, match="can be given up"):
        post.log_weights("collapsed", pA={"scatter": 0.5}, qA={"scatter": 0.5})


# ---- mistakes ------------------------------------------------------------------------------------------------------

UNANNOUNCED = """
#include <ars.h>
static void model(void *user) {
    void (*hidden)(ars_loop *) = ars_loop_abandon;
    (void)user;
    ars_loop loop = ARS_LOOP("loop");
    ars_loop_try(&loop);
    ars_sample("x", ars_normal(0, 1));
    hidden(&loop);
    ars_observe("y", ars_normal(0, 1));
}
int main(int argc, char **argv) { return ars_main(argc, argv, model, 0); }
"""


@pytest.mark.compiler
def test_a_call_that_libars_cannot_know_of_is_refused(
    tmp_path: Path, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    source = tmp_path / "hidden.c"
    source.write_text(UNANNOUNCED)
    made = Builder(tmp_path).program([source], Variant(COMPILERS[0], ("-O2",)))
    with started(ars.Simulator([str(made)], workers=1)) as sim, pytest.raises(TraceFailure, match="not announced"):
        sim.posterior({"y": 0.0}, 3, seed=1)


CLASS = """
#include <ars.hpp>
int main(int argc, char **argv) {
    return ars::main(argc, argv, [] {
        ars::loop loop(std::string("scat") + "ter");
        const double beam = ars::sample("beam", ars::normal(0, 1));
        double z = 0;
        bool hit = false;
        for (int i = 0; i < 4 && !hit; i++) {
            loop.attempt();
            z = ars::sample("z", ars::normal(beam, 1));
            hit = z > 0.5;
        }
        if (hit)
            loop.accept();
        else
            loop.abandon();
        if (!hit) z = ars::sample("other", ars::exponential(2));
        ars::observe("y", ars::normal(z, 0.5));
        ars::result("beam_final", beam);
        ars::result("hit", hit);
    });
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_class_of_ars_hpp_gives_the_same_bits(
    compiler: str,
    tmp_path: Path,
    simulator: Callable[..., ars.Simulator],
    started: Callable[[ars.Simulator], ars.Simulator],
) -> None:
    source = tmp_path / "handle.cpp"
    source.write_text(CLASS)
    made = Builder(tmp_path).program([source], Variant(compiler, ("-O2", "-Wpedantic")))
    runs = [
        sim.posterior({"y": Y}, 200, proposals={"z": PROPOSALS["beam"]}, budget=BUDGETS["R=1"], seed=3)
        for sim in (started(ars.Simulator([str(made)], workers=2)), simulator("capped", workers=2))
    ]
    assert_same_traces(*runs)

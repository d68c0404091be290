"""Simulators whose loops give up: Markov chains refuse them; refined networks and advice do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from test_abandoned import PROPOSALS, Y, distance, truth

import ars
from ars._native import LoopMethod
from ars.cli import main
from ars.results.seen import seen_of

# ---- Markov chains -------------------------------------------------------------------------------------------------

REFUSED = r'the loop "scatter" gave up .*Use weighted traces instead'


@pytest.mark.parametrize("proposals", [None, {"z": PROPOSALS["beam"]}], ids=["prior", "proposals"])
def test_chains_refuse_loops_that_give_up(simulator: Callable[..., ars.Simulator], proposals: Any) -> None:
    sim = simulator("capped", 3, workers=2)
    with pytest.raises(ars.ChainError, match=REFUSED) as caught:
        sim.mcmc({"y": Y}, 5, proposals=proposals, seed=1)
    assert caught.value.partial is None
    assert len(sim.posterior({"y": Y}, 10, seed=1)) == 10  # it can go on


def test_the_command_line_says_it_too(csim: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcmc", csim("capped"), "3", "--observe", f"y={Y}", "--steps", "5", "--seed", "1", "--quiet"]) != 0
    assert 'the loop "scatter" gave up' in capsys.readouterr().err


CAPPED = """
#include <ars.h>
#include <stdlib.h>
static int cap;
static void model(void *user) {
    (void)user;
    double x = ars_sample("x", ars_normal(0, 0.1)), z = 0;
    ars_loop loop = ARS_LOOP("rare");
    bool accepted = false;
    for (int i = 0; i < cap && !accepted; i++) {
        ars_loop_try(&loop);
        z = ars_sample("z", ars_normal(x, 1));
        accepted = z > 0;
    }
    if (accepted)
        ars_loop_accept(&loop);
    else
        ars_loop_abandon(&loop);
    ars_observe("y", ars_normal(z, 0.5));
}
int main(int argc, char **argv) {
    cap = atoi(argv[1]);
    return ars_main(argc, argv, model, 0);
}
"""


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("rare")
    source = folder / "rare.c"
    source.write_text(CAPPED)
    return str(Builder(folder).program([source], Variant(COMPILERS[0], ("-O2",))))


@pytest.mark.compiler
def test_a_cap_that_is_never_met_does_no_harm(rare: str, started: Callable[[ars.Simulator], ars.Simulator]) -> None:
    """Values are given to a loop that can give up. Where it is rewound, the main run is rehearsed with them."""
    found = {}
    for how in ("fork", "auto"):
        sim = started(ars.Simulator([rare, "100000"], workers=2, continuations=how))
        found[how] = sim.mcmc({"y": 1.0}, 6, 4, seed=3, warmup=2, thin=4, M=2)
    np.testing.assert_array_equal(found["auto"]["x"], found["fork"]["x"])
    np.testing.assert_array_equal(found["auto"]["z"], found["fork"]["z"])
    assert len(np.unique(found["auto"]["z"])) > 4
    assert (found["auto"].columns.loops["method"] == LoopMethod.REWIND).all()


@pytest.mark.compiler
def test_a_cap_that_is_met_later_stops_the_chains(rare: str, started: Callable[[ars.Simulator], ars.Simulator]) -> None:
    """No draw that they begin with gives up, but a move does. The draws up to then are those of another posterior."""
    sim = started(ars.Simulator([rare, "10"], workers=2))
    with pytest.raises(ars.ChainError, match='the loop "rare" gave up') as caught:
        sim.mcmc({"y": 1.0}, 100, 4, seed=3, warmup=5, thin=4, M=2)
    assert caught.value.partial is None


# ---- importance sampling -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_torch_thread")
def test_a_refined_network_has_the_right_evidence(simulator: Callable[..., ars.Simulator]) -> None:
    pytest.importorskip("torch")
    known, sim = truth(4), simulator("capped", 4, workers=2)
    tiny = ars.NetworkConfig(
        lstm_dim=8,
        observe_dim=4,
        observe_hidden=8,
        site_dim=4,
        value_dim=4,
        category_dim=4,
        head_hidden=8,
        components=2,
    )
    quick = ars.RefineConfig(
        traces=300, rounds=2, most=1, steps=20, batch_size=64, effective=100, lr=5e-3, enough=1.0, M=4, seed=5
    )
    network = sim.train(600, network=tiny, batch_size=100, lr=5e-3, seed=3, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.RefinementWarning)  # so short a refinement need not help
        refined = network.refine(sim, {"y": Y}, config=quick, threads=1)
        post = sim.posterior({"y": Y}, 2_000, network=refined, seed=2, budget=ars.Budget(M=4, R=1))
    weights, given_up = post.log_weights("ars"), post["hit"] == 0
    assert post.columns.loops["log_ratio_rejected"][given_up].any()
    assert abs(distance(weights, known.evidence)) < 3.5
    assert abs(distance(weights, known.given_up, given_up)) < 3.5
    assert abs(distance(weights, known.accepted, ~given_up)) < 3.5


def test_advice_names_no_chains_and_predicts_the_prior_in_loops(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("capped", 4, workers=2)
    proposals = {"z": PROPOSALS["beam"]}
    few = sim.posterior({"y": 8.0}, 300, proposals=proposals, seed=1)
    kinds = [step.kind for step in few.advice()]
    assert kinds[0] == "adapt" and "mcmc" not in kinds and "next:" in few.summary()
    post = sim.posterior({"y": Y}, 3_000, proposals=proposals, seed=1, budget=ars.Budget(M=4, R=4))
    prior = sim.posterior({"y": Y}, 3_000, proposals=proposals, seed=2, in_loops="prior")
    assert seen_of(post).ess_prior_in_loops == pytest.approx(prior.ess(), rel=0.1)

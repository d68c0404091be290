"""csim/sir.c, the hard example. For a small population its evidence is exact: ARS finds it, the biased weights do not.
With all its latents it trains and infers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import exact

import ars
from ars_lab import sir

LIMIT = 3.5  # standard errors
CASES = (5, 6)
POPULATION = 40
IMPORTED, LOCAL = 0.6, 1.1  # the proposals' means over the prior's


@pytest.fixture(scope="module")
def truth() -> exact.Epidemic:
    return exact.sir(CASES, POPULATION, IMPORTED, LOCAL)


def proposals() -> dict[str, object]:
    def local(drawn: dict[str, float]) -> ars.Poisson:
        return ars.Poisson(LOCAL * drawn["imported"] * drawn["transmission"] / drawn["recovery"])

    return {"imported": ars.Poisson(5 * IMPORTED), "local": local}


def small(csim: Callable[[str], str], **options: object) -> ars.Posterior:
    with ars.Simulator([csim("sir"), str(len(CASES)), str(POPULATION)]) as sim:
        return sim.posterior({"cases": CASES}, 4000, seed=5, **options)  # type: ignore[arg-type]


def distance(post: ars.Posterior, method: str, truth: float) -> float:
    found = post.log_evidence(method)
    return abs(found.evidence - truth) / found.standard_error


def test_the_evidence_of_a_small_epidemic(csim: Callable[[str], str], truth: exact.Epidemic) -> None:
    post = small(csim, proposals=proposals(), budget=ars.Budget(M=2, N=10))
    assert distance(post, "ars", truth.evidence) < LIMIT
    assert distance(post, "biased", truth.biased) < LIMIT
    assert distance(post, "biased", truth.evidence) > LIMIT
    for name, mean in truth.posterior_mean.items():
        assert abs(post.mean(name) - mean) < 4 * post.mean_error(name), name
    (loop,) = post.loops.values()
    assert loop.q_accept < 0.7 < loop.p_accept
    inside = small(csim, proposals=proposals(), in_loops="prior")
    assert distance(inside, "prior", truth.evidence) < LIMIT


def test_the_quadrature_against_plain_draws() -> None:
    """The model once more, in numpy."""
    rng, n = np.random.default_rng(3), 400_000
    transmission, recovery = (middle * np.exp(0.3 * rng.normal(size=n)) for middle in (0.5, 0.2))
    reporting = rng.beta(5, 5, size=n)
    infected = np.zeros(n, np.int64)
    while (again := np.flatnonzero((infected < 10) | (infected > POPULATION))).size:
        imported = rng.poisson(5, size=again.size)
        infected[again] = imported + rng.poisson(imported * transmission[again] / recovery[again])
    susceptible, likelihood = POPULATION - infected, np.ones(n)
    for cases in CASES:
        infected -= rng.binomial(infected, -np.expm1(-recovery))
        infections = rng.binomial(susceptible, -np.expm1(-transmission * infected / POPULATION))
        susceptible, infected = susceptible - infections, infected + infections
        likelihood *= exact.stats.poisson.pmf(cases, reporting * infections + 0.5)
    truth = exact.sir(CASES, POPULATION)
    assert abs(likelihood.mean() - truth.evidence) < LIMIT * likelihood.std() / np.sqrt(n)
    assert truth.biased == pytest.approx(truth.evidence)
    results = {"reproduction": transmission / recovery, "attack_rate": 1 - susceptible / POPULATION}
    for name, values in results.items():
        off = likelihood * (values - truth.posterior_mean[name])
        assert abs(off.mean()) < LIMIT * off.std() / np.sqrt(n), name


def test_the_reference_observation_is_a_trace_of_the_prior(csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("sir")], workers=2) as sim:
        drawn = sim.prior(1, seed=sir.SEED, first_trace=sir.TRACE)
    assert drawn.observations["cases"].tolist() == [list(sir.CASES)] == [sir.observation()["cases"].tolist()]
    assert sum(drawn.columns.traces["n_samples"]) == 45


@pytest.mark.slow
def test_a_short_training_beats_the_prior(csim: Callable[[str], str]) -> None:
    """On the days of an outbreak; and what series are read for shows in the held-out loss."""
    pytest.importorskip("torch")
    sizes = ars.NetworkConfig(lstm_dim=24, head_hidden=32, observe_hidden=32, value_dim=16, components=4)
    losses = {}
    with ars.Simulator([csim("sir"), "8"]) as sim:
        for series in ("auto", "flat"):
            network = sim.train(
                6_000, batch_size=64, lr=5e-3, seed=1, network=sizes, architecture={"series": series}, threads=1
            )
            losses[series] = network.history.held_out[-1]
            if series == "auto":
                data = sim.prior(1, seed=1).observations["cases"][0]
                post = sim.posterior({"cases": data}, 600, network=network, seed=2, budget=ars.Budget(M=1, N=10))
                prior = sim.posterior({"cases": data}, 600, seed=2)
    assert losses["auto"] < losses["flat"] - 0.1
    assert post.ess() > 2 * prior.ess()


def test_the_ablation_runs_and_compares(csim: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from ars_lab import ablation

    folder = str(Path(csim("sequence")).parent)
    assert ablation.main(["sequence", "--quick", "--only", "base,flat", "--simulators", folder]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(("| base", "| flat"))]
    assert [row[0] for row in rows] == ["| base", "| flat"] * 2  # as they come, and the table
    assert rows[0][3] == "+0.000" and float(rows[1][2]) - float(rows[0][2]) == pytest.approx(
        float(rows[1][3]), abs=2e-3
    )
    with pytest.raises(ValueError, match=r"there is no variant flta; there are .*components 20"):
        list(ablation.run(ablation.SUBJECTS["sir"], traces=1, data=1, draws=1, only=["flta"], simulators=folder))


def test_the_ablation_shares_a_recording_and_keeps_what_it_has(
    csim: Callable[[str], str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also with a network that can only be trained, and one whose defensive share is changed after the training."""
    pytest.importorskip("torch")
    from ars_lab import ablation

    folder, table = str(Path(csim("sequence")).parent), tmp_path / "table.json"
    arguments = [
        "sequence",
        "--quick",
        "--simulators",
        folder,
        "--json",
        str(table),
        "--recording",
        str(tmp_path / "r"),
    ]
    assert ablation.main([*arguments, "--seeds", "1,2", "--only", "base,spline flows"]) == 0
    found = [ablation.Outcome(**each) for each in json.loads(table.read_text())]
    assert [(one.name, one.seed) for one in found] == [
        (name, seed) for seed in (1, 2) for name in ("base", "spline flows")
    ]
    assert [np.isnan(one.ess) for one in found] == [False, True] * 2
    assert found[0].held_out == pytest.approx(sum(found[0].by_latent.values())) != found[2].held_out
    share = "defensive 0.05 after training"
    assert ablation.main([*arguments, "--only", f"base,spline flows,{share}"]) == 0
    after = [ablation.Outcome(**each) for each in json.loads(table.read_text())]
    assert [one.held_out for one in after[:4]] == [one.held_out for one in found]
    assert [one.name for one in after[4:]] == [share]
    assert 0 < abs(after[4].held_out - found[0].held_out) < 1
    assert f"| {share} | 1,000 |" in capsys.readouterr().out

"""Advice, data checks and smoothed weights on real runs, in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import Builder, Variant

import ars
from ars.cli import main

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("ladder"))
    return str(builder.program([HERE / "ladder" / "ladder.c"], Variant("gcc", ("-O2",))))


@pytest.fixture
def start(program: str, started: Callable[[Any], Any]) -> Callable[[str], ars.Simulator]:
    def make(mode: str) -> ars.Simulator:
        simulator: ars.Simulator = started(ars.Simulator([program, mode], workers=2))
        return simulator

    return make


def kinds(post: ars.Posterior) -> list[str]:
    return [step.kind for step in post.advice()]


def infer(program: str, mode: str, *more: str, y: float = 0.5, traces: int = 2000) -> list[str]:
    common = ["--observe", f"y={y}", "--seed", "1", "--workers", "2", "--quiet"]
    return ["infer", program, mode, "--traces", str(traces), *common, *more]


# ---- advice -----------------------------------------------------------------------------------------------------


def test_a_run_that_went_well_gets_no_advice(start: Callable[[str], ars.Simulator]) -> None:
    post = start("easy").posterior({"y": 0.5}, 2000, seed=1)
    assert post.advice() == () and "next:" not in post.summary()


def test_a_short_run_is_told_how_many_traces_it_needs(start: Callable[[str], ars.Simulator]) -> None:
    """The number is right: a run with so many traces gets no advice any more."""
    sim = start("easy")
    for seed in range(5):
        short = sim.posterior({"y": 0.5}, 60, seed=seed)
        assert kinds(short) == ["traces"]
        needed = int(short.advice()[0].command_line.removeprefix("--traces "))
        assert sim.posterior({"y": 0.5}, needed, seed=seed + 100).advice() == ()


def test_a_precise_observation_asks_for_better_proposals(start: Callable[[str], ars.Simulator]) -> None:
    sim = start("precise")
    post = sim.posterior({"y": 0.5}, 2000, seed=1)
    assert kinds(post)[0] == "adapt" and "nuisance" not in kinds(post) and kinds(post)[-1] == "mcmc"
    narrow = sim.posterior({"y": 0.5}, 2000, seed=1, proposals={"a": ars.Normal(0.1, 0.05), "b": ars.Normal(0.5, 0.05)})
    assert "adapt" in kinds(narrow) or "proposals" in kinds(narrow)


@pytest.mark.usefixtures("one_torch_thread")
def test_a_network_that_knows_little_is_to_be_refined(
    program: str, start: Callable[[str], ars.Simulator], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    sim = start("precise")
    small = {"observe_dim": 4, "observe_hidden": 8, "site_dim": 4, "value_dim": 8, "head_hidden": 8, "defensive": 0.3}
    network = sim.train(500, 8, batch_size=100, seed=1, threads=1, architecture=small)
    post = sim.posterior({"y": 0.5}, 500, network=network, seed=1)
    assert post.run.defensive == 0.3 and not post.run.refined
    found = {step.kind: step for step in post.advice()}
    assert {"refine", "mcmc", "defensive"} <= set(found) and "train" not in found and "adapt" not in found
    assert found["refine"].python == "simulator.posterior(observe, traces=500, network=network, refine=True)"
    assert "network=network" in found["mcmc"].python
    assert "about 2 draws" in found["defensive"].reason and "49% of the traces" in found["defensive"].reason
    network.save(tmp_path / "net.safetensors")
    assert main(infer(program, "precise", "--network", str(tmp_path / "net.safetensors"), "--json", traces=500)) == 0
    assert [step["kind"] for step in json.loads(capsys.readouterr().out)["advice"]] == list(found)


def test_noise_of_nuisance_draws_is_recognised(start: Callable[[str], ars.Simulator]) -> None:
    """The exact posterior of a as the proposal does not help either, which the advice says."""
    sim = start("noise")
    exact = ars.Normal(9.0 / 10.49, (9.49 / 10.49) ** 0.5)
    for proposals in (None, {"a": exact}):
        post = sim.posterior({"y": 9.0}, 4000, seed=2, proposals=proposals)
        assert post.ess() < 0.1 * len(post)
        few = sim.posterior({"y": 9.0}, 700, seed=2, proposals=proposals)
        assert kinds(few)[0] == "nuisance", few.summary()
        assert "refine" not in kinds(few) and "adapt" not in kinds(few)


def test_corrections_are_blamed_for_their_noise(simulator: Callable[..., ars.Simulator]) -> None:
    """A proposal that its loop nearly always rejects, and one try to find that out. A larger budget helps."""
    sim = simulator("truncated_normal", workers=2)
    question: dict[str, Any] = {"observe": {"y": 0.0}, "traces": 1500, "seed": 3, "proposals": {"z": ars.Normal(2, 1)}}
    post = sim.posterior(**question, budget=ars.Budget(M=1, N=1))
    step = post.advice()[0]
    assert step.kind == "corrections" and "--budget M=2,R=4" == step.command_line
    better = sim.posterior(**question, budget=ars.Budget(M=2, R=4))
    assert better.ess() > 2 * post.ess()


def test_the_prior_in_loops_is_predicted(simulator: Callable[..., ars.Simulator]) -> None:
    """What the weights predict is what a run with in_loops="prior" gives."""
    sim = simulator("truncated_normal", workers=2)
    question: dict[str, Any] = {
        "observe": {"y": 0.0},
        "traces": 3000,
        "seed": 4,
        "proposals": {"z": ars.Normal(-2, 0.5)},
    }
    from ars.results.seen import seen_of

    post = sim.posterior(**question, budget=ars.Budget(M=4, R=4))
    prior = sim.posterior(**question, in_loops="prior")
    assert seen_of(post).ess_prior_in_loops == pytest.approx(prior.ess(), rel=0.25)


def test_advice_survives_a_file(start: Callable[[str], ars.Simulator], tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    post = start("precise").posterior({"y": 0.5}, 500, seed=1)
    post.save(tmp_path / "post.nc")
    assert ars.Posterior.load(tmp_path / "post.nc").advice() == post.advice() != ()


# ---- data against prior draws -------------------------------------------------------------------------------------


def test_data_of_the_simulator_raise_no_alarm_and_others_do(start: Callable[[str], ars.Simulator]) -> None:
    sim = start("series")
    drawn = sim.prior(30, seed=8).observations
    alarms = 0
    for i in range(30):
        data = {"series": drawn["series"][i], "y": drawn["y"][i]}
        alarms += sim.check_data(data, traces=1000, seed=9).alarm
    assert alarms <= 3  # 0.3 are expected; a right check gives more than 3 with a probability of 0.03%
    shifted = sim.check_data(
        {"series": drawn["series"][0] + np.array([0, 0, 0, 25.0, 0, 0]), "y": drawn["y"][0]}, seed=9
    )
    assert shifted.alarm and [each.label for each in shifted.stands_out] == ["series[3]"]
    broken = sim.check_data({"series": drawn["series"][0], "y": drawn["y"][0] + 2.5}, seed=9)
    assert broken.alarm and broken.stands_out[0].label == "y" and broken.stands_out[0].given_rest
    with pytest.raises(ValueError, match='observed no "z"'):
        sim.check_data({"z": 0.0}, seed=9)
    with pytest.raises(ValueError, match="too few"):
        sim.check_data({"y": 0.0}, traces=100, seed=9)


def test_a_check_skips_what_was_not_observed(start: Callable[[str], ars.Simulator]) -> None:
    sim = start("series")
    series = np.array([0.0, np.nan, 0.2, 0.3, np.nan, 0.5])
    found = sim.check_data({"series": series, "y": 0.0}, seed=9)
    assert not found.alarm and (found.compared, found.skipped) == (5, 2)
    series[2] = 40.0
    assert [each.label for each in sim.check_data({"series": series, "y": 0.0}, seed=9).stands_out] == ["series[2]"]


def test_a_check_that_cannot_be_made_is_refused_before_it_draws(start: Callable[[str], ars.Simulator]) -> None:
    sim = start("precise")
    for options, error, message in (
        ({"traces": 500}, ValueError, "500 draws are too few for a rate of false alarms of 0.01: it needs 800"),
        ({"level": "low"}, TypeError, "level must be a number between 0 and 1, not 'low'"),
    ):
        with pytest.raises(error, match=message):
            sim.check_data({"y": 0.0}, **options)  # type: ignore[arg-type]
    assert not sim.running
    post = sim.posterior({"y": 0.0}, 10, seed=1)
    for call in (post.advice, lambda check: post.summary(check=check)):
        with pytest.raises(TypeError, match=r"check must be the result of simulator\.check_data"):
            call(5)  # type: ignore[arg-type]


def test_a_check_changes_no_other_run(start: Callable[[str], ars.Simulator]) -> None:
    sim = start("series")
    data = {"series": np.zeros(6), "y": 0.0}
    before = sim.posterior(data, 300, seed=5).log_weights()
    assert sim.check_data(data, seed=5) == sim.check_data(data, seed=5)
    assert sim.posterior(data, 300, seed=5).log_weights().tobytes() == before.tobytes()


# ---- the command line -----------------------------------------------------------------------------------------------


def test_the_command_line_advises_with_its_own_options(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "easy")) == 0
    assert "next:" not in capsys.readouterr().out
    assert main(infer(program, "easy", traces=60)) == 0
    out = capsys.readouterr().out
    assert "ars infer ... --traces " in out and "simulator.posterior(" not in out
    assert main(infer(program, "precise")) == 0
    out = capsys.readouterr().out
    assert (
        "ars infer ... --adapt" in out and "ars infer ... --check-data" in out and "docs/when-k-is-too-large.md" in out
    )
    assert main(infer(program, "precise", "--json")) == 0
    steps = json.loads(capsys.readouterr().out)["advice"]
    assert [set(step) for step in steps] == [{"kind", "reason", "python", "command_line"}] * len(steps)
    assert steps[0]["kind"] == "adapt" and steps[0]["command_line"] == "--adapt"


def test_the_command_line_checks_the_data(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "easy", "--json")) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(infer(program, "easy", "--json", "--check-data")) == 0
    checked = json.loads(capsys.readouterr().out)
    assert plain.pop("data_check") is None and checked.pop("data_check")["alarm"] is False
    assert plain == checked, "the check changes nothing else"
    assert main(infer(program, "easy", "--check-data", "2000")) == 0
    assert "data: The data are like the 2,000 prior draws" in capsys.readouterr().out
    assert main(infer(program, "easy", "--check-data", y=12.0)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "next: 1. The data are unlike the 1,000 prior draws" in out and "y = 12" in out
    with pytest.raises(SystemExit) as end:
        main(infer(program, "easy", "--check-data", "100"))
    assert end.value.code == 2 and "800" in capsys.readouterr().err


def test_a_check_that_fails_costs_no_result(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "post.npz"
    assert main(infer(program, "fragile", "--check-data", "--out", str(out))) == 0
    printed, err = capsys.readouterr()
    assert "the data were not checked: " in err and "effective traces" in printed and out.exists()


def test_smoothed_means_stand_beside_the_plain_ones(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where the tail is heavy enough for them to matter."""
    assert main(infer(program, "easy", "--json")) == 0
    assert 0.0 > json.loads(capsys.readouterr().out)["weightings"][0]["pareto_k"]
    assert main(infer(program, "easy")) == 0
    assert "smoothed" not in capsys.readouterr().out
    assert main(infer(program, "noise", "--json", y=0.0)) == 0
    weighting = json.loads(capsys.readouterr().out)["weightings"][0]
    assert weighting["smoothed_log_evidence"] is not None and weighting["values"][0]["smoothed_mean"] is not None

"""Refinement against exact answers, and what happens when something goes wrong in the middle of it."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import exact
from tests.system.build_helpers import Builder, Variant

import ars
from ars.config import NetworkConfig

pytest.importorskip("torch")
import torch

from ars.network.refine import run as refine_run
from ars.network.refine.learner import Learner
from ars.network.refine.rounds import RoundReport

pytestmark = pytest.mark.usefixtures("one_torch_thread")

CASES = {case.name: case for case in exact.cases()}
TINY = NetworkConfig(
    lstm_dim=16, observe_dim=8, observe_hidden=16, site_dim=8, value_dim=8, category_dim=4, head_hidden=16, components=4
)
# Far too few traces, trained on for far too long: whatever depends on its own training would show it.
HASTY = ars.RefineConfig(
    traces=100, rounds=2, most=1, steps=60, batch_size=64, effective=30, lr=5e-3, prior_share=0.0, enough=1.0, M=4
)
QUICK = ars.RefineConfig(
    traces=500, rounds=2, most=2, steps=40, batch_size=64, effective=200, lr=5e-3, enough=1.0, M=4, seed=5
)

USUAL = refine_run.ADAPT_NETWORK
ONE_WEIGHT = 1  # a seed of a first round in which one trace has a weight


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine_run, "ADAPT_NETWORK", TINY)


@pytest.fixture
def simulator(csim: Callable[[str], str], started: Callable[[Any], Any]) -> Callable[..., ars.Simulator]:
    def make(name: str, *arguments: str, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([csim(name), *arguments], workers=4, **options))

    return make


@pytest.fixture(scope="module")
def network(csim: Callable[[str], str]) -> ars.Network:
    """A little trained, for truncated_normal b: the acceptance of its loop depends on the state."""
    with ars.Simulator([csim("truncated_normal"), "b"], workers=4) as sim:
        return sim.train(1500, network=TINY, batch_size=64, lr=5e-3, seed=3, threads=1)


# ---- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["truncated_normal-b", "nested"])
def test_reported_traces_are_unbiased_and_training_traces_are_not(
    name: str, simulator: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    last: list[RoundReport] = []
    tell = refine_run._Shown.report

    def noted(self: Any, report: RoundReport) -> None:
        last[:] = [report]
        tell(self, report)

    monkeypatch.setattr(refine_run._Shown, "report", noted)
    monkeypatch.setattr(refine_run, "ADAPT_NETWORK", USUAL)  # a larger network learns more by heart
    sim = simulator(*case.command)
    reported, errors, trained_on = [], [], []
    for seed in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ars.RefinementWarning)
            post = sim.posterior(case.observed, 1000, adapt=HASTY, seed=seed, budget=ars.Budget(M=4, R=1))
        found = post.log_evidence("ars")
        reported.append(found.evidence)
        errors.append(found.standard_error)
        trained_on.append(math.exp(last[0].pooled_log_evidence))  # the mutant: all rounds, with their mixture weights
    each = (np.array(reported) - case.evidence) / np.array(errors)
    assert np.count_nonzero(np.abs(each) > 3) <= 1  # with such hasty proposals an error may be too small, once

    def distance(estimates: list[float]) -> float:
        return (float(np.mean(estimates)) - case.evidence) / (float(np.std(estimates, ddof=1)) / math.sqrt(20))

    assert abs(distance(reported)) < 3
    assert abs(distance(trained_on)) > 3


def test_refining_helps_and_leaves_the_network_as_it_was(
    simulator: Callable[..., ars.Simulator], network: ars.Network, tmp_path: Path
) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    before = {name: tensor.clone() for name, tensor in network.network.state_dict().items()}
    file = tmp_path / "refined.safetensors"
    refined = network.refine(sim, case.observed, config=QUICK, threads=1, out=file)
    for name, tensor in network.network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert network.refinement is None
    about = refined.refinement
    assert about is not None and about["improved"] and about["ess_share"] > about["ess_share_before"]
    assert [report["round"] for report in about["rounds"]] == list(range(len(about["rounds"])))

    loaded = ars.Network.load(file)
    assert loaded.refinement == about
    post = sim.posterior(case.observed, 3000, network=loaded, seed=9, budget=ars.Budget(M=10, R=2))
    found = post.log_evidence("ars")
    assert abs(found.evidence - case.evidence) < 3 * found.standard_error
    assert post.ess("ars") > 0.5 * len(post)
    with pytest.warns(ars.RefinementWarning, match="refined for other data: 'y' differs"):
        sim.posterior({"y": 0.25}, 100, network=loaded, seed=9)


@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")
def test_the_run_that_is_reported_has_seeds_of_its_own(
    simulator: Callable[..., ars.Simulator], network: ars.Network
) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    config = ars.RefineConfig(**{**vars(QUICK), "seed": None, "rounds": 1, "traces": 200, "most": 1, "steps": 10})
    post = sim.posterior(case.observed, 500, network=network, refine=config, seed=4, budget=ars.Budget(M=2, R=1))
    assert post.run.seed == 4
    again = sim.posterior(case.observed, 500, network=network, refine=config, seed=4, budget=ars.Budget(M=2, R=1))
    np.testing.assert_array_equal(post["x"], again["x"])
    other = network.refine(sim, case.observed, config=config, seed=4, threads=1)
    assert other.refinement is not None and other.refinement["config"]["seed"] == 4


def test_adapting_to_data_with_missing_numbers(simulator: Callable[..., ars.Simulator]) -> None:
    truth = exact.gaussian([2.1, 1.9])
    post = simulator("gaussian", "3").posterior({"y": [2.1, math.nan, 1.9]}, 2_000, adapt=QUICK, seed=8)
    found = post.log_evidence("ars")
    assert abs(found.evidence - truth.evidence) < 3 * found.standard_error
    assert post.ess() > 0.5 * len(post)  # 0.08 with the prior


def test_the_prior_in_loops_is_not_trained_there(simulator: Callable[..., ars.Simulator], network: ars.Network) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.RefinementWarning)  # the start may be as good
        post = sim.posterior(case.observed, 3000, network=network, refine=QUICK, seed=4, in_loops="prior")
    found = post.log_evidence("prior")
    assert abs(found.evidence - case.evidence) < 3 * found.standard_error


def test_data_that_are_not_those_of_the_simulator(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("truncated_normal", "a")
    with pytest.raises(ars.NetworkError, match=r"observes 'y', but no data are given. If the program itself holds"):
        sim.posterior({}, 100, adapt=QUICK, seed=1)
    with pytest.raises(ars.NetworkError, match=r"observes 'y', but the data given are 'y', 'z'$"):
        sim.posterior({"y": 0.0, "z": 0.0}, 100, adapt=QUICK, seed=1)


def test_arguments_are_checked_before_the_rounds(
    simulator: Callable[..., ars.Simulator], network: ars.Network, tmp_path: Path
) -> None:
    """Rounds may take hours: a mistake in what comes after them is found at once."""
    sim, data = simulator("truncated_normal", "b"), {"y": 0.1}
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"traces": 0}, ValueError, "traces must be from 1"),
        ({"first_trace": -1}, ValueError, "first_trace must be from 0"),
        ({"budget": 5}, TypeError, 'budget must be "auto"'),
        ({"resume": 5}, TypeError, "resume must be a path, not 5"),
        ({"refined_out": 5}, TypeError, "refined_out must be a path, not 5"),
        ({"refined_out": tmp_path}, ars.StorageError, "cannot be written: it must be a file"),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=message):
            sim.posterior(data, **{"traces": 100, "network": network, "refine": QUICK, **options})
    with pytest.raises(TypeError, match=r"network must be an ars\.Network, .*, not 'net.safetensors'"):
        sim.posterior(data, 100, network="net.safetensors", refine=QUICK)  # type: ignore[arg-type]
    for call in (network.refine, network.posterior_without_weights):
        with pytest.raises(TypeError, match=r"simulator must be an ars\.Simulator, not './decay'"):
            call("./decay", data, 100)  # type: ignore[operator]
    with pytest.raises(TypeError, match="resume must be a path, not 5"):
        network.refine(sim, data, resume=5)  # type: ignore[arg-type]
    assert not sim.running


def test_a_good_prior_proposes_itself(simulator: Callable[..., ars.Simulator]) -> None:
    """Nothing is better than the prior here: no round is run, and no loop has to be estimated."""
    sim = simulator("truncated_normal", "a")
    config = ars.RefineConfig(**{**vars(QUICK), "enough": 0.5})
    post = sim.posterior({"y": -0.5}, 500, adapt=config, seed=1)
    plain = sim.posterior({"y": -0.5}, 500, seed=1)
    np.testing.assert_array_equal(post.log_weights("ars"), plain.log_weights("ars"))


def test_rounds_in_vain_are_reported_with_their_own_share(
    simulator: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[RoundReport] = []
    tell = refine_run._Shown.report
    monkeypatch.setattr(refine_run._Shown, "report", lambda self, report: (reports.append(report), tell(self, report)))
    sim = simulator("truncated_normal", "a")
    config = ars.RefineConfig(**{**vars(QUICK), "rounds": 1, "most": 1})
    with pytest.warns(ars.RefinementWarning, match="no round was better than the start") as caught:
        sim.posterior({"y": -0.5}, 100, adapt=config, seed=1)
    [start, tried] = reports
    text = str(caught[0].message)
    assert f"{tried.ess_share:.2g}" != f"{start.ess_share:.2g}"
    assert f"the prior proposes (an effective share of {start.ess_share:.2g})" in text
    assert f"the best round has {tried.ess_share:.2g} on fresh traces. More" in text


# ---- interruptions ---------------------------------------------------------------------------------------------------


def _same(one: ars.Network, other: ars.Network) -> bool:
    mine, theirs = one.network.state_dict(), other.network.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_an_interrupted_refinement_goes_on(
    simulator: Callable[..., ars.Simulator],
    network: ars.Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ars.cli import main

    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    whole = network.refine(sim, case.observed, config=QUICK, threads=1)
    fit, calls = Learner.fit, 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return fit(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "fit", interrupted)
        with pytest.raises(ars.RunInterrupted, match=r"interrupted in round 2 of 2; .* keeps the finished") as caught:
            network.refine(sim, case.observed, config=QUICK, threads=1, resume=tmp_path / "kept")
    assert caught.value.partial is None  # what a network was trained on is no posterior
    net = tmp_path / "net.safetensors"
    network.save(net)
    calls = 1
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "fit", interrupted)
        words = ["--refine", "--network", str(net), "--observe", "y=0.1", "--refine-traces", "200", "--quiet"]
        assert main(["infer", *sim.command, *words, "--resume", str(tmp_path / "cli")]) == 130
    kept = tmp_path / "cli" / "refinement"
    said = f"the refinement was interrupted in round 1 of 12; {kept} keeps the finished rounds, and the same call"
    assert f"ars infer: {said} continues with them" in capsys.readouterr().err
    calls = 2
    monkeypatch.setattr(Learner, "fit", interrupted)
    resumed = network.refine(sim, case.observed, config=QUICK, threads=1, resume=tmp_path / "kept")
    assert _same(whole, resumed)
    assert calls == 3  # the first of two trainings was kept
    with pytest.raises(ars.StorageError, match="keeps another refinement: observe: y changed"):
        network.refine(sim, {"y": 0.25}, config=QUICK, threads=1, resume=tmp_path / "kept")


def test_a_damaged_or_other_folder_says_what_to_do(
    simulator: Callable[..., ars.Simulator], network: ars.Network, tmp_path: Path
) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    options: dict[str, Any] = {**vars(QUICK), "rounds": 1, "traces": 100, "most": 1, "steps": 10}

    def again(**more: Any) -> ars.Network:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ars.RefinementWarning)
            config = ars.RefineConfig(**{**options, **more})
            return network.refine(sim, case.observed, config=config, threads=1, resume=tmp_path)

    whole = again()
    with pytest.raises(ars.StorageError, match=r"keeps another refinement: steps was 10, is 11\. Give"):
        again(steps=11)
    for name, remedy in (("network-00.safetensors", "is trained again"), ("round-01.traces", "is drawn again")):
        file = tmp_path / name
        file.write_bytes(file.read_bytes()[:300])
        with pytest.raises(ars.StorageError, match=rf"{name} .*Remove it, and the .* {remedy}"):
            again()
        file.unlink()
        assert _same(again(), whole)
    (tmp_path / "refinement.json").write_text("{")
    with pytest.raises(ars.StorageError, match=r"not that of a refinement: .* Give another folder"):
        again()


def test_a_full_disk_is_named(
    simulator: Callable[..., ars.Simulator],
    network: ars.Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    config = ars.RefineConfig(**{**vars(QUICK), "rounds": 1})
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if "network-00" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(ars.StorageError, match=r"network-00.safetensors could not be written: the disk is full"):
            network.refine(sim, case.observed, config=config, threads=1, resume=tmp_path / "kept")
    refined = network.refine(sim, case.observed, config=config, threads=1, resume=tmp_path / "kept")
    assert _same(refined, network.refine(sim, case.observed, config=config, threads=1))
    with pytest.raises(ars.StorageError, match="cannot be written"):
        network.refine(sim, case.observed, config=config, out=tmp_path / "missing" / "net.safetensors")
    with monkeypatch.context() as patch:  # at the very end, the network is not lost
        patch.setattr(os, "replace", full)
        with pytest.raises(
            ars.StorageError, match=r"the disk is full.*; \.partial holds the refined network"
        ) as caught:
            network.refine(sim, case.observed, config=config, threads=1, out=tmp_path / "network-00.safetensors")
    assert isinstance(caught.value.partial, ars.Network) and _same(caught.value.partial, refined)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_is_tried_again_then_given_up(
    simulator: Callable[..., ars.Simulator], network: ars.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, sim = CASES["truncated_normal-b"], simulator("truncated_normal", "b")
    gradients, calls = Learner._gradients, 0

    def once(self: Any, *args: Any) -> float:
        nonlocal calls
        calls += 1
        return math.nan if calls == 1 else gradients(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_gradients", once)
        refined = network.refine(sim, case.observed, config=QUICK, threads=1)
    assert refined.refinement is not None and not refined.refinement["problem"]
    monkeypatch.setattr(Learner, "_gradients", lambda *_: math.nan)
    with pytest.warns(ars.RefinementWarning, match="ended early: round 1: the loss became nan"):
        same = network.refine(sim, case.observed, config=QUICK, threads=1)
    assert _same(same, network)


HARD = """
#include <ars.h>
#include <stdlib.h>
#include <string.h>

static void model(void *user) {
    const char *mode = user;
    double u = ars_sample("u", ars_uniform(0, 1));
    double x = ars_sample("x", ars_normal(0, 1));
    if (strcmp(mode, "narrow")) { /* one trace in twenty fails */
        if (u > 0.95) abort();
        ars_observe("y", ars_normal(x, strcmp(mode, "weak") ? 0.05 : 10));
    } else { /* nearly all likelihoods are 0 */
        ars_observe("y", ars_uniform(x - 0.1, x + 0.1));
    }
    ars_result("x_final", x);
}

int main(int argc, char **argv) {
    return ars_main(argc, argv, model, argc > 1 ? argv[1] : "fragile");
}
"""


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A simulator that makes it hard: its argument says how."""
    folder = tmp_path_factory.mktemp("hard")
    source = folder / "hard.c"
    source.write_text(HARD)
    return str(Builder(folder / "built").program([source], Variant("gcc", ("-O2",))))


@pytest.mark.compiler
def test_a_simulator_that_fails_in_a_twentieth_of_its_traces(
    hard: str, started: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    sim = started(ars.Simulator([hard, "fragile"], workers=4))
    with pytest.raises(ars.TraceFailure):
        sim.posterior({"y": 1.5}, 1000, adapt=QUICK, seed=1)
    caplog.clear()
    post = sim.posterior({"y": 1.5}, 2000, adapt=QUICK, seed=1, on_failure="zero")
    assert caplog.text.count("because the process had died") <= 3  # of the probe, of all rounds, and of the final run
    found = post.log_evidence("ars")
    truth = 0.95 * float(exact.normal_pdf(1.5, 0.0, math.hypot(1.0, 0.05)))
    assert abs(found.evidence - truth) < 3 * found.standard_error
    plain = sim.posterior({"y": 1.5}, 2000, seed=1, on_failure="zero")
    assert post.ess() > 3 * plain.ess()


@pytest.mark.compiler
def test_data_that_no_trace_explains(hard: str, started: Callable[[Any], Any]) -> None:
    sim = started(ars.Simulator([hard, "narrow"], workers=4))
    with pytest.warns(ars.ArsWarning) as caught:
        post = sim.posterior({"y": 50.0}, 100, adapt=QUICK, seed=1)
    messages = [str(each.message) for each in caught]
    assert any("none of 1,000 traces has a weight above 0" in text for text in messages)
    assert post.ess() == 0.0
    assert post.run.refined  # so that the advice is not to adapt once more


@pytest.mark.compiler
def test_all_weights_zero_but_one(hard: str, started: Callable[[Any], Any]) -> None:
    """The first round sees the posterior once. That is enough to find the rest."""
    sim = started(ars.Simulator([hard, "narrow"], workers=4))
    config = ars.RefineConfig(**{**vars(QUICK), "traces": 300, "most": 1, "rounds": 8, "seed": ONE_WEIGHT})
    folder: list[RoundReport] = []
    tell = refine_run._Shown.report
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refine_run._Shown, "report", lambda self, report: (folder.append(report), tell(self, report))[1])
        post = sim.posterior({"y": 3.0}, 2000, adapt=config, seed=1)
    assert folder[0].ess_share * folder[0].traces == pytest.approx(1.0)
    assert post.ess() > 10  # the prior has 2 of 2,000
    found = post.log_evidence("ars")
    truth = float(exact.normal_cdf(3.1, 0.0, 1.0) - exact.normal_cdf(2.9, 0.0, 1.0)) / 0.2
    assert abs(found.evidence - truth) < 3 * found.standard_error


def test_a_useless_start_recovers(simulator: Callable[..., ars.Simulator], network: ars.Network) -> None:
    """A network that puts everything in the wrong place: next to no weight, and the prior shows where it is."""
    sim = simulator("truncated_normal", "b")
    useless = ars.Network(network.network, simulator=network.simulator)
    useless.network = copy.deepcopy(network.network)
    with torch.no_grad():
        for head in useless.network.heads.values():
            head.last.bias += 4.0 * torch.randn(head.last.bias.shape, generator=torch.Generator().manual_seed(1))
    case = CASES["truncated_normal-b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.RefinementWarning)
        refined = useless.refine(sim, case.observed, config=QUICK, threads=1)
    about = refined.refinement
    assert about is not None
    assert about["ess_share"] > 5 * about["ess_share_before"]


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")  # so few traces seldom make a network better
def test_the_command_line(
    csim: Callable[[str], str], network: ars.Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ars.cli import main

    net, out = tmp_path / "net.safetensors", tmp_path / "refined.safetensors"
    network.save(net)
    infer = ["infer", csim("truncated_normal"), "b", "--observe", "y=0.1", "--seed", "1", "--workers", "4"]
    small = ["--traces", "500", "--refine-rounds", "1", "--refine-traces", "500", "--refine-steps", "20"]
    assert main([*infer, *small, "--network", str(net), "--refine", "--refined-out", str(out)]) == 0
    said = capsys.readouterr()
    assert "the start: ESS/N" in said.err and "round 1 of 1: ESS/N" in said.err
    assert ars.Network.load(out).refinement is not None
    assert main([*infer, *small, "--adapt", "--quiet", "--resume", str(tmp_path / "kept")]) == 0
    first = capsys.readouterr()
    assert "ESS/N" not in first.err
    assert main([*infer, *small, "--adapt", "--quiet", "--resume", str(tmp_path / "kept")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == first.out.splitlines()[1:]  # the first line has the speed


@pytest.mark.compiler
def test_failures_name_the_command_that_repeats_them(
    hard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a round by the prior, and in the final run by either. The network of a round is in no file."""
    from ars.cli import main

    out = tmp_path / "refined.safetensors"
    small = ["--traces", "500", "--refine-rounds", "1", "--refine-traces", "500", "--refine-steps", "20", "--quiet"]

    def infer(mode: str, *more: str) -> str:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            main(["infer", hard, mode, "--observe", "y=1.5", "--seed", "1", "--workers", "4", *small, *more])
        return "\n".join([capsys.readouterr().err, *(str(each.message) for each in caught)])

    def repeats(said: str) -> list[str]:
        [line] = [line for line in said.splitlines() if "To rerun only this trace:" in line]
        words = shlex.split(line.partition("only this trace: ")[2])
        assert words[:2] == ["ars", "replay"]
        assert main([*words[1:], "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["failure"]["text"].startswith("trace ")
        return words

    assert "--network" not in repeats(infer("fragile", "--adapt"))
    out.write_text("an older file")
    said = infer("weak", "--adapt", "--refined-out", str(out), "--on-failure", "skip")
    assert "the prior itself proposes, so" in said and "is an older file and was not changed" in said
    assert out.read_text() == "an older file"
    assert "--network" not in repeats(said)
    words = repeats(infer("fragile", "--adapt", "--refined-out", str(out), "--on-failure", "skip"))
    assert words[words.index("--network") + 1] == str(out)
    said = infer("fragile", "--refine", "--network", str(out))
    assert "To rerun only this trace: not possible, because the network" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--refine"], "--refine needs --network"),
        (["--adapt", "--network", "net"], "--adapt starts from the prior and takes no --network"),
        (["--refine-rounds", "3"], "--refine-rounds needs --refine"),
        (["--refined-out", "x"], "--refined-out needs --refine"),
        (["--refine", "--adapt"], "not allowed with"),
    ],
)
def test_options_that_contradict_each_other(
    csim: Callable[[str], str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from ars.cli import main

    command = ["infer", csim("truncated_normal"), "b", "--observe", "y=0.1"]
    try:
        code = main([*command, *words])
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == 2
    assert message in capsys.readouterr().err


# ---- the lab ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")
def test_the_table_for_the_results_page(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ars_lab.refinement import cases, main

    folder = Path(csim("nested")).parent
    words = ["--quick", "--traces", "300", "--simulators", str(folder), "--cache", str(tmp_path)]
    assert main([*words, "--only", "nested", "--out", str(tmp_path / "rows.json")]) == 0
    assert "| nested | prior | " in capsys.readouterr().out
    [row] = json.loads((tmp_path / "rows.json").read_text())
    assert abs(row["log_evidence"] - row["known"]) < 3 * row["error"]
    known = {case.name: case.known for case in cases(quick=True)}
    for name, case in (
        ("nested", "nested"),
        ("truncated_normal b", "truncated_normal-b"),
        ("Marsaglia a", "marsaglia-0"),
    ):
        assert known[name] == pytest.approx(math.log(CASES[case].evidence), abs=1e-4)

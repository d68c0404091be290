"""``ars.calibrate`` and ``ars calibrate``: right weights pass, biased ones are found; interrupted ones go on."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats

import ars
from ars.calibration.run import likelihoods
from ars.cli import calibrate, main

PROPOSALS = {"z": ars.Normal(-1.0, 1.0)}  # accepted more often than the prior's draws: the loop needs its correction
SMALL: dict[str, Any] = {
    "datasets": 12,
    "traces": 30,
    "seed": 3,
    "proposals": PROPOSALS,
    "budget": ars.Budget(M=1, N=4),
}


def without_time(found: ars.Calibration) -> list[dict[str, Any]]:
    return [{**record.to_dict(), "seconds": 0.0} for record in found.records]


@pytest.mark.slow
def test_biased_weights_are_found_and_ars_weights_pass(simulator: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    sim = simulator("truncated_normal", "b")
    options: dict[str, Any] = {"datasets": 150, "traces": 60, "seed": 1, "budget": ars.Budget(M=3, N=4)}
    right = ars.calibrate(sim, proposals=PROPOSALS, **options)
    assert right.ok, right.summary()
    biased = ars.calibrate(sim, proposals=PROPOSALS, weighting="biased", **options)
    assert not biased.ok
    suspect = {value.name: value for value in biased.suspects}
    assert suspect["x_final"].p_value < 0.001 and suspect["x_final"].shape == "too low"
    assert biased.verdict.startswith("NOT CALIBRATED: the posterior of x_final is too low")
    assert any('use "ars"' in line for line in biased.advice())
    assert 0.1 < right.efficiency.median < 0.5
    pytest.importorskip("jinja2")
    biased.report(tmp_path / "biased.html")
    assert "% !</td>" in (tmp_path / "biased.html").read_text()  # as its legend says, not by a colour alone


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("calibrated"))
    source = Path(__file__).resolve().parent / "calibrated" / "models.c"
    return str(builder.program([source], Variant(COMPILERS[0], ("-O2",))))


@pytest.mark.slow
@pytest.mark.compiler
def test_the_likelihood_of_a_truth_is_that_of_its_own_trace(
    models: str, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    """Draws after data differ if that trace is run again with its data given: the nuisance would be another one."""
    sim = started(ars.Simulator([models, "late"], workers=2))
    found = ars.calibrate(sim, datasets=100, traces=400, seed=3, values=["x", "slope"])
    assert found.names == ["x", "slope", "all values (TARP)", "log likelihood"]
    assert found.ok, found.summary()
    drawn = sim.prior(50, seed=1)
    first, second, noise = drawn.observations["dE/dx"], drawn.observations["y"], drawn["noise"]
    exact = stats.norm.logpdf(first, drawn["x"]) + stats.norm.logpdf(second, drawn["x"] + noise + drawn["slope"], 0.3)
    scores, possible = likelihoods(sim, drawn)
    assert np.allclose(scores, exact, rtol=1e-12) and possible.all()


@pytest.mark.slow
@pytest.mark.compiler
def test_factors_are_no_part_of_the_prior(models: str, started: Callable[[ars.Simulator], ars.Simulator]) -> None:
    selected = ars.calibrate(started(ars.Simulator([models, "selected"], workers=2)), datasets=200, traces=400, seed=3)
    assert 70 < len(selected) < 130 and selected.about["datasets"] == len(selected)  # half of the truths are possible
    assert selected.ok, selected.summary()
    assert min(record.values["x"].truth for record in selected.records) >= 0.0
    with pytest.raises(ars.ArsError, match=r"the factors differ between prior traces \(their logs are from -3 to 0\)"):
        ars.calibrate(started(ars.Simulator([models, "factor"], workers=2)), datasets=20, traces=50, seed=3)


def test_an_interrupted_calibration_goes_on_and_grows(simulator: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    sim = simulator("truncated_normal", "b")
    whole = ars.calibrate(sim, **SMALL)
    folder = tmp_path / "kept"

    class Stop:
        def update(self, done: int, total: int) -> None:
            if done == 5 and total == 12:
                raise KeyboardInterrupt

        def close(self) -> None:
            pass

    with pytest.raises(ars.RunInterrupted, match="after 5 of 12 data sets; they are in"):
        ars.calibrate(sim, resume=folder, progress=Stop(), **SMALL)
    times = {path: path.stat().st_mtime_ns for path in folder.glob("dataset-*.json")}
    assert len(times) == 5
    resumed = ars.calibrate(sim, resume=folder, **{**SMALL, "seed": None})  # the folder knows the seed
    assert without_time(resumed) == without_time(whole)
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())
    larger = ars.calibrate(sim, resume=folder, **{**SMALL, "datasets": 14})
    assert without_time(larger)[:12] == without_time(whole)
    with pytest.raises(ars.StorageError, match=r"holds another calibration \(traces was 30, is 31\)"):
        ars.calibrate(sim, resume=folder, **{**SMALL, "traces": 31})


def test_the_number_of_workers_changes_no_bit(simulator: Callable[..., ars.Simulator]) -> None:
    one, three = (ars.calibrate(simulator("truncated_normal", "b", workers=n), **SMALL) for n in (1, 3))
    assert without_time(one) == without_time(three)


def test_the_result_is_kept_shown_and_drawn(simulator: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    found = ars.calibrate(simulator("beta_bernoulli", "2", "5"), datasets=12, traces=50, seed=1)
    assert found.names == ["x_final", "all values (TARP)", "log likelihood"]
    found.save(tmp_path / "found.json")
    again = ars.Calibration.load(tmp_path / "found.json")
    assert again.to_dict() == found.to_dict() and again.summary() == found.summary()
    assert "Median sample efficiency" in found.summary() and "x_final" in found._repr_html_()
    with pytest.raises(KeyError, match="'y' was not compared; these were: x_final"):
        found.ranks("y")
    (tmp_path / "found.json").write_text("{}")
    with pytest.raises(ars.StorageError, match="not written by ars calibrate"):
        ars.Calibration.load(tmp_path / "found.json")
    pytest.importorskip("matplotlib")
    assert len(found.plot().axes) == 6


def test_mistakes_name_the_argument(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("gaussian")
    with pytest.raises(ValueError, match="datasets must be from 10"):
        ars.calibrate(sim, datasets=3)
    with pytest.raises(ValueError, match="values: 'nu' is no result or latent; these are: mu"):
        ars.calibrate(sim, datasets=10, values=["nu"])
    with pytest.raises(ValueError, match="weighting must be one of ars, ic, biased"):
        ars.calibrate(sim, datasets=10, weighting="naive")


def test_the_command(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    page, kept = tmp_path / "calibration.html", tmp_path / "calibration.json"
    command = ["calibrate", csim("gaussian"), "--datasets", "20", "--traces", "100", "--seed", "2", "--quiet", "--json"]
    assert main([*command, "--report", str(page), "--out", str(kept)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(kept.read_text()) and printed["ok"] is True
    html = page.read_text()
    for words in ("Calibration of gaussian", "Ranks of the truth", "Coverage", "Median sample efficiency", "<svg"):
        assert words in html
    assert main(["calibrate", csim("gaussian"), "--value", "nu", "--quiet"]) == 2
    assert "--value: 'nu' is no result" in capsys.readouterr().err


def test_the_page_runs_and_names_what_there_is(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With fewer data sets, and the prior instead of a network."""
    pytest.importorskip("jinja2")
    page = (Path(__file__).resolve().parents[2] / "docs/calibration.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    small = code.replace('network="decay.safetensors", datasets=200, traces=1000', "datasets=20, traces=100")
    assert small != code
    (tmp_path / "decay").symlink_to(csim("gaussian"))
    monkeypatch.chdir(tmp_path)
    exec(compile(small, "docs/calibration.md", "exec"), {})
    assert "Median sample efficiency" in capsys.readouterr().out
    assert (tmp_path / "calibration.html").exists()
    parser = argparse.ArgumentParser()
    calibrate.add_arguments(parser)
    elsewhere = {"--check-data"}
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= set(parser._option_string_actions) | elsewhere

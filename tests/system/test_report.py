"""What reports say: the verdict, failures with a command that works, networks and chains."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import ars
from ars.failures import Failure
from ars.report.posterior import Given, posterior_page
from ars.report.run import _examples


def test_the_verdict_follows_the_weights(csim: Callable[[str], str], started: Callable[..., ars.Simulator]) -> None:
    sim = started(ars.Simulator([csim("gaussian")], workers=2))
    near = sim.posterior({"y": 0.5}, 2000, seed=1)
    few = sim.posterior({"y": 0.5}, 120, seed=1)
    far = sim.posterior({"y": 8.0}, 500, seed=1)
    with pytest.warns(ars.ObservationWarning):
        nowhere = sim.posterior({"y": 1e200}, 50, seed=1)
    found = [posterior_page(post, Given()).verdict for post in (near, few, far, nowhere)]
    assert [verdict.level for verdict in found if verdict] == ["good", "caution", "bad", "bad"]
    assert not found[0].steps and found[2].steps  # type: ignore[union-attr]
    assert "no posterior" in found[3].headline  # type: ignore[union-attr]


@pytest.mark.parametrize("traces", [1, 2, 5])
def test_the_smallest_runs_have_a_report(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path, traces: int
) -> None:
    sim = started(ars.Simulator([csim("truncated_normal"), "b"], workers=2, max_tries=40))
    options = {"proposals": {"z": ars.Normal(-0.3, 1.0)}, "on_failure": "zero", "budget": ars.Budget(M=1, N=2)}
    for seed in range(4):
        post = sim.posterior({"y": -1.0}, traces, seed=seed, **options)
        post.report(tmp_path / "a.html", truth={"x_final": 1.5})
        assert "verdict bad" in (tmp_path / "a.html").read_text()


def test_a_truth_that_the_run_does_not_have_is_an_error(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    post = started(ars.Simulator([csim("gaussian")], workers=2)).posterior({"y": 0.5}, 200, seed=1)
    with pytest.raises(KeyError, match="the run has no 'nu'"):
        post.report(tmp_path / "a.html", truth={"nu": 1.0})
    with pytest.raises(KeyError, match=r"there would be a 'mu\[0\]'"):
        post.report(tmp_path / "a.html", truth={"mu": [1.0, 2.0]})
    assert not (tmp_path / "a.html").exists()


def test_a_failure_comes_with_a_command_that_repeats_it(csim: Callable[[str], str], tmp_path: Path) -> None:
    options = ["--observe", "y=-1", "--traces", "100", "--seed", "1", "--max-tries", "2", "--on-failure", "zero"]
    simulator = ["--", csim("truncated_normal"), "b"]
    more = ["--workers", "2", "--quiet", "--report", "a.html", "--predict", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "ars", "infer", *options, *more, *simulator],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    text = (tmp_path / "a.html").read_text()
    assert "too_many_tries" in text and "They have weight 0." in text
    command = html.unescape(re.findall(r"<code>(ars replay [^<]*)</code>", text)[0])
    words = shlex.split(command)
    number = words[words.index("--trace") + 1]
    again = subprocess.run(
        [sys.executable, "-m", "ars", *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert again.returncode == 1 and f"trace {number}: too_many_tries" in again.stdout + again.stderr


def test_every_kind_of_failure_has_an_example() -> None:
    crashes = [Failure(i, "crash", 11, "c", seed=1) for i in range(5)]
    found = _examples([*crashes, Failure(7, "nan", 0, "n"), Failure(9, "exit", 1, "e"), Failure(11, "timeout", 0, "t")])
    assert [each.trace for each in found] == [0, 7, 9, 11]
    assert [each.trace for each in _examples(crashes)] == [0, 1, 2]


@pytest.mark.parametrize(("policy", "words"), [("skip", "were dropped, which biases"), ("zero", "count as impossible")])
def test_failed_traces_are_a_caveat_that_says_how_they_were_treated(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], policy: Literal["skip", "zero"], words: str
) -> None:
    sim = started(ars.Simulator([csim("truncated_normal"), "b"], workers=2, max_tries=20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.BiasWarning)
        post = sim.posterior({"y": -1.0}, 2000, seed=1, on_failure=policy)
    assert post.failures.total > 0.05 * 2000
    verdict = posterior_page(post, Given()).verdict
    assert verdict is not None and any(words in reason for reason in verdict.reasons), verdict


def test_a_truth_may_be_given_by_its_address(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    post = started(ars.Simulator([csim("truncated_normal"), "b"], workers=2)).posterior({"y": -1.0}, 300, seed=1)
    address = next(site.address for site in post.sites if site.name == "z")
    assert address != "z"
    post.report(tmp_path / "a.html", truth={address: 0.25})
    assert "the truth is 0.25" in (tmp_path / "a.html").read_text()


def test_single_numbers_of_the_data_are_pictured_side_by_side(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    sim = started(ars.Simulator([csim("marsaglia")], workers=2))
    post = sim.posterior({"y1": 0.3, "y2": 0.4}, 300, seed=1)
    post.report(tmp_path / "a.html", predicted=sim.predict(post, 50, seed=2))
    data = (tmp_path / "a.html").read_text().partition('<section id="data"')[2].partition("</section>")[0]
    assert data.count('<div class="charts">') == 1 and data.count("<figure") == 2


def test_chains_have_a_report(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    sim = started(ars.Simulator([csim("gaussian")], workers=2))
    sim.mcmc({"y": 0.5}, steps=60, chains=4, seed=1).report(tmp_path / "a.html", truth={"mu": 0.4})
    text = (tmp_path / "a.html").read_text()
    assert "Do not trust these draws yet" in text and "R-hat" in text and "chain 3" in text
    said = re.search(r'id="verdict".*?<p>(.*?)</p>', text, re.DOTALL)
    assert said is not None and said[1].endswith("or more.")
    for size in re.findall(r'class="number bad" data-sort="([0-9.]+)">[0-9,]+</td>', text):
        assert float(size) < 400  # only what is too small is red
    assert "<h1>Markov chains of gaussian</h1>" in text
    assert f"4 chains of 60 draws of <code>{csim('gaussian')}</code>" in text


def test_a_truth_that_chains_do_not_have_is_an_error(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    chains = started(ars.Simulator([csim("gaussian")], workers=2)).mcmc({"y": 0.5}, steps=20, chains=2, seed=1)
    with pytest.raises(KeyError, match="the chains have no 'nu'; they have mu"):
        chains.report(tmp_path / "a.html", truth={"nu": 1.0})


def test_a_network_has_a_report(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    sim = started(ars.Simulator([csim("gaussian")], workers=2))
    sim.train(640, lstm_dim=8, batch_size=64, seed=1, held_out=64).report(tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "Held-out loss" in text and "<code>mu</code>" in text and "batch_size" in text
    assert "Observations, with their shapes: <code>y</code> (1)." in text

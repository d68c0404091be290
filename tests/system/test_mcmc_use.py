"""Chains as people use them: networks, blocks, failures, interruptions, wrong data, the command line and its page."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests import exact
from tests.system.build_helpers import Builder, Variant

import ars
from ars.cli import main

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 4.0  # standard errors
SEED = 20261118


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    source = Path(__file__).parent / "mcmc" / "models.c"
    return str(Builder(tmp_path_factory.mktemp("models")).program([source], Variant("gcc", ("-O2",))))


@pytest.fixture
def start(models: str, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    return lambda name, **options: started(ars.Simulator([models, name], **options))


def off(chains: ars.Chains, name: str, truth: float) -> float:
    return abs(chains.mean(name) - truth) / chains.mcse(name)  # type: ignore[operator, return-value]


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.compiler
@pytest.mark.parametrize("continuations", ["auto", "fork"])
def test_draws_that_are_no_latents(start: Callable[..., ars.Simulator], continuations: str) -> None:
    """They decide p(A) of the loop, and whether a try is rejected before its latent is drawn."""
    steps = 400 if continuations == "auto" else 60
    chains = start("nuisance", continuations=continuations).mcmc({"y": 0.8}, steps, seed=SEED, M=2)
    x = np.linspace(0, 1, 2001)
    u = np.linspace(0, 1, 201)[:, None]
    likelihood = stats.norm.pdf(0.8, x, 0.3 + 0.2 * u).mean(axis=0)
    assert off(chains, "x_final", float(np.sum(x * likelihood) / np.sum(likelihood))) < LIMIT


@pytest.mark.compiler
def test_counts_switches_and_choices(start: Callable[..., ars.Simulator]) -> None:
    """Against weighted traces of the prior."""
    sim = start("counts")
    weighted = sim.posterior({"y": 9.0}, 50_000, seed=1)
    chains = sim.mcmc({"y": 9.0}, 100, 32, seed=SEED, warmup=50, thin=4)
    for name in ("sum", "how_many", "was_on"):
        error = np.hypot(chains.mcse(name), weighted.mean_error(name))
        assert abs(chains.mean(name) - weighted.mean(name)) / error < LIMIT, name  # type: ignore[operator]


# ---- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_a_network_adds_moves(simulator: Callable[..., ars.Simulator]) -> None:
    pytest.importorskip("torch")
    case = exact.truncated_normal("b")
    sim = simulator(*case.command)
    sizes = {"observe_hidden": 16, "head_hidden": 16}
    network = sim.train(4_000, 16, batch_size=128, seed=1, lr=1e-2, threads=1, architecture=sizes)
    chains = sim.mcmc(case.observed, 100, network=network, seed=SEED, blocks=[["x", "z"]])
    for name, truth in case.posterior_mean.items():
        assert off(chains, name, truth) < LIMIT
    for kind in ("propose", "propose rest", "propose all", "propose block 0 (x, z)"):
        assert chains.acceptance[kind].share > 0.2, kind


# ---- the same bits ---------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_draws_with_any_number_of_workers(simulator: Callable[..., ars.Simulator]) -> None:
    def draws(workers: int | None, seed: int) -> np.ndarray:
        sim = simulator("branching", workers=workers)
        return sim.mcmc({"y": 1.0}, 30, 6, seed=seed, warmup=20)["x_final"]

    first = draws(None, 5)
    assert first.shape == (6, 30)
    np.testing.assert_array_equal(first, draws(2, 5))
    assert (first != draws(2, 6)).any()


# ---- what can go wrong -----------------------------------------------------------------------------------------------


def test_blocks_are_moved_and_checked(simulator: Callable[..., ars.Simulator]) -> None:
    case = exact.sequence()
    sim = simulator(*case.command)
    chains = sim.mcmc(case.observed, 200, seed=SEED, thin=2, blocks=[["a", "b"], ["c"]])
    assert off(chains, "total", case.posterior_mean["total"]) < LIMIT
    assert {"walk block 0 (a, b)", "redraw block 0 (a, b)", "walk block 1 (c)"} <= set(chains.acceptance)
    with pytest.raises(ars.ChainError, match="no latent has the name 'q'; the latents are: 'a', 'b', 'c'"):
        sim.mcmc(case.observed, 5, blocks=[["a", "q"]], seed=1)


@pytest.mark.compiler
def test_data_that_no_draw_explains(
    start: Callable[..., ars.Simulator], simulator: Callable[..., ars.Simulator]
) -> None:
    sim = simulator("beta_bernoulli", 2, 3)
    with pytest.raises(ars.ObservationError, match="impossible"):
        sim.mcmc({"y": [1, 1, 0.5]}, 10, seed=1)
    with pytest.raises(ars.ChainError, match=r'no chain can begin: the likelihood of "y" is 0 in all'):
        start("counts").mcmc({"y": 1e200}, 10, 4, seed=1)
    with pytest.raises(ValueError, match="infinite"):
        sim.mcmc({"y": float("inf")}, 10)


@pytest.mark.compiler
def test_failures_follow_the_policy(start: Callable[..., ars.Simulator]) -> None:
    sim = start("fails")
    with pytest.raises(ars.TraceFailure, match="NaN"):
        sim.mcmc({"y": 1.0}, 10, seed=1)
    chains = sim.mcmc({"y": 1.0}, 200, seed=SEED, on_failure="zero")
    assert chains.failures["nan"] > 10
    assert "failed traces" in chains.summary()
    assert off(chains, "x_final", 0.5) < LIMIT
    assert chains["u"].min() > 0.2


def test_nothing_observed_gives_the_prior_and_says_so(simulator: Callable[..., ars.Simulator]) -> None:
    with pytest.warns(ars.ObservationWarning, match="every number in observe is NaN"):
        chains = simulator("gaussian").mcmc({"y": float("nan")}, 300, seed=SEED, thin=1)
    assert off(chains, "mu", 0.0) < LIMIT


@pytest.mark.compiler
def test_processes_that_die_are_mentioned_once(
    start: Callable[..., ars.Simulator], caplog: pytest.LogCaptureFixture
) -> None:
    """A move is a run of its own, and there are hundreds."""
    chains = start("dies").mcmc({"y": 0.5}, 5, 4, seed=1, warmup=5, on_failure="zero")
    assert chains.failures["crash"] > 5
    assert caplog.text.count("because the process had died") == 1


@pytest.mark.compiler
def test_a_loop_that_is_hardly_ever_accepted_is_a_failure(start: Callable[..., ars.Simulator]) -> None:
    sim = start("never", max_tries=1000)
    with pytest.raises(ars.TraceFailure, match="max_tries"):
        sim.mcmc({"y": 0.2}, 10, seed=1)
    assert sim.mcmc({"y": 0.2}, 50, seed=1, on_failure="zero")["x"].max() <= 0.5


class Stop:
    """A progress bar at which somebody presses Ctrl-C."""

    def __init__(self, at: int) -> None:
        self._at = at

    def update(self, done: int, total: int) -> None:
        del total
        if done >= self._at:
            raise KeyboardInterrupt

    def close(self) -> None:
        pass


def test_an_interruption_gives_what_there_is(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("gaussian")
    with pytest.raises(ars.RunInterrupted) as early:
        sim.mcmc({"y": 0.5}, 100, 4, seed=1, warmup=50, progress=Stop(4 * 20))
    assert early.value.partial is None
    with pytest.raises(ars.RunInterrupted) as later:
        sim.mcmc({"y": 0.5}, 100, 4, seed=1, warmup=50, progress=Stop(4 * 60))
    partial = later.value.partial
    assert isinstance(partial, ars.Chains)
    assert partial.shape == (4, 10)
    np.testing.assert_array_equal(partial["mu"], sim.mcmc({"y": 0.5}, 100, 4, seed=1, warmup=50)["mu"][:, :10])


# ---- the command line ------------------------------------------------------------------------------------------------


def test_the_command(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mcmc", csim("gaussian"), "--observe", "y=0.5", "--steps", "300", "--seed", "1", "--quiet"]
    out = tmp_path / "chains.nc"
    code = main([*words, "--out", str(out)])
    text = capsys.readouterr().out
    chains = ars.Chains.load(out)
    assert code == (0 if chains.trusted else 3)
    assert text == f"{chains.summary()}\nwritten to {out}\n"
    assert main([*words, "--json", "--chains", "2", "--warmup", "5", "--thin", "1", "--M", "2", "--block", "mu"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["chains"] == 2
    assert found["trusted"] is False
    assert main([*words, "--block", "nu"]) == 1
    assert "no latent has the name 'nu'" in capsys.readouterr().err
    for wrong in (["--steps", "0"], ["--out", str(tmp_path / "x.csv")]):
        with pytest.raises(SystemExit) as end:
            main([*words, *wrong])
        assert end.value.code == 2


@pytest.mark.compiler
def test_what_ends_the_chains_early_loses_no_draw(
    models: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], nothing_left_behind: None
) -> None:
    del nothing_left_behind
    out = tmp_path / "chains.nc"
    words = ["mcmc", models, "seldom", "--observe", "y=0.5", "--seed", "1", "--quiet", "--warmup", "0"]
    assert main([*words, "--steps", "500", "--chains", "2", "--out", str(out)]) == 1
    said = capsys.readouterr()
    chains = ars.Chains.load(out)
    assert 10 < chains.shape[1] < 500
    assert f"ars mcmc: ended after {chains.shape[1]:,} of 500 steps" in said.err
    assert f"2 chains of {chains.shape[1]} draws each" in said.out and said.out.endswith(f"written to {out}\n")
    assert "nan" in said.err and "--on-failure zero refuses a move whose trace fails" in said.err


def test_draws_are_shown_although_their_file_cannot_be_written(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = ["mcmc", csim("gaussian"), "--observe", "y=0.5", "--seed", "1", "--quiet", "--steps", "20"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert main([*words, "--out", str(tmp_path / "chains.nc")]) == 1
    said = capsys.readouterr()
    assert "R-hat" in said.out and "written to" not in said.out
    assert "chains.nc could not be written: the disk is full" in said.err


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.compiler
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of docs/mcmc.md runs as it stands there, with a tenth of the steps."""
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    source = tmp_path / "decay.c"
    source.write_text(blocks[0])
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs/mcmc.md").read_text(), flags=re.DOTALL))
    fewer = re.sub(r"\d+_000\b", lambda number: str(int(number[0]) // 10), code)
    names: dict[str, Any] = {}
    try:
        exec(compile(fewer, "docs/mcmc.md", "exec"), names)
    finally:
        if "simulator" in names:
            names["simulator"].close()
    assert "TRUSTED" in capsys.readouterr().out
    assert (tmp_path / "chains.nc").exists()

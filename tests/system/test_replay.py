"""A run fails with a command that is complete: typed as it is printed, it repeats the failure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import ars
from ars.cli import main

Capture = pytest.CaptureFixture[str]


def _advised(said: str) -> list[str]:
    """The words after "ars" of the command that the failure advises."""
    found = re.search(r"^To rerun only this trace: ars (.*)$", said, re.M)
    assert found is not None, said
    return shlex.split(found[1])


def _failure(said: str) -> str:
    found = re.search(r"trace \d+: .*", said)
    assert found is not None, said
    return found[0]


def _repeats(command: list[str], capfd: Capture) -> list[str]:
    """Fails, and its advice fails alike. Returns the advice."""
    assert main(command) == 1
    said = capfd.readouterr().err
    advised = _advised(said)
    assert main(advised) == 1
    assert _failure(capfd.readouterr().out) == _failure(said)
    return advised


def _without(words: list[str], option: str, values: int = 1) -> list[str]:
    at = words.index(option)
    return [*words[:at], *words[at + 1 + values :]]


def test_a_run_with_limits(csim: Callable[[str], str], capfd: Capture) -> None:
    command = [
        "infer",
        csim("truncated_normal"),
        "b",
        "--observe",
        "y=-0.5",
        "--traces",
        "2000",
        "--seed",
        "7",
        "--quiet",
    ]
    limits = ["--max-tries", "40", "--trace-timeout", "30", "--max-memory", "1G", "--max-snapshots", "9"]
    advised = _repeats([*command, *limits, "--workers", "3"], capfd)
    assert {"--max-tries", "--trace-timeout", "--max-memory", "--max-snapshots"} < set(advised)
    assert main(_without(advised, "--max-tries")) == 0  # so the limit is a part of the run


def test_a_run_with_a_network_and_a_file_of_data(csim: Callable[[str], str], tmp_path: Path, capfd: Capture) -> None:
    simulator = [csim("truncated_normal"), "b"]
    data, network = tmp_path / "the data.json", tmp_path / "net.safetensors"
    data.write_text(json.dumps({"y": -0.5}))
    with ars.Simulator(simulator, workers=2) as sim:
        sim.train(512, lstm_dim=8, batch_size=64, seed=1, progress=False).save(network)
    command = ["infer", *simulator, "--observe-file", str(data), "--network", str(network), "--budget", "2", "5"]
    command += ["--max-tries", "6", "--seed", "18446744073709551615", "--traces", "500", "--quiet"]
    advised = _repeats(command, capfd)
    assert advised[advised.index("--budget") + 1 : advised.index("--budget") + 3] == ["2", "5"]
    advised = _repeats([*command, "--in-loops", "prior"], capfd)
    assert "--in-loops" in advised


def test_a_training(csim: Callable[[str], str], tmp_path: Path, capfd: Capture) -> None:
    command = [
        "train",
        csim("truncated_normal"),
        "--max-tries",
        "1",
        "--traces",
        "200",
        "--lstm-dim",
        "8",
        "--seed",
        "4",
    ]
    advised = _repeats([*command, "--quiet", "--out", str(tmp_path / "net.safetensors")], capfd)
    assert main(_without(advised, "--max-tries")) == 0


def test_a_run_from_python(csim: Callable[[str], str], capfd: Capture) -> None:
    with ars.Simulator([csim("truncated_normal"), "a"], workers=2, max_tries=1) as sim:
        with pytest.raises(ars.TraceFailure) as prior:
            sim.prior(50, seed=3)
        with pytest.raises(ars.TraceFailure) as posterior:
            sim.posterior({"y": -1 / 3}, 50, seed=3)
    for error in (prior.value, posterior.value):
        assert main(_advised(str(error))) == 1
        assert str(error.failures[0]) in capfd.readouterr().out
    with ars.Simulator([csim("truncated_normal"), "a"], workers=2, max_tries=1, env={"LANG": "C"}) as sim:
        words = r"To rerun only this trace: sim\.prior\(1, first_trace=\d+, seed=3\)\n"
        with pytest.raises(ars.TraceFailure, match=words) as caught:
            sim.prior(50, seed=3)
        assert "ars replay" not in str(caught.value)


@pytest.mark.parametrize("option", [["--network", "net"], ["--budget", "1", "10"], ["--in-loops", "prior"]])
def test_options_that_would_be_ignored_are_refused(
    option: list[str], csim: Callable[[str], str], capfd: Capture
) -> None:
    assert main(["replay", csim("truncated_normal"), "--seed", "1", "--trace", "0", *option]) == 2
    assert f"ars replay: {option[0]} goes with data" in capfd.readouterr().err


def test_a_plan_is_no_budget_for_one_trace(csim: Callable[[str], str], capfd: Capture) -> None:
    command = [
        "replay",
        csim("truncated_normal"),
        "--observe",
        "y=0",
        "--seed",
        "1",
        "--trace",
        "0",
        "--budget",
        "auto",
    ]
    assert main(command) == 2
    assert "--budget auto plans for many traces; give the budget that this trace had" in capfd.readouterr().err


@pytest.mark.parametrize("budget", ["none", "M=1,R=0", "M=1,R=2", "M=2,N=4,reuse"])
def test_every_fixed_budget_can_be_replayed(budget: str, csim: Callable[[str], str], capfd: Capture) -> None:
    """Without a network nothing is estimated."""
    command = ["replay", "--seed", "1", "--trace", "3", "--observe", "y=-0.5", "--budget", budget]
    assert main([*command, csim("truncated_normal"), "b"]) == 0
    out = capfd.readouterr().out
    assert re.search(r"(1 try|\d+ tries)\n", out) and "under q" not in out and "log weight (ars)" in out
    assert re.search(r"^  result x_final = -?\d+\.\d+$", out, re.MULTILINE)  # a number, not a name of NumPy's

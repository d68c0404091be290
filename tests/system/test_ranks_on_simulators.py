"""Training on two ranks with simulators, as scripts and the command line do it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.cli import main
from torchrun import finished, started

pytest.importorskip("torch")
pytest.importorskip("safetensors")
import rank_scripts

pytestmark = [pytest.mark.usefixtures("one_torch_thread"), pytest.mark.timeout(600), pytest.mark.slow]

TINY = ("--lstm-dim", "8", "--batch-size", "50", "--workers", "1", "--seed", "1", "--held-out", "64")


@pytest.fixture(scope="module")
def found(csim: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What every training gave: on rank 0, on rank 1, and in this process."""
    directory = tmp_path_factory.mktemp("ranks")
    executable = csim("branching")
    alone: dict[str, dict[str, Any]] = {}
    with ars.Simulator([executable], workers=2) as sim:
        sim.record(300, directory / "traces", seed=5, max_rejected=8)
        alone["fresh"] = rank_scripts.about(rank_scripts.fresh(sim, directory))
        alone["recorded"] = rank_scripts.about(rank_scripts.recorded(sim, directory))
        alone["halted"] = rank_scripts.attempted(lambda: rank_scripts.halted(sim, directory / "of one.safetensors"))
        program = [rank_scripts.__file__, str(Path(executable).parent), str(directory)]
        code, out, err = finished(started(program))
        assert code == 0, out + err
        alone["resumed"] = rank_scripts.about(rank_scripts.resumed(sim, directory / "of two.safetensors"))
    ranks = [json.loads((directory / f"{rank}.json").read_text()) for rank in (0, 1)]
    return {name: [*(rank[name] for rank in ranks), alone.get(name, {})] for name in ranks[0]}


Found = dict[str, list[dict[str, Any]]]


def assert_same_training(two: dict[str, Any], one: dict[str, Any]) -> None:
    assert two["sites"] == one["sites"] and two["seed"] == one["seed"] and len(one["curve"]) > 3
    np.testing.assert_allclose(two["curve"], one["curve"], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["fresh", "recorded"])
def test_two_ranks_have_the_loss_curve_of_one_process(found: Found, name: str) -> None:
    """The recording is of what loops reject, too, with numbers hidden, and its traces are used more than once."""
    first, second, alone = found[name]
    assert first == second
    assert_same_training(first, alone)


def test_a_training_goes_on_with_another_number_of_ranks(found: Found) -> None:
    """Interrupted on two ranks, by a signal to the first, and resumed by one process; and the other way round."""
    words = f"RunInterrupted: the training was interrupted after {rank_scripts.HALF} of 601 traces"
    assert [each["error"] for each in found["halted"]] == [
        f"{words}; it can be resumed",
        words,
        f"{words}; it can be resumed",
    ]
    two, other, one = found["resumed"]
    assert two == other
    whole = found["fresh"][2]
    assert_same_training(two, whole)
    assert_same_training(one, whole)


def test_ranks_agree_on_what_is_random(found: Found) -> None:
    """A seed that nobody gave, and the weights that a module of one's own begins with."""
    for name in ("random seed", "own module"):
        first, second, _ = found[name]
        assert "error" not in first and first == second


def test_what_is_wrong_on_one_rank_is_said_on_both(found: Found) -> None:
    for each in found["batch norm"][:2]:
        assert each["error"].startswith("TrainingError: one of your embeddings has a BatchNorm layer")
    for each in found["other settings"][:2]:
        assert each["error"].startswith("TrainingError: 'lr' is 0.002 on rank 1, 0.001 on rank 0")
    first, second, _ = found["no simulator"]
    assert second["error"].startswith("LaunchError: ") and "no such simulator" in second["error"]
    assert first["error"] == "TrainingError: rank 1 of 2: " + second["error"].removeprefix("LaunchError: ")


# ---- the command line ------------------------------------------------------------------------------------------------


def test_the_command_line_under_torchrun(csim: Callable[[str], str], tmp_path: Path) -> None:
    """Interrupted as Ctrl-C does it, then resumed: every message once, by the first rank."""
    file = tmp_path / "net.safetensors"
    words = ["-m", "ars", "train", csim("branching"), *TINY, "--out", str(file), "--traces"]
    process = started([*words, "10_000_000"])
    assert process.stderr is not None
    seen = ""
    while "traces, " not in seen:  # the progress bar
        part = os.read(process.stderr.fileno(), 1000).decode()
        assert part, seen
        seen += part
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    err = seen + err
    assert code != 0 and not out
    assert err.count("the training was interrupted after ") == 1 == err.count("; it can be resumed"), err
    assert "site-packages/ars/" not in err, err  # no traceback of ours

    position = ars.Network.load(file).history[-1].traces if len(ars.Network.load(file).history) else 0
    process = started([*words, str(position + 2000), "--resume", "--quiet"])
    code, out, err = finished(process)
    assert code == 0, err
    assert out.count("Network of ") == out.count("written to ") == 1 and "ars train" not in err


def test_options_that_cannot_be(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", csim("gaussian"), *TINY, "--traces", "100", "--out", str(tmp_path / "net.safetensors")]
    assert main([*words, "--device", "tpu"]) == 2
    assert "device must be 'cpu', 'cuda' or 'cuda:N', not 'tpu'" in capsys.readouterr().err
    assert main([*words, "--device", "cuda:99"]) == 2
    assert "device 'cuda:99' is not available: torch " in capsys.readouterr().err


def test_recording_is_for_one_process(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", csim("gaussian"), *TINY, "--record", "100", "--data", str(tmp_path / "traces")]) == 2
    assert "run ars record first, then torchrun" in capsys.readouterr().err
    assert not (tmp_path / "traces").exists()

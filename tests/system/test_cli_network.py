"""``ars train``, ``ars infer`` and ``ars inspect``, from the command line to the files."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ars.cli import main

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
from ars.network.facade import Network  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = ["--lstm-dim", "8", "--components", "2", "--batch-size", "100", "--threads", "1", "--seed", "1"]


def test_from_training_to_a_posterior(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = str(tmp_path / "net.safetensors")
    exe = csim("gaussian")
    assert main(["train", exe, "2", "--traces", "1000", *SMALL, "--out", net, "--workers", "2"]) == 0
    out, err = capsys.readouterr()
    assert "LSTM 8 x 1, 1 sites" in out and "1,000/1,000 traces" in err and "loss" in err
    assert Network.load(net).history[-1].traces == 1000
    # finished: resuming trains no more
    assert main(["train", exe, "2", "--traces", "1000", *SMALL, "--out", net, "--workers", "2", "--resume"]) == 0
    assert main(["inspect", net]) == 0
    assert "mu" in capsys.readouterr().out
    assert main(["inspect", exe, "2", "--network", net, "--traces", "50", "--workers", "2"]) == 0
    out = capsys.readouterr().out
    assert "mu       NORMAL" in out and re.search(r"mu +NORMAL .* yes +yes\n", out)
    assert main(["inspect", csim("truncated_normal"), "a", "--network", net, "--traces", "50", "--workers", "2"]) == 1
    assert "does not fit: the network knows 'mu'" in capsys.readouterr().out

    data = tmp_path / "data.json"
    data.write_text(json.dumps({"y": [0.5, 0.7]}))
    infer = ["infer", exe, "2", "--network", net, "--traces", "2000", "--seed", "1", "--workers", "2", "--quiet"]
    table = tmp_path / "out.csv"
    assert main([*infer, "--observe-file", str(data), "--out", str(table)]) == 0
    assert "evidence" in capsys.readouterr().out
    with table.open() as file:
        rows = list(csv.DictReader(file))
    log_weight = np.array([float(row["log_weight_ars"]) for row in rows])
    # p(y) of two data around a common mean: covariance [[1.25, 1], [1, 1.25]]
    exact = math.exp(-0.5 * (1.25 * (0.25 + 0.49) - 2 * 0.35) / 0.5625) / (2 * math.pi * 0.75)
    weights = np.exp(log_weight)
    assert abs(weights.mean() - exact) < 4 * weights.std() / math.sqrt(len(weights))
    again = tmp_path / "out.npz"
    assert main([*infer, "--observe", "y=0.5,0.7", "--out", str(again)]) == 0
    with np.load(again) as arrays:
        np.testing.assert_array_equal(arrays["log_weight_ars"], log_weight)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "data.json", "net.safetensors", "net.training.safetensors", "out.csv", "out.npz",
    ]  # fmt: skip


def test_recording_and_training_on_it(csim: Callable[[str], str], tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    arguments = [csim("branching"), "--traces", "400", *SMALL, "--workers", "2", "--quiet", "--data", folder]
    assert main(["train", *arguments, "--record", "500", "--out", str(tmp_path / "a.safetensors")]) == 0
    assert main(["train", *arguments, "--out", str(tmp_path / "b.safetensors")]) == 0
    assert (
        Network.load(tmp_path / "b.safetensors").history.loss == Network.load(tmp_path / "a.safetensors").history.loss
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "EXE", "--record", "5"], 2, "--record needs --data"),
        (["train", "EXE", "--data", "missing"], 1, "holds no recorded traces"),
        (["train", "EXE", "--out", "missing/net"], 1, "cannot be written"),
        (["train", "EXE", "--traces", "100", "--shape", "y=2x2", "--workers", "2"], 1, "does not hold its 1 numbers"),
        (["train", "missing"], 1, "missing"),
        (["infer", "EXE"], 1, "no data were given"),
        (["infer", "EXE", "--observe", "y=inf", "--workers", "2"], 2, "infinite"),
        (["infer", "EXE", "--observe", "y=1", "--network", "missing"], 1, "cannot be read"),
        (["infer", "EXE", "--observe-file", "data.txt"], 2, r"must end in .json or .npz"),
        (["inspect", "missing.safetensors"], 1, "cannot be read"),
    ],
)
def test_mistakes_are_named(
    csim: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([csim("gaussian") if word == "EXE" else word for word in arguments]) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [["--traces", "0"], ["--lr", "-1"], ["--shape", "y"], ["--lstm-dim", "x"], ["--components", "99"]]
)
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "sim", *arguments])
    assert stopped.value.code == 2

"""The code of docs/training.md runs as it stands there, but with a hundredth of the traces."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from tests.system.build_helpers import Builder, Variant

import ars
from ars.cli import infer, train
from ars.config import NetworkConfig, TrainingConfig

pytest.importorskip("torch")
from ars.network.train.batches import _LARGEST_TREE

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.usefixtures("one_torch_thread")
def test_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "decay.c"
    source.write_text(blocks("README.md", "c")[0])
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("docs/training.md", "python"))
    fewer = re.sub(r"\d+_000\b", lambda number: str(max(int(number[0]) // 100, 100)), code)
    assert "_000" not in fewer != code
    names: dict[str, object] = {}
    try:
        exec(compile(fewer, "docs/training.md", "exec"), names)
    finally:
        if "simulator" in names:
            names["simulator"].close()  # type: ignore[attr-defined]
    assert "effective traces" in capsys.readouterr().out
    held_out = names["held_out"]
    assert isinstance(held_out, list) and np.isfinite(held_out).all()
    made = {path.name for path in tmp_path.iterdir()} - {"decay.c", "decay", "built"}
    assert made == {"decay.safetensors", "decay.training.safetensors", "own.safetensors", "traces"}
    assert names["network"].training["train_on"] == "all"  # type: ignore[attr-defined]


def test_the_page_names_what_there_is() -> None:
    """Arguments, options and limits that the page mentions."""
    page = (ROOT / "docs/training.md").read_text()
    arguments = inspect.signature(ars.Simulator.train).parameters
    fields = {field.name for group in (NetworkConfig, TrainingConfig) for field in dataclasses.fields(group)}
    for name in ("lstm_dim", "lstm_depth", "components", "batch_size", "lr", "architecture", "threads", "max_rejected"):
        assert name in arguments and f"`{name}" in page
    assert set(re.findall(r"`([a-z]+_[a-z]+)`", page)) <= set(arguments) | fields
    assert f"{_LARGEST_TREE:,} draws" in page and f"max_rejected={TrainingConfig.max_rejected}`" in page
    parsers = [argparse.ArgumentParser(), argparse.ArgumentParser()]
    train.add_arguments(parsers[0])
    infer.add_arguments(parsers[1])
    options = {option for parser in parsers for option in parser._option_string_actions}
    torchruns = {"--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint"}
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= options | torchruns

"""Training as a user meets it: images, modules of one's own, files that others read, and what goes wrong."""

from __future__ import annotations

import builtins
import errno
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.cli import main

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
from ars.errors import BatchError, CheckpointError, EmbeddingError, ShardError, StorageError, TrainingError  # noqa: E402
from ars.network.checkpoint import training_path  # noqa: E402
from ars.network.train.batches import Batcher  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL: dict[str, Any] = {
    "batch_size": 50,
    "seed": 1,
    "threads": 1,
    "architecture": {"observe_hidden": 16, "value_dim": 8, "head_hidden": 16},
}


class Flat(torch.nn.Module):
    """An image as 400 numbers, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(400, 64), torch.nn.SiLU(), torch.nn.Linear(64, 32))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(image.flatten(1) / 10)
        return out


# ---- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(200)
@pytest.mark.parametrize("own", [False, True], ids=["convolutions", "a module of one's own"])
def test_a_network_that_sees_the_calorimeter_knows_more_than_any_that_does_not(
    csim: Callable[[str], str], tmp_path: Path, own: bool
) -> None:
    """Without the image nothing beats the distribution of what is accepted: 1/3 per channel, pz uniform over 10, phi
    over 2 pi, and (x, a) of a theta uniform over an area of 1."""
    embeddings = {"calorimeter": Flat()} if own else None
    file = tmp_path / "net.safetensors"
    with ars.Simulator([csim("mini_sherpa")], workers=4) as sim:
        options = {**SMALL, "batch_size": 128, "lr": 3e-3, "architecture": {"observe_hidden": 64, "head_hidden": 64}}
        image = {"calorimeter": (20, 20)}
        net = sim.train(6000, 32, shapes=image, embeddings=embeddings, out=file, **options)
        assert net.observation_shapes == {"calorimeter": (20, 20)}
        held_out = net.history.held_out
        assert held_out[-1] is not None and held_out[0] is not None and held_out[-1] < held_out[0] - 0.3
        columns, sites = sim._prior_chunk(99, 0, 800)
        loaded = ars.Network.load(file, embeddings={"calorimeter": Flat()} if own else None)
        with torch.no_grad():
            batch, changed = Batcher(net.vocabulary.copy(), net.observation_shapes)(columns, sites)
            assert not changed
            log_q = net.network.log_probs(batch).sum(dim=0).numpy()
            np.testing.assert_array_equal(loaded.network.log_probs(batch).sum(dim=0).numpy(), log_q)
        phis = (columns.traces["n_samples"] - 4) / 3
        blind = -math.log(3) - math.log(10) - phis * math.log(2 * math.pi)
        gain = log_q - blind
        assert gain.mean() > 3 * gain.std() / math.sqrt(len(gain))

        seen = sim.prior(1, seed=11).observations["calorimeter"]
        post = sim.posterior({"calorimeter": seen.reshape(20, 20)}, 60, network=loaded, seed=2)
        assert np.isfinite(post.log_weights("ars")).any()
        for wrong, said in ((np.zeros((10, 40)), r"\(10, 40\)"), (np.zeros(399), r"\(399,\)")):
            with pytest.raises(ars.ObservationError, match=rf"'calorimeter' has shape {said}.*made for \(20, 20\)"):
                sim.posterior({"calorimeter": wrong}, 5, network=loaded)
        with pytest.raises(BatchError, match=r"shape \(20, 21\) does not hold its 400 numbers"):
            sim.train(100, 8, shapes={"calorimeter": (20, 21)}, **SMALL)


def test_a_module_that_returns_the_wrong_size_is_named_before_anything_is_trained(
    csim: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "net.safetensors"
    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        sim.train(200, 8, out=file, **SMALL)
        before = file.read_bytes()
        with pytest.raises(EmbeddingError, match=r"'y' returned shape \(2, 7\), expected \(2, 32\).*last layer"):
            sim.train(200, 8, embeddings={"y": torch.nn.Linear(2, 7)}, out=file, **SMALL)
        assert file.read_bytes() == before


# ---- what remains when a training fails ------------------------------------------------------------------------------


class Spoilt(torch.nn.Module):
    """Numbers for a while, then NaN."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 32)
        self.good = good

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.good -= 1
        return self.layer(x) * (1.0 if self.good > 0 else math.nan)


def test_a_nan_ends_the_training_and_the_last_good_checkpoint_remains(
    csim: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "net.safetensors"
    options: dict[str, Any] = {"out": file, "checkpoint_every": 0.0, "resume": True, **SMALL}
    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        with pytest.raises(TrainingError, match=r"loss became nan after [\d,]+ traces.*last checkpoint is intact"):
            sim.train(2000, 8, embeddings={"y": Spoilt(20)}, **options)
        kept = ars.Network.load(file, embeddings={"y": Spoilt(10**9)})
        assert all(bool(torch.isfinite(p).all()) for p in kept.network.parameters())
        whole = sim.train(2000, 8, embeddings={"y": Spoilt(10**9)}, **options)  # goes on from there
        assert whole.history[-1].traces == 2000 and math.isfinite(whole.history[-1].loss)


def test_a_full_disk_ends_the_training_and_the_last_good_checkpoint_remains(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.safetensors"
    options: dict[str, Any] = {"out": file, "checkpoint_every": 0.0, "resume": True, **SMALL}
    real, left = os.fsync, 9

    def full(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match=r"the disk is full\. A file that was there is unchanged"):
                sim.train(2000, 8, **options)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net.safetensors", "net.training.safetensors"]
        ars.Network.load(file)
        whole = sim.train(2000, 8, **options)
        straight = sim.train(2000, 8, **SMALL)
        assert whole.history.loss == straight.history.loss  # as if nothing had happened
        # A checkpoint that is cut is refused, and stays as it is.
        cut = training_path(file).read_bytes()[:-100]
        training_path(file).write_bytes(cut)
        with pytest.raises(CheckpointError, match=r"damaged|truncated"):
            sim.train(4000, 8, **options)
        assert training_path(file).read_bytes() == cut


def test_a_folder_of_another_simulator_is_refused(csim: Callable[[str], str], tmp_path: Path) -> None:
    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        sim.record(200, tmp_path / "data", seed=1)
    with (
        ars.Simulator([csim("nested")], workers=2) as sim,
        pytest.raises(ShardError, match=r"another simulator(?s:.*)'mu' is in the folder, not in the simulator"),
    ):
        sim.train(200, 8, data=tmp_path / "data", **SMALL)


# ---- other programs' files -------------------------------------------------------------------------------------------


def test_infer_writes_a_file_for_arviz(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["infer", csim("truncated_normal"), "b", "--observe", "y=-1", "--traces", "50", "--workers", "2"]
    common += ["--seed", "4", "--quiet", "--out"]
    assert main([*common, str(tmp_path / "post.npz")]) == 0
    try:
        import h5netcdf  # noqa: F401
    except ImportError:
        with pytest.raises(SystemExit) as stopped:
            main([*common, str(tmp_path / "post.nc")])
        assert stopped.value.code == 2
        assert "pip install 'libars[arviz]', or use .npz" in capsys.readouterr().err
        return
    import xarray

    assert main([*common, str(tmp_path / "post.nc")]) == 0
    with xarray.open_datatree(tmp_path / "post.nc") as tree, np.load(tmp_path / "post.npz") as arrays:
        np.testing.assert_array_equal(tree["weighted_posterior/log_weight_ars"].values, arrays["log_weight_ars"])
        np.testing.assert_array_equal(tree["weighted_posterior/z_final"].values, arrays["z_final"])
        rows = tree["sample_stats/row"].values[0]
        np.testing.assert_array_equal(tree["posterior/z_final"].values[0], arrays["z_final"][rows])
        assert tree["observed_data/y"].values.item() == -1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["post.nc", "post.npz"]


def test_curves_for_tensorboard(csim: Callable[[str], str], tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        net = sim.train(1000, 8, tensorboard=tmp_path / "board", **SMALL)
    found = events.EventAccumulator(str(tmp_path / "board")).Reload()
    for name in ("loss", "held_out", "lr"):
        written = [(event.step, event.value) for event in found.Scalars(name)]
        assert written == [(e.traces, pytest.approx(getattr(e, name), rel=1e-6)) for e in net.history]
    assert len(found.Scalars("traces_per_second")) == len(net.history)


def test_without_tensorboard_the_error_says_what_to_install(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")
        return real(name, *arguments, **options)

    with ars.Simulator([csim("gaussian"), "2"], workers=2) as sim:
        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ars.ArsError, match="pip install tensorboard"):
            sim.train(100, 8, tensorboard=tmp_path / "board", **SMALL)

"""Networks on disk: what is loaded is what was saved, nothing is executed, and damage is named."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from column_builder import Sample, Trace, observation, pack

from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.config import NetworkConfig

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
from ars.errors import CheckpointError, StorageError  # noqa: E402
from ars.network.checkpoint import TrainingState, load_training, save_training  # noqa: E402
from ars.network.facade import Network  # noqa: E402
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.trace_batch import TraceBatch  # noqa: E402
from ars.network.model.vocabulary import Vocabulary  # noqa: E402
from ars.network.train.batches import Batcher  # noqa: E402
from ars.network.train.history import Entry, TrainingHistory  # noqa: E402

SMALL = NetworkConfig(lstm_dim=12, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8)
SITES = (
    Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "loop/x"),
    Site(1, SiteKind.SAMPLE, DistKind.CATEGORICAL, "k"),
    observation(2, "y"),
)


def made(embeddings: dict[str, torch.nn.Module] | None = None) -> tuple[Network, TraceBatch]:
    samples = [
        Sample(1, 2.0, params=(0.2, 0.3, 0.5), kind=DistKind.CATEGORICAL),
        Sample(0, 0.3, params=(0, 1)),
    ]
    columns = pack([Trace(0, samples=samples, observes=[(2, [0.5, 1.0])]), Trace(1, observes=[(2, [2.0, 3.0])])])
    batcher = Batcher(Vocabulary(), {"y": (2,)})
    batch, _ = batcher(columns, SITES)
    module = ProposalNetwork(SMALL, batcher.vocabulary, {"y": (2,)}, embeddings, seed=3)
    with torch.no_grad():
        module.train().loss(batch)  # learns the scales
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    history = TrainingHistory([Entry(512, 1.5, None, 1e-3, 0.1, 5000.0), Entry(1024, 1.25, 1.3, 1e-4, 0.2, 5120.0)])
    return Network(module.eval(), history, ["sim", "1"], {"lr": 1e-3}), batch


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    network, batch = made()
    network.save(tmp_path / "net.safetensors")
    loaded = Network.load(tmp_path / "net.safetensors")
    assert os.listdir(tmp_path) == ["net.safetensors"]
    assert torch.equal(loaded.network.log_probs(batch), network.network.log_probs(batch))
    assert loaded.vocabulary == network.vocabulary and loaded.config == SMALL
    assert loaded.observation_shapes == {"y": (2,)}
    assert loaded.history == network.history and loaded.history.held_out == [None, 1.3]
    assert loaded.simulator == ("sim", "1") and loaded.training == {"lr": 1e-3}
    assert not loaded.network.training
    assert repr(loaded) == repr(network) and "of sim 1: LSTM 12 x 1, 2 sites" in repr(loaded)


def test_any_damage_is_noticed(tmp_path: Path) -> None:
    """A flipped bit anywhere, in the header or in a weight, and any missing end."""
    path = tmp_path / "net.safetensors"
    made()[0].save(path)
    good = path.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    rng = np.random.default_rng(0)
    places = [*range(16), *rng.integers(8, header, 60).tolist(), *rng.integers(header, len(good), 40).tolist()]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(7))
        path.write_bytes(bad)
        with pytest.raises(CheckpointError, match=r"net\.safetensors"):
            Network.load(path)
    for size in (0, 5, 8, 100, header - 1, header, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(CheckpointError, match=r"net\.safetensors"):
            Network.load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(CheckpointError, match=r"net\.safetensors"):
        Network.load(path)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("executed",)


def test_files_of_others_are_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "other"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        Network.load(path)
    torch.save({"a": torch.zeros(3)}, path)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        Network.load(path)
    assert not (tmp_path / "executed").exists()
    safetensors.save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(CheckpointError, match="not one that ars wrote"):
        Network.load(path)
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        Network.load(tmp_path / "missing")
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory"):
        Network.load(tmp_path)


def test_trainings_and_networks_are_told_apart(tmp_path: Path) -> None:
    network, batch = made()
    weights = network.network
    state = TrainingState(weights, {"step.lstm": torch.ones(1)}, torch.get_rng_state(), {"position": 7}, {})
    save_training(tmp_path / "t", state)
    network.save(tmp_path / "n")
    loaded = load_training(tmp_path / "t")
    assert torch.equal(loaded.network.log_probs(batch), weights.log_probs(batch))
    assert loaded.about == {"position": 7} and loaded.optimizer.keys() == {"step.lstm"}
    assert torch.equal(loaded.random, state.random)
    with pytest.raises(CheckpointError, match="holds an unfinished training, expected a network"):
        Network.load(tmp_path / "t")
    with pytest.raises(CheckpointError, match="holds a network, expected an unfinished training"):
        load_training(tmp_path / "n")


def test_embeddings_of_the_user_are_asked_for(tmp_path: Path) -> None:
    network, batch = made({"y": torch.nn.Linear(2, 4)})
    network.save(tmp_path / "n")
    with pytest.raises(CheckpointError, match=r"with your own embeddings for \['y'\], but \[\] were given"):
        Network.load(tmp_path / "n")
    with pytest.raises(CheckpointError, match="do not make a network"):
        Network.load(tmp_path / "n", {"y": torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Linear(4, 4))})
    loaded = Network.load(tmp_path / "n", {"y": torch.nn.Linear(2, 4)})
    assert torch.equal(loaded.network.log_probs(batch), network.network.log_probs(batch))


def test_a_full_disk_leaves_the_last_good_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = made()
    network.save(tmp_path / "n")
    before = (tmp_path / "n").read_bytes()

    def full(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="the disk is full"):
            network.save(tmp_path / "n")
    assert os.listdir(tmp_path) == ["n"] and (tmp_path / "n").read_bytes() == before


def test_a_network_says_what_does_not_fit_a_simulator() -> None:
    network, _ = made()
    assert network.mismatches(SITES) == [] and network.unknown(SITES) == []
    changed = [SITES[0]._replace(dist=DistKind.GAMMA), *SITES[1:], SITES[0]._replace(id=9, address="new")]
    assert network.mismatches(changed) == ["'loop/x' has a GAMMA prior in the simulator, NORMAL in the network"]
    assert network.unknown(changed) == ["new"]
    assert network.mismatches([SITES[0]._replace(address="z")]) == [
        "the network knows 'k', 'loop/x'; the simulator has 'z'"
    ]

"""Training on simulators: it reaches the exact answer, and what interrupts it costs nothing."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ars
from ars.config import NetworkConfig, TrainingConfig

pytest.importorskip("torch")
pytest.importorskip("safetensors")
from ars.errors import ShardError
from ars.network.facade import Network
from ars.network.train.fit import train_simulator
from ars.store.shards import record

pytestmark = pytest.mark.usefixtures("one_torch_thread")

Make = Callable[..., ars.Simulator]
SMALL = NetworkConfig(
    lstm_dim=16, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, components=3
)


def test_trained_on_gaussian_the_loss_is_the_entropy_of_the_posterior(simulator: Make) -> None:
    """mu ~ N(0, 1), y_i ~ N(mu, 1/2), i = 1, 2: the posterior's variance is 1/9 for all data, and no network has a
    lower loss than its entropy, 0.5 log(2 pi e / 9) = 0.3203."""
    sim = simulator("gaussian", 2, workers=2)
    config = TrainingConfig(20_000, batch_size=256, lr=5e-3, seed=1, held_out=2000, evaluate_every=5000)
    network = train_simulator(sim, config, NetworkConfig(lstm_dim=32, head_hidden=32, observe_hidden=32, components=3))
    exact = 0.5 * math.log(2 * math.pi * math.e / 9)
    last = network.history[-1]
    error = math.sqrt(0.5 / 2000)  # of the mean of -log q over 2000 traces, if q is exact: its variance is 1/2
    assert last.traces == 20_000 and exact - 3 * error < last.held_out < exact + 3 * error + 0.03
    assert network.history.held_out[0] > last.held_out
    assert network.history.lr[-1] < network.history.lr[0]
    assert network.simulator == sim.command and network.vocabulary.index("mu") == 0


def test_a_simulators_training_resumes_from_its_files(simulator: Make, tmp_path: Path) -> None:
    sim = simulator("branching", workers=4)
    out = tmp_path / "net.safetensors"
    config = TrainingConfig(1000, batch_size=100, seed=4, held_out=100, evaluate_every=100)
    whole = train_simulator(sim, config, SMALL)
    halfway: dict[str, bytes] = {}

    class Stop:
        def update(self, done: int, total: int) -> None:
            if done == 500 and total == 1000:
                os.kill(os.getpid(), signal.SIGINT)

        def close(self) -> None:
            halfway.update({p.name: p.read_bytes() for p in tmp_path.iterdir()})

    with pytest.raises(ars.RunInterrupted):
        train_simulator(sim, config, SMALL, out=out, progress=Stop())
    assert halfway.keys() == {"net.safetensors", "net.training.safetensors"}
    assert Network.load(out).history[-1].traces == 500  # can be used already
    sim.close()  # the next host numbers the sites in its own way
    resumed = train_simulator(sim, config, SMALL, out=out, resume=True)
    assert resumed.history.loss == whole.history.loss and resumed.history.held_out == whole.history.held_out
    loaded = Network.load(out)
    assert loaded.history == resumed.history and loaded.vocabulary == whole.vocabulary
    again = train_simulator(sim, config, SMALL, out=out, resume=True)  # is finished: nothing to do
    assert again.history == resumed.history
    with pytest.raises(ars.ArsError, match=r"begun with other settings: lr was 0\.001, is 0\.002"):
        train_simulator(sim, dataclasses.replace(config, lr=2e-3), SMALL, out=out, resume=True)
    with pytest.raises(ars.ArsError, match="training of another network"):
        train_simulator(sim, config, dataclasses.replace(SMALL, lstm_dim=8), out=out, resume=True)


def test_the_same_seed_gives_the_same_training_whatever_the_workers(simulator: Make) -> None:
    config = TrainingConfig(600, batch_size=64, seed=2, held_out=64)
    one = train_simulator(simulator("branching", workers=1), config, SMALL)
    many = train_simulator(simulator("branching", workers=6), config, SMALL)
    other = train_simulator(simulator("branching", workers=6), dataclasses.replace(config, seed=3), SMALL)
    assert one.history.loss == many.history.loss != other.history.loss
    assert list(one.vocabulary) == list(many.vocabulary)


def test_recorded_traces_train_too_and_resume(simulator: Make, tmp_path: Path) -> None:
    sim = simulator("branching", workers=4)
    record(sim, 900, tmp_path / "data", seed=1, shard_traces=250)
    config = TrainingConfig(2000, batch_size=100, seed=4, held_out=90, evaluate_every=100)
    whole = train_simulator(sim, config, SMALL, data=tmp_path / "data", out=tmp_path / "a.safetensors")
    assert whole.history[-1].traces >= 2000 and whole.history.held_out[-1] < whole.history.held_out[0]

    class Stop:
        def update(self, done: int, total: int) -> None:
            if done >= 1100 and total == 2000:
                os.kill(os.getpid(), signal.SIGINT)

        def close(self) -> None:
            pass

    options: dict[str, Any] = {"data": tmp_path / "data", "out": tmp_path / "b.safetensors"}
    with pytest.raises(ars.RunInterrupted):
        train_simulator(sim, config, SMALL, progress=Stop(), **options)
    resumed = train_simulator(sim, config, SMALL, resume=True, **options)
    assert resumed.history.loss == whole.history.loss
    with pytest.raises(ars.ArsError, match="begun on other traces"):
        train_simulator(sim, config, SMALL, out=tmp_path / "b.safetensors", resume=True)
    with pytest.raises(ShardError, match="traces of another simulator"):
        train_simulator(simulator("gaussian", workers=2), config, SMALL, data=tmp_path / "data")


def test_a_trace_that_fails_ends_the_training(simulator: Make) -> None:
    sim = simulator("truncated_normal", "a", workers=2, max_tries=1)
    with pytest.raises(ars.TraceFailure):
        train_simulator(sim, TrainingConfig(200, batch_size=64), SMALL)
    network = train_simulator(sim, TrainingConfig(200, batch_size=64), SMALL, on_failure="skip")
    assert network.history[-1].traces == 200

"""Trainings on simulators, for one process or for several ranks.

    torchrun --nproc-per-node 2 rank_scripts.py FOLDER_OF_SIMULATORS DIRECTORY

runs them on every rank, and writes what each gave into DIRECTORY/RANK.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import ars

SMALL: dict[str, Any] = {
    "lstm_dim": 16,
    "batch_size": 50,
    "threads": 1,
    "held_out": 64,
    "architecture": {"observe_dim": 4, "observe_hidden": 8, "value_dim": 8, "head_hidden": 16, "components": 3},
}
EVERY = ars.TrainingConfig(601, evaluate_every=50, lr=5e-3)  # the last batch is one trace
HALF = 300


class Stop:
    """A progress bar that interrupts the training halfway."""

    def update(self, done: int, total: int) -> None:
        del total
        if done == HALF:
            os.kill(os.getpid(), signal.SIGINT)

    def close(self) -> None: ...


class Own(torch.nn.Module):
    """A module of one's own, whose first weights differ from rank to rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(17 + int(os.environ.get("RANK", "0")))
        self.layer = torch.nn.Linear(1, 4)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(y)
        return out


class Normed(Own):
    """One whose statistics would be those of a rank's share."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.norm(super().forward(y))
        return out


def about(network: ars.Network) -> dict[str, Any]:
    weights = hashlib.sha256()
    for name, tensor in network.network.state_dict().items():
        weights.update(name.encode() + tensor.numpy().tobytes())
    curve = [[entry.traces, entry.loss, entry.held_out, entry.lr] for entry in network.history]
    sites = [site.address for site in network.vocabulary]
    return {"curve": curve, "sites": sites, "weights": weights.hexdigest(), "seed": network.training["seed"]}


def attempted(work: Callable[[], ars.Network]) -> dict[str, Any]:
    try:
        return about(work())
    except (ars.ArsError, KeyboardInterrupt) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def fresh(sim: ars.Simulator, directory: Path) -> ars.Network:
    del directory
    return sim.train(config=EVERY, seed=3, **SMALL)


def recorded(sim: ars.Simulator, directory: Path) -> ars.Network:
    return sim.train(config=EVERY, seed=3, data=directory / "traces", missing=0.2, train_on="all", **SMALL)


def halted(sim: ars.Simulator, file: Path) -> ars.Network:
    return sim.train(config=EVERY, seed=3, out=file, progress=Stop(), **SMALL)


def resumed(sim: ars.Simulator, file: Path) -> ars.Network:
    return sim.train(config=EVERY, out=file, resume=True, **SMALL)


def main(simulators: Path, directory: Path) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    found: dict[str, Any] = {}

    def tried(name: str, work: Callable[[], ars.Network]) -> None:
        found[name] = attempted(work)

    with ars.Simulator([str(simulators / "branching")], workers=1) as sim:
        short: dict[str, Any] = {**SMALL, "traces": 100}
        tried("fresh", lambda: fresh(sim, directory))
        tried("recorded", lambda: recorded(sim, directory))
        tried("halted", lambda: halted(sim, directory / "of two.safetensors"))
        tried("resumed", lambda: resumed(sim, directory / "of one.safetensors"))
        tried("random seed", lambda: sim.train(**short))
        own = {**short, "seed": 1, "architecture": {"observe_dim": 4}}
        tried("own module", lambda: sim.train(embeddings={"y": Own()}, **own))
        tried("batch norm", lambda: sim.train(embeddings={"y": Normed()}, **own))
        tried("other settings", lambda: sim.train(seed=1, lr=1e-3 * (1 + rank), **short))
        name = "branching" if rank == 0 else "no such simulator"
        with ars.Simulator([str(simulators / name)], workers=1) as missing:
            tried("no simulator", lambda: missing.train(seed=1, **short))
    (directory / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

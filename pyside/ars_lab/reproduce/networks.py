"""The networks of the experiments: trained once, with checkpoints, so that an interrupted training goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ars.errors import ArsError
from ars.simulator import Simulator
from ars_lab.reproduce.settings import Network as NetworkSettings
from ars_lab.reproduce.workspace import Workspace

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["Trained", "need_torch", "trained"]


class Trained(NamedTuple):
    """A network, and what it came from, for the stages that use it."""

    network: Network
    about: dict[str, Any]
    traces: int
    held_out: float  # the last loss on traces that it was not trained on
    seconds: float


def need_torch() -> None:
    """Says at the start that networks cannot be trained."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ArsError(
            f"this experiment trains a network, which needs {error.name}: pip install 'libars[network]'"
        ) from error


def trained(
    work: Workspace,
    sim: Simulator,
    name: str,
    settings: NetworkSettings,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    train_on: str = "accepted",
) -> Trained:
    """The network of that name: read, or trained from where its training stood."""
    from ars.network.checkpoint import training_path
    from ars.network.facade import Network

    about = dataclasses.asdict(settings) | {"train_on": train_on, "seed": work.seed}
    # other settings are another file: a training goes on only with its own
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:8]
    path = work.path(f"{name}-{digest}", ".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not work.resume:
        path.unlink(missing_ok=True)
        training_path(path).unlink(missing_ok=True)

    def train(_: int) -> dict[str, Any]:
        work.reporter.say(
            f"training {name} on {settings.traces:,} traces, LSTM {settings.lstm_dim} x {settings.lstm_depth}"
        )
        network = sim.train(
            settings.traces,
            settings.lstm_dim,
            settings.lstm_depth,
            settings.batch_size,
            work.seed,
            out=path,
            resume=True,
            progress=work.reporter.progress(f"traces, training {name}"),
            components=settings.components,
            lr=settings.lr,
            train_on=train_on,
            shapes=shapes,
        )
        last = network.history[-1]
        return {"traces": last.traces, "held_out": network.history.held_out[-1]}

    before = work.seconds
    done = work.json(f"{name}-training", about, train)
    if not path.exists():  # its stage is there, but it is not
        train(0)
    return Trained(Network.load(path), about, int(done["traces"]), float(done["held_out"]), work.seconds - before)

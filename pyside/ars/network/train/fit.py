"""From a simulator to a trained network: what ``Simulator.train`` and ``ars train`` do."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ars.arguments import ON_FAILURE, OnFailure, integer, seconds, seed_or_random
from ars.config import CHECKPOINT_EVERY, NetworkConfig, TrainingConfig
from ars.errors import ArsError, BatchError, CheckpointError, StorageError, TrainingError
from ars.network.checkpoint import TrainingState, load_training, save_training, training_path
from ars.network.facade import Network
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.train.batches import Batcher, observation_shapes
from ars.network.train.devices import device_of
from ars.network.train.history import Entry
from ars.network.train.ranks import Ranks, joined
from ars.network.train.share import Share
from ars.network.train.sources import FreshTraces, Part, RecordedTraces, Source
from ars.network.train.training import (
    Callbacks,
    Trainer,
    keep_freed_memory,
    one_torch_thread,
    train,
)
from ars.network.train.turns import agreed_vocabulary, held_out_shares, renumbered, renumbering
from ars.progress import Progress, StreamProgress, make_progress
from ars.store.recordings import Folders

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = ["train_simulator"]

_MOST_THREADS = 1024


def train_simulator(
    sim: Simulator,
    config: TrainingConfig,
    network: NetworkConfig | None = None,
    *,
    data: Folders | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    embeddings: Mapping[str, nn.Module] | None = None,
    on_failure: OnFailure = ON_FAILURE,
    checkpoint_every: float = CHECKPOINT_EVERY,
    threads: int | None = None,
    progress: bool | Progress | None = None,
    tensorboard: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    make: type[ProposalNetwork] = ProposalNetwork,
) -> Network:
    """Trains a network on fresh traces, or on those of ``data``; ``Simulator.train`` explains the arguments. ``make``
    may be a network with other heads, which can be trained and judged, not served.

    Besides ``out`` there is a file with the training, net.training.safetensors. If it does not exist, resuming starts
    a training. Of several ranks, the first alone writes and shows something.
    """
    every = seconds("checkpoint_every", checkpoint_every, zero=True)
    threads = torch.get_num_threads() if threads is None else integer("threads", threads, 1, _MOST_THREADS)
    where = device_of(device)
    keep_freed_memory()
    with joined(where) as ranks, one_torch_thread(), torch.random.fork_rng(devices=[]):
        first = ranks.share.rank == 0
        with together(ranks):
            _check_out(out, resume, write=first)
            state = _saved_training(out, embeddings) if resume else None
            if state is not None and out is not None:
                config = _resumed_config(state, config, network, training_path(out))
            sizes = for_missing(network or NetworkConfig(), config)
            random = ranks.gather(seed_or_random(config.seed))[0]
            seed = random if config.seed is None else config.seed
            config = dataclasses.replace(config, seed=seed)
            source = _source(sim, config, seed, data, on_failure, ranks.share)
            _check_same_settings(ranks, config, sizes, source, state)
            torch.manual_seed(seed % 2**63)
            trainer = _trainer(source, config, seed, sizes, state, shapes, embeddings, threads, ranks, where, make)
        about = dataclasses.asdict(config) | {"source": source.describe()}

        def facade() -> Network:
            return Network(trainer.network, trainer.history, sim.command, about)

        with contextlib.ExitStack() as stack:
            shown = _shown(progress if first else None, trainer.position)
            stack.callback(shown.close)
            board = stack.enter_context(_board(tensorboard if first else None))
            write = _checkpoint(out if first else None, facade)
            train(trainer, source, Callbacks(_step(shown, trainer), board, write, every))
        result = facade()
        with together(ranks):
            if out is not None and first:
                result.save(out)
    return result


# ---- steps -----------------------------------------------------------------------------------------------------------


def for_missing(network: NetworkConfig, config: TrainingConfig) -> NetworkConfig:
    """The network that this training needs: if it hides numbers, one that can do without them."""
    if config.missing:
        return dataclasses.replace(network, missing_data="masked")
    if network.missing_data == "masked":
        raise ValueError('missing_data="masked" needs missing=, the share of the numbers to hide in training')
    return network


@contextlib.contextmanager
def together(ranks: Ranks) -> Iterator[None]:
    """What all ranks do, and finish together: an error of one is raised on all."""
    try:
        yield
        ranks.gather(None)
    except BaseException as error:
        if (settled := ranks.settled(error)) is error:
            raise
        raise settled from error


def _check_same_settings(
    ranks: Ranks, config: TrainingConfig, sizes: NetworkConfig, source: Source, state: TrainingState | None
) -> None:
    """Ranks are started with the same command as a rule; a script may do otherwise, and see other files."""
    mine = dataclasses.asdict(config) | dataclasses.asdict(sizes) | {"source": source.describe()}
    mine["resumed after"] = None if state is None else state.about.get("position")
    for rank, theirs in enumerate(every := ranks.gather(mine)):
        odd = sorted(name for name in theirs if theirs[name] != every[0].get(name))
        if odd:
            raise TrainingError(
                f"{odd[0]!r} is {theirs[odd[0]]!r} on rank {rank}, {every[0].get(odd[0])!r} on rank 0. All ranks need "
                "the same settings and see the same files"
            )


def _check_out(out: str | os.PathLike[str] | None, resume: bool, *, write: bool) -> None:
    """Better now than after a night of training."""
    if out is None:
        if resume:
            raise ValueError("resume=True needs out=, the file of the network whose training should continue")
        return
    file = Path(out)
    if not write:
        return
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise StorageError(f"{out} cannot be written: it must be a file in a folder that exists and can be written to")


def _saved_training(
    out: str | os.PathLike[str] | None, embeddings: Mapping[str, nn.Module] | None
) -> TrainingState | None:
    """The training that this file has, if any."""
    if out is None or not training_path(out).exists():
        return None
    return load_training(training_path(out), embeddings)


def _source(
    sim: Simulator,
    config: TrainingConfig,
    seed: int,
    data: Folders | None,
    on_failure: OnFailure,
    share: Share,
) -> Source:
    every_draw = config.train_on == "all"
    if data is None:
        return FreshTraces(sim, seed, on_failure, config.max_rejected if every_draw else 0, share)
    recorded = RecordedTraces(data, seed, rejected=every_draw, share=share)
    recorded.check_simulator(sim)
    return recorded


def _checkpoint(
    out: str | os.PathLike[str] | None, network: Callable[[], Network]
) -> Callable[[TrainingState], None] | None:
    """Writes the training and its network; None without a file for them."""
    if out is None:
        return None

    def write(state: TrainingState) -> None:
        save_training(training_path(out), state)
        network().save(out)

    return write


def _resumed_config(
    state: TrainingState, wanted: TrainingConfig, network: NetworkConfig | None, path: Path
) -> TrainingConfig:
    """The settings that the training was begun with. Only the number of traces may be another now; without a seed, its
    own is meant."""
    try:
        begun = TrainingConfig(**state.about["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if wanted.seed is None:
        wanted = dataclasses.replace(wanted, seed=begun.seed)
    if network is not None and for_missing(network, begun) != state.network.config:
        raise ArsError(f"{path} is the training of another network: {state.network.config}, not {network}")
    same = dataclasses.replace(begun, traces=wanted.traces)
    if wanted != same:
        odd = [
            f"{f.name} was {getattr(same, f.name)!r}, is {getattr(wanted, f.name)!r}"
            for f in dataclasses.fields(same)
            if getattr(wanted, f.name) != getattr(same, f.name)
        ]
        raise ArsError(f"{path} was begun with other settings: {'; '.join(odd)}. Give the same, or start anew")
    return same


def _trainer(
    source: Source,
    config: TrainingConfig,
    seed: int,
    sizes: NetworkConfig,
    state: TrainingState | None,
    shapes: Mapping[str, Sequence[int]] | None,
    embeddings: Mapping[str, nn.Module] | None,
    threads: int,
    ranks: Ranks,
    device: torch.device,
    make: type[ProposalNetwork],
) -> Trainer:
    """A trainer at its beginning, or where the state left off."""
    if state is not None and state.about.get("source") != source.describe():
        raise ArsError(f"this training was begun on other traces: {state.about.get('source')}, not {source.describe()}")
    parts = source.held_out(config.held_out_traces)
    if not sum(ranks.gather(sum(len(part.columns.traces) for part in parts))):
        raise BatchError("all held-out traces failed; run sim.prior(100) to see why")
    if state is None:
        found, vocabulary = _agreed_shapes(parts, shapes, ranks), Vocabulary()
    else:
        found, vocabulary = state.network.observation_shapes, state.network.vocabulary.copy()
    batcher = Batcher(vocabulary, found, rejected=config.train_on == "all")
    held_out = held_out_shares(parts, batcher, config.batch_size, ranks)
    known = agreed_vocabulary(ranks, vocabulary)
    table = renumbering(vocabulary, known)
    held_out = [each._replace(batch=renumbered(each.batch, table)) for each in held_out]
    network = make(sizes, known, found, embeddings, seed) if state is None else state.network
    if ranks.share.ranks > 1:
        _check_modules(network)
    ranks.start_alike(network)
    trainer = Trainer(network, config, held_out, threads, ranks, device)
    if state is not None:
        trainer.restore(state)
    return trainer


def _agreed_shapes(
    parts: Sequence[Part], given: Mapping[str, Sequence[int]] | None, ranks: Ranks
) -> dict[str, tuple[int, ...]]:
    """The observations' shapes, by the first traces that are complete; a rank may have none."""
    some = next((part for part in parts if len(part.columns.traces)), None)
    found = None if some is None else observation_shapes(some.columns, some.sites, given)
    every = {rank: shapes for rank, shapes in enumerate(ranks.gather(found)) if shapes is not None}
    first, agreed = next(iter(every.items()))
    for rank, shapes in every.items():
        if shapes != agreed:
            raise BatchError(
                f"the traces of rank {rank} observe {shapes}, those of rank {first} {agreed}. A network needs the same "
                "observations, with the same sizes, in every trace"
            )
    return agreed


def _check_modules(network: ProposalNetwork) -> None:
    """Statistics of a batch are those of a rank's share, and would become different weights."""
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules()):
        raise TrainingError(
            "one of your embeddings has a BatchNorm layer, whose statistics would differ between ranks: use LayerNorm "
            "or GroupNorm, or train with one process"
        )


# ---- showing ---------------------------------------------------------------------------------------------------------


def _shown(progress: bool | Progress | None, begun: int) -> Progress:
    return StreamProgress(sys.stderr, begun=begun) if progress is True else make_progress(progress)


def _step(shown: Progress, trainer: Trainer) -> Any:
    """Tells the progress bar of every batch; the loss that it shows is smoothed."""
    smooth = math.nan

    def step(done: int, total: int, loss: float) -> None:
        nonlocal smooth
        smooth = loss if math.isnan(smooth) else smooth if math.isnan(loss) else smooth + 0.05 * (loss - smooth)
        if isinstance(shown, StreamProgress):
            held = trainer.history[-1].held_out if len(trainer.history) else None
            shown.note(f"loss {smooth:.4f}" + ("" if held is None else f", held-out {held:.4f}"))
        shown.update(done, total)

    return step


@contextlib.contextmanager
def _board(directory: str | os.PathLike[str] | None) -> Iterator[Any]:
    """Something to call with every entry of the history, which writes it for TensorBoard; None without a folder."""
    if directory is None:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ArsError("tensorboard= needs the package tensorboard: pip install tensorboard") from error
    writer = SummaryWriter(os.fspath(directory))

    def write(entry: Entry) -> None:
        for name in ("loss", "held_out", "lr", "traces_per_second"):
            if (value := getattr(entry, name)) is not None:
                writer.add_scalar(name, value, entry.traces)

    try:
        yield write
    finally:
        writer.close()

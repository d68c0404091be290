"""Trainings on traces that are written here, for one process or for several ranks.

    torchrun --nproc-per-node 2 rank_programs.py DIRECTORY [NAME...]

runs these programs on every rank, one after the other, and writes what each gave into DIRECTORY/NAME.RANK.pickle.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from column_builder import Sample, Trace, observation, pack

from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.config import NetworkConfig, TrainingConfig
from ars.errors import BatchError, StorageError
from ars.network.checkpoint import TrainingState, save_training
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.train.batches import Batcher
from ars.network.train.ranks import Alone, Ranks, joined
from ars.network.train.share import Share
from ars.network.train.sources import Part
from ars.network.train.training import Callbacks, Trainer, train
from ars.network.train.turns import agreed_vocabulary, held_out_shares, renumbered, renumbering

SMALL = NetworkConfig(
    lstm_dim=16, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, components=3
)
CONFIG = TrainingConfig(341, batch_size=20, seed=1, held_out=50, evaluate_every=20, lr=1e-2)  # the last batch: 1 trace
MISSING = TrainingConfig(300, batch_size=20, seed=1, held_out=50, evaluate_every=20, lr=1e-2, missing=0.3)
STOPPING = TrainingConfig(2000, batch_size=20, seed=1, held_out=50, evaluate_every=20, lr=0.3, patience=3)


class Written:
    """Trace i draws x and observes y. From trace 100 on, traces 3 to 5 of each batch of 20 draw "low", 14 to 16 "high",
    17 to 19 a Categorical that has more categories from trace 200 on. So on two ranks no site but x is on both."""

    sites = (
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.SAMPLE, DistKind.GAMMA, "low"),
        Site(2, SiteKind.SAMPLE, DistKind.BETA, "high"),
        Site(3, SiteKind.SAMPLE, DistKind.CATEGORICAL, "kind"),
        observation(4, "y"),
    )

    def __init__(self, share: Share) -> None:
        self.share = share

    def trace(self, number: int, late: bool = True) -> Trace:
        rng = np.random.default_rng(number)
        x = rng.normal()
        samples = [Sample(0, x, params=(0.0, 1.0))]
        place = number % 20
        if late and number >= 100:
            if 3 <= place <= 5:
                samples.append(Sample(1, rng.gamma(2.0), params=(2.0, 1.0), kind=DistKind.GAMMA))
            if 14 <= place <= 16:
                samples.append(Sample(2, rng.beta(2.0, 2.0), params=(2.0, 2.0), kind=DistKind.BETA))
            if place >= 17:
                k = 3 if number < 200 else 6
                samples.append(Sample(3, float(rng.integers(k)), params=(1 / k,) * k, kind=DistKind.CATEGORICAL))
        return Trace(number, samples=samples, observes=[(4, [x + rng.normal()])])

    def part(self, first: int, n: int, late: bool = True) -> Part:
        low, high = self.share.bounds(n)
        return Part(pack([self.trace(i, late) for i in range(first + low, first + high)]), self.sites, n)

    def held_out(self, n: int) -> list[Part]:
        return [self.part(2**40, n, late=False)]

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        while start < total and not stop.is_set():
            yield self.part(start, min(size, total - start))
            start += size

    def describe(self) -> dict[str, Any]:
        return {"kind": "written"}


class Short(Written):
    """The second of two ranks has no more traces from trace 160 on; one process has the other's traces only."""

    def trace_numbers(self, first: int, n: int) -> range:
        low, high = self.share.bounds(n) if self.share.ranks > 1 or first < 160 else Share(0, 2).bounds(n)
        return range(first + low, first + high)

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        while start < total and not stop.is_set():
            if self.share.rank and start >= 160:
                return
            n = min(size, total - start)
            yield Part(pack([self.trace(i) for i in self.trace_numbers(start, n)]), self.sites, n)
            start += size


class Disturbed(Written):
    """Something happens on the second rank before its fifth batch."""

    def __init__(self, share: Share, happen: Callable[[], None]) -> None:
        super().__init__(share)
        self.happen = happen

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        for place, part in enumerate(super().batches(start, total, size, stop)):
            if place == 4 and self.share.rank:
                self.happen()
            yield part


class OtherKind(Written):
    """From trace 100 on, "low" is drawn on both ranks, with another kind of prior on each."""

    sites = (*Written.sites[:2], Site(2, SiteKind.SAMPLE, DistKind.BETA, "low"), *Written.sites[3:])


class Outcome(NamedTuple):
    """What a training gave."""

    curve: list[tuple[int, float, float | None, float]]
    sites: list[tuple[str, str, int]]
    weights: dict[str, torch.Tensor]
    position: int
    error: str = ""


def trainer_for(source: Written, config: TrainingConfig, ranks: Ranks) -> Trainer:
    parts = source.held_out(config.held_out_traces)
    vocabulary = Vocabulary()
    batcher = Batcher(vocabulary, {"y": (1,)})
    held_out = held_out_shares(parts, batcher, config.batch_size, ranks)
    known = agreed_vocabulary(ranks, vocabulary)
    table = renumbering(vocabulary, known)
    held_out = [each._replace(batch=renumbered(each.batch, table)) for each in held_out]
    sizes = SMALL if not config.missing else NetworkConfig(**{**SMALL.to_dict(), "missing_data": "masked"})
    return Trainer(ProposalNetwork(sizes, known, {"y": (1,)}, seed=1), config, held_out, 1, ranks)


def outcome(
    ranks: Ranks, source: Written, config: TrainingConfig = CONFIG, callbacks: Callbacks | None = None
) -> Outcome:
    return trained(trainer_for(source, config, ranks), source, callbacks)


def trained(trainer: Trainer, source: Written, callbacks: Callbacks | None = None) -> Outcome:
    error = ""
    try:
        train(trainer, source, callbacks)
    except BaseException as problem:
        error = f"{type(problem).__name__}: {problem}"
    curve = [(e.traces, e.loss, e.held_out, e.lr) for e in trainer.history]
    sites = [(site.address, site.kind.name, site.n_params) for site in trainer.network.vocabulary]
    weights = {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}
    return Outcome(curve, sites, weights, trainer.position, error)


# ---- programs --------------------------------------------------------------------------------------------------------


def sites(ranks: Ranks) -> Outcome:
    return outcome(ranks, Written(ranks.share))


def missing(ranks: Ranks) -> Outcome:
    return outcome(ranks, Written(ranks.share), MISSING)


def stopping(ranks: Ranks) -> Outcome:
    return outcome(ranks, Written(ranks.share), STOPPING)


def short(ranks: Ranks) -> Outcome:
    return outcome(ranks, Short(ranks.share))


def raised(ranks: Ranks) -> Outcome:
    def happen() -> None:
        raise BatchError("something is wrong with these traces")

    return outcome(ranks, Disturbed(ranks.share, happen))


def terminated(ranks: Ranks) -> Outcome:
    source = Disturbed(ranks.share, lambda: os.kill(os.getpid(), signal.SIGTERM))
    return outcome(ranks, source, TrainingConfig(10**6, batch_size=20, seed=1, held_out=50))


def not_finite(ranks: Ranks) -> Outcome:
    trainer = trainer_for(Written(ranks.share), CONFIG, ranks)
    real = trainer.network.log_probs

    def log_probs(batch: Any) -> Any:
        value = real(batch)
        return (
            value * float("nan") if trainer.position >= 60 and ranks.share.rank and torch.is_grad_enabled() else value
        )

    trainer.network.log_probs = log_probs  # type: ignore[method-assign]
    return trained(trainer, Written(ranks.share))


def in_a_step(ranks: Ranks) -> Outcome:
    """The second rank fails where the first waits for its gradients."""
    trainer = trainer_for(Written(ranks.share), CONFIG, ranks)
    real = trainer.network.minus_log_q

    def minus_log_q(batch: Any) -> Any:
        if trainer.position >= 60 and ranks.share.rank and torch.is_grad_enabled():
            raise MemoryError("no memory for a batch")
        return real(batch)

    trainer.network.minus_log_q = minus_log_q  # type: ignore[method-assign]
    return trained(trainer, Written(ranks.share))


def full_disk(ranks: Ranks) -> Outcome:
    def write(state: TrainingState) -> None:
        if state.about["position"] >= 80:
            raise StorageError("the disk is full")

    callbacks = Callbacks(checkpoint=write if ranks.share.rank == 0 else None, checkpoint_every=0.0)
    return outcome(ranks, Written(ranks.share), callbacks=callbacks)


def apart(ranks: Ranks) -> Outcome:
    """A weight of the second rank changes by itself."""
    trainer = trainer_for(Written(ranks.share), CONFIG, ranks)

    def step(done: int, total: int, loss: float) -> None:
        del total, loss
        if done == 60 and ranks.share.rank:
            with torch.no_grad():
                trainer.network.sites.weight[0, 0] += 1e-7

    return trained(trainer, Written(ranks.share), Callbacks(step=step))


def other_kind(ranks: Ranks) -> Outcome:
    return outcome(ranks, OtherKind(ranks.share))


PROGRAMS: dict[str, Callable[[Ranks], Outcome]] = {
    each.__name__: each
    for each in (
        sites,
        missing,
        stopping,
        short,
        raised,
        terminated,
        not_finite,
        in_a_step,
        full_disk,
        apart,
        other_kind,
    )
}


def killed(ranks: Ranks, directory: Path) -> Outcome:
    """The second rank is killed; the first writes checkpoints."""
    first = ranks.share.rank == 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun would not let it write what it found
    callbacks = Callbacks(checkpoint=(lambda s: save_training(directory / "t.safetensors", s)) if first else None)
    source = Disturbed(ranks.share, lambda: os.kill(os.getpid(), signal.SIGKILL))
    return outcome(ranks, source, callbacks=callbacks)


def alone(name: str) -> Outcome:
    """What one process gives."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return PROGRAMS[name](Alone())


def main(directory: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    rank = os.environ["RANK"]
    for name in names:
        torch.manual_seed(1)
        with contextlib.ExitStack() as stack:
            ranks = stack.enter_context(joined(torch.device("cpu")))
            given = killed(ranks, directory) if name == "killed" else PROGRAMS[name](ranks)
        (directory / f"{name}.{rank}.pickle").write_bytes(pickle.dumps(given))


if __name__ == "__main__":
    import rank_programs  # itself, under the name by which others can unpickle what it writes

    rank_programs.main(Path(sys.argv[1]), sys.argv[2:] or list(PROGRAMS))

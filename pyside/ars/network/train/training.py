"""Training: Adam on the log density that the network gives to the latents of prior traces.

The traces are numbered, batches are consecutive, and new sites are appended in the order of the traces. So where a
training stands is one number, and one that was interrupted goes on as if it had not been.

A batch is cut into as many slices as there are threads, whose gradients are added. Threads inside of torch's operations
are a little faster on two idle cores, but they wait for each other hundreds of times per batch: where other processes
use the cores too, they come almost to a halt (some 800 traces/s instead of 2,400).

On several ranks (ranks.py) each has a share of every batch. What is here is the same for one and for many: a sum over
ranks, or something that all must know, goes through ``trainer.ranks``.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from ars.config import CHECKPOINT_EVERY, TrainingConfig
from ars.errors import CheckpointError, RankLostError, RunInterrupted, TrainingError
from ars.network.checkpoint import TrainingState
from ars.network.model.core import Growth, ProposalNetwork
from ars.network.model.trace_batch import Batch, moved
from ars.network.model.vocabulary import Vocabulary
from ars.network.train.batches import Batcher
from ars.network.train.hiding import HELD_OUT, TRAINED_ON, hidden
from ars.network.train.history import Entry, TrainingHistory
from ars.network.train.ranks import Alone, Ranks
from ars.network.train.sources import Prefetch, Source
from ars.network.train.turns import HeldOut, Prepared, Rows, agreed
from ars.runtime.interrupts import Interrupts

__all__ = ["Callbacks", "Prepared", "Trainer", "train"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

_CPU: Final = torch.device("cpu")
_MOMENTS: Final = ("exp_avg", "exp_avg_sq")
_LARGEST_BLOCK: Final = (32 << 20) - (64 << 10)  # bytes; with what malloc adds to it not above 32 MB


@dataclass(frozen=True)
class Callbacks:
    """What a training tells others. All are called between two batches, in the thread that trains."""

    step: Callable[[int, int, float], None] | None = None  # traces done, in all, loss of the batch
    evaluated: Callable[[Entry], None] | None = None
    checkpoint: Callable[[TrainingState], None] | None = None
    checkpoint_every: float = CHECKPOINT_EVERY  # seconds


def _plus(total: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    """Adds to a total that is ours; None is 0. Two parameters may share a gradient, but not a total."""
    if gradient is None:
        return total
    return gradient.clone() if total is None else total.add_(gradient)


# ---- one step after another ------------------------------------------------------------------------------------------


class Trainer:
    """A network, its optimizer, and where the training stands."""

    def __init__(
        self,
        network: ProposalNetwork,
        config: TrainingConfig,
        held_out: Sequence[HeldOut],
        threads: int = 1,
        ranks: Ranks | None = None,
        device: torch.device = _CPU,
    ) -> None:
        self.network = network.to(device)
        self.ranks: Ranks = ranks or Alone()
        self._device = device
        # A module of the user's may not bear being run in parts.
        self._whole = bool(network.custom_embeddings)
        self.threads = 1 if self._whole else threads
        self._pool: ThreadPoolExecutor | None = None
        self.config = config
        self.held_out = held_out
        self.history = TrainingHistory()
        self.position = 0
        self.seconds = 0.0
        self.stopped = False  # early
        self.torn = False  # in the middle of changing the weights
        self._optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, fused=True)
        self._losses = (0.0, 0, 0)  # sum, batches and traces since the last evaluation
        self._evaluated_at = (0, 0.0)  # position, seconds
        self._best = math.inf
        self._best_weights: dict[str, Tensor] = {}
        self._worse = 0

    def _hidden(self, batch: Batch, stream: int, place: int, rows: Rows | None) -> Batch:
        """Without the numbers that the network must do without."""
        return hidden(batch, self.config.missing, self.config.seed or 0, stream, place, rows)

    def done(self) -> bool:
        return self.stopped or self.position >= self.config.traces

    def step(self, prepared: Prepared) -> float:
        """One batch; its loss. A loss or a gradient that is not finite is an error, and changes nothing."""
        if prepared.vocabulary is not None:
            self.grow(prepared.vocabulary)
        if not prepared.complete:
            self.position += prepared.traces
            return math.nan
        lr = self.config.lr_at(self.position)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        value = self._gradients(prepared)
        if not math.isfinite(value):
            raise self._diverged("loss", value)
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip))
        if not math.isfinite(norm):
            raise self._diverged("norm of the gradient", norm)
        self.torn = True
        self._optimizer.step()
        self.position += prepared.traces
        self.torn = False
        total, batches, traces = self._losses
        self._losses = (total + value, batches + 1, traces + prepared.traces)
        return value

    @contextlib.contextmanager
    def parallel(self) -> Iterator[None]:
        """Inside, slices are computed at the same time."""
        with ThreadPoolExecutor(self.threads, thread_name_prefix="ars-train") as pool:
            self._pool = pool if self.threads > 1 else None
            try:
                yield
            finally:
                self._pool = None

    def _map(self, function: Callable[[Batch], _Result], batches: Sequence[Batch]) -> Iterable[_Result]:
        return map(function, batches) if self._pool is None or len(batches) == 1 else self._pool.map(function, batches)

    def _gradients(self, prepared: Prepared) -> float:
        """Sets the gradients of the loss; returns the loss."""
        self._learn_scales(prepared.batch)
        parameters = list(self.network.parameters())

        def slice_gradients(part: Batch) -> tuple[float, tuple[Tensor | None, ...]]:
            loss = self.network.minus_log_q(moved(part, self._device)) / prepared.complete
            if not loss.requires_grad:  # no latents
                return loss.item(), (None,) * len(parameters)
            return loss.item(), torch.autograd.grad(loss, parameters, allow_unused=True)

        slices: Sequence[Batch] = ()
        if prepared.batch is not None:
            batch = self._hidden(prepared.batch, TRAINED_ON, self.position, prepared.rows)
            slices = batch.slices(self.threads, whole=self._whole)
        results = list(self._map(slice_gradients, slices))
        start: Tensor | None = None
        sums = [functools.reduce(_plus, (each[i] for _, each in results), start) for i in range(len(parameters))]
        return self.ranks.add(sum(loss for loss, _ in results), parameters, sums)

    def _learn_scales(self, batch: Batch | None) -> None:
        """From the observations of all ranks, which then know the same scales, to the last bit."""
        mine = None if batch is None else dict(batch.observation)
        if self.ranks.share.ranks > 1:
            if self.network.knows_scales():
                return
            shares = [each for each in self.ranks.gather(mine) if each]
            mine = {name: torch.cat([each[name] for each in shares]) for name in shares[0]} if shares else None
        if mine is not None:
            self.network.learn_scales({name: x.to(self._device) for name, x in mine.items()})

    def _diverged(self, what: str, value: float) -> TrainingError:
        return TrainingError(
            f"the {what} became {value} after {self.position:,} traces, at a learning rate of "
            f"{self.config.lr_at(self.position):.2g}. Try a smaller lr, or look for extreme values in the "
            "observations. The last checkpoint is intact"
        )

    def grow(self, vocabulary: Vocabulary) -> None:
        """New sites: new rows and heads, which the optimizer has not seen before."""
        growth = self.network.grow(vocabulary)
        self._grow_optimizer(growth)
        if growth:
            self._best, self._best_weights, self._worse = math.inf, {}, 0  # of a smaller network
            _log.info("%d sites after %d traces", len(vocabulary), self.position)

    def _grow_optimizer(self, growth: Growth) -> None:
        parameters = dict(self.network.named_parameters())
        for name, before in growth.resized.items():
            state = self._optimizer.state.get(parameters[name], {})
            for moment in _MOMENTS:
                if moment in state:
                    more = torch.zeros_like(parameters[name].data[before:])
                    state[moment] = torch.cat([state[moment], more])
        if growth.added:
            self._optimizer.add_param_group({"params": [parameters[name] for name in growth.added]})

    # ---- evaluation --------------------------------------------------------------------------------------------------

    def held_out_loss(self) -> float | None:
        """The loss of the held-out traces of all ranks, per trace."""

        @torch.no_grad()  # which is a matter of the thread
        def minus_log_q(batch: Batch) -> float:
            parts = batch.slices(1, whole=self._whole)
            return sum(self.network.minus_log_q(moved(part, self._device)).item() for part in parts)

        self.network.eval()
        batches = [self._hidden(each.batch, HELD_OUT, each.place, each.rows) for each in self.held_out]
        total = sum(self._map(minus_log_q, batches))
        self.network.train()
        shares = self.ranks.gather((total, sum(batch.traces for batch in batches)))
        traces = sum(n for _, n in shares)
        return sum(total for total, _ in shares) / traces if traces else None

    @property
    def due(self) -> bool:
        """Whether it is time to evaluate."""
        return self._losses[1] > 0 and (self._losses[2] >= self.config.interval or self.position >= self.config.traces)

    def evaluate(self, seconds: float) -> Entry:
        """Adds a line to the history; may end the training."""
        self.ranks.check_alike(self.network)
        held_out = self.held_out_loss()
        if held_out is not None and not math.isfinite(held_out):
            raise self._diverged("held-out loss", held_out)
        total, batches, _ = self._losses
        before, then = self._evaluated_at
        rate = (self.position - before) / max(seconds - then, 1e-9)
        entry = Entry(self.position, total / batches, held_out, self.config.lr_at(self.position), seconds, rate)
        self.history.add(entry)
        self._losses = (0.0, 0, 0)
        self._evaluated_at = (self.position, seconds)
        if self.config.patience and held_out is not None:
            self._consider_stopping(held_out)
        return entry

    def _consider_stopping(self, held_out: float) -> None:
        if held_out < self._best:
            self._best, self._worse = held_out, 0
            self._best_weights = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
            return
        self._worse += 1
        self.stopped = self._worse >= self.config.patience

    def finish(self) -> None:
        """With early stopping, the best weights are the result. There is no going on afterwards."""
        self.torn = True
        if self._best_weights:
            self.network.load_state_dict(self._best_weights)
        self.ranks.check_alike(self.network)
        self.network.to(_CPU).eval()

    # ---- state -------------------------------------------------------------------------------------------------------

    def state(self, source: Source) -> TrainingState:
        optimizer = {}
        for name, parameter in self.network.named_parameters():
            for key, tensor in self._optimizer.state.get(parameter, {}).items():
                optimizer[f"{key}.{name}"] = tensor
        about: dict[str, Any] = {
            "config": asdict(self.config),
            "source": source.describe(),
            "position": self.position,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "losses": list(self._losses),
            "evaluated_at": list(self._evaluated_at),
            "best": self._best if math.isfinite(self._best) else None,
            "worse": self._worse,
            "history": self.history.to_dict(),
        }
        return TrainingState(self.network, optimizer, torch.get_rng_state(), about, dict(self._best_weights))

    def restore(self, state: TrainingState) -> None:
        """Takes over where the state's training stood; the network must be the state's."""
        about = state.about
        try:
            self.history = TrainingHistory.from_dict(about["history"])
            self.position = int(about["position"])
            self.seconds = float(about["seconds"])
            self.stopped = bool(about["stopped"])
            self._losses = (float(about["losses"][0]), int(about["losses"][1]), int(about["losses"][2]))
            self._evaluated_at = (int(about["evaluated_at"][0]), float(about["evaluated_at"][1]))
            self._best = math.inf if about["best"] is None else float(about["best"])
            self._worse = int(about["worse"])
            self._best_weights = dict(state.best)
            parameters = dict(self.network.named_parameters())
            for full, tensor in state.optimizer.items():
                key, _, name = full.partition(".")
                if key in _MOMENTS and tensor.shape != parameters[name].shape:
                    raise ValueError(f"{full} has shape {tuple(tensor.shape)}")
                self._optimizer.state[parameters[name]][key] = tensor.clone().to(self._device)
            torch.set_rng_state(state.random)
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            raise CheckpointError(f"the saved training cannot be continued: {error!r}") from error


# ---- the whole -------------------------------------------------------------------------------------------------------


def _prepared(
    source: Source, batcher: Batcher, start: int, config: TrainingConfig, stop: threading.Event
) -> Iterator[Prepared]:
    for part in source.batches(start, config.traces, config.batch_size, stop):
        if not len(part.columns.traces):
            yield Prepared(None, None, part.traces)
            continue
        batch, changed = batcher(part.columns, part.sites)
        yield Prepared(batch, batcher.vocabulary.copy() if changed else None, part.traces)


def train(trainer: Trainer, source: Source, callbacks: Callbacks | None = None) -> TrainingHistory:
    """Trains to the end, or to the early stop. Traces are drawn and put into batches in another thread meanwhile.

    Ctrl-C is heeded between two batches: the state is given to the checkpoint callback, then RunInterrupted is raised.
    On several ranks, so is SIGTERM, and an interruption or an error of one rank ends all of them.
    """
    calls = callbacks or Callbacks()
    config = trainer.config
    vocabulary, shapes = trainer.network.vocabulary.copy(), trainer.network.observation_shapes
    batcher = Batcher(vocabulary, shapes, rejected=config.train_on == "all")
    trainer.network.train()
    if trainer.done():
        trainer.finish()
        return trainer.history

    def make(stop: threading.Event) -> Iterator[Prepared]:
        return _prepared(source, batcher, trainer.position, config, stop)

    began = time.monotonic() - trainer.seconds
    saved = time.monotonic()
    several = trainer.ranks.share.ranks > 1
    with trainer.parallel(), Interrupts(terminate=several) as interrupts, Prefetch(make, interrupts.check) as items:
        try:
            for prepared in agreed(items, trainer.ranks, trainer.network.vocabulary, interrupts.check):
                loss = trainer.step(prepared)
                trainer.seconds = time.monotonic() - began
                if calls.step is not None:
                    calls.step(min(trainer.position, config.traces), config.traces, loss)
                if trainer.due:
                    entry = trainer.evaluate(trainer.seconds)
                    if calls.evaluated is not None:
                        calls.evaluated(entry)
                if trainer.done():
                    break
                if calls.checkpoint is not None and time.monotonic() - saved > calls.checkpoint_every:
                    calls.checkpoint(trainer.state(source))
                    saved = time.monotonic()
            if calls.checkpoint is not None:
                calls.checkpoint(trainer.state(source))
            trainer.finish()
        except BaseException as error:
            if (ended := _ended(trainer, source, calls, error)) is error:
                raise
            raise ended from error
    return trainer.history


def _ended(trainer: Trainer, source: Source, calls: Callbacks, error: BaseException) -> BaseException:
    """What to raise, once all ranks know and what was trained is safe."""
    settled = trainer.ranks.settled(error)
    if not isinstance(settled, (KeyboardInterrupt, RankLostError)):
        return settled
    if calls.checkpoint is not None and not trainer.torn:
        calls.checkpoint(trainer.state(source))
    where = f"after {trainer.position:,} of {trainer.config.traces:,} traces"
    resumable = "; it can be resumed" if calls.checkpoint is not None else ""
    if isinstance(settled, RankLostError):
        return RankLostError(f"{settled}. The training ended {where}{resumable}")
    return RunInterrupted(f"the training was interrupted {where}{resumable}")


def keep_freed_memory() -> None:
    """Lets the allocator keep what one batch frees for the next.

    glibc gives free memory above a threshold back to the system, which maps it again page by page, zeroed: with two
    threads 8,000 page faults in every batch of 512 short traces, a fifth of the time. The threshold follows the largest
    block ever freed, up to 32 MB (mallopt(3), M_MMAP_THRESHOLD): this frees one. Other allocators do not mind, and a
    threshold that the user has set (MALLOC_TRIM_THRESHOLD_) stays.
    """
    torch.empty(_LARGEST_BLOCK, dtype=torch.uint8)


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """Inside, torch's operations do not use threads of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

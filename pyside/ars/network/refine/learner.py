"""Weighted maximum likelihood on the traces of a pool, mixed with traces of the prior."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ars.columns import Columns, Floats, Integers, Site, take
from ars.config import RefineConfig
from ars.errors import TrainingError
from ars.network.model.core import ProposalNetwork
from ars.network.model.trace_batch import TraceBatch
from ars.network.refine.pool import Pool
from ars.network.train.batches import Batcher

__all__ = ["Fitted", "Learner", "Material"]

_EVALUATIONS: Final = 10  # of the held-out loss, per round
_WORSE: Final = 5  # evaluations in a row without a lower one: the round's training ends
_FINAL_LR: Final = 0.05  # of the largest
_WARMUP: Final = 20  # steps
_CLIP: Final = 10.0  # largest norm of a gradient
_DECAY: Final = 1e-4  # weight decay
_AVERAGED: Final = 0.03  # share of the latest step in the average of the weights
_CHUNK: Final = 2048  # traces whose densities are computed at once
_JUDGED: Final = 4096  # held-out traces that a training is judged by, at most


class Material(NamedTuple):
    """Traces of the prior, with their own data."""

    columns: Columns
    sites: tuple[Site, ...]


class Fitted(NamedTuple):
    """What a round's training gave."""

    network: ProposalNetwork
    loss: float  # held out, weighted, of the weights that are kept
    steps: int  # made
    best: int  # step of the weights that are kept; 0: those that it began with


_Part = tuple[TraceBatch, Tensor]  # traces, and the weight of each in the loss


class Learner:
    """Trains networks on one observation.

    Parameters
    ----------
    data : mapping
        Name -> array: the observation.
    config : RefineConfig
        Its settings.
    threads : int
        Threads among which a batch is divided.
    in_loops : str
        "prior": draws inside loops are not proposed, so they are not trained on.
    """

    def __init__(self, data: Mapping[str, Floats], config: RefineConfig, threads: int, in_loops: str) -> None:
        self._data = data
        self.config = config
        self._threads = threads
        self._loops = in_loops != "prior"
        self._pool: ThreadPoolExecutor | None = None

    @contextlib.contextmanager
    def parallel(self) -> Iterator[None]:
        """Inside, parts of a batch are computed at the same time."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="ars-refine") as pool:
            self._pool = pool if self._threads > 1 else None
            try:
                yield
            finally:
                self._pool = None

    # ---- batches -----------------------------------------------------------------------------------------------------

    def batcher(self, network: ProposalNetwork) -> Batcher:
        """Batches of traces that were all drawn for the observation."""
        shapes = network.observation_shapes
        rows = {
            name: torch.from_numpy(np.asarray(self._data[name], np.float32).reshape(1, *shape))
            for name, shape in shapes.items()
        }
        return Batcher(network.vocabulary.copy(), shapes, data=rows)

    def _counted(self, batch: TraceBatch, columns: Columns) -> Tensor | None:
        """Where a batch has draws that count, [T, B]; None: everywhere."""
        if self._loops:
            return None
        outside = columns.samples["loop"] < 0
        mask = torch.zeros_like(batch.mask)
        counts = columns.traces["n_samples"].astype(np.int64)
        trace = np.repeat(np.arange(len(counts)), counts)
        step = np.arange(len(trace)) - np.repeat(np.cumsum(counts) - counts, counts)
        mask[torch.from_numpy(step[outside]), torch.from_numpy(trace[outside])] = True
        return mask

    # ---- densities ---------------------------------------------------------------------------------------------------

    def log_q(self, network: ProposalNetwork | None, pool: Pool, rows: Integers) -> Floats:
        """The log density with which a network proposes what these traces drew; None: the prior."""
        if network is None:
            return self._log_p(pool.traces(rows))
        network.eval()

        @torch.no_grad()  # which is a matter of the thread
        def of(part: Integers) -> Floats:
            columns = pool.traces(part)
            batch, _ = self.batcher(network)(columns, pool.sites)
            assert isinstance(batch, TraceBatch)
            log_q = network.log_probs(batch)
            counted = self._counted(batch, columns)
            return np.asarray((log_q if counted is None else log_q * counted).sum(dim=0).numpy())

        parts = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
        if not parts:
            return np.zeros(0)
        return np.concatenate(list(map(of, parts) if self._pool is None else self._pool.map(of, parts)))

    def _log_p(self, columns: Columns) -> Floats:
        of = np.repeat(np.arange(len(columns.traces)), columns.traces["n_samples"])
        log_p = columns.samples["log_p"]
        counted = log_p if self._loops else np.where(columns.samples["loop"] < 0, log_p, 0.0)
        return np.bincount(of, weights=counted, minlength=len(columns.traces)).astype(np.float64, copy=False)

    # ---- training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        start: ProposalNetwork,
        pool: Pool,
        weights: Floats,
        prior: Material | None,
        seed: int,
        told: Callable[[int, int], None],
        *,
        scale: float = 1.0,
    ) -> Fitted:
        """A network that was trained from this one on the pool with these weights, which sum to 1.

        The held-out part decides which of its states is the result; the first is the start itself.
        """
        c = self.config
        rng = np.random.default_rng(seed)
        network = copy.deepcopy(start)
        batcher = self.batcher(network)
        some = np.flatnonzero((weights > 0) & ~pool.held_out)
        held = np.flatnonzero((weights > 0) & pool.held_out)
        if not len(some):
            some = held
        judged, shares = _representative(held, weights[held], rng)
        p = weights[some] / weights[some].sum()
        optimizer = torch.optim.AdamW(network.parameters(), lr=c.lr, weight_decay=_DECAY, fused=True)
        own = _PriorBatches(network, prior, max(1, round(c.batch_size * c.prior_share)), rng)
        average = _Average(network)
        best, best_loss, worse = average.state(), self._held_out(average.network, pool, judged, shares), 0
        steps = kept = 0
        every = max(1, c.steps // _EVALUATIONS)
        network.train()
        for step in range(c.steps):
            rows, counts = np.unique(rng.choice(some, c.batch_size, p=p), return_counts=True)
            batch = self._weighted(batcher, pool, rows, counts / c.batch_size * (1.0 - own.share(c.prior_share)))
            for group in optimizer.param_groups:
                group["lr"] = scale * _lr(c, step)
            loss = self._gradients(network, [batch, *own.next(c.prior_share)])
            norm = float(torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise TrainingError(f"the loss became {loss}, the norm of its gradient {norm}")
            optimizer.step()
            average.follow(network)
            steps += 1
            if steps % every == 0 or steps == c.steps:
                now = self._held_out(average.network, pool, judged, shares)
                told(steps, c.steps)
                if math.isnan(now):
                    raise TrainingError(f"the held-out loss became {now}")
                if now < best_loss or not len(held):
                    best, best_loss, worse, kept = average.state(), now, 0, steps
                else:
                    worse += 1
                if worse >= _WORSE:
                    break
        network.load_state_dict(best)
        return Fitted(network.eval(), best_loss, steps, kept)

    def _weighted(self, batcher: Batcher, pool: Pool, rows: Integers, weights: Floats) -> _Part:
        columns = pool.traces(rows)
        batch, _ = batcher(columns, pool.sites)
        assert isinstance(batch, TraceBatch)
        each = torch.from_numpy(weights).expand(batch.site.shape)
        counted = self._counted(batch, columns)
        return batch, each if counted is None else each * counted

    def _held_out(self, network: ProposalNetwork, pool: Pool, rows: Integers, weights: Floats) -> float:
        """The mean of -log q over these rows of the pool, which count with these weights."""
        if not len(rows):
            return math.inf
        return -float(weights @ self.log_q(network, pool, rows) / weights.sum())

    def _gradients(self, network: ProposalNetwork, parts: Sequence[_Part]) -> float:
        """Sets the gradients of the loss of all parts; returns the loss."""
        parameters = list(network.parameters())

        def of(part: _Part) -> tuple[float, tuple[Tensor | None, ...]]:
            batch, weight = part
            loss = -(network.log_probs(batch) * weight).sum()
            if not loss.requires_grad:
                return loss.item(), (None,) * len(parameters)
            return loss.item(), torch.autograd.grad(loss, parameters, allow_unused=True)

        pieces = [piece for part in parts for piece in _cut(part, self._threads)]
        results: Iterable[tuple[float, tuple[Tensor | None, ...]]]
        results = list(map(of, pieces) if self._pool is None else self._pool.map(of, pieces))
        for i, parameter in enumerate(parameters):
            parameter.grad = None
            for _, gradients in results:
                if (gradient := gradients[i]) is not None:
                    parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        return sum(loss for loss, _ in results)


class _Average:
    """A network whose weights are a moving average of another's. It learns little by heart, and hardly depends on where
    a training stops."""

    def __init__(self, network: ProposalNetwork) -> None:
        self.network = copy.deepcopy(network).eval()
        self._steps = 0

    @torch.no_grad()
    def follow(self, network: ProposalNetwork) -> None:
        """Takes a step of the other one into account."""
        self._steps += 1
        share = max(_AVERAGED, 1.0 / self._steps)
        for mine, other in zip(self.network.parameters(), network.parameters(), strict=True):
            mine.lerp_(other, share)

    def state(self) -> dict[str, Tensor]:
        return copy.deepcopy(self.network.state_dict())


class _PriorBatches:
    """Traces of the prior with their own data, again and again in another order."""

    def __init__(self, network: ProposalNetwork, prior: Material | None, size: int, rng: np.random.Generator) -> None:
        self._network = network
        self._prior = prior
        self._size = size
        self._rng = rng
        self._order: Integers = np.zeros(0, np.int64)
        self._batcher = Batcher(network.vocabulary.copy(), network.observation_shapes)

    def share(self, wanted: float) -> float:
        """Of the loss."""
        return wanted if self._prior is not None else 0.0

    def next(self, share: float) -> list[_Part]:
        if self._prior is None or share <= 0.0:
            return []
        if len(self._order) < self._size:
            self._order = self._rng.permutation(len(self._prior.columns.traces))
        rows, self._order = self._order[: self._size], self._order[self._size :]
        batch, _ = self._batcher(take(self._prior.columns, rows), self._prior.sites)
        assert isinstance(batch, TraceBatch)
        return [(batch, torch.full(batch.site.shape, share / len(rows), dtype=torch.float64))]


def _representative(rows: Integers, weights: Floats, rng: np.random.Generator) -> tuple[Integers, Floats]:
    """Few rows that stand for all, and the weight of each: drawn by weight, at equal distances. The heaviest rows alone
    would not do: in a pool of even weights they are those that no network proposes well."""
    at = rng.random()  # also where it is not needed: what follows is then the same
    if len(rows) <= _JUDGED:
        return rows, weights
    ends = np.cumsum(weights)
    picked = np.searchsorted(ends, ends[-1] * (np.arange(_JUDGED) + at) / _JUDGED, side="right")
    which, counts = np.unique(np.minimum(picked, len(rows) - 1), return_counts=True)
    return rows[which], counts.astype(np.float64)


def _cut(part: _Part, n: int) -> list[_Part]:
    """In about equal parts, one per thread. Data of one row serve all traces."""
    batch, weight = part
    several = batch.slices(n)
    if len(several) == 1:
        return [part]
    cut, at = [], 0
    for piece in several:
        low, at = at, at + piece.traces
        shared = {name: x if len(x) == 1 else x[low:at] for name, x in batch.observation.items()}
        cut.append((piece._replace(observation=shared), weight[: piece.site.shape[0], low:at]))
    return cut


def _lr(config: RefineConfig, step: int) -> float:
    rise = min(1.0, (step + 1) / _WARMUP)
    share = step / max(config.steps, 1)
    return config.lr * rise * (_FINAL_LR + (1 - _FINAL_LR) * 0.5 * (1 + math.cos(math.pi * share)))

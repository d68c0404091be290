"""Training on several processes: the ranks of torch.distributed, as torchrun starts them.

Every rank has the whole network and a share of each batch. The loss is a sum over the traces of the whole batch,
divided by their number, so gradients are summed over the ranks, and all ranks take the same step. They exchange two
things:

- ``gather``: a few words from every rank to every other, over gloo. It is the only way to exchange words, so a rank
  that cannot go on says so there, whatever the others expect to hear: none waits for something that never comes.
- the gradients, in one ``all_reduce`` per step.

DistributedDataParallel does not fit. It averages over ranks, where ours have different numbers of traces; its buckets
are fixed when a module is wrapped, and our modules grow; it waits for hooks that ``torch.autograd.grad``, with which
slices are computed in threads, does not call; and a parameter that no rank used would get a gradient of 0, with which
Adam moves it on, where one process leaves it alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from ars.errors import RankLostError, TrainingError
from ars.network.train.share import Share
from ars.network.train.words import decode, encode

__all__ = ["Alone", "Group", "Ranks", "joined", "reported_by_first"]

_T = TypeVar("_T")
_FRAME: Final = 1024  # bytes that are exchanged at once; more needs a second turn
_LEAD: Final = 8  # of these, the size
_PATIENCE: Final = timedelta(hours=6)  # for a rank that is alive: its simulator may be slow
_REPORTED: Final = "The first rank reports this error."


class Ranks(Protocol):
    """The processes that train together."""

    share: Share

    def gather(self, mine: _T) -> list[_T]:
        """What every rank gave, in their order: plain values and tuples (see words.py). Raises, on all ranks, if one of
        them cannot go on."""

    def settled(self, error: BaseException) -> BaseException:
        """Tells the others of an error; what the error of this rank is, now that all know."""

    def add(self, loss: float, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> float:
        """Sets the parameters' gradients to the sums over ranks; returns the sum of the losses."""

    def start_alike(self, network: nn.Module) -> None:
        """Gives all ranks the weights of the first."""

    def check_alike(self, network: nn.Module) -> None:
        """Raises a TrainingError if the weights are not the same, bit for bit, on all ranks."""


class Alone:
    """One process."""

    share = Share()

    def gather(self, mine: _T) -> list[_T]:
        return [mine]

    def settled(self, error: BaseException) -> BaseException:
        return error

    def add(self, loss: float, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> float:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        return loss

    def start_alike(self, network: nn.Module) -> None: ...

    def check_alike(self, network: nn.Module) -> None: ...


class _Word(NamedTuple):
    """What a rank gives to an exchange."""

    given: Any
    error: str | None = None
    interrupted: bool = False


class Group:
    """Several processes. ``words`` is a gloo group, ``gradients`` the group of the device that gradients are on."""

    def __init__(self, words: dist.ProcessGroup, gradients: dist.ProcessGroup) -> None:
        self.share = Share(dist.get_rank(words), dist.get_world_size(words))
        self._words = words
        self._gradients = gradients
        self._apart = False  # the others wait for gradients, not for words
        self._over = False  # all ranks know that there is no going on

    # ---- words -------------------------------------------------------------------------------------------------------

    def gather(self, mine: _T) -> list[_T]:
        words = self._exchange(_Word(mine))
        if any(word.error is not None or word.interrupted for word in words):
            self._over = True
            raise self._noted(self._others_error(words))
        return [cast(_T, word.given) for word in words]

    def settled(self, error: BaseException) -> BaseException:
        if self._over or self._apart or isinstance(error, RankLostError):
            return error
        interrupted = isinstance(error, KeyboardInterrupt)
        text = str(error) or type(error).__name__
        try:
            words = self._exchange(_Word(None, None if interrupted else text, interrupted))
        except RankLostError as lost:
            return lost if interrupted else error
        self._over = True
        if interrupted and any(word.error is not None for word in words):
            error = self._others_error(words)
        return self._noted(error)

    def _others_error(self, words: Sequence[_Word]) -> BaseException:
        for rank, word in enumerate(words):
            if word.error is not None:
                return TrainingError(f"rank {rank} of {self.share.ranks}: {word.error}")
        return KeyboardInterrupt()

    def _noted(self, error: BaseException) -> BaseException:
        if self.share.rank:
            error.add_note(_REPORTED)
        return error

    def _exchange(self, word: _Word) -> list[_Word]:
        data = encode(tuple(word))
        frames = self._all(len(data).to_bytes(_LEAD, "little") + data[: _FRAME - _LEAD], _FRAME)
        sizes = [int.from_bytes(frame[:_LEAD], "little") for frame in frames]
        if max(sizes) <= _FRAME - _LEAD:
            parts = [frame[_LEAD : _LEAD + size] for frame, size in zip(frames, sizes, strict=True)]
        else:
            parts = [whole[:size] for whole, size in zip(self._all(data, max(sizes)), sizes, strict=True)]
        return [_Word(*decode(part)) for part in parts]

    def _all(self, data: bytes, size: int) -> list[bytes]:
        """As many bytes of every rank; shorter ones are padded."""
        mine = torch.from_numpy(np.frombuffer(data.ljust(size, b"\0"), np.uint8).copy())
        every = [torch.empty_like(mine) for _ in range(self.share.ranks)]
        with self._connected():
            dist.all_gather(every, mine, group=self._words)
        return [tensor.numpy().tobytes() for tensor in every]

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch has no better one
            raise RankLostError(
                f"rank {self.share.rank} lost its connection to the others: one of the {self.share.ranks} ranks has "
                "ended, or its machine cannot be reached"
            ) from error

    # ---- weights -----------------------------------------------------------------------------------------------------

    def add(self, loss: float, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> float:
        self._apart = True
        try:
            every = self.gather((loss, [gradient is not None for gradient in gradients]))
            used = [any(flags) for flags in zip(*(flags for _, flags in every), strict=True)]
            parts = [
                torch.zeros_like(parameter).reshape(-1) if gradient is None else gradient.reshape(-1)
                for parameter, gradient, some in zip(parameters, gradients, used, strict=True)
                if some
            ]
            whole = torch.cat(parts) if parts else torch.empty(0)
            if parts:
                with self._connected():
                    dist.all_reduce(whole, group=self._gradients)
        except RankLostError:
            raise
        except BaseException:
            self._apart = not self._over
            raise
        self._apart = False
        sums = iter(whole.split([len(part) for part in parts]))
        for parameter, some in zip(parameters, used, strict=True):
            parameter.grad = next(sums).view_as(parameter) if some else None
        return float(sum(other for other, _ in every))

    def start_alike(self, network: nn.Module) -> None:
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}
        shapes = repr([(name, tuple(tensor.shape)) for name, tensor in tensors.items()])
        if len(set(self.gather(hashlib.sha256(shapes.encode()).digest()))) > 1:
            raise TrainingError("the ranks have networks of different sizes: your own modules must be identical")
        self._apart = True
        with self._connected():
            for tensor in tensors.values():
                dist.broadcast(tensor, dist.get_global_rank(self._words, 0), group=self._words)
        self._apart = False
        network.load_state_dict(tensors)

    def check_alike(self, network: nn.Module) -> None:
        digests = self.gather(_digest(network))
        odd = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
        if odd:
            raise TrainingError(
                f"the weights of rank {odd[0]} are not those of rank 0. All ranks need the same release of libars and "
                "torch, and modules of your own must compute the same in all of them"
            )


def _digest(network: nn.Module) -> str:
    total = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        total.update(f"{name} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


# ---- joining ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this process: those of the process group if there is one, else those that torchrun has started."""
    if not dist.is_available():
        yield Alone()
        return
    mine = not dist.is_initialized()
    if mine:
        if not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) < 2:
            yield Alone()
            return
        _start()
    elif dist.get_world_size() < 2:
        yield Alone()
        return
    groups: list[dist.ProcessGroup] = []
    try:
        for backend in ("gloo", "nccl") if device.type == "cuda" else ("gloo",):
            groups.append(cast(dist.ProcessGroup, dist.new_group(backend=backend, timeout=_PATIENCE)))
        yield Group(groups[0], groups[-1])
    finally:
        for group in () if mine else reversed(groups):
            dist.destroy_process_group(group)
        if mine:
            dist.destroy_process_group()


def _start() -> None:
    """A process group of its own for every training: what an earlier one left in torchrun's store is not found."""
    store, rank, ranks = next(rendezvous("env://", timeout=_PATIENCE))
    before = store.add(f"ars/{rank}/joined", 1)
    dist.init_process_group(
        "gloo", store=PrefixStore(f"ars/{before}", store), rank=rank, world_size=ranks, timeout=_PATIENCE
    )


def reported_by_first(error: BaseException) -> bool:
    """Whether the first rank reports this error, so that the others can be quiet about it."""
    link: BaseException | None = error
    while link is not None and _REPORTED not in getattr(link, "__notes__", ()):
        link = link.__cause__
    return link is not None

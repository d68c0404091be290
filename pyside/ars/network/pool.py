"""The LSTM states of all traces that are under way, in one pair of tensors.

A state is named by a number that is never given out again in the life of the pool: the slot that it is in, and how many
states were in that slot before it. A number whose state was freed is recognised, so a state is never another's.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ars.errors import ArsError, ProtocolError

__all__ = ["DEFAULT_MEMORY", "PoolFullError", "StatePool"]

DEFAULT_MEMORY: Final = 4 << 30  # bytes
_FIRST_CAPACITY: Final = 256
_SLOT_BITS: Final = 32
_SLOT_MASK: Final = np.uint64((1 << _SLOT_BITS) - 1)

Slots: TypeAlias = npt.NDArray[np.int64]
Array: TypeAlias = npt.NDArray[Any]


class PoolFullError(ArsError):
    """The traces that are under way have more states than the pool may hold."""


class StatePool:
    """h and c, each [depth, capacity, width], and who owns which slot. Number 0 is not a state: it is the start.

    notes: one record per slot, for what else belongs to a state. memory: the bytes that h and c may take together. They
    start small and double when they are full.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        notes: npt.DTypeLike = np.int64,
        *,
        memory: int = DEFAULT_MEMORY,
        device: torch.device | str = "cpu",
    ) -> None:
        self.bytes_per_state = 2 * 4 * depth * width
        self.memory = memory
        self.limit = min(memory // self.bytes_per_state, 1 << (_SLOT_BITS - 1))
        if self.limit < 1:
            raise PoolFullError(f"memory={memory} bytes hold no state: one has {self.bytes_per_state} bytes")
        capacity = min(_FIRST_CAPACITY, self.limit)
        self._h = torch.zeros((depth, capacity, width), device=device)
        self._c = torch.zeros((depth, capacity, width), device=device)
        self.notes: Array = np.zeros(capacity, notes)
        self._generation = np.ones(capacity, np.uint64)  # of the state that is, or will be, in the slot
        self._owner = np.zeros(capacity, np.uint64)  # the trace
        self._live = np.zeros(capacity, np.bool_)
        self._free = np.arange(capacity - 1, -1, -1, dtype=np.int64)  # a stack; its first n_free entries count
        self._n_free = capacity
        self.peak = 0

    @property
    def capacity(self) -> int:
        """Slots that there are now."""
        return len(self._live)

    @property
    def live(self) -> int:
        """States that there are now."""
        return self.capacity - self._n_free

    # ---- states ------------------------------------------------------------------------------------------------------

    def allocate(self, traces: Array) -> Slots:
        """A slot for each of these traces (a trace may come several times). All of them, or an error and none."""
        wanted = len(traces)
        if wanted > self._n_free:
            self._grow(self.live + wanted)
        self._n_free -= wanted
        slots = self._free[self._n_free : self._n_free + wanted].copy()
        self._owner[slots] = traces
        self._live[slots] = True
        self.peak = max(self.peak, self.live)
        return slots

    def numbers(self, slots: Slots) -> npt.NDArray[np.uint64]:
        """The names of the states in these slots."""
        return (self._generation[slots] << np.uint64(_SLOT_BITS)) | slots.astype(np.uint64)

    def slots(self, numbers: Array, traces: Array) -> Slots:
        """Where these states are; -1 for number 0. A state that is gone, or is another trace's, is an error."""
        slots = (numbers & _SLOT_MASK).astype(np.int64)
        named = numbers != 0
        inside = np.where(slots < self.capacity, slots, 0)
        right = (inside == slots) & self._live[inside] & (self._generation[inside] == numbers >> np.uint64(_SLOT_BITS))
        if (named & ~right).any():
            number = int(numbers[named & ~right][0])
            raise ProtocolError(f"STEPS: state {number} is unknown, or its trace is over")
        wrong = named & (self._owner[inside] != traces)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ProtocolError(
                f"STEPS: state {int(numbers[row])} belongs to trace {int(self._owner[inside[row]])}, not to trace "
                f"{int(traces[row])}"
            )
        return np.where(named, slots, -1)

    def get(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Copies of h and c, each [depth, n, width]; zeros, the start of a trace, for slot -1."""
        start = slots < 0
        index = torch.from_numpy(np.where(start, 0, slots)).to(self._h.device)
        h, c = self._h.index_select(1, index), self._c.index_select(1, index)
        if start.any():
            which = torch.from_numpy(np.flatnonzero(start)).to(self._h.device)
            h.index_fill_(1, which, 0.0)
            c.index_fill_(1, which, 0.0)
        return h, c

    def put(self, slots: Slots, h: Tensor, c: Tensor) -> None:
        """Fills slots that were just allocated."""
        index = torch.from_numpy(slots).to(self._h.device)
        self._h.index_copy_(1, index, h)
        self._c.index_copy_(1, index, c)

    def release(self, traces: Array) -> None:
        """Frees the states of these traces. Traces that have none are fine."""
        if not self.live:
            return
        gone = np.flatnonzero(self._live & np.isin(self._owner, traces))
        self._live[gone] = False
        self._generation[gone] += np.uint64(1)
        self._free[self._n_free : self._n_free + len(gone)] = gone
        self._n_free += len(gone)

    # ---- growing -----------------------------------------------------------------------------------------------------

    def _grow(self, wanted: int) -> None:
        if wanted > self.limit:
            raise PoolFullError(
                f"the traces under way have {wanted:,} LSTM states of {self.bytes_per_state:,} bytes, but the limit is "
                f"{self.limit:,} (memory={self.memory:,} bytes). States are kept until their trace is over: use fewer "
                "workers, a smaller lstm_dim, or look for a loop that is rejected very often (post.loops, ars inspect)"
            )
        before = self.capacity
        capacity = before
        while capacity < wanted:
            capacity *= 2
        capacity = min(capacity, self.limit)
        more = capacity - before
        try:
            h, c = _longer(self._h, capacity), _longer(self._c, capacity)
        except RuntimeError as error:  # torch: cannot allocate
            raise PoolFullError(f"no memory for {capacity:,} LSTM states of {self.bytes_per_state:,} bytes") from error
        self._h, self._c = h, c
        self.notes = np.concatenate([self.notes, np.zeros(more, self.notes.dtype)])
        self._generation = np.concatenate([self._generation, np.ones(more, np.uint64)])
        self._owner = np.concatenate([self._owner, np.zeros(more, np.uint64)])
        self._live = np.concatenate([self._live, np.zeros(more, np.bool_)])
        free = np.empty(capacity, np.int64)
        free[:more] = np.arange(capacity - 1, before - 1, -1)
        free[more : more + self._n_free] = self._free[: self._n_free]
        self._free = free
        self._n_free += more


def _longer(tensor: Tensor, capacity: int) -> Tensor:
    depth, before, width = tensor.shape
    new = tensor.new_empty((depth, capacity, width))
    new[:, :before] = tensor
    return new

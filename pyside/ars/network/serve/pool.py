"""The LSTM states of all traces that are under way, in one pair of tensors.

A state is named by a number that is never given out again in the life of the pool: the slot that it is in, and how many
states were in that slot before it. A number whose state was freed is recognised, so a state is never another's. Slot 0
holds the start of every trace, whose number is 0. It and other states that do not depend on the trace are shared: they
may be used by all, and stay.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ars.errors import PoolFullError, ProtocolError

__all__ = ["DEFAULT_MEMORY", "SHARED", "StatePool"]

DEFAULT_MEMORY: Final = 4 << 30  # bytes
SHARED: Final = np.uint64(2**64 - 1)  # the owner of what belongs to no trace; no trace has this number
_FIRST_CAPACITY: Final = 256
_SLOT_BITS: Final = 32
_SLOT_MASK: Final = np.uint64((1 << _SLOT_BITS) - 1)

Slots: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Array: TypeAlias = npt.NDArray[Any]


class StatePool:
    """h and c, each [depth, capacity, width], and who owns which slot.

    notes: one record per slot, for what else belongs to a state; ``start`` is that of slot 0. memory: the bytes that h
    and c may take together. They start small and double when they are full.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        start: Array | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        self.bytes_per_state = 2 * 4 * depth * width
        self.memory = memory
        self.limit = min(memory // self.bytes_per_state, 1 << (_SLOT_BITS - 1))
        if self.limit < 1:
            raise PoolFullError(f"memory={memory} bytes hold no state: one has {self.bytes_per_state} bytes")
        capacity = min(_FIRST_CAPACITY, self.limit) + 1
        first = np.zeros((), np.int64) if start is None else start
        self._h = torch.zeros((depth, capacity, width))
        self._c = torch.zeros((depth, capacity, width))
        self.notes: Array = np.zeros(capacity, first.dtype)
        self.notes[0] = first
        self._generation = np.ones(capacity, np.uint64)  # of the state that is, or will be, in the slot
        self._generation[0] = 0
        self._owner = np.zeros(capacity, np.uint64)  # the trace
        self._owner[0] = SHARED
        self._live = np.zeros(capacity, np.bool_)
        self._live[0] = True
        self._free = np.arange(capacity - 1, -1, -1, dtype=np.int64)  # a stack; its first n_free entries count
        self._n_free = capacity - 1
        self.shared = 0  # states that stay, the start not counted
        self.peak = 0

    @property
    def capacity(self) -> int:
        """Slots that there are now, that of the start not counted."""
        return len(self._live) - 1

    @property
    def live(self) -> int:
        """States of traces that there are now."""
        return self.capacity - self._n_free - self.shared

    # ---- states ------------------------------------------------------------------------------------------------------

    def allocate(self, owners: Array) -> Slots:
        """A slot for each of these traces (a trace may come several times, or SHARED). All of them, or an error and
        none."""
        wanted = len(owners)
        if wanted > self._n_free:
            self._grow(self.capacity - self._n_free + wanted)
        self._n_free -= wanted
        slots = self._free[self._n_free : self._n_free + wanted].copy()
        self._owner[slots] = owners
        self._live[slots] = True
        self.shared += int(np.count_nonzero(owners == SHARED))
        self.peak = max(self.peak, self.live)
        return slots

    def numbers(self, slots: Slots) -> npt.NDArray[np.uint64]:
        """The names of the states in these slots."""
        return (self._generation[slots] << np.uint64(_SLOT_BITS)) | slots.astype(np.uint64)

    def is_shared(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return np.asarray(self._owner[slots] == SHARED)

    def slots(self, numbers: Array, traces: Array) -> Slots:
        """Where these states are. A state that is gone, or is another trace's, is an error."""
        slots = (numbers & _SLOT_MASK).astype(np.int64)
        inside = np.where(slots <= self.capacity, slots, 0)
        right = self._live[inside] & (self.numbers(inside) == numbers)
        if not right.all():
            raise ProtocolError(f"STEPS: state {int(numbers[~right][0])} is unknown, or its trace is over")
        owner = self._owner[inside]
        wrong = (owner != traces) & (owner != SHARED)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ProtocolError(
                f"STEPS: state {int(numbers[row])} belongs to trace {int(owner[row])}, not to trace {int(traces[row])}"
            )
        return slots

    def hidden(self, slots: Slots) -> Tensor:
        """Copies of h, [depth, n, width]."""
        return self._h.index_select(1, torch.from_numpy(slots))

    def layer(self, layer: int) -> tuple[Floats, Floats]:
        """h and c of a layer as they are, [slots, width], to be read and written until the next allocation."""
        return self._h[layer].numpy(), self._c[layer].numpy()

    def copy(self, source: Slots, target: Slots) -> None:
        """What is in some slots, with its notes, to others."""
        if len(source):
            index, to = torch.from_numpy(source), torch.from_numpy(target)
            for tensor in (self._h, self._c):
                tensor.index_copy_(1, to, tensor.index_select(1, index))
            self.notes[target] = self.notes[source]

    def release(self, traces: Array) -> None:
        """Frees the states of these traces. Traces that have none are fine."""
        if self.live:
            self.free(np.flatnonzero(self._live & np.isin(self._owner, traces)))

    def free(self, slots: Slots) -> None:
        """Frees slots that belong to traces."""
        self._live[slots] = False
        self._generation[slots] += np.uint64(1)
        self._free[self._n_free : self._n_free + len(slots)] = slots
        self._n_free += len(slots)

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
            h, c = _longer(self._h, capacity + 1), _longer(self._c, capacity + 1)
        except RuntimeError as error:  # torch: cannot allocate
            raise PoolFullError(f"no memory for {capacity:,} LSTM states of {self.bytes_per_state:,} bytes") from error
        self._h, self._c = h, c
        self.notes = np.concatenate([self.notes, np.zeros(more, self.notes.dtype)])
        self._generation = np.concatenate([self._generation, np.ones(more, np.uint64)])
        self._owner = np.concatenate([self._owner, np.zeros(more, np.uint64)])
        self._live = np.concatenate([self._live, np.zeros(more, np.bool_)])
        free = np.empty(capacity, np.int64)
        free[:more] = np.arange(capacity, before, -1)
        free[more : more + self._n_free] = self._free[: self._n_free]
        self._free = free
        self._n_free += more


def _longer(tensor: Tensor, capacity: int) -> Tensor:
    depth, before, width = tensor.shape
    new = tensor.new_empty((depth, capacity, width))
    new[:, :before] = tensor
    return new

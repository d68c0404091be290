"""How a training went: one line per evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Entry", "TrainingHistory"]


class Entry(NamedTuple):
    """One evaluation."""

    traces: int  # trained on so far
    loss: float  # mean over the batches since the entry before
    held_out: float | None  # loss on traces that are never trained on
    lr: float
    seconds: float  # of training so far
    traces_per_second: float  # since the entry before


class TrainingHistory(Sequence[Entry]):
    """The entries of a training, oldest first; ``history.loss`` and so on are its columns."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = list(entries)

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainingHistory) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # it grows

    @property
    def traces(self) -> list[int]:
        return [entry.traces for entry in self]

    @property
    def loss(self) -> list[float]:
        return [entry.loss for entry in self]

    @property
    def held_out(self) -> list[float | None]:
        return [entry.held_out for entry in self]

    @property
    def lr(self) -> list[float]:
        return [entry.lr for entry in self]

    @property
    def seconds(self) -> list[float]:
        return [entry.seconds for entry in self]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns, for JSON."""
        return {name: [getattr(entry, name) for entry in self] for name in Entry._fields}

    @classmethod
    def from_dict(cls, columns: Mapping[str, Sequence[Any]]) -> TrainingHistory:
        lists = [columns[name] for name in Entry._fields]
        return cls([Entry(*row) for row in zip(*lists, strict=True)])

    def __repr__(self) -> str:
        if not self._entries:
            return "<TrainingHistory: empty>"
        last = self._entries[-1]
        held = "" if last.held_out is None else f", held-out {last.held_out:.4f}"
        return f"<TrainingHistory: {last.traces:,} traces, loss {last.loss:.4f}{held}, {last.seconds:.0f} s>"

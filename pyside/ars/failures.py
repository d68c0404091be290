"""Failed traces: what each one says, and how many there are of each kind."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ars._native import FailureKind, failure_name

__all__ = ["Failure", "Failures", "describe", "failures_of"]


class Failure(NamedTuple):
    """One failed trace."""

    trace: int
    kind: str  # "crash", "timeout", ...: the lower-case names of FailureKind
    detail: int  # the signal of a crash, the code of an exit; else what the kind makes of it
    text: str  # what, where and what to do

    def __str__(self) -> str:
        if self.kind == "crash":
            return f"trace {self.trace}: {self.kind} ({_signal_name(self.detail)}): {self.text}"
        return f"trace {self.trace}: {self.kind}: {self.text}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(raw: bytes) -> str:
    return bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace")


def failures_of(records: npt.NDArray[Any]) -> list[Failure]:
    """The failures in an array of ars_wire_failure."""
    return [
        Failure(int(r["trace"]), failure_name(int(r["kind"])), int(r["detail"]), _text(r["text"]))
        for r in np.atleast_1d(records)
    ]


def describe(failures: Sequence[Failure], at_most: int = 3) -> str:
    """The first few failures in words, one per line."""
    lines = [str(failure) for failure in failures[:at_most]]
    if len(failures) > at_most:
        lines.append(f"and {len(failures) - at_most} more")
    return "\n".join(lines)


class Failures(Mapping[str, int]):
    """How many traces failed, by kind, and a few examples of each: ``post.failures``. False if there are none."""

    def __init__(self, failures: Iterable[Failure] = (), *, examples_per_kind: int = 3) -> None:
        counts: Counter[str] = Counter()
        examples: list[Failure] = []
        for failure in failures:
            counts[failure.kind] += 1
            if counts[failure.kind] <= examples_per_kind:
                examples.append(failure)
        order = {failure_name(code): code for code in FailureKind}
        self._counts = {kind: counts[kind] for kind in sorted(counts, key=lambda k: order.get(k, len(order)))}
        self.examples: tuple[Failure, ...] = tuple(examples)

    def __getitem__(self, kind: str) -> int:
        return self._counts[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        """How many kinds there are; ``total`` counts the traces."""
        return len(self._counts)

    @property
    def total(self) -> int:
        """How many traces failed."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        if not self._counts:
            return "no failures"
        counted = ", ".join(f"{kind}: {count:,}" for kind, count in self._counts.items())
        return "\n".join([f"{self.total:,} failed traces ({counted})", *(f"  {example}" for example in self.examples)])

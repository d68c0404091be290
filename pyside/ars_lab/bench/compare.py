"""``ars bench compare A.json B.json``: what got slower, and what faster, by more than the noise."""

from __future__ import annotations

from typing import NamedTuple

from ars_lab.bench.results import Measurement, Report, number

__all__ = ["Change", "Comparison", "compare"]

_MACHINE = ("cpu", "cores", "memory_gb", "kernel", "transparent_hugepage", "torch", "python")


class Change(NamedTuple):
    """One figure in both files. ``factor`` above 1: worse in the second."""

    before: Measurement
    after: Measurement
    factor: float
    noise: float  # factors below 1 + noise say nothing

    @property
    def verdict(self) -> str:
        if self.factor > 1 + self.noise:
            return "slower"
        return "faster" if self.factor < 1 / (1 + self.noise) else "same"

    def __str__(self) -> str:
        case = ", ".join(f"{name} {value}" for name, value in self.before.case.items())
        values = f"{number(self.before.value)} -> {number(self.after.value)} {self.before.unit}".rstrip()
        return (
            f"{self.verdict:6}  {self.factor:5.2f}  {self.before.suite}: {self.before.metric} ({case}): {values}, "
            f"noise {100 * self.noise:.0f}%"
        )


class Comparison(NamedTuple):
    changes: list[Change]  # the worst first
    only_before: int
    only_after: int
    machine: list[str]  # what differs between the two machines

    def of(self, verdict: str) -> list[Change]:
        return [change for change in self.changes if change.verdict == verdict]


def compare(before: Report, after: Report, threshold: float = 0.1) -> Comparison:
    """A change counts if it is larger than ``threshold`` and than twice the spread of both files together."""
    old = {m.key: m for m in before.measurements if m.better != "neither"}
    new = {m.key: m for m in after.measurements if m.better != "neither"}
    changes = []
    for key, a in old.items():
        if (b := new.get(key)) is None or a.value <= 0 or b.value <= 0:
            continue
        factor = b.value / a.value if a.better == "lower" else a.value / b.value
        changes.append(Change(a, b, factor, max(threshold, 2 * (a.spread + b.spread))))
    changes.sort(key=lambda change: -change.factor)
    different = [
        f"{name}: {before.machine.get(name)} / {after.machine.get(name)}"
        for name in _MACHINE
        if before.machine.get(name) != after.machine.get(name)
    ]
    return Comparison(changes, len(old.keys() - new.keys()), len(new.keys() - old.keys()), different)

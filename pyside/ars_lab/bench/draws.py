"""``ars bench draws``: a simulator that runs alone, next to the same one with plain calls of the C library."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator

from ars_lab.bench.measure import Effort, find_simulator
from ars_lab.bench.results import BenchError, Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "draws"
_NAMES = {"uniform": "uniform draw", "flat": "draw without a name", "normal": "Normal draw", "event": "Marsaglia event"}


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    draws = max(int(2_500_000 * effort.seconds), 1_000)
    command = [find_simulator("bench_draws", directory), str(draws), str(effort.repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{command[0]} failed: {done.stderr.strip()}")
    turns: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        name, with_ars, plain = line.split()
        turns[name].append((float(with_ars), float(plain)))
    for name, pairs in turns.items():
        case = {"what": _NAMES.get(name, name)}
        yield measurement(SUITE, case, "libars", [a for a, _ in pairs], "ns", "lower")
        yield measurement(SUITE, case, "drand48", [b for _, b in pairs], "ns")
        yield measurement(SUITE, case, "ratio", [a / b for a, b in pairs], better="lower", target=1.1)

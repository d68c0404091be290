"""``ars bench draws``: a simulator that runs alone, next to the same one with plain calls of the C library.

And the same draws as latents of a prior run: a draw without a name looks up its call path there.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import ars
from ars_lab.bench.measure import Effort, find_simulator
from ars_lab.bench.results import BenchError, Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "draws"
_NAMES = {"uniform": "uniform draw", "flat": "draw without a name", "normal": "Normal draw", "event": "Marsaglia event"}
_RUN_DRAWS: Final = 10_000  # of each kind per trace, which keeps them all
_UNNAMED_TARGET: Final = 200.0


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    simulator = find_simulator("bench_draws", directory)
    yield from _alone(effort, simulator)
    yield from _in_a_run(effort, simulator)


def _alone(effort: Effort, simulator: str) -> Iterator[Measurement]:
    draws = max(int(2_500_000 * effort.seconds), 1_000)
    command = [simulator, str(draws), str(effort.repeats)]
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


def _in_a_run(effort: Effort, simulator: str) -> Iterator[Measurement]:
    """Each trace measures itself. The first one of a worker also finds the paths, and is left out."""
    draws = min(max(int(2_500_000 * effort.seconds), 1_000), _RUN_DRAWS)
    with ars.Simulator([simulator, str(draws), "1"], workers=1) as sim:
        traces = sim.prior(1 + effort.repeats, seed=1)
    for name in ("uniform", "flat", "normal"):
        target = _UNNAMED_TARGET if name == "flat" else None
        case = {"what": _NAMES[name]}
        yield measurement(SUITE, case, "in a run", traces[name][1:].tolist(), "ns", "lower", target)

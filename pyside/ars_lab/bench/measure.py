"""Time: of this process, of a simulator's processes, and of repetitions that take turns."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import ars
from ars.toolchain.examples import example
from ars_lab.bench.results import BenchError

__all__ = ["Effort", "FamilyCpu", "family_cpu", "find_simulator", "huge_pages", "traces_for"]

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Effort:
    """How much a benchmark may do: seconds per figure, repetitions, and which cases."""

    seconds: float = 0.4
    repeats: int = 3
    size: str = "quick"  # "smallest", "quick" or "full"

    def turns(self) -> Iterator[int]:
        yield from range(self.repeats)


class FamilyCpu(NamedTuple):
    """CPU seconds of the processes of a simulator so far."""

    host: float
    workers: float  # the simulator itself: the zygote, workers, and those that have ended
    forked: float  # snapshots and continuations that have ended

    def __sub__(self, other: object) -> FamilyCpu:
        if not isinstance(other, FamilyCpu):
            return NotImplemented
        return FamilyCpu(self.host - other.host, self.workers - other.workers, self.forked - other.forked)

    @property
    def total(self) -> float:
        return self.host + self.workers + self.forked


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _times(pid: int) -> tuple[float, float]:
    """Its own time, and that of the children it has waited for, which the kernel gives in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    own, waited = (int(fields[11]) + int(fields[12])) / _TICK, (int(fields[13]) + int(fields[14])) / _TICK
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9, waited
    except (OSError, IndexError):  # a kernel that does not count nanoseconds
        return own, waited


def family_cpu(simulator: ars.Simulator) -> FamilyCpu:
    """Take the difference of two."""
    host = _host(simulator)
    workers = forked = 0.0
    for zygote in _children(host):
        workers += sum(_times(zygote))
        for worker in _children(zygote):
            own, waited = _times(worker)
            workers += own
            forked += waited
    return FamilyCpu(_times(host)[0], workers, forked)


def _host(simulator: ars.Simulator) -> int:
    if simulator.pid is None:
        raise BenchError("the simulator is not running")
    return simulator.pid


def huge_pages(simulator: ars.Simulator) -> float:
    """Bytes of the simulator's memory that are in huge pages."""
    [zygote] = _children(_host(simulator))
    lines = Path(f"/proc/{zygote}/smaps_rollup").read_text().splitlines()
    return sum(1024.0 * int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))


def traces_for(
    run: Callable[[int], object], seconds: float, *, first: int = 4, least: int = 1, most: int = 1_000_000
) -> int:
    """How many traces take about this long: runs a few to warm up, then more, until the answer is clear."""
    n = first
    run(n)
    while True:
        started = time.perf_counter()
        run(n)
        spent = time.perf_counter() - started
        if spent > 0.2 * seconds or n >= most:
            return max(min(int(n * seconds / spent), most), least)
        n = min(4 * n, most)


def find_simulator(name: str, directory: str | os.PathLike[str] | None = None) -> str:
    """A simulator of csim/: in the folder given, in $ARS_CSIM_DIR, or compiled from the package's sources."""
    given = directory or os.environ.get("ARS_CSIM_DIR")
    if not given:
        return str(example(name))
    found = shutil.which(str(Path(given) / name))
    if found is None:
        raise BenchError(f"there is no simulator {name} in {given}: build it (make build) or name its folder")
    return found

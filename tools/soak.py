"""Runs simulators over and over; memory, descriptors and the number of processes must stay flat in every process.

    .venv/bin/python tools/soak.py --seconds 1200 --simulators build/csim       (make soak)

What is looked at is what is there between two runs: the controller (this process), ars-host, the zygote, the workers.
Medians of the second and of the last quarter of the time are compared. Exit code 1 if something has grown.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ars
from ars.continuations import Continuations

# kB of anonymous memory that a median may grow by: noise of an allocator, and buffers that double when work piles up on
# a loaded machine, not a leak that adds up
ALLOWED = {"controller": 8192, "host": 4096, "zygote": 16, "worker": 512}


class Sample(NamedTuple):
    """One look at the processes of one role."""

    processes: int
    memory: int  # kB of anonymous memory, of the largest
    descriptors: int  # of the one with most


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def look(pids: list[int]) -> Sample:
    memory, descriptors = [0], [0]
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        memory.append(int(status.split("RssAnon:")[1].split()[0]))
        descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
    return Sample(len(pids), max(memory), max(descriptors))


def family(sim: ars.Simulator) -> dict[str, Sample]:
    gc.collect()
    assert sim.pid is not None
    (zygote,) = children(sim.pid)
    return {
        "controller": look([os.getpid()]),
        "host": look([sim.pid]),
        "zygote": look([zygote]),
        "worker": look(children(zygote)),
    }


def work(sim: ars.Simulator, name: str, seed: int, traces: int) -> int:
    """A run of each kind: proposals asked for, none asked for, the plain prior. Returns how many traces it made."""
    if name == "marsaglia":
        data = {"y1": 0.1, "y2": -0.2}
        asked: dict[str, Any] = {"x1": ars.Normal(0.0, 0.6), "x2": lambda t: ars.Uniform(-1.0, 1.0 + 0.0 * t["x1"])}
        sim.posterior(data, traces, proposals=asked, budget=ars.Budget(M=1, N=5), seed=seed)
    else:
        sim.posterior({"y": 1.0}, traces, proposals={"a": ars.Normal(0.3, 1.1)}, budget=ars.Budget(M=1, N=3), seed=seed)
    sim.prior(20 * traces, seed=seed)
    return 21 * traces


def soak(
    directory: Path, seconds: float, traces: int, mode: Continuations
) -> Iterator[tuple[str, dict[str, Sample], int]]:
    """Yields after every round: which simulator, its processes, and the traces so far."""
    names = ("marsaglia", "nested")
    sims = {name: ars.Simulator([str(directory / name)], workers=4, continuations=mode) for name in names}
    end = time.monotonic() + seconds
    done = seed = 0
    try:
        while time.monotonic() < end or seed < 12:
            seed += 1
            for name, sim in sims.items():
                done += work(sim, name, seed, traces)
                yield name, family(sim), done
    finally:
        for sim in sims.values():
            sim.close()


def grown(samples: list[Sample], allowed: int) -> list[str]:
    """What is more in the last quarter than in the second."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    wrong = []
    for what, slack in (("processes", 0), ("memory", allowed), ("descriptors", 0)):
        before, after = (statistics.median(getattr(sample, what) for sample in part) for part in (early, late))
        if after > before + slack:
            wrong.append(f"{what}: {before:g} -> {after:g}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--traces", type=int, default=200, help="weighted ones per run")
    parser.add_argument("--simulators", type=Path, default=Path("build/csim"), help="where marsaglia and nested are")
    parser.add_argument("--continuations", default="auto", help="auto, fork or check (default: auto)")
    arguments = parser.parse_args()
    seen: dict[tuple[str, str], list[Sample]] = {}
    began = said = time.monotonic()
    done = 0
    for name, now, done in soak(arguments.simulators, arguments.seconds, arguments.traces, arguments.continuations):
        for role, sample in now.items():
            seen.setdefault((name, role), []).append(sample)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{said - began:6.0f} s, {done:,} traces", flush=True)
    print(
        f"{done:,} traces in {time.monotonic() - began:.0f} s; per role: processes, kB (first, last, most), descriptors"
    )
    failed = False
    for (name, role), samples in seen.items():
        memory = [sample.memory for sample in samples]
        wrong = grown(samples, ALLOWED[role])
        failed |= bool(wrong)
        print(
            f"  {name:10} {role:10} {samples[-1].processes:3}  {memory[0]:7} {memory[-1]:7} {max(memory):7}  "
            f"{samples[-1].descriptors:3}  {'GROWN ' + ', '.join(wrong) if wrong else 'flat'}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""How much faster two ranks train than one process, on as many cores as ranks.

    python -m ars_lab.ranks [--ranks 2] [--batches 60] [--simulators DIR]

Each case is trained by ``ars train`` on one core, then by ``torchrun -m ars train`` with one core per rank, in turns.
The rate is that of the file's history, from the first evaluation to the last: starting does not count. Simulators
share the cores with what they train.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ars
from ars_lab.bench.measure import find_simulator

__all__ = ["Case", "main", "rate"]


class Case(NamedTuple):
    """A training to measure."""

    name: str
    simulator: str
    options: tuple[str, ...]
    batch: int
    recorded: bool = False


_SIZES = ("--lstm-dim", "512")
CASES = (
    Case("gaussian", "gaussian", _SIZES, 512),
    Case("gaussian, recorded", "gaussian", _SIZES, 512, recorded=True),
    Case("mini_sherpa", "mini_sherpa", (*_SIZES, "--shape", "calorimeter=20x20"), 512),
    Case("mini_sherpa, recorded", "mini_sherpa", (*_SIZES, "--shape", "calorimeter=20x20"), 512, recorded=True),
    Case("mini_sherpa, recorded", "mini_sherpa", (*_SIZES, "--shape", "calorimeter=20x20"), 2048, recorded=True),
)


def rate(case: Case, ranks: int, batches: int, directory: Path, simulators: str | None = None) -> float:
    """Traces per second, with one core per rank."""
    executable = find_simulator(case.simulator, simulators)
    out = directory / f"{ranks}.safetensors"
    words = [executable, *case.options, "--batch-size", str(case.batch), "--traces", str(batches * case.batch)]
    words += ["--workers", "1", "--threads", "1", "--seed", "1", "--held-out", "64", "--quiet", "--out", str(out)]
    if case.recorded:
        data = directory / case.name
        if not data.exists():
            with ars.Simulator([executable]) as simulator:
                simulator.record(min(batches, 40) * case.batch, data, seed=2)
        words += ["--data", str(data)]
    launcher = ["torch.distributed.run", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    cores = sorted(os.sched_getaffinity(0))[:ranks]
    command = [sys.executable, "-m", *launcher, "ars", "train", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores)), *command], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    history = ars.Network.load(out).history
    first, last = history[0], history[-1]
    return float((last.traces - first.traces) / (last.seconds - first.seconds))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ars_lab.ranks", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="ranks, each on a core (default: 2)")
    parser.add_argument("--batches", type=int, default=60, metavar="N", help="batches of each training (default: 60)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each; the median counts (default: 3)")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases whose name contains it (default: all)")
    parser.add_argument("--simulators", metavar="DIR", help="folder of the executables of csim/ (default: compiled)")
    arguments = parser.parse_args(argv)
    sys.stdout.write("| training | batch | traces/s, 1 process | traces/s, ranks | ratio |\n|---|---|---|---|---|\n")
    for case in (case for case in CASES if arguments.case in case.name):
        found: dict[int, list[float]] = {1: [], arguments.ranks: []}
        with tempfile.TemporaryDirectory(prefix="ars-ranks-") as directory:
            for _ in range(arguments.repeats):
                for ranks, rates in found.items():
                    rates.append(rate(case, ranks, arguments.batches, Path(directory), arguments.simulators))
        one, many = (statistics.median(rates) for rates in found.values())
        sys.stdout.write(f"| {case.name} | {case.batch} | {one:,.0f} | {many:,.0f} | {many / one:.2f} |\n")
        sys.stdout.flush()
        sys.stderr.write(f"{case.name}: {found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How much faster two ranks train than one process, on as many cores as ranks.

    python -m ars_lab.ranks [--ranks 2] [--batches 60] [--simulators DIR]

Each case is trained by one ``ars train``, then by several that are ranks, in turns, each on a core of its own, which
it shares with its simulator. The rate is that of the file's history, from the first evaluation to the last: starting
does not count.

Ranks get the environment that torchrun would give them, but are started here: torchrun puts each into a session of its
own, which Linux schedules as a group of its own (autogroup), so a measurement that has been given priority would lose
it.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ars
from ars_lab.bench.measure import find_simulator
from ars_lab.bench.results import BenchError

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
    _run([sys.executable, "-m", "ars", "train", *words], ranks)
    history = ars.Network.load(out).history
    first, last = history[0], history[-1]
    return float((last.traces - first.traces) / (last.seconds - first.seconds))


def _run(command: Sequence[str], ranks: int) -> None:
    """The command once per rank, on cores 0, 1 and so on; returns when all have ended."""
    cores = sorted(os.sched_getaffinity(0))
    together = {"TORCHELASTIC_RUN_ID": "measured", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    started = []
    for rank in range(ranks):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | (together | place if ranks > 1 else {})
        words = ["taskset", "-c", str(cores[rank]), *command]
        started.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
    codes = [process.wait() for process in started]
    if any(codes):
        raise BenchError(f"the training ended with {codes}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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

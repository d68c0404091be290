"""``ars bench train``: prior traces, recorded traces and training, per second."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ars
from ars_lab.bench.measure import Effort, find_simulator, traces_for
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "run", "training_rate"]

SUITE = "train"


def _prior(simulator: ars.Simulator, effort: Effort) -> Iterator[Measurement]:
    n = traces_for(lambda n: simulator.prior(n, seed=1), effort.seconds, first=1_000)
    rates = []
    for turn in effort.turns():
        started = time.perf_counter()
        simulator.prior(n, seed=2 + turn)
        rates.append(n / (time.perf_counter() - started))
    yield measurement(SUITE, {"what": "prior"}, "traces/s", rates, "", "higher", 250_000)


def _record(simulator: ars.Simulator, effort: Effort) -> Iterator[Measurement]:
    n = {"smallest": 2_000, "quick": 100_000, "full": 400_000}[effort.size]
    rates, volumes = [], []
    for turn in effort.turns():
        with tempfile.TemporaryDirectory(prefix="ars-bench-") as directory:
            started = time.perf_counter()
            simulator.record(n, Path(directory) / "traces", seed=2 + turn, progress=False)
            spent = time.perf_counter() - started
            size = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
        rates.append(n / spent)
        volumes.append(size / spent / 1e6)
    yield measurement(SUITE, {"what": "recorded"}, "traces/s", rates, "", "higher")
    yield measurement(SUITE, {"what": "recorded"}, "MB/s", volumes, "", "higher")


def training_rate(simulator: ars.Simulator, width: int, batch: int, batches: int, seed: int = 1) -> float:
    """Traces per second, simulation included: what more batches cost than a few, so that the start does not count. The
    held-out loss is computed as often as in a training on a million traces, so hardly ever if there are few batches."""
    from ars.network.train.fit import train_simulator  # torch: other suites do without

    long = ars.TrainingConfig(1_000_000, batch_size=batch)

    def seconds(n: int) -> float:
        config = ars.TrainingConfig(
            n * batch, batch_size=batch, seed=seed, held_out=long.held_out_traces, evaluate_every=long.interval
        )
        started = time.perf_counter()
        train_simulator(simulator, config, ars.NetworkConfig(lstm_dim=width), progress=False)
        return time.perf_counter() - started

    few = max(batches // 6, 1)
    start, whole = seconds(few), seconds(batches)
    if whole < 1.1 * start:  # too little work to tell the start from it
        return batches * batch / whole
    return (batches - few) * batch / (whole - start)


def _training(simulator: ars.Simulator, effort: Effort) -> Iterator[Measurement]:
    quick: list[tuple[int, int]] = [(512, 512), (128, 512), (512, 64)]
    full = list(itertools.product((128, 256, 512), (64, 128, 512, 2048)))
    grid = {"smallest": [(16, 64)], "quick": quick, "full": full}[effort.size]
    batches = 24 if effort.size == "smallest" else 120
    for width, batch in grid:
        rates = [training_rate(simulator, width, batch, batches, 1 + turn) for turn in effort.turns()]
        case: dict[str, str | float] = {"what": "training", "LSTM": width, "batch": batch}
        target = 9_000 if (width, batch) == (512, 512) else None
        yield measurement(SUITE, case, "traces/s", rates, "", "higher", target)


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    with ars.Simulator([find_simulator("marsaglia", directory)]) as simulator:
        simulator.prior(100, seed=1)
        yield from _prior(simulator, effort)
        yield from _record(simulator, effort)
        yield from _training(simulator, effort)

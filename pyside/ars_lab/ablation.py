"""What limits the effective sample size of an amortized network: one thing changed at a time, all else equal.

    python -m ars_lab.ablation sir                        # some minutes of one core; also mini_sherpa, sequence
    python -m ars_lab.ablation sir --quick                # small numbers, to see that it works
    python -m ars_lab.ablation sir --only flat,base --traces 200_000 --json table.json

Every variant is trained on the same traces. The measure is the held-out loss, the mean over traces of -log q. All are
judged on the same traces, so its noise is far below the differences: these are differences of the Kullback-Leibler
divergence between posterior and proposal, in nats, averaged over data. ESS/N is the median over data from the prior
predictive, with the weights of ARS. Times are CPU seconds of this process, relative to those of the first variant.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

import ars
from ars_lab import sir
from ars_lab.bench.measure import find_simulator

__all__ = ["SUBJECTS", "Outcome", "Subject", "Variant", "main", "run", "table"]

_TRAINING: Final = {"batch_size": 128, "lr": 2e-3, "held_out": 2048}
_SIZES: Final = {"lstm_dim": 64, "head_hidden": 64, "observe_hidden": 64, "components": 5}
_BUDGET: Final = ars.Budget(M=2, N=10)
_DATA_SEED: Final = 77  # of the data that are inferred from


@dataclass(frozen=True)
class Variant:
    """What differs from the first variant."""

    name: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    longer: float = 1.0  # traces, relative


@dataclass(frozen=True)
class Subject:
    """A simulator, and what is tried on it."""

    command: tuple[str, ...]
    traces: int
    variants: tuple[Variant, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)  # a reference observation, besides those of the prior


@dataclass(frozen=True)
class Outcome:
    """What came of one variant. Times are CPU seconds of this process."""

    name: str
    traces: int
    held_out: float
    ess: float  # share, median over data
    ess_reference: float  # share, for the subject's own data; NaN if it has none
    training_seconds: float  # per 1,000 traces
    serving_seconds: float  # per 1,000 traces


_COMMON: Final = (
    Variant("twice the traces", longer=2.0),
    Variant("LSTM 128 instead of 64", {"lstm_dim": 128}),
    Variant("head_hidden 256 instead of 64", {"head_hidden": 256}),
    Variant("10 components instead of 5", {"components": 10}),
    Variant("20 components instead of 5", {"components": 20}),
    Variant("observe_dim 128 instead of 32", {"observe_dim": 128}),
    Variant("defensive 0.001 instead of 0.01", {"defensive": 0.001}),
    Variant("batch_size 512 instead of 128", training={"batch_size": 512}),
    Variant("lr 0.001 instead of 0.002", training={"lr": 1e-3}),
)
_FLAT: Final = Variant("flat", {"series": "flat"})
_ENDS: Final = Variant("angles with ends", {"wrap": "none"})
_FOUR: Final = Variant("series_heads 4 instead of 2", {"series_heads": 4})

SUBJECTS: Final[Mapping[str, Subject]] = {
    "sir": Subject(("sir",), 40_000, (Variant("base"), _FLAT, _FOUR, *_COMMON), data=sir.observation()),
    "sequence": Subject(("sequence", "10"), 40_000, (Variant("base"), _FLAT, _FOUR, *_COMMON)),
    "mini_sherpa": Subject(
        ("mini_sherpa",), 100_000, (Variant("base"), _ENDS, *_COMMON), shapes={"calorimeter": (20, 20)}
    ),
}


def run(
    subject: Subject,
    *,
    traces: int,
    data: int,
    draws: int,
    only: Sequence[str] = (),
    simulators: str | None = None,
    seed: int = 1,
) -> Iterator[Outcome]:
    """Trains the variants, one after another, and infers with each.

    Parameters
    ----------
    subject : Subject
        What is tried.
    traces : int
        Traces to train on.
    data : int
        Observations from the prior predictive to infer from.
    draws : int
        Posterior traces per observation.
    only : sequence of str
        Names of variants (default: all).
    simulators : str, optional
        Folder of the simulators (default: the package's own).
    seed : int
        Of training and inference (default: 1).

    Yields
    ------
    Outcome
        One per variant, in their order.
    """
    known = {variant.name for variant in subject.variants}
    if unknown := sorted(set(only) - known):
        raise ValueError(f"there is no variant {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    command = [find_simulator(subject.command[0], simulators), *subject.command[1:]]
    with ars.Simulator(command) as simulator:
        observed = _observed(simulator, subject, data)
        for variant in subject.variants:
            if not only or variant.name in only:
                yield _outcome(simulator, subject, variant, observed, traces, draws, seed)


def _observed(simulator: ars.Simulator, subject: Subject, n: int) -> list[dict[str, Any]]:
    drawn = simulator.prior(n, seed=_DATA_SEED).observations
    shape = {name: subject.shapes.get(name, values.shape[1:]) for name, values in drawn.items()}
    return [{name: values[i].reshape(shape[name]) for name, values in drawn.items()} for i in range(n)]


def _outcome(
    simulator: ars.Simulator,
    subject: Subject,
    variant: Variant,
    observed: Sequence[Mapping[str, Any]],
    traces: int,
    draws: int,
    seed: int,
) -> Outcome:
    wanted = int(variant.longer * traces)
    began = time.process_time()
    network = simulator.train(
        config=ars.TrainingConfig(**{**_TRAINING, **variant.training, "traces": wanted, "seed": seed}),
        network=ars.NetworkConfig(**{**_SIZES, **variant.sizes}),
        shapes=subject.shapes,
        threads=1,
    )
    trained = time.process_time()
    shares = [_share(simulator, one, network, draws, seed) for one in observed]
    served = time.process_time()
    reference = _share(simulator, subject.data, network, draws, seed) if subject.data else float("nan")
    (*_, last) = network.history
    return Outcome(
        variant.name,
        wanted,
        float("nan") if last.held_out is None else last.held_out,
        float(np.median(shares)),
        reference,
        1000 * (trained - began) / wanted,
        1000 * (served - trained) / (draws * len(observed)),
    )


def _share(simulator: ars.Simulator, observe: Mapping[str, Any], network: Any, draws: int, seed: int) -> float:
    post = simulator.posterior(observe, draws, network=network, budget=_BUDGET, seed=seed)
    return post.ess() / draws


def table(outcomes: Sequence[Outcome]) -> str:
    """In Markdown; losses and times relative to the first row."""
    rows = [
        "| variant | traces | held-out loss | to the first | ESS/N, median | ESS/N, reference | training | serving |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    first = outcomes[0]
    for one in outcomes:
        times = (one.training_seconds / first.training_seconds, one.serving_seconds / first.serving_seconds)
        rows.append(
            f"| {one.name} | {one.traces:,} | {one.held_out:.3f} | {one.held_out - first.held_out:+.3f} | "
            f"{one.ess:.4f} | {one.ess_reference:.4f} | {times[0]:.2f} | {times[1]:.2f} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m ars_lab.ablation", description="What limits ESS, one thing at a time."
    )
    parser.add_argument("subject", choices=SUBJECTS, help="simulator")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--traces", type=int, metavar="N", help="traces to train on (default: the subject's)")
    parser.add_argument("--data", type=int, default=8, metavar="N", help="observations to infer from (default: 8)")
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="traces per observation (default: 1,000)")
    parser.add_argument("--only", default="", metavar="NAMES", help="variants, separated by commas (default: all)")
    parser.add_argument("--simulators", metavar="DIR", help="folder of the simulators (default: the package's own)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = parser.parse_args(arguments)
    subject = SUBJECTS[given.subject]
    traces, data, draws = given.traces or subject.traces, given.data, given.draws
    if given.quick:
        traces, data, draws = 1_000, 1, 50
    only = [name for name in given.only.split(",") if name]
    outcomes: list[Outcome] = []
    for outcome in run(subject, traces=traces, data=data, draws=draws, only=only, simulators=given.simulators):
        outcomes.append(outcome)
        sys.stdout.write(table(outcomes).splitlines()[-1] + "\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n" + table(outcomes) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line, and the table that it prints."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ars_lab.ablation.measure import Outcome, run
from ars_lab.ablation.subjects import SUBJECTS

__all__ = ["main", "table"]


def table(outcomes: Sequence[Outcome]) -> str:
    """In Markdown: means over seeds. Losses are also given relative to the first row, seed by seed, with the standard
    error of the mean; times are relative to it."""
    rows = [
        "| variant | traces | held-out loss | to the first | ESS/N, median | ESS/N, reference | training | serving |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    named: dict[str, dict[int, Outcome]] = {}
    for one in outcomes:
        named.setdefault(one.name, {})[one.seed] = one
    first = next(iter(named.values()))
    for name, by_seed in named.items():
        mine = list(by_seed.values())
        differences = [one.held_out - first[seed].held_out for seed, one in by_seed.items() if seed in first]
        times = [_mean(mine, key) / _mean(list(first.values()), key) for key in ("training_seconds", "serving_seconds")]
        rows.append(
            f"| {name} | {mine[0].traces:,} | {_mean(mine, 'held_out'):.3f} | {_change(differences)} | "
            f"{_mean(mine, 'ess'):.4f} | {_mean(mine, 'ess_reference'):.4f} | {times[0]:.2f} | {times[1]:.2f} |"
        )
    return "\n".join(rows)


def _mean(outcomes: Sequence[Outcome], key: str) -> float:
    return float(np.mean([getattr(one, key) for one in outcomes]))


def _change(differences: Sequence[float]) -> str:
    n = len(differences)
    if not n:
        return "nan"
    error = f" ± {np.std(differences, ddof=1) / math.sqrt(n):.3f}" if n > 1 else ""
    return f"{np.mean(differences):+.3f}{error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. See the package."""
    parser = argparse.ArgumentParser(
        prog="python -m ars_lab.ablation", description="What limits ESS, one thing at a time."
    )
    parser.add_argument("subject", choices=SUBJECTS, help="simulator")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--traces", type=int, metavar="N", help="traces to train on (default: the subject's)")
    parser.add_argument("--data", type=int, default=8, metavar="N", help="observations to infer from (default: 8)")
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="traces per observation (default: 1,000)")
    parser.add_argument("--only", default="", metavar="NAMES", help="variants, separated by commas (default: all)")
    parser.add_argument("--seeds", default="1", metavar="SEEDS", help="seeds, separated by commas (default: 1)")
    parser.add_argument("--simulators", metavar="DIR", help="folder of the simulators (default: the package's own)")
    parser.add_argument("--recording", type=Path, metavar="DIR", help="record the training traces there, once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there; what it has is kept")
    given = parser.parse_args(arguments)
    subject = SUBJECTS[given.subject]
    traces, data, draws = given.traces or subject.traces, given.data, given.draws
    if given.quick:
        traces, data, draws = 1_000, 1, 50
    outcomes: list[Outcome] = []
    if given.json and given.json.exists():
        outcomes = [Outcome(**each) for each in json.loads(given.json.read_text(encoding="utf-8"))]
    for outcome in run(
        subject,
        traces=traces,
        data=data,
        draws=draws,
        only=[name for name in given.only.split(",") if name],
        simulators=given.simulators,
        seeds=[int(seed) for seed in given.seeds.split(",")],
        recording=given.recording,
        done={(one.name, one.seed) for one in outcomes},
    ):
        outcomes.append(outcome)
        sys.stdout.write(table([*outcomes[:1], outcome]).splitlines()[-1] + "\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n" + table(outcomes) + "\n")
    return 0

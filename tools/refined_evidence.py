"""The evidence after refinement, over several seeds, on every simulator of csim/ whose evidence is known exactly.

    python tools/refined_evidence.py                       # 20 seeds each: some minutes
    python tools/refined_evidence.py --only nested --seeds 5
    python tools/refined_evidence.py --notes runs.jsonl    # can be interrupted, and go on to more --seeds

Every seed adapts from the prior: two rounds of 100 traces, trained on for far too long, so that whatever depends on its
own training shows it. Then 1,000 fresh traces are reported. A line says how far the mean of the reported evidences is
from the exact one, in standard errors over the seeds; how many seeds are off by more than three of their own; and the
same distance for the traces that the networks were trained on, which nobody should report. The exit code is 1 if a mean
is off by more than three standard errors, or more than one seed in ten.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ars

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))
from exact import evidences  # type: ignore[import-not-found]  # noqa: E402

CSIM = Path(os.environ.get("ARS_CSIM_DIR", ROOT / "build" / "csim"))
LIMIT = 3.0  # standard errors
OFTEN = 0.1  # of the seeds may be off by more than that
HASTY = ars.RefineConfig(
    traces=100, rounds=2, most=1, steps=60, batch_size=64, effective=30, lr=5e-3, prior_share=0.0, enough=1.0, M=4
)


class Found(NamedTuple):
    """What came of one model."""

    name: str
    seeds: int
    distance: float  # of the mean of the reported evidences, in standard errors over the seeds
    own: float  # the same in units of the errors that the runs report, for few seeds
    off: int  # seeds that are off by more than LIMIT of their own standard errors
    training: float  # the distance of the pooled training traces
    kept: int  # seeds for which a refined network proposed; for the others the prior was no worse

    @property
    def right(self) -> bool:
        return abs(self.distance) < LIMIT and self.off <= max(1, OFTEN * self.seeds)


class Model(NamedTuple):
    """A simulator with data whose evidence is known."""

    name: str
    command: tuple[str, ...]  # the executable in csim and its arguments
    observed: Mapping[str, float | list[float]]
    evidence: float


@functools.cache
def models() -> dict[str, Model]:
    """All of tests/exact.py, by name."""
    return {name: Model(name, *known) for name, known in evidences().items()}


class Run(NamedTuple):
    """What came of one seed of one model. Evidences are on the linear scale: only there the estimate is unbiased."""

    evidence: float  # reported
    error: float  # its standard error, as reported
    trained_on: float  # the evidence by the traces that the networks were trained on
    kept: bool  # a refined network proposed; else the prior was no worse


def measure(
    case: Model,
    simulator: ars.Simulator,
    seeds: int,
    *,
    traces: int = 1000,
    config: ars.RefineConfig = HASTY,
    notes: Notes | None = None,
) -> Found:
    """Adapts and infers once per seed.

    Parameters
    ----------
    case : Model
        Has the data and the exact evidence.
    simulator : Simulator
        That of the case.
    seeds : int
        How many, at least 2.
    traces : int
        Traces that each run reports (default: 1,000).
    config : RefineConfig
        Of the refinement (default: hasty).
    notes : Notes or None
        Remember finished seeds, which are not run again (default: None).

    Returns
    -------
    Found
        The distances.
    """
    runs = []
    for seed in range(seeds):
        run = notes.find(case.name, seed, traces) if notes is not None else None
        if run is None:
            run = _one_seed(case, simulator, seed, traces, config)
            if notes is not None:
                notes.add(case.name, seed, traces, run)
        runs.append(run)
    reported, errors = np.array([run.evidence for run in runs]), np.array([run.error for run in runs])
    z = (reported - case.evidence) / errors
    off = int(np.count_nonzero(~(np.abs(z) <= LIMIT)))
    own = float((reported - case.evidence).sum() / math.sqrt(float(np.square(errors).sum())))
    training = _distance([run.trained_on for run in runs], case)
    kept = sum(run.kept for run in runs)
    return Found(case.name, seeds, _distance(reported.tolist(), case), own, off, training, kept)


def _one_seed(case: Model, simulator: ars.Simulator, seed: int, traces: int, config: ars.RefineConfig) -> Run:
    with _PooledEvidences() as pooled, warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.RefinementWarning)
        post = simulator.posterior(case.observed, traces, adapt=config, seed=seed, budget=ars.Budget(M=4, R=1))
    found = post.log_evidence("ars")
    kept = bool(np.any(post.columns.samples["log_q"] != post.columns.samples["log_p"]))
    return Run(found.evidence, found.standard_error, math.exp(pooled[-1]), kept)


class Notes:
    """A file with one line of JSON per finished seed, so that an interrupted run goes on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[tuple[str, int, int], Run] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        for line in lines:
            name, seed, traces, *run = json.loads(line)
            self._found[name, seed, traces] = Run(*run)

    def find(self, name: str, seed: int, traces: int) -> Run | None:
        return self._found.get((name, seed, traces))

    def add(self, name: str, seed: int, traces: int, run: Run) -> None:
        self._found[name, seed, traces] = run
        with self._file.open("a") as out:
            out.write(json.dumps([name, seed, traces, *run]) + "\n")


def _distance(estimates: Sequence[float], case: Model) -> float:
    error = float(np.std(estimates, ddof=1)) / math.sqrt(len(estimates))
    return float((np.mean(estimates) - case.evidence) / error)


class _PooledEvidences:
    """Inside, the log evidences by the traces of all rounds, one per round of any refinement."""

    def __enter__(self) -> list[float]:
        from ars.network.refine import run

        self._shown: Any = run._Shown
        self._report: Any = self._shown.report
        found: list[float] = []

        def noted(shown: Any, report: Any) -> None:
            found.append(report.pooled_log_evidence)
            self._report(shown, report)

        setattr(self._shown, "report", noted)  # noqa: B010  # of a class: mypy sees a method
        return found

    def __exit__(self, *_: object) -> None:
        self._shown.report = self._report


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="per model (default: 20)")
    parser.add_argument("--only", action="append", metavar="NAME", help="a model; may be repeated (default: all)")
    parser.add_argument("--notes", type=Path, metavar="FILE", help="keep finished seeds there, and go on from them")
    given = parser.parse_args(argv)
    known = models()
    if given.seeds < 2:
        parser.error("--seeds must be at least 2")
    if unknown := sorted(set(given.only or ()) - set(known)):
        parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(known)}")
    notes = Notes(given.notes) if given.notes is not None else None
    print(
        "| model | seeds | reported, s.e. off | by own errors | seeds beyond 3 | training traces, s.e. off | refined |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    wrong = 0
    for name, case in known.items():
        if given.only and name not in given.only:
            continue
        with ars.Simulator([str(CSIM / case.command[0]), *case.command[1:]]) as simulator:
            found = measure(case, simulator, given.seeds, notes=notes)
        wrong += not found.right
        print(
            f"| {name} | {found.seeds} | {found.distance:+.2f} | {found.own:+.2f} | {found.off} "
            f"| {found.training:+.2f} | {found.kept} |",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

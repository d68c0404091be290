"""``ars bench budget``: effective traces per second of an automatic budget, of M = 1, N = 10, and of fixed budgets.

All budgets of a case take turns, with the same seeds and numbers of traces: they correct the same traces, so chance
plays a smaller part in the ratios. A run's seconds are those of the call: pilot, plan and replays included, the start
of the simulator not. The effective traces are those of all turns together, because a few traces decide how many there
are.

A run without estimates is the bound: as fast, with weights that are as even, as any budget could be. Ratios of CPU time
(of all processes) are there as well, because they depend less on what else a machine does.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

import ars
from ars import diagnostics
from ars.columns import Floats
from ars.continuations import Continuations
from ars_lab.bench.budget_cases import Case, cases
from ars_lab.bench.measure import Effort, family_cpu
from ars_lab.bench.results import BenchError, Better, Measurement

__all__ = ["SUITE", "run"]

SUITE = "budget"
_MODES: tuple[Continuations, ...] = ("auto", "fork")
_PAPER = ars.Budget(M=1, N=10)
_TRACES = {"smallest": 200, "quick": 4_000, "full": 10_000}  # of a run; the last is the default of ars infer

Asked: TypeAlias = ars.Budget | Literal["auto"] | None  # None: no estimates


def _grid(effort: Effort, prior: bool = False) -> list[ars.Budget]:
    """Fixed budgets (M, R), of which the best one counts. Where nothing is proposed, the least of them is the best."""
    pairs = (
        [(1, 0)]
        if prior
        else {
            "smallest": [(1, 0)],
            "quick": [(1, 0), (1, 1), (3, 2)],
            "full": [(1, 0), (1, 1), (2, 1), (3, 2), (5, 5)],
        }[effort.size]
    )
    return [ars.Budget(M=M, R=R) for M, R in pairs]


class _Run(NamedTuple):
    """One run of one budget."""

    seconds: float
    cpu: float  # seconds, of all processes
    log_weights: Floats
    estimated: float  # share of the traces
    phases: int

    @property
    def rate(self) -> float:
        return diagnostics.ess(self.log_weights) / self.seconds


def _estimated(post: ars.Posterior) -> float:
    """The share of the traces of which some loop was estimated."""
    estimated = post.columns.loops["runs_p"] > 0
    if not estimated.any():
        return 0.0
    ends = np.cumsum(post.columns.traces["n_loops"])
    return len(np.unique(np.searchsorted(ends, np.flatnonzero(estimated), side="right"))) / len(post)


def _run(simulator: ars.Simulator, case: Case, options: Mapping[str, Any], budget: Asked, n: int, seed: int) -> _Run:
    simulator._estimates_the_prior = case.prior and isinstance(budget, ars.Budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.ArsWarning)  # of few effective traces
        before = family_cpu(simulator).total if simulator.running else 0.0
        started, began = time.perf_counter(), time.process_time()
        post = simulator.posterior(**options, traces=n, budget=budget, seed=seed, progress=False)
        seconds, own = time.perf_counter() - started, time.process_time() - began
        cpu = own + family_cpu(simulator).total - before
        phases = post.budget.phases if isinstance(post.budget, ars.ChosenBudget) else 1
        log_weights = post.log_weights("biased" if budget is None else "ars")
        return _Run(seconds, cpu, log_weights, _estimated(post), phases)


class _Found(NamedTuple):
    """All turns of one budget."""

    runs: Sequence[_Run]

    @property
    def rate(self) -> float:
        """Effective traces per second, all turns together."""
        together = np.concatenate([run.log_weights for run in self.runs])
        return diagnostics.ess(together) / sum(run.seconds for run in self.runs)

    @property
    def cpu(self) -> float:
        """CPU seconds per effective trace."""
        return sum(run.cpu for run in self.runs) / max(self.rate * sum(run.seconds for run in self.runs), 1e-9)

    @property
    def traces_per_second(self) -> float:
        return sum(len(run.log_weights) for run in self.runs) / sum(run.seconds for run in self.runs)


def _spread(values: Sequence[float]) -> float:
    """Half of their range over their mean."""
    middle = sum(values) / len(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0


def _measured(
    about: Mapping[str, str | float],
    metric: str,
    value: float,
    turns: Sequence[float] = (),
    *,
    unit: str = "",
    better: Better = "neither",
    target: float | None = None,
) -> Measurement:
    return Measurement(SUITE, dict(about), metric, value, unit, better, _spread(turns) if turns else 0.0, target)


def _report(case: Case, mode: Continuations, found: Mapping[Asked, _Found]) -> Iterator[Measurement]:
    about: dict[str, str | float] = {"case": case.name, "continuations": mode}
    auto, paper, bound = found["auto"], found[_PAPER], found[None]
    fixed = {budget: turns for budget, turns in found.items() if isinstance(budget, ars.Budget) and budget != _PAPER}
    best = max(fixed, key=lambda budget: fixed[budget].rate)
    for name, turns in (("auto", auto), ("M=1, N=10", paper), ("best (M, R)", fixed[best]), ("bound", bound)):
        rates = [run.rate for run in turns.runs]
        yield _measured(about, f"{name}: ESS/s", turns.rate, rates, better="higher")
    target = case.targets.fork if mode == "fork" else case.targets.auto
    others = (("over M=1, N=10", paper, target), ("over best", fixed[best], None), ("over bound", bound, None))
    for name, other, wanted in others:
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(auto.runs, other.runs, strict=True) if theirs.rate]
        ratio = auto.rate / other.rate if other.rate else 0.0
        yield _measured(about, name, ratio, ratios, better="higher", target=wanted)
    yield _measured(about, "over M=1, N=10, CPU", paper.cpu / auto.cpu if auto.cpu else 0.0, better="higher")
    yield _measured(about, "over best, CPU", fixed[best].cpu / auto.cpu if auto.cpu else 0.0, better="higher")
    yield _measured(about, "best M", best.M)
    yield _measured(about, "best R", best.R or 0)
    yield _measured(about, "auto: phases", auto.runs[-1].phases)
    yield _measured(about, "auto: estimated", 100 * float(np.mean([run.estimated for run in auto.runs])), unit="%")
    share = auto.rate / auto.traces_per_second if auto.traces_per_second else 0.0
    yield _measured(about, "auto: ESS/N", share)
    yield _measured(about, "M=1, N=10: ESS/N", paper.rate / paper.traces_per_second if paper.rate else 0.0)


def _measure(case: Case, mode: Continuations, effort: Effort) -> Iterator[Measurement]:
    workers = 2 if effort.size == "smallest" else None
    asked: list[Asked] = ["auto", _PAPER, *_grid(effort, case.prior), None]
    with ars.Simulator(case.command, workers=workers, continuations=mode) as simulator:
        options, traces = case.make(simulator), _TRACES[effort.size]
        for warm in (None, _PAPER):  # processes are there, and know which loops can be rewound
            _run(simulator, case, options, warm, max(traces // 10, 100), 1)
        runs: dict[Asked, list[_Run]] = {budget: [] for budget in asked}
        for turn in effort.turns():
            for budget in asked:
                runs[budget].append(_run(simulator, case, options, budget, traces, 2 + turn))
    yield from _report(case, mode, {budget: _Found(turns) for budget, turns in runs.items()})


def run(
    effort: Effort, directory: str | None = None, cache: Path | None = None, only: str = ""
) -> Iterator[Measurement]:
    """Measurements as they come.

    Parameters
    ----------
    effort : Effort
        How much is run.
    directory : str, optional
        Where the simulators are (default: compiled from the sources in the package).
    cache : Path, optional
        Where trained networks are kept (default: the user's cache).
    only : str
        Part of the name of the cases to run (default: all).
    """
    from ars_lab.bench.peer import default_cache

    found = cases(effort, directory, default_cache() if cache is None else cache)
    wanted = [case for case in found if only.lower() in case.name.lower()]
    if not wanted:
        raise BenchError(f"no case contains {only!r}; the cases are: {', '.join(case.name for case in found)}")
    for case in wanted:
        for mode in _MODES:
            yield from _measure(case, mode, effort)

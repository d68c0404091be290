"""What the processes of a simulator spend on a whole trace where the proposals are written by hand, and cost little.

Marsaglia, whose proposals are its priors; ``ars bench rewind`` shows it. Rewinding and forking take turns.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import ars
from ars_lab.bench.measure import Effort, family_cpu, find_simulator, traces_for
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "by hand"
_OBSERVE = {"y1": 0.0, "y2": 0.0}
_PROPOSALS = {"x1": ars.Uniform(-1, 1), "x2": ars.Uniform(-1, 1)}


class _Case(NamedTuple):
    M: int
    N: int
    ask_ahead: bool

    @property
    def target(self) -> float | None:
        """Of rewinding over forking."""
        return 1 / 15 if (self.M, self.N) == (10, 10) else None


class _Spent(NamedTuple):
    """Per trace: CPU seconds of the host and of the simulator's processes, and seconds of wall time."""

    host: float
    simulator: float
    wall: float


def _cases(effort: Effort) -> list[_Case]:
    if effort.size == "smallest":
        return [_Case(1, 2, True)]
    return [_Case(M, 10, ask_ahead) for M, ask_ahead in itertools.product((1, 10), (True, False))]


def _runner(simulator: ars.Simulator, case: _Case) -> Callable[[int, int], _Spent]:
    """A function of the number of traces and the seed."""
    budget = ars.Budget(M=case.M, N=case.N)

    def run(n: int, seed: int) -> _Spent:
        before, started = family_cpu(simulator), time.perf_counter()
        simulator.posterior(
            _OBSERVE, n, proposals=_PROPOSALS, budget=budget, ask_ahead=case.ask_ahead, seed=seed, progress=False
        )
        wall, spent = time.perf_counter() - started, family_cpu(simulator) - before
        return _Spent(spent.host / n, (spent.workers + spent.forked) / n, wall / n)

    return run


def _measure(case: _Case, sides: dict[str, ars.Simulator], effort: Effort) -> Iterator[Measurement]:
    runs = {name: _runner(simulator, case) for name, simulator in sides.items()}
    n = {name: traces_for(lambda n, run=run: run(n, 1), 2 * effort.seconds, first=64) for name, run in runs.items()}  # type: ignore[misc]
    turns = [{name: run(n[name], 2 + i) for name, run in runs.items()} for i in effort.turns()]
    about: dict[str, str | float] = {"M": case.M, "N": case.N, "ask_ahead": str(case.ask_ahead)}
    for name in sides:
        yield measurement(SUITE, about, f"{name}: host", [1e6 * t[name].host for t in turns], "us", "lower")
        yield measurement(SUITE, about, f"{name}: simulator", [1e6 * t[name].simulator for t in turns], "us", "lower")
        yield measurement(SUITE, about, f"{name}: traces/s", [1 / t[name].wall for t in turns], better="higher")
    ratios = [sum(t["rewind"][:2]) / sum(t["fork"][:2]) for t in turns]
    yield measurement(SUITE, about, "CPU, rewind over fork", ratios, better="lower", target=case.target)


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    """Measurements as they come."""
    program = find_simulator("marsaglia", directory)
    workers = 2 if effort.size == "smallest" else None
    with (
        ars.Simulator([program], workers=workers) as rewind,
        ars.Simulator([program], workers=workers, continuations="fork") as fork,
    ):
        for simulator in (rewind, fork):
            simulator.posterior(_OBSERVE, 2, budget=None, seed=1, progress=False)
        for case in _cases(effort):
            yield from _measure(case, {"rewind": rewind, "fork": fork}, effort)

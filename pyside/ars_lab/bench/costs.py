"""``ars bench costs``: what the parts of a run cost here, relative to each other, for plans of ``budget="auto"``.

All are CPU times of all processes: those of the simulator, ars-host and the controller. Each is a difference of runs
that differ in one thing, such as the number of tries, and that take turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import ars
from ars.continuations import Continuations
from ars_lab.bench.measure import Effort, family_cpu, find_simulator, traces_for
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "measure", "run", "save"]

SUITE = "costs"
_SMALLEST = 1e-3  # microseconds: a difference of two times may come out below 0
_FEW, _MANY = 1.0, 1e-3  # acceptances of a loop that makes one try, and of one that makes a thousand
_TOSSES = ("beta_bernoulli", "400", "1")  # two draws per try, and about 23 tries per trace
_CONTINUATIONS = 20  # per loop entry, of which half are under q


class _Spent(NamedTuple):
    """A run: CPU microseconds per trace, and its result."""

    cpu: float
    post: ars.Posterior


def _spent(simulator: ars.Simulator, n: int, **options: Any) -> _Spent:
    before, began = family_cpu(simulator).total, time.process_time()
    post = simulator.posterior(**options, traces=n, progress=False)
    cpu = family_cpu(simulator).total - before + time.process_time() - began
    return _Spent(1e6 * cpu / n, post)


class _Sides:
    """The simulators, one worker each unless proposals are asked for."""

    def __init__(self, effort: Effort, directory: str | None, stack: ExitStack) -> None:
        self._effort, self._stack, self._directory = effort, stack, directory
        self._counts: dict[str, int] = {}
        loop = ("bench_loop", "loop", f"{_MANY:g}", "1", "1"), ("bench_loop", "loop", f"{_FEW:g}", "1", "1")
        self.tries, self.plain = (self._start(words) for words in loop)
        self.tosses = self._start(_TOSSES)
        self.rewind = self._start(("bench_loop", "loop", "0.5", "1", "1"), "auto")
        self.fork = self._start(("bench_loop", "loop", "0.5", "1", "1"), "fork")
        self.asking = self._start(("marsaglia",), workers=2 if effort.size == "smallest" else None)
        traces = 256 if effort.size == "smallest" else 10_240
        width = 16 if effort.size == "smallest" else ars.NetworkConfig().lstm_dim
        self.network = self.asking.train(traces, width, batch_size=min(traces, 512), seed=1, progress=False)

    def _start(
        self, words: tuple[str, ...], continuations: Continuations = "auto", workers: int | None = 1
    ) -> ars.Simulator:
        command = [find_simulator(words[0], self._directory), *words[1:]]
        simulator = self._stack.enter_context(ars.Simulator(command, workers=workers, continuations=continuations))
        simulator._estimates_the_prior = True
        simulator.prior(2, seed=1)  # it is there
        return simulator

    def spent(self, simulator: ars.Simulator, seed: int, name: str, **options: Any) -> _Spent:
        """A run that takes about as long as it should. ``name``: runs of the same kind have as many traces."""

        def run(n: int) -> object:
            return _spent(simulator, n, seed=1, **options)

        if name not in self._counts:
            self._counts[name] = traces_for(run, max(self._effort.seconds, 0.02), first=16, least=16)
        return _spent(simulator, self._counts[name], seed=seed, **options)


def _tries(post: ars.Posterior) -> float:
    """Of the main run, per trace."""
    return float(post.columns.loops["tries"].sum()) / len(post)


def _continuation(sides: _Sides, simulator: ars.Simulator, seed: int, name: str, per_try: float) -> float:
    """Of one continuation, without its tries."""
    M = N = _CONTINUATIONS // 2
    options = {"observe": {"y": 0.0}}
    whole = sides.spent(simulator, seed, name, budget=ars.Budget(M=M, N=N), **options)
    without = sides.spent(simulator, seed, f"{name} without", budget=None, **options)
    loops = whole.post.columns.loops
    made = int(loops["rewinds"].sum() + (loops["forks"] + 1)[loops["rewinds"] == 0].sum())  # a snapshot makes one too
    tries = int(loops["tries_q"].sum() + loops["tries_p"].sum())
    return ((whole.cpu - without.cpu) * len(whole.post) - per_try * tries) / made


def _request(sides: _Sides, seed: int, name: str, **proposed: Any) -> float:
    """Of one proposal, all processes together."""
    options = {"observe": {"y1": 0.0, "y2": 0.0}, "budget": None}
    asked = sides.spent(sides.asking, seed, name, **options, **proposed)
    prior = sides.spent(sides.asking, seed, "prior", **options)
    return (asked.cpu - prior.cpu) * len(asked.post) / asked.post.stats["requests"]


def _turn(sides: _Sides, seed: int) -> dict[str, float]:
    """One measurement of everything, in microseconds."""
    data = {"observe": {"y": 0.0}, "budget": None}
    plain, tries = sides.spent(sides.plain, seed, "plain", **data), sides.spent(sides.tries, seed, "tries", **data)
    tosses = sides.spent(sides.tosses, seed, "tosses", observe={"y": [1.0]}, budget=None)
    per_try = (tries.cpu - plain.cpu) / (_tries(tries.post) - 1)  # with one draw
    per_toss = (tosses.cpu - plain.cpu + per_try) / _tries(tosses.post)  # with two
    draw = min(max(per_toss - per_try, 0.1 * per_try), 0.9 * per_try)  # the try itself is the rest
    hand = {"x1": ars.Uniform(-1, 1), "x2": ars.Uniform(-1, 1)}
    return {
        "trace": plain.cpu - per_try,
        "draw": draw,
        "request_network": _request(sides, seed, "network", network=sides.network),
        "request_hand": _request(sides, seed, "hand", proposals=hand),
        "attempt": per_try - draw,
        "fork": _continuation(sides, sides.fork, seed, "fork", per_try),
        "rewind": _continuation(sides, sides.rewind, seed, "rewind", per_try),
    }


def measure(effort: Effort, directory: str | None = None) -> list[dict[str, float]]:
    """Every cost in microseconds, by name, once per turn."""
    with ExitStack() as stack:
        sides = _Sides(effort, directory, stack)
        turns = [_turn(sides, 2 + turn) for turn in effort.turns()]
    return [{name: max(cost, _SMALLEST) for name, cost in turn.items()} for turn in turns]


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    """One row per cost, with the one that plans have unless told otherwise."""
    turns = measure(effort, directory)
    standard = ars.Costs()
    for cost in fields(ars.Costs):
        case: dict[str, str | float] = {"what": cost.name}
        values = [turn[cost.name] for turn in turns]
        yield measurement(SUITE, case, "cost", values, "us", "lower")
        yield measurement(SUITE, case, "over trace", [turn[cost.name] / turn["trace"] for turn in turns])
        yield measurement(SUITE, case, "default", getattr(standard, cost.name))
        yield measurement(SUITE, case, "default over trace", getattr(standard, cost.name) / standard.trace)


def save(measurements: list[Measurement], path: Path) -> ars.Costs:
    """Writes the costs among the measurements to a file for ``ars infer --costs``."""
    found = {str(m.case["what"]): m.value for m in measurements if m.suite == SUITE and m.metric == "cost"}
    costs = ars.Costs(**found)
    costs.save(path)
    return costs

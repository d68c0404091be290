"""``ars bench fork``: what estimating a loop by forks costs, next to a bare fork of the same process.

The CPU time of a run with estimates, less that of a run without, is what the continuations cost: snapshots, forks, the
tries themselves. Next to it, in turns, the same program forks, exits and waits and does nothing else: once as it is
launched (huge pages for its heap), once with ordinary 4 kB pages. The ratio of the two is the figure of merit.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import ars
from ars_lab.bench.measure import Effort, family_cpu, find_simulator, traces_for
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "fork"
_OBSERVE = {"y": 0.0}
_SMALL_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}


class _Process(NamedTuple):
    acceptance: float
    memory: int  # MB
    loops: int


_SMALL = _Process(0.9, 1, 1)


def _grid(effort: Effort) -> dict[_Process, list[tuple[int, int]]]:
    """Process -> the budgets (M, N) to measure in it."""
    if effort.size == "full":
        counts = (1, 2, 10, 100)
        processes = itertools.product((0.9, 0.1, 0.01), (1, 100, 1024), (1, 2))
        return {_Process(*process): list(itertools.product(counts, counts)) for process in processes}
    if effort.size == "smallest":
        return {_SMALL: [(1, 2)]}
    return {
        _SMALL: [(1, 1), (1, 10), (10, 10), (100, 100)],
        _Process(0.1, 1, 1): [(1, 10), (10, 10)],
        _Process(0.01, 1, 1): [(1, 10)],
        _Process(0.9, 1, 2): [(1, 10)],
        _Process(0.9, 100, 1): [(1, 10)],
        _Process(0.9, 1024, 1): [(1, 10)],
    }


class _Sides:
    """The loop, and the two bare forks, as simulators of one worker each."""

    def __init__(self, process: _Process, directory: str | None, stack: ExitStack) -> None:
        self.process = process
        program = find_simulator("bench_loop", directory)

        def start(mode: str, env: dict[str, str] | None = None) -> ars.Simulator:
            words = [program, mode, str(process.acceptance), str(process.memory), str(process.loops)]
            simulator = stack.enter_context(
                ars.Simulator(words, workers=1, env=env, startup_timeout=300.0, continuations="fork")
            )
            simulator._estimates_the_prior = True  # nothing is asked: forks alone
            simulator.posterior(_OBSERVE, 2, budget=None, seed=1)
            return simulator

        self.loop = start("loop")
        self.bare = start("bare")
        self.bare_small_pages = start("bare", _SMALL_PAGES)
        self.memory = start("memory")

    def case(self, M: int, N: int) -> dict[str, str | float]:
        p = self.process
        return {"M": M, "N": N, "acceptance": p.acceptance, "memory": p.memory, "loops": p.loops}

    def bare_cost(self, simulator: ars.Simulator, seconds: float) -> float:
        """CPU seconds of one fork, exit and wait."""
        costs: list[float] = []
        end = time.perf_counter() + seconds
        while not costs or time.perf_counter() < end:
            costs += simulator.posterior(_OBSERVE, 2, budget=None, seed=1)["cpu"].tolist()
        return sum(costs) / len(costs)


class _Turn(NamedTuple):
    """One turn of a case, all sides."""

    continuations: float  # per second of wall time
    tries: float
    cost: float  # CPU seconds of a continuation
    bare: float
    bare_small_pages: float


def _turn(sides: _Sides, budget: ars.Budget, n: int, seed: int, seconds: float) -> _Turn:
    before = family_cpu(sides.loop)
    started = time.perf_counter()
    post = sides.loop.posterior(_OBSERVE, n, budget=budget, seed=seed)
    wall = time.perf_counter() - started
    between = family_cpu(sides.loop)
    sides.loop.posterior(_OBSERVE, n, budget=None, seed=seed)
    spent = (between - before).total - (family_cpu(sides.loop) - between).total
    # the last run under p of every loop is the snapshot itself
    continuations = post.stats["continuations"] + len(post.columns.loops)
    tries = post.stats["tries_q"] + post.stats["tries_p"]
    return _Turn(
        continuations / wall,
        tries / wall,
        max(spent, 0.0) / continuations,
        sides.bare_cost(sides.bare, seconds / 2),
        sides.bare_cost(sides.bare_small_pages, seconds / 2),
    )


def _measure(sides: _Sides, M: int, N: int, effort: Effort) -> Iterator[Measurement]:
    case = sides.case(M, N)
    budget = ars.Budget(M=M, N=N)
    n = traces_for(lambda n: sides.loop.posterior(_OBSERVE, n, budget=budget, seed=1), effort.seconds, least=2)
    turns = [_turn(sides, budget, n, 2 + i, effort.seconds) for i in effort.turns()]
    ratios = [t.cost / t.bare for t in turns]
    to_small = [t.cost / t.bare_small_pages for t in turns]
    process = sides.process
    small = process == _SMALL and N >= 10
    large = process.memory >= 1024 and N >= 10
    yield measurement(SUITE, case, "continuations/s", [t.continuations for t in turns], better="higher")
    yield measurement(SUITE, case, "tries/s", [t.tries for t in turns], better="higher")
    yield measurement(SUITE, case, "CPU per continuation", [1e6 * t.cost for t in turns], "us", "lower")
    yield measurement(SUITE, case, "bare fork", [1e6 * t.bare for t in turns], "us")
    yield measurement(SUITE, case, "bare, 4 kB pages", [1e6 * t.bare_small_pages for t in turns], "us")
    yield measurement(SUITE, case, "over bare", ratios, better="lower", target=1.5 if small else None)
    yield measurement(SUITE, case, "over bare, 4 kB", to_small, better="lower", target=0.15 if large else None)


def _memory(sides: _Sides) -> Iterator[Measurement]:
    """What one parked snapshot has for itself: pages that it or its parent has written to, and page tables."""
    post = sides.memory.posterior(_OBSERVE, 20, budget=ars.Budget(M=1, N=1), seed=1)
    case = {name: value for name, value in sides.case(1, 1).items() if name not in ("M", "N", "acceptance")}
    private, tables = (post[name][1:] / 1024 for name in ("private", "tables"))
    yield measurement("memory", case, "pages of its own", private.tolist(), "kB", "lower")
    yield measurement("memory", case, "page tables", tables.tolist(), "kB", "lower")


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    """Measurements as they come."""
    for process, budgets in _grid(effort).items():
        with ExitStack() as stack:
            sides = _Sides(process, directory, stack)
            for M, N in budgets:
                yield from _measure(sides, M, N, effort)
            if process.acceptance == 0.9:
                yield from _memory(sides)

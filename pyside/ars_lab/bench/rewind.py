"""``ars bench rewind``: a continuation that runs in place and is undone, next to a forked one and to a bare fork.

The cost of a continuation is that of a run with estimates, less that of the same run without, over the continuations
made. It includes the continuation's tries, its share of the work at the loop's entry, and its share of the estimates
that are made both ways to compare them. Three simulators take turns: one that rewinds ("auto"), one that forks
("fork"), and one that only forks, exits and waits. They have the same memory, and tries write to as many pages.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Literal, NamedTuple, TypeAlias

import ars
from ars.continuations import Continuations
from ars_lab.bench import by_hand
from ars_lab.bench.measure import Effort, family_cpu, find_simulator, huge_pages, traces_for
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "rewind"
_BUDGET = ars.Budget(M=10, N=10)
_OBSERVE = {"y": 0.0}
_SMALL_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}
_CHECK_EVERY = 1000  # one entry in so many is estimated both ways; runs have as many, where that does not take minutes
_TARGETS = {1: 1 / 20, 1024: 1 / 500}  # memory in MB -> rewinding over forking, with few dirty pages of 4 kB

_Pages: TypeAlias = Literal["4 kB", "huge"]


class _Process(NamedTuple):
    memory: int  # MB
    pages: _Pages
    dirty: int  # pages that every try writes to
    acceptance: float

    @property
    def target(self) -> float | None:
        few = self.pages == "4 kB" and self.dirty <= 20 and self.acceptance >= 0.5
        return _TARGETS.get(self.memory) if few else None


def _grid(effort: Effort) -> list[_Process]:
    if effort.size == "smallest":
        return [_Process(1, "4 kB", 20, 0.5)]
    sizes: list[tuple[int, _Pages]] = [(1, "4 kB"), (100, "4 kB"), (1024, "4 kB"), (1024, "huge")]
    return [
        _Process(memory, pages, dirty, acceptance)
        for (memory, pages), dirty, acceptance in itertools.product(sizes, (1, 20, 200, 2000), (0.5, 0.01))
    ]


class _Cost(NamedTuple):
    """Of a continuation, or of a bare fork: seconds."""

    cpu: float
    wall: float


class _Turn(NamedTuple):
    rewind: _Cost
    fork: _Cost
    bare: _Cost
    rewound: float  # the share of the continuations that "auto" did not fork


class _Sides:
    """Three simulators of one worker each, in processes that are equally large."""

    def __init__(self, process: _Process, directory: str | None, stack: ExitStack) -> None:
        program = find_simulator("bench_loop", directory)
        forks = 50 if process.memory < 100 else 4
        words = [str(process.acceptance), str(process.memory), "1", str(process.dirty), str(forks)]

        def start(mode: str, continuations: Continuations) -> ars.Simulator:
            simulator = stack.enter_context(
                ars.Simulator(
                    [program, mode, *words],
                    workers=1,
                    env=_SMALL_PAGES if process.pages == "4 kB" else None,
                    startup_timeout=300.0,
                    continuations=continuations,
                )
            )
            simulator._estimates_the_prior = True  # nothing is asked: continuations alone
            simulator.posterior(_OBSERVE, 2, budget=None, seed=1)
            return simulator

        self.rewind = start("loop", "auto")
        self.fork = start("loop", "fork")
        self.bare = start("bare", "fork")
        self.has_huge_pages = huge_pages(self.rewind) > process.memory * 2**20 / 2


def _cost(simulator: ars.Simulator, n: int, seed: int) -> tuple[_Cost, float]:
    """What a continuation costs in a run of n traces, and the share of those that were not forked."""

    def spent(budget: ars.Budget | None) -> tuple[_Cost, ars.Posterior]:
        before, started = family_cpu(simulator).total, time.perf_counter()
        post = simulator.posterior(_OBSERVE, n, budget=budget, seed=seed)
        return _Cost(family_cpu(simulator).total - before, time.perf_counter() - started), post

    whole, post = spent(_BUDGET)
    without, _ = spent(None)
    loops = post.columns.loops
    rewinds = int(loops["rewinds"].sum())
    # the last run under p of a forked entry is made by the snapshot
    forks = int((loops["forks"] + 1)[loops["rewinds"] == 0].sum())
    cpu, wall = (max(a - b, 1e-9) / (rewinds + forks) for a, b in zip(whole, without, strict=True))
    return _Cost(cpu, wall), rewinds / (rewinds + forks)


def _bare(simulator: ars.Simulator, seconds: float) -> _Cost:
    costs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while not costs or time.perf_counter() < end:
        post = simulator.posterior(_OBSERVE, 2, budget=None, seed=1)
        costs += zip(post["cpu"].tolist(), post["wall"].tolist(), strict=True)
    return _Cost(*(sum(column) / len(costs) for column in zip(*costs, strict=True)))


def _measure(process: _Process, sides: _Sides, effort: Effort) -> Iterator[Measurement]:
    def run(simulator: ars.Simulator) -> Callable[[int], object]:
        return lambda n: simulator.posterior(_OBSERVE, n, budget=_BUDGET, seed=1)

    rewound = traces_for(run(sides.rewind), effort.seconds, first=8)
    if effort.size != "smallest" and process.dirty <= 200:
        rewound = -(-rewound // _CHECK_EVERY) * _CHECK_EVERY
    forked = traces_for(run(sides.fork), max(effort.seconds, 0.2), first=1)  # its clock counts hundredths of a second
    turns = []
    for i in effort.turns():
        rewind, share = _cost(sides.rewind, rewound, 2 + i)
        fork, _ = _cost(sides.fork, forked, 2 + i)
        turns.append(_Turn(rewind, fork, _bare(sides.bare, effort.seconds / 2), share))
    case = process._asdict()
    for name in ("rewind", "fork", "bare"):
        costs: list[_Cost] = [getattr(t, name) for t in turns]
        better: Literal["lower", "neither"] = "neither" if name == "bare" else "lower"
        yield measurement(SUITE, case, f"{name}, CPU", [1e6 * c.cpu for c in costs], "us", better)
        yield measurement(SUITE, case, f"{name}, wall", [1e6 * c.wall for c in costs], "us", better)
    over_fork = [t.rewind.cpu / t.fork.cpu for t in turns]
    over_bare = [t.rewind.cpu / t.bare.cpu for t in turns]
    yield measurement(SUITE, case, "over fork", over_fork, better="lower", target=process.target)
    yield measurement(SUITE, case, "over bare", over_bare, better="lower")
    yield measurement(SUITE, case, "rewound", [100 * t.rewound for t in turns], "%")


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    """Measurements as they come."""
    for process in _grid(effort):
        with ExitStack() as stack:
            sides = _Sides(process, directory, stack)
            if process.pages == "4 kB" or sides.has_huge_pages:
                yield from _measure(process, sides, effort)
    yield from by_hand.run(effort, directory)

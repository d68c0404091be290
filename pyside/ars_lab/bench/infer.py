"""``ars bench infer``: posterior traces per second from end to end, and where the time goes.

The network is trained for a moment only: what it costs does not depend on how good it is, except that its q(A) says how
many tries a loop makes; it is in the table. Ways to estimate the same loop take turns, so their ratios are of one run.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import ars
from ars.continuations import Continuations
from ars_lab.bench.measure import Effort, family_cpu, find_simulator, traces_for
from ars_lab.bench.results import Measurement, measurement
from ars_lab.bench.stages import STAGES, watch

__all__ = ["SUITE", "Case", "Marsaglia", "run"]

SUITE = "infer"
OBSERVE = {"y1": 0.0, "y2": 0.0}
USUAL_WORKERS = 64  # what the launcher takes on two cores where proposals are asked for
BATCHES = (1, 2, 4, 8, 16, 32, 64)  # edges of the histogram


class Case(NamedTuple):
    """One line of the table. ``loops``: "forked", "rewound", "in place" (ars_reject), or "ic": no estimates."""

    loops: str
    M: int
    N: int
    workers: int
    width: int

    @property
    def target(self) -> float | None:
        """Traces per second that the project wants, on two cores."""
        wanted = {
            ("forked", 1, 10): 700.0,
            ("forked", 10, 10): 500.0,
            ("in place", 1, 10): 1400.0,
            ("ic", 0, 0): 2000.0,
        }
        return wanted.get((self.loops, self.M, self.N)) if (self.workers, self.width) == (USUAL_WORKERS, 512) else None

    @property
    def compared(self) -> dict[str, tuple[str, float | None]]:
        """Cases of the same turn that this one is set against: their loops -> name of the ratio, what it should be."""
        if self.loops != "rewound":
            return {}
        usual = (self.N, self.workers, self.width) == (10, USUAL_WORKERS, 512)
        over_fork = {1: 2.2, 10: 3.0}.get(self.M) if usual else None
        return {"in place": ("over in place", 0.8 if usual else None), "forked": ("over forked", over_fork)}

    def describe(self) -> dict[str, str | float]:
        return dict(zip(("loops", "M", "N", "workers", "LSTM"), self, strict=True))


_WAYS = ("forked", "rewound", "in place")


def _in_turns(M: int, N: int, workers: int, width: int) -> list[Case]:
    return [Case(loops, M, N, workers, width) for loops in _WAYS]


def _groups(effort: Effort) -> list[list[Case]]:
    """The cases of a group take turns."""
    if effort.size == "smallest":
        return [_in_turns(1, 2, 2, 16), [Case("ic", 0, 0, 2, 16)]]
    usual = [
        _in_turns(1, 10, USUAL_WORKERS, 512),
        _in_turns(10, 10, USUAL_WORKERS, 512),
        [Case("ic", 0, 0, USUAL_WORKERS, 512)],
    ]
    if effort.size == "quick":
        return [*usual, _in_turns(1, 10, 16, 512), _in_turns(1, 10, USUAL_WORKERS, 128)]
    rest = [
        _in_turns(M, N, workers, width)
        for width, workers in itertools.product((128, 512), (2, 16, 64))
        for M, N in ((1, 1), (1, 10), (10, 10))
    ]
    return [*usual, *(group for group in rest if group not in usual)]


class Marsaglia:
    """The simulators, started when needed, and a network for each width."""

    def __init__(self, effort: Effort, directory: str | None = None) -> None:
        self._effort = effort
        self._directory = directory
        self._simulators: dict[tuple[str, int, Continuations], ars.Simulator] = {}
        self.network = functools.cache(self._train)

    def simulator(self, case: Case) -> ars.Simulator:
        name = "marsaglia_in_place" if case.loops == "in place" else "marsaglia"
        continuations: Continuations = "fork" if case.loops == "forked" else "auto"
        key = (name, case.workers, continuations)
        if key not in self._simulators:
            self._simulators[key] = ars.Simulator(
                [find_simulator(name, self._directory)], workers=case.workers, continuations=continuations
            )
        return self._simulators[key]

    def _train(self, width: int) -> ars.Network:
        traces = {"smallest": 256, "quick": 20_480, "full": 102_400}[self._effort.size]
        return self.simulator(Case("forked", 1, 1, 2, width)).train(
            traces, lstm_dim=width, batch_size=min(traces, 512), seed=1, progress=False
        )

    def posterior(self, case: Case, n: int, seed: int) -> ars.Posterior:
        budget = None if case.loops == "ic" else ars.Budget(M=case.M, N=case.N)
        return self.simulator(case).posterior(
            OBSERVE, n, network=self.network(case.width), budget=budget, seed=seed, progress=False
        )

    def close(self) -> None:
        for simulator in self._simulators.values():
            simulator.close()


class _Turn(NamedTuple):
    rate: float
    requests: float  # per trace
    messages: float  # of ZeroMQ, both ways, per trace
    per_message: float
    cpu: dict[str, float]  # part -> CPU microseconds per trace
    batches: Counter[int]
    q: float
    rewinds: float  # per trace
    forks: float


def _turn(marsaglia: Marsaglia, case: Case, n: int, seed: int) -> _Turn:
    simulator = marsaglia.simulator(case)
    before = family_cpu(simulator)
    with watch() as stages:
        started = time.perf_counter()
        post = marsaglia.posterior(case, n, seed)
        wall = time.perf_counter() - started
    spent = family_cpu(simulator) - before
    cpu = {stage: stages.seconds[stage] for stage in STAGES}
    cpu["other"] = stages.total - sum(cpu.values())
    cpu = {f"controller: {stage}": seconds for stage, seconds in cpu.items()}
    cpu |= {"host": spent.host, "simulator": spent.workers, "forked": spent.forked}
    loops = post.columns.loops
    tried = loops["tries_q"].sum()
    q = float(loops["accepted_q"].sum() / tried) if tried else float(np.mean(1 / loops["tries"]))
    messages = post.stats["zmq_messages_sent"] + post.stats["zmq_messages_received"]
    return _Turn(
        n / wall,
        post.stats["requests"] / n,
        messages / n,
        post.stats["requests_per_message"],
        {part: 1e6 * seconds / n for part, seconds in cpu.items()},
        stages.batches,
        q,
        post.stats["rewinds"] / n,
        post.stats["forks"] / n,
    )


def _histogram(case: dict[str, str | float], batches: Counter[int]) -> Iterator[Measurement]:
    """Which share of the requests was answered in batches of which size."""
    rows = {size: size * count for size, count in batches.items()}
    total = sum(rows.values())
    for low, high in zip(BATCHES, (*BATCHES[1:], None), strict=True):
        share = sum(n for size, n in rows.items() if size >= low and (high is None or size < high)) / max(total, 1)
        name = f"{low}+" if high is None else f"{low}-{high - 1}" if high - 1 > low else f"{low}"
        yield measurement("infer batches", case, name, 100 * share, "%")


def _traces(marsaglia: Marsaglia, case: Case, effort: Effort) -> int:
    # a run has a start and an end of its own, some tens of milliseconds, which should not count
    run = functools.partial(marsaglia.posterior, case, seed=1)
    return traces_for(run, 5 * effort.seconds, first=2 * case.workers, least=10 * case.workers)


def _report(case: Case, turns: list[_Turn]) -> Iterator[Measurement]:
    about = case.describe()
    yield measurement(SUITE, about, "traces/s", [t.rate for t in turns], "", "higher", case.target)
    yield measurement(SUITE, about, "requests per trace", [t.requests for t in turns])
    yield measurement(SUITE, about, "ZeroMQ messages per trace", [t.messages for t in turns], better="lower")
    yield measurement(SUITE, about, "requests per message", [t.per_message for t in turns], better="higher")
    yield measurement(SUITE, about, "q(A)", [t.q for t in turns])
    yield measurement(SUITE, about, "rewinds per trace", [t.rewinds for t in turns])
    yield measurement(SUITE, about, "forks per trace", [t.forks for t in turns])
    for part in turns[0].cpu:
        yield measurement("infer CPU", about, part, [t.cpu[part] for t in turns], "us", "lower")
    yield from _histogram(about, sum((t.batches for t in turns), Counter()))


def _measure(marsaglia: Marsaglia, group: list[Case], effort: Effort) -> Iterator[Measurement]:
    traces = {case: _traces(marsaglia, case, effort) for case in group}
    turns = [{case: _turn(marsaglia, case, traces[case], 2 + i) for case in group} for i in effort.turns()]
    for case in group:
        yield from _report(case, [turn[case] for turn in turns])
        for loops, (name, target) in case.compared.items():
            ratios = [turn[case].rate / turn[case._replace(loops=loops)].rate for turn in turns]
            yield measurement(SUITE, case.describe(), name, ratios, "", "higher", target)


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    marsaglia = Marsaglia(effort, directory)
    try:
        for group in _groups(effort):
            yield from _measure(marsaglia, group, effort)
    finally:
        marsaglia.close()

"""``ars bench sites``: what a request costs the host and the controller as a simulator has more and more sites.

It should stay the same. All else is equal: a trace makes 20 draws, whose sites are the same in every trace if there are
20 or fewer, and one of many sets of 20 if there are more; the network is small, because what else a request costs would
hide what grows. A run's first traces meet sites and ask questions that nobody has met before, which is work per site,
not per request; so what is measured is a run less a shorter one. The CPU time of controller and host is divided by the
requests that the longer one has more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import ars
from ars_lab.bench.measure import Effort, family_cpu, find_simulator
from ars_lab.bench.results import Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "sites"
_OBSERVE = {"y": 0.0}
_WIDTH = 16
_WORKERS = 8


class _Cost(NamedTuple):
    """Of a run: CPU seconds, and requests."""

    host: float
    controller: float
    requests: float


def _cost(simulator: ars.Simulator, network: ars.Network, traces: int, seed: int) -> _Cost:
    before, began = family_cpu(simulator), time.thread_time()
    post = simulator.posterior(_OBSERVE, traces, network=network, budget=None, seed=seed, progress=False)
    controller = time.thread_time() - began
    return _Cost((family_cpu(simulator) - before).host, controller, post.stats["requests"])


def _per_request(
    simulator: ars.Simulator, network: ars.Network, first: int, traces: int, seed: int
) -> tuple[float, float]:
    """CPU seconds of the host and of the controller, after the first traces, in which everything is new."""
    short = _cost(simulator, network, first, seed)
    long = _cost(simulator, network, first + traces, seed)
    requests = long.requests - short.requests
    host = max(long.host - short.host, 0.0)  # its clock counts hundredths of a second
    return host / requests, (long.controller - short.controller) / requests


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    program = find_simulator("bench_loop", directory)
    smallest = effort.size == "smallest"
    counts = (2, 40) if smallest else (2, 20, 200, 2_000)
    first, traces = (8, 40) if smallest else (500, 600)  # 100 sets of 20 sites are met in 500 traces
    costs: dict[int, list[tuple[float, float]]] = {}
    sides: list[tuple[int, ars.Simulator, ars.Network]] = []
    try:
        for count in counts:
            simulator = ars.Simulator([program, "sites", str(count)], workers=_WORKERS)
            network = simulator.train(2 * first, lstm_dim=_WIDTH, batch_size=64, seed=1, progress=False)
            sides.append((count, simulator, network))
            simulator.prior(20 * first, seed=1, progress=False)  # every process has met every site
        for turn in effort.turns():
            for count, simulator, network in sides:
                costs.setdefault(count, []).append(_per_request(simulator, network, first, traces, 2 + turn))
    finally:
        for _, simulator, _ in sides:
            simulator.close()
    least = [sum(pair) for pair in costs[counts[0]]]
    for count, pairs in costs.items():
        case: dict[str, str | float] = {"sites": count}
        yield measurement(SUITE, case, "host", [1e6 * host for host, _ in pairs], "us", "lower")
        yield measurement(SUITE, case, "controller", [1e6 * controller for _, controller in pairs], "us", "lower")
        ratios = [sum(pair) / first for pair, first in zip(pairs, least, strict=True)]
        yield measurement(SUITE, case, f"over {counts[0]} sites", ratios, better="lower", target=1.2)

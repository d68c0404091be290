"""``ars bench sites``: what a request costs the host and the controller as a simulator has more and more sites.

It should stay the same. The number of requests is the same for every number of sites, the network is small, and the
controller's and the host's CPU time are divided by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import ars
from ars.bench.measure import Effort, family_cpu, find_simulator
from ars.bench.results import Measurement, measurement

__all__ = ["SUITE", "run"]

SUITE = "sites"
_OBSERVE = {"y": 0.0}
_WIDTH = 16
_WORKERS = 8


def _costs(simulator: ars.Simulator, network: ars.Network, n: int, seed: int) -> tuple[float, float]:
    """CPU seconds per request: host, controller."""
    before, began = family_cpu(simulator), time.thread_time()
    post = simulator.posterior(_OBSERVE, n, network=network, budget=None, seed=seed, progress=False)
    controller = time.thread_time() - began
    requests = post.stats["requests"]
    return (family_cpu(simulator) - before).host / requests, controller / requests


def run(effort: Effort, directory: str | None = None) -> Iterator[Measurement]:
    program = find_simulator("bench_loop", directory)
    counts, requests = ((2, 8), 256) if effort.size == "smallest" else ((2, 20, 200, 2_000), _WORKERS * 2_000)
    costs: dict[int, list[tuple[float, float]]] = {}
    sides: list[tuple[int, ars.Simulator, ars.Network]] = []
    try:
        for count in counts:
            simulator = ars.Simulator([program, "sites", str(count)], workers=_WORKERS)
            sides.append(
                (count, simulator, simulator.train(64, lstm_dim=_WIDTH, batch_size=16, seed=1, progress=False))
            )
            _costs(*sides[-1][1:], max(requests // count // 8, 1), 1)
        for turn in effort.turns():
            for count, simulator, network in sides:
                costs.setdefault(count, []).append(_costs(simulator, network, requests // count, 2 + turn))
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

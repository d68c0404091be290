"""A cluster in simulated time: a client with a Dask scheduler and many workers, and a data-parallel training.

Everything that all workers share is a queue of its own: the scheduler (a time per task), the client's network (bytes)
and the client's processor (a time per trace, to take columns in). Workers differ in speed, as nodes do.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

__all__ = ["Costs", "Fleet", "Outcome", "Training", "all_reduce_seconds", "run_fleet", "training_efficiency"]

_AHEAD: Final = 2  # tasks that a worker has: one that runs, and one that waits (ars.cluster)


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds and bytes."""

    task_seconds: float  # of client and scheduler, per task
    take_seconds: float  # of the client, per trace
    trace_bytes: float  # from worker to client, per trace
    task_bytes: float  # from client to worker, per task
    parameters: int  # of the network
    step_seconds: float  # of a training step of one rank


@dataclass(frozen=True)
class Fleet:
    """Nodes, and the work that they are given."""

    nodes: int
    cores: int = 32  # per node
    trace_seconds: float = 0.1  # of one core
    task_seconds: float = 2.0  # that a task should take
    spread: float = 0.05  # standard deviation of the logarithm of a node's speed
    slow: float = 0.01  # share of nodes that run at half speed
    bytes_per_second: float = 1.25e9  # of the client's network: 10 Gbit/s
    tasks_per_node: int = 50


class Outcome(NamedTuple):
    """How a simulated run went."""

    efficiency: float  # traces per second, relative to those of all cores without anybody to wait for
    traces_per_second: float
    scheduler: float  # shares of the time that each was busy
    network: float
    client: float

    @property
    def binds(self) -> str:
        """What is busiest; "workers" if nothing else is busy most of the time."""
        shares = {"scheduler": self.scheduler, "network": self.network, "client": self.client}
        name = max(shares, key=lambda each: shares[each])
        return name if shares[name] > 0.9 else "workers"


class _Queue:
    """Serves one after another."""

    def __init__(self) -> None:
        self.free = 0.0
        self.busy = 0.0

    def serve(self, at: float, seconds: float) -> float:
        self.free = max(self.free, at) + seconds
        self.busy += seconds
        return self.free


def run_fleet(fleet: Fleet, costs: Costs, seed: int = 0) -> Outcome:
    """Simulates a run of many tasks.

    Parameters
    ----------
    fleet : Fleet
        Who works. A node runs one task at a time, on all of its cores.
    costs : Costs
        What each task and trace costs the client.
    seed : int
        Of the nodes' speeds (default: 0).
    """
    random = np.random.default_rng(seed)
    speed = np.exp(random.normal(0.0, fleet.spread, fleet.nodes))
    speed[random.random(fleet.nodes) < fleet.slow] *= 0.5
    traces = max(1, round(fleet.task_seconds * fleet.cores / fleet.trace_seconds))
    seconds = traces * fleet.trace_seconds / fleet.cores / speed  # of a task, per node
    left = fleet.nodes * fleet.tasks_per_node
    scheduler, client = _Queue(), _Queue()
    outgoing, network = _Queue(), _Queue()  # a network carries both ways at once
    node_free = np.zeros(fleet.nodes)
    events: list[tuple[float, int]] = []  # a task's result reaches the client's network

    def send(node: int, at: float) -> None:
        there = outgoing.serve(scheduler.serve(at, costs.task_seconds), costs.task_bytes / fleet.bytes_per_second)
        node_free[node] = max(node_free[node], there) + seconds[node]
        heapq.heappush(events, (float(node_free[node]), node))

    for _ in range(_AHEAD):
        for node in range(fleet.nodes):
            if left:
                left -= 1
                send(node, 0.0)
    end = 0.0
    while events:
        at, node = heapq.heappop(events)
        here = network.serve(at, traces * costs.trace_bytes / fleet.bytes_per_second)
        taken = client.serve(here, traces * costs.take_seconds)
        end = max(end, taken)
        if left:
            left -= 1
            send(node, taken)
    done = traces * fleet.nodes * fleet.tasks_per_node
    ideal = done * fleet.trace_seconds / (fleet.cores * float(speed.sum()))
    return Outcome(ideal / end, done / end, scheduler.busy / end, network.busy / end, client.busy / end)


# ---- training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """A data-parallel training: every rank computes a gradient of its own batch, then all are summed."""

    ranks: int
    bytes_per_second: float = 1.25e9  # between two nodes
    latency: float = 20e-6  # seconds per message
    spread: float = 0.1  # standard deviation of the logarithm of a step's time: batches differ


def all_reduce_seconds(training: Training, parameters: int, kind: str) -> float:
    """How long a sum of float32 gradients over all ranks takes, by a ring or a tree."""
    n, size = training.ranks, 4.0 * parameters
    if n == 1:
        return 0.0
    if kind == "ring":  # each rank sends and receives 2 (n - 1) / n of the gradient, in 2 (n - 1) messages
        return 2 * (n - 1) * (training.latency + size / n / training.bytes_per_second)
    if kind == "tree":  # up and down, the whole gradient on every level
        return 2 * math.ceil(math.log2(n)) * (training.latency + size / training.bytes_per_second)
    raise ValueError(f"kind must be ring or tree, not {kind!r}")


def training_efficiency(training: Training, costs: Costs, kind: str, steps: int = 200, seed: int = 0) -> float:
    """Traces per second of all ranks, relative to as many single ones. All wait for the slowest, then for the sum."""
    random = np.random.default_rng(seed)
    times = costs.step_seconds * np.exp(random.normal(0.0, training.spread, (steps, training.ranks)))
    alone = float(times.mean())
    return alone / (float(times.max(axis=1).mean()) + all_reduce_seconds(training, costs.parameters, kind))

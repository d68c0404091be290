"""What runs and trainings cost on this machine: traces per second, bytes and messages at every boundary."""

from __future__ import annotations

import contextlib
import pickle
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import ars
from ars._native import RunFlag
from ars.columns import Columns
from ars_lab.bench.measure import find_simulator

__all__ = ["Boundary", "Measured", "measure"]

_DATA: Final = {"y": 0.7}
_PROPOSALS: Final[Mapping[str, Any]] = {"b": ars.Normal(0.3, 1.1)}


@dataclass(frozen=True)
class Boundary:
    """What passes between two parts of the system."""

    messages: float  # per trace
    bytes: float


@dataclass(frozen=True)
class Measured:
    """Everything that was measured."""

    rates: Mapping[str, float]  # traces per second
    boundaries: Mapping[str, Boundary]
    task_seconds: float
    take_seconds: float
    task_bytes: float
    parameters: int
    step_seconds: float

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def measure(*, quick: bool) -> Measured:
    """Measures all. Some minutes, or seconds if it is to be quick."""
    traces = 2_000 if quick else 200_000
    turns = 1 if quick else 3
    command = [find_simulator("nested")]
    rates = _rates(command, traces, turns)
    task_seconds, cluster = _cluster(command, traces, turns, 50 if quick else 1_000)
    prior, take_seconds = _prior_boundary(command, traces)
    asked = _asked_boundary(command, traces // 20)
    result, task_bytes = _task_sizes(command, min(traces, 10_000))
    parameters, step_seconds = _training(command, quick)
    return Measured(
        rates | cluster,
        {
            "simulator to host, shared memory, prior": Boundary(0.0, prior.bytes),
            "host to controller, ZeroMQ, prior": prior,
            "host to controller, ZeroMQ, proposals asked for": asked,
            "worker to client, Dask": result,
            "training, all_reduce, per step": Boundary(2.0, 4.0 * parameters),
        },
        task_seconds,
        take_seconds,
        task_bytes,
        parameters,
        step_seconds,
    )


def _timed(work: Any, traces: int, turns: int) -> float:
    """Traces per second, the median of some turns."""
    rates = []
    for _ in range(turns):
        begin = time.perf_counter()
        work()
        rates.append(traces / (time.perf_counter() - begin))
    return statistics.median(rates)


def _rates(command: list[str], traces: int, turns: int) -> dict[str, float]:
    found = {}
    some = traces // 20  # with proposals, which take longer
    for workers in (1, 2):
        with ars.Simulator(command, workers=workers) as sim:
            sim.prior(100, seed=0)
            found[f"prior, {workers} processes"] = _timed(lambda: sim.prior(traces, seed=1), traces, turns)
            found[f"proposals by hand, {workers} processes"] = _timed(
                lambda: sim.posterior(_DATA, some, proposals=_PROPOSALS, budget=None, seed=1), some, turns
            )
    with ars.Simulator(command, workers=1) as one, ars.Simulator(command, workers=1) as other:
        one.prior(100, seed=0), other.prior(100, seed=0)

        def both() -> None:
            thread = threading.Thread(target=lambda: other.prior(traces // 2, seed=1))
            thread.start()
            one.prior(traces // 2, seed=2)
            thread.join()

        found["prior, 2 hosts of 1 process"] = _timed(both, traces, turns)
    return found


def _cluster(command: list[str], traces: int, turns: int, tasks: int) -> tuple[float, dict[str, float]]:
    """The cost of a task to client and scheduler, and traces per second of one and two Dask workers."""
    import distributed

    import ars.cluster

    rates = {}
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    for workers in (1, 2):
        with distributed.LocalCluster(n_workers=workers, **options) as local, distributed.Client(local) as client:
            begin = time.perf_counter()
            client.gather([client.submit(int, i, pure=False) for i in range(tasks)])
            per_task = (time.perf_counter() - begin) / tasks
            with ars.cluster.simulator(client, command, workers=1) as sim:
                sim.prior(100, seed=0)
                rates[f"prior, {workers} Dask workers"] = _timed(lambda: sim.prior(traces, seed=1), traces, turns)
    return per_task, rates


@contextlib.contextmanager
def _counted(sim: ars.Simulator) -> Iterator[dict[str, float]]:
    """Counts messages and bytes between a running simulator and its controller in the block, in both directions."""
    counts = {"messages": 0.0, "bytes": 0.0}
    session: Any = sim._processes.session  # type: ignore[attr-defined]
    send, receive = session._send, session._receive

    def counting_send(frame: bytes) -> None:
        counts["messages"] += 1
        counts["bytes"] += len(frame)
        send(frame)

    def counting_receive(wait_ms: int) -> list[list[bytes]]:
        found: list[list[bytes]] = receive(wait_ms)
        counts["messages"] += len(found)
        counts["bytes"] += sum(len(frame) for frames in found for frame in frames)
        return found

    session._send, session._receive = counting_send, counting_receive
    try:
        yield counts
    finally:
        del session._send, session._receive


def _prior_boundary(command: list[str], traces: int) -> tuple[Boundary, float]:
    """Of plain traces, and the controller's own time per trace."""
    with ars.Simulator(command, workers=1) as sim:
        sim.prior(100, seed=0)
        begin = time.process_time()
        with _counted(sim) as counts:
            sim.prior(traces, seed=1)
        took = time.process_time() - begin
    return Boundary(counts["messages"] / traces, counts["bytes"] / traces), took / traces


def _asked_boundary(command: list[str], traces: int) -> Boundary:
    with ars.Simulator(command, workers=16) as sim:
        sim.prior(100, seed=0)
        with _counted(sim) as counts:
            sim.posterior(_DATA, traces, proposals=_PROPOSALS, budget=None, seed=1)
    return Boundary(counts["messages"] / traces, counts["bytes"] / traces)


def _task_sizes(command: list[str], traces: int) -> tuple[Boundary, float]:
    """What a result and a task take on the wire, by the bytes that are pickled."""
    from ars.cluster.simulators import Answer
    from ars.cluster.tasks import Outcome, Task

    with ars.Simulator(command, workers=2) as sim:
        found = sim.prior(traces, seed=1)
        config = sim._processes.setup.run_config(1, traces, RunFlag.PROPOSE_PRIOR)
    outcome = Outcome(Columns(*found.columns), found.sites, frozenset(), None, {}, [], 1.0)
    answer = Answer("tcp://127.0.0.1:12345 (host)", "0" * 64, "0" * 64, outcome)
    task = Task("ars-0", config, None, "0" * 64)
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
    size = len(head) + sum(buffer.raw().nbytes for buffer in buffers)
    return Boundary(1.0 / traces, size / traces), float(len(pickle.dumps(task, protocol=5)))


def _training(command: list[str], quick: bool) -> tuple[int, float]:
    """Parameters of a network, and seconds per step of a batch of 64 traces."""
    steps = 5 if quick else 100
    with ars.Simulator(command, workers=2) as sim:
        network = sim.train(64 * steps, lstm_dim=64 if quick else 512, batch_size=64, held_out=64, seed=1, threads=1)
    rate = statistics.median(entry.traces_per_second for entry in network.history)
    return sum(p.numel() for p in network.network.parameters()), 64 / rate

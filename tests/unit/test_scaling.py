"""The simulated cluster: it is bound by whatever is made slow, at the rate that this allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ars_lab.scaling.__main__ import costs_of, simulate
from ars_lab.scaling.simulated import Costs, Fleet, Training, all_reduce_seconds, run_fleet, training_efficiency

FREE = Costs(0.0, 0.0, 0.0, 0.0, 1_000_000, 0.1)
EQUAL = Fleet(10, spread=0.0, slow=0.0, tasks_per_node=40)


def test_nothing_to_wait_for_is_full_efficiency() -> None:
    found = run_fleet(EQUAL, FREE)
    assert found.efficiency == pytest.approx(1.0, abs=1e-9) and found.binds == "workers"
    assert found.traces_per_second == pytest.approx(10 * 32 / 0.1)


@pytest.mark.parametrize(
    ("costs", "binds", "rate"),
    [
        (replace(FREE, task_seconds=2.0), "scheduler", 2 * 32 / 0.1 / 2.0),  # tasks of 640 traces, one per 2 s
        (replace(FREE, trace_bytes=1.25e9 / 100), "network", 100.0),
        (replace(FREE, take_seconds=0.005), "client", 200.0),
        # what is queued behind the client must not hold up the network
        (replace(FREE, take_seconds=0.005, trace_bytes=1.25e9 / 400, task_bytes=1.25e6), "client", 200.0),
    ],
)
def test_a_shared_queue_binds_at_its_rate(costs: Costs, binds: str, rate: float) -> None:
    found = run_fleet(EQUAL, costs)
    assert found.binds == binds
    assert found.traces_per_second == pytest.approx(rate, rel=0.05)


def test_longer_tasks_ease_the_scheduler_and_slow_nodes_cost() -> None:
    busy = replace(FREE, task_seconds=0.5)
    short, long = (run_fleet(replace(EQUAL, task_seconds=each), busy).efficiency for each in (1.0, 30.0))
    assert short < 0.3 and long > 0.9
    assert run_fleet(replace(EQUAL, nodes=200, slow=0.05), FREE).efficiency < 1.0


def test_rings_and_trees() -> None:
    """A ring moves at most twice the gradient, whatever the number of ranks; a tree moves it on every level."""
    wide = Training(1024, latency=0.0)
    assert all_reduce_seconds(wide, 1_000_000, "ring") == pytest.approx(2 * 4e6 / 1.25e9, rel=0.01)
    assert all_reduce_seconds(wide, 1_000_000, "tree") == pytest.approx(20 * 4e6 / 1.25e9)
    assert all_reduce_seconds(Training(1), 1_000_000, "ring") == 0.0
    assert training_efficiency(Training(1), FREE, "ring") == pytest.approx(1.0)
    alike = [training_efficiency(Training(n, spread=0.0), FREE, "ring") for n in (2, 64)]
    assert 1.0 > alike[0] > alike[1] > 0.9
    with pytest.raises(ValueError, match="ring or tree"):
        all_reduce_seconds(wide, 1, "star")


def test_costs_are_read_from_a_document() -> None:
    document = {
        "boundaries": {"worker to client, Dask": {"messages": 0.1, "bytes": 300.0}},
        "task_seconds": 1e-3,
        "take_seconds": 1e-6,
        "task_bytes": 100.0,
        "parameters": 10,
        "step_seconds": 0.1,
    }
    found = simulate(costs_of(document), quick=True)
    assert {row["binds"] for row in found["runs"]} == {"workers"} and len(found["training"]) == 12

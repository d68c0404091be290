"""The doorbell of the segment is written by every process of a family: ars-host takes it for no more than a hint."""

from __future__ import annotations

import pytest
from fake_controller import Launch, g, reply_by_trace

TRACES = 12


def run(launch: Launch, **settings: str) -> dict[int, dict[str, object]]:
    """Questions, several at once and single ones, snapshots that ask, records and orders."""
    c = launch(**settings)
    c.greet()
    c.send(g.run(n=TRACES, flags=g.ESTIMATE, tries_q=10, runs_p=3))
    c.follow(reply_by_trace)
    assert not [t for t in c.traces.values() if t.failure]
    c.close()
    return {number: vars(trace) for number, trace in c.traces.items()}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("several", ["", "1"])
def test_a_family_that_never_rings_is_heard(launch: Launch, several: str) -> None:
    """No question, record, order or snapshot's end is announced. It takes a tick each, and every trace is the same."""
    more = {"several": several} if several else {}
    assert run(launch, silent="1", steps="2", **more) == run(launch, steps="2", **more)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("byte", ["0", "165", "255"])
def test_garbage_on_the_doorbell_costs_no_trace(launch: Launch, byte: str) -> None:
    """Every trace begins by writing over the doorbell, the flag that the host sleeps and all attention bits."""
    assert run(launch, bell=byte, workers="4") == run(launch, workers="4")

"""Whom the time of proposals by hand is charged to, with a clock that stands still unless a function moves it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from step_builder import Request, steps_of

import ars
from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.distributions import Distribution
from ars.proposers import HandProposer
from ars.proposers.hand_states import Drawn
from ars.wire import SiteTable

SITES = SiteTable([Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "loop/x"), Site(1, SiteKind.SAMPLE, DistKind.NORMAL, "z")])
PRIOR = ars.Normal(0.0, 1.0).encode(1)[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr("ars.proposers.hand.time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def ask(proposer: HandProposer, *traces: int, site: int = 0) -> None:
    proposer.step(steps_of([Request(trace, 0, site, 0, [], PRIOR) for trace in traces], SITES), SITES)


def proposer_of(clock: SimpleNamespace, seconds: float, limit: float) -> HandProposer:
    def propose(_: Drawn) -> Distribution:
        clock.now += seconds
        return ars.Normal(0.0, 1.0)

    return HandProposer({"x": propose, "z": ars.Normal(0.0, 1.0)}, limit)


def test_a_trace_that_has_used_up_its_time_ends_the_run(clock: SimpleNamespace) -> None:
    proposer = proposer_of(clock, 4.0, 10.0)
    try:
        for _ in range(2):
            ask(proposer, 7)
            ask(proposer, 7, 8, site=1)  # a distribution takes no time
        says = (
            r"the proposal for 'loop/x' \(proposals\['x'\]\): proposals by hand have taken 12 s of trace 7, more than "
            r"trace_timeout=10 s\. Make the function faster"
        )
        with pytest.raises(ars.ProposalError, match=says):
            ask(proposer, 7)
    finally:
        proposer.close()


def test_a_call_is_shared_by_its_rows(clock: SimpleNamespace) -> None:
    proposer = proposer_of(clock, 4.0, 10.0)
    try:
        for _ in range(4):
            ask(proposer, 1, 2, 3, 3)  # trace 3 asks twice: a continuation next to the main run, say
        assert proposer._used == {1: 4.0, 2: 4.0, 3: 8.0}
        ask(proposer, 1, 2, 3, 3)
        with pytest.raises(ars.ProposalError, match="11 s of trace 3"):
            ask(proposer, 1, 2, 3, 3)
    finally:
        proposer.close()


def test_other_traces_have_their_own_time_and_0_is_no_limit(clock: SimpleNamespace) -> None:
    for limit in (10.0, 0.0):
        proposer = proposer_of(clock, 4.0, limit)
        try:
            for trace in range(20):
                ask(proposer, trace)
                ask(proposer, trace)
                proposer.end_trace(np.array([trace], dtype=np.uint64))
            assert not proposer._used
        finally:
            proposer.close()
    unlimited = proposer_of(clock, 1e9, 0.0)
    for _ in range(5):
        ask(unlimited, 1)

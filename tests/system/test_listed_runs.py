"""Runs of listed traces with budgets by loop: the controller and its peers, from RUN to columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars._native import RunFlag, SiteKind
from ars.columns import HOW, Columns, Site, select
from ars.progress import NoProgress
from ars.proposers import PriorProposer
from ars.runtime.recorder import Recorder
from ars.wire import Listed, RunConfig, Wanted

FAKE = Path(__file__).with_name("fake_simulator.py")
PRIOR = RunFlag.PROPOSE_PRIOR
ESTIMATE = PRIOR | RunFlag.POSTERIOR | RunFlag.ESTIMATE
TRACES = 60
SOME = np.array([3, 4, 5, 17, 30, 31, 58], dtype=np.uint64)


def config_of(sim: ars.Simulator, flags: RunFlag, n: int = TRACES, **settings: Any) -> RunConfig:
    observed = {"y": np.array([1.5])} if flags & RunFlag.POSTERIOR else {}
    return sim._processes.setup.run_config(5, n, flags, observed=observed, **settings)


def worked(sim: ars.Simulator, config: RunConfig) -> tuple[Columns, Recorder]:
    recorder = Recorder(config.n_traces, "raise", NoProgress(), first=config.first_trace, seed=config.seed)
    with sim._processes.exclusively():
        sim._processes.work(config, PriorProposer(), recorder)
    assert recorder.n_failed == 0
    return recorder.columns(), recorder


def of_some(columns: Columns, numbers: np.ndarray[Any, Any]) -> Columns:
    return select(columns, np.isin(columns.traces["trace"], numbers))


def content(columns: Columns) -> list[bytes]:
    """Everything but how it was computed."""
    out = []
    for name, column in columns._asdict().items():
        column = column.copy()
        for field in HOW.get(name, ()):
            column[field] = 0
        out.append(column.tobytes())
    return out


def entries(columns: Columns, sites: tuple[Site, ...], address: str) -> Any:
    (site,) = (site.id for site in sites if site.kind is SiteKind.LOOP and site.address == address)
    return columns.loops[columns.loops["site"] == site]


def known_tries(columns: Columns) -> Listed:
    """The list of these traces that a run without estimates gives."""
    return Listed(
        columns.traces["trace"].copy(),
        columns.traces["n_loops"].astype(np.uint32),
        columns.loops["tries"].astype(np.uint32),
    )


# ---- a simulator that is lost ----------------------------------------------------------------------------------------


def test_a_listed_run_survives_its_simulators(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    """Each of them brings 32 traces; the next one is asked for the rest, in one run."""
    monkeypatch.setenv("ARS_HOST", "/bin/true")
    sim = started(ars.Simulator([sys.executable, str(FAKE), "die"], max_restarts=1))
    numbers = np.array([2, 3, *range(100, 177), 2**63, 2**64 - 2], dtype=np.uint64)
    listed = Listed(numbers, np.full(len(numbers), 1, np.uint32), np.arange(len(numbers), dtype=np.uint32))
    columns, recorder = worked(sim, config_of(sim, PRIOR, listed=listed))
    assert columns.traces["trace"].tolist() == numbers.tolist()
    assert recorder.restarts == 2


# ---- a simulator with a loop in a loop -------------------------------------------------------------------------------


@pytest.fixture
def sim(csim: Callable[[str], str], started: Callable[[ars.Simulator], ars.Simulator]) -> ars.Simulator:
    return started(ars.Simulator([csim("nested")], workers=2))


@pytest.mark.parametrize("continuations", ["auto", "fork"])
@pytest.mark.parametrize("wanted", [Wanted(2, 5), Wanted(2, 0, 3), Wanted(1)])
def test_listed_traces_are_those_of_the_whole_run(
    csim: Callable[[str], str], started: Callable[[ars.Simulator], ars.Simulator], continuations: Any, wanted: Wanted
) -> None:
    """Also if their tries are known: less is estimated then, and nothing else changes."""
    sim = started(ars.Simulator([csim("nested")], workers=2, continuations=continuations))
    whole = of_some(worked(sim, config_of(sim, ESTIMATE, wanted=wanted))[0], SOME)
    plain = of_some(worked(sim, config_of(sim, ESTIMATE & ~RunFlag.ESTIMATE))[0], SOME)
    assert content(worked(sim, config_of(sim, ESTIMATE, wanted=wanted, listed=Listed.of(SOME)))[0]) == content(whole)
    again = worked(sim, config_of(sim, ESTIMATE, wanted=wanted, listed=known_tries(plain)))[0]
    assert content(again) == content(whole)
    assert (whole.loops["runs_p"] == wanted.runs_p).all()
    if continuations == "fork":
        assert again.traces["snapshots"].sum() == len(again.loops) < whole.traces["snapshots"].sum()


def test_a_long_list_is_several_runs(sim: ars.Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(sim, ESTIMATE, wanted=Wanted(1, 0, 1), listed=Listed.of(SOME))
    whole = content(worked(sim, config)[0])
    monkeypatch.setattr("ars.wire.run.LARGEST_LIST", 48)  # bytes: two or three traces
    recorder = Recorder(config.n_traces, "raise", NoProgress(), first=config.first_trace, seed=config.seed)
    assert [part.n_traces for part in recorder.left(config)] == [2, 3, 2]
    assert content(worked(sim, config)[0]) == whole


def test_a_loop_has_the_budget_of_its_address(sim: ars.Simulator) -> None:
    _, met = worked(sim, config_of(sim, PRIOR, 1))
    outer, inner = sorted(site.address for site in met.sites if site.kind is SiteKind.LOOP)
    budgets = {outer: Wanted(), inner: Wanted(3, 0, 2), f"{inner}/nowhere": Wanted(9, 9)}
    for fresh in (False, True):
        if fresh:
            sim.close()  # the next family meets its sites in the run
        columns, recorder = worked(sim, config_of(sim, ESTIMATE, wanted=Wanted(1, 7), budgets=budgets))
        within, around = (entries(columns, recorder.sites, address) for address in (inner, outer))
        assert len(within) and len(around)
        assert (within["runs_p"] == 3).all() and (within["accepted_q"] == 2).all()
        for field in ("runs_p", "tries_p", "tries_q", "accepted_q", "forks", "rewinds"):
            assert not around[field].any(), field
    columns, recorder = worked(sim, config_of(sim, ESTIMATE, wanted=Wanted(1, 7)))
    assert (columns.loops["tries_q"] == 7).all() and (columns.loops["runs_p"] == 1).all()


def test_a_pilot_draws_from_streams_of_its_own(sim: ars.Simulator) -> None:
    wanted = Wanted(4, 0, 4)
    usual, pilot = (
        worked(sim, config_of(sim, ESTIMATE | flag, wanted=wanted))[0] for flag in (RunFlag(0), RunFlag.PILOT)
    )
    assert content(usual._replace(loops=pilot.loops)) == content(pilot)
    assert (usual.loops["tries"] == pilot.loops["tries"]).all()
    assert (usual.loops["tries_q"] != pilot.loops["tries_q"]).mean() > 0.3

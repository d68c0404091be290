"""Somebody kills the simulator's processes, one after another, at random. The result is what it would have been.

ARS_CHAOS_SECONDS=60 (make chaos) runs it for a minute.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from family_tools import ROLES, Chaos, members, wait_for

import ars
from ars.columns import HOW, select

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("ARS_CHAOS_SECONDS", "6"))
TRACES = 200
OBSERVE = {"y1": 0.0, "y2": 0.0}
BUDGET = ars.Budget(M=3, N=10)


def proposals() -> dict[str, object]:
    """Both latents are asked for, the second as a function of the first."""
    return {"x1": ars.Normal(0.0, 0.6), "x2": lambda t: ars.Uniform(-1.0, 1.0 + 0.0 * t["x1"])}


def run(sim: ars.Simulator, seed: int) -> ars.Posterior:
    return sim.posterior(
        observe=OBSERVE,
        traces=TRACES,
        proposals=proposals(),  # type: ignore[arg-type]
        budget=BUDGET,
        seed=seed,
        on_failure="zero",
    )


def assert_same(found: ars.Posterior, right: ars.Posterior) -> int:
    """Finished traces are bitwise those of the undisturbed run, the others are counted failures. Returns how many."""
    assert [site[1:] for site in found.sites] and len(found) == TRACES
    failed = found.columns.traces["failure"] != 0
    assert int(failed.sum()) == found.failures.total
    for failure in found.failures.examples:  # killed four times over, each time that it was run
        assert (failure.kind, failure.detail) == ("crash", signal.SIGKILL), failure
    mine, theirs = select(found.columns, ~failed), select(right.columns, ~failed)
    names = {site.id: (site.kind, site.address) for site in found.sites}
    right_names = {site.id: (site.kind, site.address) for site in right.sites}
    for column in ("traces", "samples", "observes", "results", "loops"):
        a, b = getattr(mine, column), getattr(theirs, column)
        for field in set(a.dtype.names) - set(HOW.get(column, ())):
            if field == "site":
                assert [names[i] for i in a[field].tolist()] == [right_names[i] for i in b[field].tolist()]
            else:
                assert a[field].tobytes() == b[field].tobytes(), (column, field)
    assert mine.values.tobytes() == theirs.values.tobytes()
    return int(failed.sum())


@pytest.mark.timeout(SECONDS + 240)
def test_killing_random_processes_changes_nothing(mode: Any, csim: Callable[[str], str]) -> None:
    seeds = (1, 2, 3)
    with ars.Simulator([csim("marsaglia")], workers=6, continuations="fork") as sim:
        right = [run(sim, seed) for seed in seeds]
    assert len(np.unique(right[0].log_weights("ars"))) > TRACES / 2
    failed = runs = 0
    enough = 5 * min(SECONDS, 10)  # kills
    with ars.Simulator([csim("marsaglia")], workers=6, max_restarts=50, continuations=mode) as sim:
        end = time.monotonic() + SECONDS
        with Chaos(os.getpid(), seed=int(SECONDS)) as chaos:
            while time.monotonic() < end or (chaos.kills <= enough and time.monotonic() < end + 60):
                which = runs % len(seeds)
                failed += assert_same(run(sim, seeds[which]), right[which])
                runs += 1
        logging.getLogger("chaos").warning("%d runs, %d traces failed; killed %s", runs, failed, chaos.killed)
        assert failed < 0.02 * runs * TRACES
        assert chaos.kills > enough
        # the simulator still works, and nothing is left of the dead
        assert assert_same(run(sim, seeds[0]), right[0]) == 0
        assert sim.pid is not None
        pid = sim.pid
        assert wait_for(lambda: sum(member.role in ROLES[:3] for member in members(pid)) <= 2 + 6)

"""Time limits count a trace's own time: waiting for a core is nobody's fault.

faults/starved.c makes a process share a core with 30 others, in traces whose first draw says so. It needs a twentieth
of the limit; load on the machine can only make it take longer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars

SOURCE = Path(__file__).resolve().parent / "faults" / "starved.c"
LIMIT = 1.0  # seconds
SEED, TRACES = 5, 6

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.usefixtures("estimates_the_prior"),
    pytest.mark.skipif(
        not Path("/proc/self/schedstat").exists(),
        reason="this kernel does not count how long a process waits for a core",
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("starved"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


def posterior(sim: ars.Simulator) -> ars.Posterior:
    return sim.posterior(observe={"y": 0.0}, traces=TRACES, budget=ars.Budget(M=1, N=1), seed=SEED)


@pytest.fixture(scope="module")
def right(program: Path) -> ars.Posterior:
    """Nobody starves."""
    with ars.Simulator([str(program), "nowhere"], workers=1, continuations="fork") as sim:
        found = posterior(sim)
    assert 1 <= (found["x"] > 1).sum() <= 2
    return found


@pytest.mark.parametrize("where", ["worker", "try", "continuation"])
def test_waiting_for_a_core_does_not_count(
    where: str, mode: Any, program: Path, right: ars.Posterior, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    limits = {"try_timeout": LIMIT} if where == "try" else {"trace_timeout": LIMIT}
    sim = started(ars.Simulator([str(program), where], workers=1, continuations=mode, **limits))
    found = posterior(sim)
    assert not found.failures
    np.testing.assert_array_equal(found["x"], right["x"])
    np.testing.assert_array_equal(found.log_weights("ars"), right.log_weights("ars"))
    if where == "continuation":
        assert found.stats["seconds"] > LIMIT, "the process got its core"
    else:
        assert found["took"].max() > LIMIT, "the process got its core"

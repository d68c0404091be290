"""The n-th fork, mmap, mprotect, malloc, send or receive fails: a clear error or the right numbers, never a hang.

Run with every n by ``make inject`` (ARS_INJECT=all); here with a few.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, ROOT, Builder, Variant

import ars

pytestmark = [pytest.mark.slow, pytest.mark.compiler]

HERE = Path(__file__).resolve().parent
ALL = os.environ.get("ARS_INJECT") == "all"
PLAN = struct.Struct("<16siii")
TRACES = 6
# values of n, beside the first two
FEW = {"fork": 2, "mmap": 2, "mprotect": 3, "malloc": 5, "send": 3, "receive": 3}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    flags = [
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-builtin-declaration-mismatch",
        "-fPIC",
        "-shared",
    ]
    subprocess.run([COMPILERS[0], *flags, str(HERE / "faults" / "shim.c"), "-o", str(made)], check=True)
    return str(made)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """marsaglia, with a libc that is loaded: the one in build/csim may have it linked in, out of a shim's reach."""
    builder = Builder(tmp_path_factory.mktemp("program"))
    return str(builder.program([ROOT / "csim" / "marsaglia.c"], Variant(COMPILERS[0], ("-O2",))))


def run(program: str, env: dict[str, str], mode: str) -> ars.Posterior:
    """Proposals by hand, so that there are questions and answers; two workers, snapshots and continuations."""
    settings: dict[str, Any] = {"env": env, "continuations": mode}
    with ars.Simulator([program], workers=2, max_restarts=1, trace_timeout=10, **settings) as sim:
        return sim.posterior(
            {"y1": 0.0, "y2": 0.0},
            TRACES,
            proposals={"x1": ars.Normal(0.0, 0.6)},
            budget=ars.Budget(M=2, N=3),
            seed=9,
        )


def counted(
    program: str, shim: str, plan: Path, call: str, n: int, for_good: bool, mode: str = "auto"
) -> tuple[ars.Posterior | ars.ArsError, int]:
    """What the run gave, and how many calls there were."""
    plan.write_bytes(PLAN.pack(call.encode(), n, for_good, 0))
    found: ars.Posterior | ars.ArsError
    try:
        found = run(program, {"LD_PRELOAD": shim, "FAULT_FILE": str(plan)}, mode)
    except ars.ArsError as error:
        found = error
    return found, PLAN.unpack(plan.read_bytes())[3]


def chosen(call: str, total: int) -> Iterator[int]:
    """All of them; or the first ones, where a family is made, and a spread over the rest."""
    if ALL:
        yield from range(1, total + 1)
        return
    first = range(1, 3)
    spread = np.unique(np.linspace(3, total, FEW[call]).astype(int)).tolist() if total > 2 else []
    yield from [*first, *spread]


def check(found: ars.Posterior | ars.ArsError, right: ars.Posterior) -> None:
    partial = found.partial if isinstance(found, ars.ArsError) else found
    if isinstance(found, ars.ArsError):
        assert isinstance(found, (ars.LaunchError, ars.HostLostError, ars.TraceFailure)), repr(found)
        assert len(str(found)) > 40, repr(found)
    else:
        assert len(found) == TRACES
    if partial is not None:
        rows = partial.trace_numbers
        assert isinstance(partial, ars.Posterior)
        assert partial.log_weights("ars").tobytes() == right.log_weights("ars")[rows].tobytes()
        assert partial.columns.samples["value"].tobytes() == b"".join(
            right.columns.samples["value"][2 * row : 2 * row + 2].tobytes() for row in rows
        )


@pytest.mark.timeout(0 if ALL else 240)
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
@pytest.mark.parametrize("call", list(FEW))
def test_a_call_that_fails(call: str, for_good: bool, mode: str, shim: str, program: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    right, total = counted(program, shim, plan, call, 0, False, mode)
    assert isinstance(right, ars.Posterior)
    assert total > 0, "the shim was not there"
    errors = 0
    for n in chosen(call, total):
        began = time.monotonic()
        found, _ = counted(program, shim, plan, call, n, for_good, mode)
        check(found, right)
        errors += isinstance(found, ars.ArsError)
        assert time.monotonic() - began < 30
    assert errors if for_good else True, "nothing that failed for good was noticed"
    beyond, _ = counted(program, shim, plan, call, 10 * total, for_good, mode)
    assert isinstance(beyond, ars.Posterior)
    check(beyond, right)


def test_a_worker_without_its_part_of_the_segment_is_a_failure_of_memory(
    shim: str, program: str, tmp_path: Path
) -> None:
    """Five calls protect the segment and what rewinds leave alone; then the zygote opens and closes the area of each
    worker that it forks."""
    found, _ = counted(program, shim, tmp_path / "plan", "mprotect", 6, True)
    assert isinstance(found, ars.TraceFailure)
    assert {failure.kind for failure in found.failures} == {"memory"}
    assert "part of the shared memory (mprotect), 5 times in a row" in found.failures[0].text
    assert "vm.max_map_count" in found.failures[0].text

"""A worker that rewinds counts its page faults; those of its shared memory are over before the first estimate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from family_tools import members

import ars

RING = 1 << 20  # bytes per worker: shm.h


def resident_shared_memory(pid: int) -> int:
    """Bytes of the segment that are in the page tables of a process."""
    found, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = "/memfd:ars" in line and "rw-s" in line
        elif inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


def test_all_of_the_ring_is_there_after_the_first_estimate(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("marsaglia", workers=1)
    proposals = {"x1": ars.Uniform(-1, 1), "x2": ars.Uniform(-1, 1)}
    post = sim.posterior({"y1": 0.0, "y2": 0.0}, 5, proposals=proposals, budget=ars.Budget(M=1, N=2), seed=1)
    if not post.stats["rewinds"]:
        pytest.skip("this system does not allow rewinding")
    assert sim.pid is not None
    [worker] = [member.pid for member in members(sim.pid) if member.role == "worker"]
    assert resident_shared_memory(worker) >= RING

"""What the family of processes does while it works: who talks, who forks, what each process maps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars

pytestmark = pytest.mark.usefixtures("estimates_the_prior")

OBSERVE = {"y": -0.5}


def proposals() -> dict[str, object]:
    """Both latents of truncated_normal are asked for, z as a function of x."""
    return {
        "x": ars.Uniform(1.0, 2.0),
        "z": lambda t: ars.Normal(-0.5 + 0.0 * t["x"], 1.2),
    }


def children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def describe(pid: int) -> tuple[str, str, int] | None:
    """Executable's name, mapped files and threads of a process, or None if it has ended meanwhile."""
    try:
        name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        maps = Path(f"/proc/{pid}/maps").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    if "State:\tZ" in status or not maps:
        return None
    return name, maps, int(status.split("Threads:")[1].split()[0])


def test_no_simulator_process_maps_libzmq_or_has_a_second_thread(mode: Any, csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("truncated_normal"), "b"], workers=4, continuations=mode) as sim:
        sim.prior(10, seed=1)
        host = sim.pid
        seen: set[tuple[int, int]] = set()
        wrong: list[str] = []
        stop = threading.Event()
        every_depth = {1, 2, 3, 4} if mode == "fork" else {1, 2}  # zygote, worker, snapshot, continuation

        def depths() -> set[int]:
            return {depth for _, depth in seen.copy()}

        def look() -> None:
            while not stop.is_set():
                for pid in [host, *descendants(host)]:
                    info = describe(pid)
                    if info is None:
                        continue
                    name, maps, threads = info
                    if Path(name).name == "ars-host":
                        continue
                    depth = 0
                    at = pid
                    while at != host and depth < 6:
                        stat = Path(f"/proc/{at}/stat")
                        try:
                            at = int(stat.read_text().rsplit(")", 1)[1].split()[1])
                        except OSError:
                            break
                        depth += 1
                    seen.add((pid, depth))
                    if "libzmq" in maps:
                        wrong.append(f"{name} ({pid}) maps libzmq")
                    if threads > 1:  # 0: it was leaving at that moment
                        wrong.append(f"{name} ({pid}) has {threads} threads")

        looker = threading.Thread(target=look)
        looker.start()
        try:
            end = time.monotonic() + 2.5
            seed = 0
            while time.monotonic() < end or (not depths() >= every_depth and time.monotonic() < end + 30):
                seed += 1
                sim.posterior(
                    observe=OBSERVE, traces=300, proposals=proposals(), budget=ars.Budget(M=20, N=20), seed=seed
                )
        finally:
            stop.set()
            looker.join()
        assert not wrong, wrong[:3]
        assert depths() >= every_depth  # the test has really seen them all


def test_continuations_under_p_ask_for_nothing(csim: Callable[[str], str]) -> None:
    """Forked ones: an entry that is estimated both ways asks twice, and which entries these are depends on timing."""
    with ars.Simulator([csim("marsaglia")], workers=4, continuations="fork") as sim:
        ask = {"x1": ars.Uniform(-1, 1), "x2": lambda t: ars.Uniform(-1.0 + 0 * t["x1"], 1.0)}
        observe = {"y1": 0.1, "y2": 0.2}
        requests = {
            M: sim.posterior(observe=observe, traces=200, proposals=ask, budget=ars.Budget(M=M, N=5), seed=3).stats[
                "requests"
            ]
            for M in (1, 40)
        }
        assert requests[1] == requests[40] > 400


def test_the_first_draw_of_a_loop_is_asked_for_once(mode: Any, csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("truncated_normal"), "b"], workers=4, continuations=mode) as sim:
        for N in (1, 30):
            post = sim.posterior(
                observe=OBSERVE, traces=300, proposals=proposals(), budget=ars.Budget(M=3, N=N), seed=4
            )
            # x once, and z once for all tries of the main run, N tries under q and 3 runs under p
            assert post.stats["requests"] == 600
            assert post.loops["truncated_normal.c:model#0"].mean_tries > 1.05


def test_forks_are_accepted_tries_and_snapshots(csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("nested")], workers=4, continuations="fork") as sim:
        post = sim.posterior(observe={"y": 1.0}, traces=200, budget=ars.Budget(M=3, N=12), seed=5)
    loops = post.columns.loops
    forks_q = loops["forks"].astype(int) - (3 - 1)  # the last run under p is the snapshot itself
    accepted = loops["accepted_q"].astype(int)
    assert np.all(loops["tries_q"] == 12) and np.all(loops["runs_p"] == 3)
    assert np.all((forks_q == accepted) | (forks_q == accepted + 1))
    assert np.any(forks_q < 12 - 2)
    assert post.stats["continuations"] == post.stats["forks"] == loops["forks"].sum()
    assert post.stats["rewinds"] == post.stats["rewinds_refused"] == 0
    # snapshots of rejected outer tries were dismissed, and are counted
    assert post.stats["snapshots"] == post.columns.traces["snapshots"].sum() > len(loops)


@pytest.mark.parametrize("name", ["nested", "recursive", "sequence"])
def test_the_same_seed_gives_the_same_bits_with_1_and_4_workers(csim: Callable[[str], str], name: str) -> None:
    found = []
    for workers in (1, 4):
        with ars.Simulator([csim(name)], workers=workers) as sim:
            post = sim.posterior(
                observe={"y": 1.0}, traces=150, budget=ars.Budget(M=2, N=5), seed=6, proposals=WIDE[name]
            )
            found.append(post)
    one, four = found
    for method in ("ars", "ic", "biased"):
        assert one.log_weights(method).tobytes() == four.log_weights(method).tobytes()
    assert one.columns.samples["value"].tobytes() == four.columns.samples["value"].tobytes()
    assert np.unique(one.log_weights("ars")).size > 100


WIDE: dict[str, dict[str, object]] = {
    "nested": {"a": ars.Normal(0.3, 1.1)},
    "recursive": {"z": ars.Normal(0.3, 1.2)},
    "sequence": {},
}


def test_many_requests_travel_in_one_message(csim: Callable[[str], str]) -> None:
    """While the controller thinks, what 16 workers ask comes together, however they are scheduled."""

    def slow(t: dict[str, np.ndarray]) -> ars.Normal:
        time.sleep(0.01)
        return ars.Normal(-0.5 + 0.0 * t["x"], 1.2)

    asked = {**proposals(), "z": slow}
    with ars.Simulator([csim("truncated_normal"), "b"], workers=16) as sim:
        post = sim.posterior(observe=OBSERVE, traces=500, proposals=asked, budget=ars.Budget(M=1, N=2), seed=7)
    assert post.stats["requests_per_message"] > 2.0


@pytest.mark.parametrize("mode", ["fork", "check"])
def test_more_loops_than_snapshots_is_a_named_failure(mode: Any, csim: Callable[[str], str]) -> None:
    with (
        ars.Simulator([csim("sequence")], workers=2, env={"ARS_SNAPSHOTS": "2"}, continuations=mode) as sim,
        pytest.raises(ars.TraceFailure, match=r"more than 2 loops.*Raise ARS_SNAPSHOTS") as caught,
    ):
        sim.posterior(observe={"y": 1.0}, traces=5, budget=ars.Budget(M=1, N=2), seed=8)
    assert {failure.kind for failure in caught.value.failures} == {"limit"}


@pytest.mark.parametrize("limit", [{"max_snapshots": 1}, {"max_processes": 4}], ids=str)
def test_loops_that_are_rewound_need_no_snapshots(limit: dict[str, Any], csim: Callable[[str], str]) -> None:
    """What is not needed is compared as far as there is room, and fails no trace."""

    def run(**options: Any) -> ars.Posterior:
        with ars.Simulator([csim("sequence")], workers=2, **options) as sim:
            return sim.posterior(observe={"y": 1.0}, traces=20, budget=ars.Budget(M=1, N=2), seed=8)

    limited, free = run(**limit), run(continuations="fork")
    assert limited.log_weights("ars").tobytes() == free.log_weights("ars").tobytes()
    assert limited.stats["forks_refused"] == 0
    assert limited.stats["rewinds"] > 0

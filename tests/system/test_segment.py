"""A stray pointer in one trace cannot reach another: it ends its own process, and every other trace stays as it was.

segment/stray.c stores onto what is shared between the processes of a family, in the traces whose first draw says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from build_helpers import COMMON, COMPILERS, LIBRARY, Builder, Variant
from family_tools import members, wait_for

import ars

SOURCE = Path(__file__).resolve().parent / "segment" / "stray.c"
SEED, TRACES, WORKERS = 5, 60, 3
OBSERVE = {"y": 0.5}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("segment"))
    return str(builder.program([SOURCE], Variant(COMPILERS[0], ("-O1", f"-I{COMMON}", f"-I{LIBRARY}"))))


@pytest.fixture
def stray(program: str, mode: str, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    def start(*arguments: object, **options: Any) -> ars.Simulator:
        options = {"workers": WORKERS, "trace_timeout": 60, "continuations": mode, **options}
        return started(ars.Simulator([program, *map(str, arguments)], **options))

    return start


def posterior(sim: ars.Simulator, traces: int = TRACES, **options: Any) -> ars.Posterior:
    """Proposals by hand, so that there are questions; snapshots, so that there are slots."""
    options = {"budget": ars.Budget(M=1, N=3), "proposals": {"u": ars.Beta(2.0, 1.0)}, **options}
    return sim.posterior(OBSERVE, traces, seed=SEED, on_failure="zero", **options)


@pytest.fixture(scope="module")
def right(program: str) -> ars.Posterior:
    with ars.Simulator([program, "nowhere"], workers=WORKERS, continuations="fork") as sim:
        found = posterior(sim)
    assert not found.failures
    assert 5 <= (found["r"] > 1).sum() <= 20
    return found


def assert_same(found: ars.Posterior, right: ars.Posterior, but: Any = None) -> None:
    """Bitwise, but for the traces that are named."""
    keep = np.ones(len(right["r"]), dtype=bool) if but is None else ~but
    for name in ("x", "u", "r", "sum"):
        np.testing.assert_array_equal(found[name][keep], right[name][keep])
    for how in ("ars", "ic", "biased"):
        np.testing.assert_array_equal(found.log_weights(how)[keep], right.log_weights(how)[keep])


def assert_crashed(found: ars.Posterior, strays: Any) -> None:
    """These traces and no others, each by name."""
    assert dict(found.failures) == {"crash": strays.sum()}
    for example in found.failures.examples:
        assert strays[example.trace]
        assert "ended by signal 11" in example.text
        assert "outside its own, most often past the end of an array" in example.text
        assert "Replay the trace in a debugger" in example.text


# ---- stores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["data", "settings", "sites", "names", "ring", "slot", "reads", "below", "above"])
def test_a_stray_store_costs_its_own_trace_and_no_other(
    where: str, stray: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    """Observed data, the run's settings, the table of sites, another worker's ring and slot, both ends."""
    found = posterior(stray(where))
    assert_crashed(found, right["r"] > 1)
    assert_same(found, right, but=right["r"] > 1)


@pytest.mark.parametrize("where", ["data", "slot"])
def test_a_continuation_reaches_no_more_than_its_worker(
    where: str, stray: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    found = posterior(stray(where, "continuations"))
    strays = right["r"] > 1
    assert_crashed(found, strays)
    assert all(" of the loop loop was ended" in example.text for example in found.failures.examples)
    assert_same(found, right, but=strays)


@pytest.mark.parametrize("where", ["overrun", "overrun_below"])
@pytest.mark.parametrize("workers", [1, WORKERS])
def test_an_array_that_is_overrun_in_a_workers_fourth_trace(
    where: str, workers: int, stray: Callable[..., ars.Simulator], caplog: pytest.LogCaptureFixture
) -> None:
    """17,600 bytes past the end of 64 MB. A new process runs the trace again, as its first: it is right."""
    options: dict[str, Any] = {"traces": 300, "budget": ars.Budget(M=1, N=1), "proposals": None}
    right = posterior(stray("nowhere", workers=workers), **options)
    assert "rerun" not in caplog.text
    found = posterior(stray(where, workers=workers), **options)
    assert not found.failures
    assert_same(found, right)
    assert where == "overrun" or found.stats["replays"] > 20  # malloc may have put the array elsewhere
    assert ("because the process had died" in caplog.text) == (found.stats["replays"] > 0)


def test_what_a_trace_writes_over_its_own_memory_costs_no_other(
    stray: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    """The question that follows makes no sense. The controller would end the run; ars-host ends the trace."""
    found = posterior(stray("state"))
    strays = right["r"] > 1
    assert dict(found.failures) == {"protocol": strays.sum()}
    assert all("from a state that its trace was not given" in example.text for example in found.failures.examples)
    assert_same(found, right, but=strays)


def test_a_trace_that_an_earlier_one_has_spoilt_is_right_in_a_new_process(
    stray: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    found = posterior(stray("state_later"))
    assert not found.failures
    assert found.stats["replays"] > 0
    assert_same(found, right)


@pytest.mark.parametrize("byte", [0x00, 0xFF, 0xA5])
def test_what_is_written_onto_the_doorbell_costs_no_trace(
    byte: int, stray: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    """The one part that every process writes. Rings may be lost or made up: the run ends, and it is right."""
    found = posterior(stray("bell", byte))
    assert not found.failures
    assert_same(found, right)


# ---- the mapping -----------------------------------------------------------------------------------------------------


class Mapping(NamedTuple):
    start: int
    end: int
    allows: str
    what: str


def mappings(pid: int) -> list[Mapping]:
    """The segment as this process has it mapped, and its neighbours on both sides."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        match = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)", line)
        assert match is not None
        found.append(Mapping(int(match[1], 16), int(match[2], 16), match[3], match[4]))
    ours = [i for i, m in enumerate(found) if m.what.startswith("/memfd:ars")]
    return found[max(ours[0] - 1, 0) : ours[-1] + 1]


def settled(host: int) -> dict[int, str] | None:
    """The zygote and its workers by process id; None while some are still to come."""
    family = {member.pid: member.role for member in members(host) if member.role in ("zygote", "worker")}
    forking = [pid for pid, role in family.items() if role == "zygote" and len(mappings(pid)) != 5]
    return family if len(family) == 1 + WORKERS and not forking else None


def test_who_can_write_where(stray: Callable[..., ars.Simulator]) -> None:
    """Seven mappings in a worker, the guard in front included: a fork has to copy each of them."""
    sim = stray("nowhere")
    posterior(sim)
    assert sim.pid is not None
    host = sim.pid
    assert wait_for(lambda: settled(host), 60)
    areas = set()
    for pid, role in (settled(host) or {}).items():
        guard, *parts = mappings(pid)
        assert guard.end == parts[0].start and guard.allows == "---p"
        allowed = ["r--s", "---s", "rw-s", "---s"] + ["rw-s", "---s"] * (role == "worker")
        assert [part.allows for part in parts] == allowed
        guards = [part.end - part.start for part in (guard, *parts) if part.allows[0] == "-"]
        assert min(guards) >= 64 << 10
        bell, *mine = [part for part in parts if part.allows == "rw-s"]
        assert bell.end - bell.start == 64 << 10
        areas.update(area.start for area in mine)
    assert len(areas) == WORKERS

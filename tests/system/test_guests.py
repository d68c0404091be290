"""A simulator owns its process. What it may do there without consequence, and what costs it a trace by which name.

guests/guest.c does one thing per name. Its random choices are the same whatever it does, so its results must be bitwise
those of the one that does nothing. docs/reliability.md has the list.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

SOURCE = Path(__file__).resolve().parent / "guests" / "guest.c"
SEED, TRACES = 4, 10
OBSERVE = {"y": 0.3}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("guests"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2", "-pthread")))


@pytest.fixture
def guest(program: Path, mode: str, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    def start(*arguments: object, **options: Any) -> ars.Simulator:
        settings = {"workers": 2, "continuations": mode, **options}
        return started(ars.Simulator([str(program), *map(str, arguments)], **settings))

    return start


def posterior(sim: ars.Simulator, **options: Any) -> ars.Posterior:
    budget = ars.Budget(M=1, N=3)
    return sim.posterior(observe=OBSERVE, traces=TRACES, budget=budget, seed=SEED, **options)


@pytest.fixture(scope="module")
def right(program: Path) -> ars.Posterior:
    with ars.Simulator([str(program), "nothing"], workers=2, continuations="fork") as sim:
        found = posterior(sim)
    assert 2 <= found["misbehaves"].sum() <= 6
    return found


def assert_same(found: ars.Posterior, right: ars.Posterior, but: Any = None) -> None:
    """Bitwise, but for the traces that are named."""
    keep = np.ones(TRACES, dtype=bool) if but is None else ~but
    for name in ("x", "sum"):
        np.testing.assert_array_equal(found[name][keep], right[name][keep])
    for how in ("ars", "ic", "biased"):
        np.testing.assert_array_equal(found.log_weights(how)[keep], right.log_weights(how)[keep])


def says_on_stderr(sim: ars.Simulator, words: str) -> bool:
    """Its last lines come through a pipe, so perhaps in a moment."""
    assert sim._processes.session is not None
    deadline = time.monotonic() + 10
    while words not in sim._processes.session._family.stderr_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    return words in sim._processes.session._family.stderr_text()


HARMLESS = (
    "prints",
    "complains",
    "changes_directory",
    "closes",
    "alarm_handler",
    "sigchld_handler",
    "sigchld_ignored",
    "waits_nohang",
    "runs_program",
    "starts_thread",
    "forks_child",
    "forks_exits",
    "allocates",
    "allocates_before",
)


@pytest.mark.parametrize("behaviour", HARMLESS)
def test_what_a_guest_may_do(behaviour: str, guest: Callable[..., ars.Simulator], right: ars.Posterior) -> None:
    found = posterior(guest(behaviour, workers=1 if behaviour == "allocates" else 2))
    assert not found.failures
    assert_same(found, right)


def test_what_it_prints_does_not_hold_it_up(guest: Callable[..., ars.Simulator], right: ars.Posterior) -> None:
    """200 kB to each stream and trace; with show_stdout it goes where ours goes, which the test swallows."""
    assert_same(posterior(guest("prints", show_stdout=True)), right)
    sim = guest("complains")
    assert_same(posterior(sim), right)
    assert says_on_stderr(sim, "000000")


def test_an_alarm_that_was_set_before_the_first_trace_reaches_nobody(
    guest: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    sim = guest("alarm_before")
    assert_same(posterior(sim), right)
    pid = sim.pid
    time.sleep(1.2)  # it would have gone off by now, in the process that became ars-host
    assert_same(posterior(sim), right)
    assert sim.pid == pid is not None


def test_descriptors_that_it_closed_and_opened_again_are_its_own(
    guest: Callable[..., ars.Simulator], right: ars.Posterior, tmp_path: Path
) -> None:
    """libars has closed the pipe to the launcher by then, and must not write to what has its number now."""
    written = tmp_path / "log"
    assert_same(posterior(guest("closes_before", written)), right)
    assert written.read_text() == ""


def test_files(guest: Callable[..., ars.Simulator], right: ars.Posterior, tmp_path: Path) -> None:
    """Every process writes: a line per trace, one per try of the trace, and those of continuations unless guarded."""
    entered = 2
    tries = int(sum(loop["tries"] for loop in right.columns.loops))
    guarded, unguarded = tmp_path / "guarded", tmp_path / "unguarded"
    assert_same(posterior(guest("writes_file_guarded", guarded)), right)
    lines = guarded.read_text().splitlines()
    assert (lines.count("trace"), lines.count("try")) == (TRACES, tries)
    assert_same(posterior(guest("writes_file", unguarded)), right)
    lines = unguarded.read_text().splitlines()
    continued = int(sum(loop["tries_q"] + loop["tries_p"] for loop in right.columns.loops))
    assert lines.count("trace") == TRACES
    # A continuation begins behind the rs_start of its first try; accepted ones end at rs_end.
    assert tries + continued >= lines.count("try") > tries + entered * TRACES


def test_a_file_that_stays_open_is_written_once(
    guest: Callable[..., ars.Simulator], right: ars.Posterior, tmp_path: Path
) -> None:
    """What is in its buffer is flushed before every fork, so that no copy of it is written by somebody else."""
    written = tmp_path / "log"
    assert_same(posterior(guest("keeps_file", written)), right)
    assert written.read_text() == "trace\n" * TRACES


@pytest.mark.parametrize(
    ("behaviour", "kind", "says"),
    [
        ("exits", "exit", "exited with code 5"),
        ("alarm_kills", "crash", "signal 14"),
        ("keeps_thread", "threads", "more than one thread"),
    ],
)
def test_what_costs_a_trace(
    behaviour: str, kind: str, says: str, guest: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    lost = right["misbehaves"] == 1
    sim = guest(behaviour)
    found = posterior(sim, on_failure="zero")
    assert dict(found.failures) == {kind: int(lost.sum())}
    assert says in found.failures.examples[0].text
    assert_same(found, right, but=lost)
    again = sim.prior(20, seed=SEED, on_failure="zero")
    assert len(again) + again.failures.total == 20  # the simulator can be used again


def test_waiting_for_any_child_costs_a_trace_that_has_a_snapshot(
    mode: str, guest: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    """It waits for the snapshot, which waits for the end of the trace. A loop that is rewound has none, if it is not
    being compared."""
    sim = guest("waits_any", trace_timeout=2.0)
    found = posterior(sim, on_failure="zero")
    waits, late = right["misbehaves"] == 1, found.columns.traces["failure"] != 0
    assert not np.any(late & ~waits)
    assert late[waits].all() or mode == "auto"
    assert dict(found.failures) == ({"timeout": int(late.sum())} if late.any() else {})
    assert all("trace_timeout" in failure.text for failure in found.failures.examples)
    assert_same(found, right, but=late)
    assert len(sim.prior(20, seed=SEED)) == 20  # the simulator can be used again


def test_a_process_that_it_forked_takes_no_part(guest: Callable[..., ars.Simulator]) -> None:
    """It is told so on stderr, and ends; its parent's trace has none of its draws."""
    sim = guest("forks_child")
    assert not posterior(sim).failures
    assert not any(site.address.endswith("in the child") for site in sim._processes.ready().known_sites)
    assert says_on_stderr(sim, "forked by the simulator itself")


def test_the_same_program_alone(program: Path) -> None:
    """Without a controller none of this is libars' business."""
    for behaviour in ("prints", "forks_child", "waits_any", "sigchld_handler"):
        done = subprocess.run([program, behaviour], capture_output=True)
        assert done.returncode == 0, behaviour

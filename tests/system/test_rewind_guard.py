"""A continuation does what cannot be undone, or dies: numbers are those of forked ones, or the failure has its name.

rewind/guard.c does the deed in the continuations of some traces; rewind/deeds.h lists the deeds.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from rewind_tools import CHEAPER, FOLDER, assert_forked, assert_rewound, compiled, differences, reasons, run

import ars
from ars._native import ForkReason, LoopMethod
from ars.columns import select

pytestmark = [pytest.mark.slow, pytest.mark.compiler]

TRACES = 24
PROPOSALS = {"x": ars.Beta(1.2, 1.4), "m": ars.Normal(0.4, 1.3)}

# What is refused, by the numbers of the system calls of x86-64 that a C library may make first.
REFUSED: dict[str, set[int]] = {
    "open": {257, 2},
    "write_file": {1},
    "stderr": {1},
    "read": {0},
    "lseek": {8},
    "map_file": {9},
    "fork": {56, 57, 435, 14},
    "vfork": {58},
    "spawn": {14, 56, 58, 435},
    "system": {13, 14, 56, 435},
    "thread": {14, 56, 435, 273, 13},
    "munmap": {11},
    "mprotect": {10},
    "madvise": {28},
    "map_over": {9},
    "map_shared": {9},
    "raise": {14, 200, 234},
    "sigaction": {13},
    "sigprocmask": {14},
    "setitimer": {38},
    "alarm": {37},
    "timer_create": {222},
    "filter": {157},
    "caught_segv 1 0": {14},  # sigsetjmp asks for the mask
    "trapped 121": {121},  # getpgid
    "syscall 95 18": {95},  # umask
    "syscall 32 1": {32},  # dup
    "syscall 3 0": {3},  # close
    "syscall 41 1 1": {41},  # socket
    "syscall 62 0 0": {62},  # kill, of nobody
    "syscall 290": {290},  # eventfd2
}
# What is undone, and what has no effect that lasts.
UNDONE = (
    *("nothing", "stdout", "stdout_buffer", "heap", "remap", "brk_down", "sigsys_handler", "filtered"),
    *("sleep", "time", "random", "who", "caught_segv 0 1", "ticking", "syscall 110 99"),
)
FAILURES = {  # kind of the failure, and options
    "exit 3": ("exit", {}),
    "exit_at_once 4": ("exit", {}),
    "abort": ("crash", {}),
    "segv": ("crash", {}),
    "fpe": ("crash", {}),
    "ill": ("crash", {}),
    "stack_end": ("crash", {}),
    "never": ("too_many_tries", {"max_tries": 2000}),
    "hang": ("try_timeout", {"try_timeout": 2, "workers": 8}),
    "nan": ("parameter", {}),
    "leave": ("loop_left", {}),
    "observe": ("observe_in_loop", {}),
}


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("guard"))
    return compiled(builder, [FOLDER / "guard.c"], Variant(COMPILERS[0], ("-O2", "-pthread")), shared=True)


@pytest.fixture(scope="module")
def right(guard: Path) -> ars.Posterior:
    """Forked, without any deed."""
    found = run([guard, "nothing"], "fork", TRACES, workers=2, proposals=PROPOSALS)
    assert 4 <= (found["bad"] < 0.3).sum() <= TRACES // 2
    return found


@pytest.fixture
def does(guard: Path, tmp_path: Path) -> Any:
    def make(deed: str, mode: str, **options: Any) -> ars.Posterior:
        options = {"traces": TRACES, "workers": 2, "proposals": PROPOSALS, **options}
        env = {"DEED_FILE": str(tmp_path / "file")}
        return run([guard, *deed.split()], mode, env=env, **options)

    return make


def bad_loops(post: ars.Posterior) -> Any:
    """The loops of the traces whose continuations did it."""
    return post.columns.loops[np.repeat(post["bad"] < 0.3, post.columns.traces["n_loops"].astype(int))]


def assert_why(loops: Any, why: set[tuple[int, int]]) -> None:
    """Where it was done, everything was forked, for this reason or one that depends on the machine."""
    assert set(loops["method"].tolist()) == {LoopMethod.FORK}
    assert reasons(loops) <= why, reasons(loops)
    assert np.isin(loops["reason"], [reason for reason, _ in why] + list(CHEAPER)).all()


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("deed", REFUSED)
def test_what_cannot_be_undone_is_forked_and_says_which_system_call(
    deed: str, mode: str, does: Any, right: ars.Posterior
) -> None:
    forked = does(deed, "fork")
    assert_forked(forked)
    found = does(deed, mode)
    assert not differences(found, forked)
    if deed in ("open", "stderr", "read"):  # deeds without a result of their own
        assert not differences(found, right)
    assert_why(bad_loops(found), {(ForkReason.SYSCALL, call) for call in REFUSED[deed]})
    assert found.stats["rewinds_refused"] > 0


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("deed", UNDONE)
def test_what_can_be_undone_is(deed: str, mode: str, does: Any, right: ars.Posterior) -> None:
    found = does(deed, mode)
    assert not differences(found, does(deed, "fork"))
    if deed not in ("sigsys_handler",):  # its main run adds a number
        assert not differences(found, right)
    assert_rewound(found.columns.loops, mode)


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("deed", FAILURES)
def test_a_continuation_that_fails_has_the_failure_of_a_forked_one(
    deed: str, mode: str, does: Any, right: ars.Posterior
) -> None:
    kind, options = FAILURES[deed]
    forked = does(deed, "fork", on_failure="zero", **options)
    found = does(deed, mode, on_failure="zero", **options)
    bad = right["bad"] < 0.3
    assert dict(found.failures) == dict(forked.failures) == {kind: int(bad.sum())}
    assert {trace: (f.detail, f.loop, f.text) for f in found.failures.examples if (trace := f.trace) >= 0} == {
        trace: (f.detail, f.loop, f.text) for f in forked.failures.examples if (trace := f.trace) >= 0
    }
    good = ~bad
    assert np.array_equal(found.columns.traces["failure"] != 0, bad)
    assert found["sum"][good].tobytes() == right["sum"][good].tobytes()
    assert found.log_weights("ars")[good].tobytes() == right.log_weights("ars")[good].tobytes()
    mine, theirs = select(found.columns, good).loops, select(right.columns, good).loops
    for field in ("tries_q", "accepted_q", "runs_p", "tries_p", "s_pq_sum"):
        assert mine[field].tobytes() == theirs[field].tobytes(), field


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("deed", ["caught_segv 0 0", "trapped 63"])
def test_a_continuation_that_ends_its_process_is_forked(deed: str, mode: str, does: Any) -> None:
    """A handler of the simulator's own leaves SIGSEGV blocked; or a filter of its own stops what the guard would do."""
    forked = does(deed, "fork")
    found = does(deed, mode)
    assert not found.failures
    assert not differences(found, forked)
    why = reasons(bad_loops(found))
    assert {reason for reason, _ in why} <= {ForkReason.SYSCALL, ForkReason.CRASH, ForkReason.FAILURE}, why


@pytest.mark.parametrize("freed", [0, 1])
@pytest.mark.parametrize("mode", ["auto", "check"])
def test_a_gigabyte(mode: str, freed: int, does: Any) -> None:
    """Touched page by page; what is not freed is given back all the same."""
    options = {"traces": 6, "workers": 1, "budget": ars.Budget(M=1, N=1), "max_memory": 3 << 30}
    forked = does(f"gigabyte {freed}", "fork", **options)
    found = does(f"gigabyte {freed}", mode, **options)
    assert (found["bad"] < 0.3).any()
    assert not differences(found, forked)
    assert found.stats["rewinds"] > 0


def test_files_get_what_forked_continuations_would_have_written(does: Any, tmp_path: Path) -> None:
    written = {}
    for mode in ("fork", "auto", "check"):
        found = does("write_file", mode, workers=1)
        assert not found.stats["replays"]
        written[mode] = sorted((tmp_path / "file").read_text().splitlines())
        (tmp_path / "file").unlink()
    assert written["fork"].count("main") == TRACES
    assert "continuation" in written["fork"]
    assert written["auto"] == written["check"] == written["fork"]


@pytest.mark.parametrize("deed", ["stdout", "stdout_buffer"])
def test_the_output_is_that_of_the_main_runs(deed: str, does: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for mode in ("fork", "auto", "check"):
        does(deed, mode, workers=1, show_stdout=True)
        assert capfd.readouterr().out == "main\n" * TRACES, mode


def test_a_crash_says_which_signal(does: Any) -> None:
    found = does("segv", "auto", on_failure="zero")
    assert {(f.kind, f.detail) for f in found.failures.examples} == {("crash", signal.SIGSEGV)}

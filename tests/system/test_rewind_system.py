"""Systems that lack what rewinding needs: everything is forked, with the same bits, and the run says so once.

rewind/without.c starts the simulator under a filter of system calls, as a container or an old kernel would have it.
"""

from __future__ import annotations

import errno
import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from build_helpers import COMPILERS, Builder, Variant
from rewind_tools import FOLDER, assert_forked, assert_rewound, compiled, differences, reasons, run

import ars
from ars._native import ForkReason

pytestmark = [pytest.mark.slow, pytest.mark.compiler]

PROPOSALS = {"x": ars.Beta(1.2, 1.4), "m": ars.Normal(0.4, 1.3)}
TRACES = 30
SAYS = "this system does not allow rewinding"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("rewind_system"))


@pytest.fixture(scope="module")
def program(builder: Builder) -> Path:
    return compiled(builder, [FOLDER / "guard.c"], Variant(COMPILERS[0], ("-O2", "-pthread")), shared=True)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("without") / "without"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([COMPILERS[0], *flags, str(FOLDER / "without.c"), "-o", str(made)], check=True)
    return str(made)


@pytest.fixture(scope="module")
def no_pagemap(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("no_pagemap") / "no_pagemap.so"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([COMPILERS[0], *flags, str(FOLDER / "no_pagemap.c"), "-o", str(made)], check=True)
    return str(made)


@pytest.fixture(scope="module")
def right(program: Path) -> ars.Posterior:
    return simulate([program, "nothing"], "fork")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], int]]:
    """How often it was said."""
    with caplog.at_level(logging.INFO, logger="ars"):
        yield lambda: sum(SAYS in record.getMessage() for record in caplog.records)


def simulate(command: list[Any], mode: str, **options: Any) -> ars.Posterior:
    return run(command, mode, TRACES, **{"workers": 3, "proposals": PROPOSALS, **options})


def check_forked(found: ars.Posterior, right: ars.Posterior, code: int, said: Callable[[], int]) -> None:
    assert_forked(found)
    assert not differences(found, right)
    assert reasons(found.columns.loops) == {(ForkReason.SYSTEM, code)}
    assert found.stats["rewinds_refused"] == len(found.columns.loops)
    assert said() == 1
    (loop,) = found.loops.values()
    assert SAYS in loop.reason and errno.errorcode[code] in loop.reason
    assert SAYS in found.summary()


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize(
    ("what", "gives", "code"),
    [
        ("dispatch", errno.EINVAL, errno.EINVAL),  # Linux before 5.11, or another processor
        ("dispatch", errno.EPERM, errno.EPERM),  # a container
        ("dispatch", errno.ENOSYS, errno.ENOSYS),
        ("huge", errno.EINVAL, errno.EINVAL),
        ("usage", errno.EPERM, errno.ENOTSUP),
    ],
)
def test_without_a_system_call_everything_is_forked(
    what: str, gives: int, code: int, mode: str, without: str, program: Path, right: ars.Posterior, said: Any
) -> None:
    check_forked(simulate([without, what, str(gives), program, "nothing"], mode), right, code, said)


@pytest.mark.parametrize("mode", ["auto", "check"])
def test_without_the_table_of_pages_everything_is_forked(
    mode: str, no_pagemap: str, program: Path, right: ars.Posterior, said: Any
) -> None:
    found = simulate([program, "nothing"], mode, env={"LD_PRELOAD": no_pagemap})
    check_forked(found, right, errno.EACCES, said)


def test_a_filter_that_kills_costs_no_trace(without: str, program: Path, right: ars.Posterior, said: Any) -> None:
    """The process that tries it dies; nobody tries again."""
    found = simulate([without, "dispatch", "0", program, "nothing"], "auto")
    assert not found.failures
    check_forked(found, right, errno.EPERM, said)


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize(
    ("what", "gives"),
    [
        ("query", errno.ENOTTY),  # Linux before 6.11: mappings are read as text
        ("memory", errno.EPERM),  # no process may read another one's memory: a trace is begun again instead
        ("memory", errno.ENOSYS),
    ],
)
def test_what_rewinding_can_do_without(
    what: str, gives: int, mode: str, without: str, program: Path, right: ars.Posterior, said: Any
) -> None:
    found = simulate([without, what, str(gives), program, "nothing"], mode)
    assert not differences(found, right)
    assert_rewound(found.columns.loops, mode)
    assert found.stats["rewinds"] > 0
    assert said() == 0


def test_fork_asks_for_nothing(without: str, program: Path, right: ars.Posterior, said: Any) -> None:
    """continuations="fork" is the classic path: a filter that kills whoever tries is never met."""
    found = simulate([without, "dispatch", "0", program, "nothing"], "fork")
    assert not differences(found, right)
    assert found.stats["workers_started"] == 3
    assert not reasons(found.columns.loops)
    assert said() == 0


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fork", "auto", "check"])
def test_a_second_thread_is_the_named_failure(mode: str, program: Path) -> None:
    with pytest.raises(ars.LaunchError, match="more than one thread when its first trace begins"):
        simulate([program, "thread_from_start"], mode)
    with pytest.raises(ars.TraceFailure, match="more than one thread") as caught:
        simulate([program, "thread_in_trace"], mode)
    assert {failure.kind for failure in caught.value.failures} == {"threads"}


@pytest.mark.parametrize("mode", ["auto", "check"])
def test_a_thread_that_has_ended_is_none(mode: str, program: Path, right: ars.Posterior) -> None:
    found = simulate([program, "thread_in_trace_gone"], mode)
    assert not differences(found, right)
    assert_rewound(found.columns.loops, mode)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_library_that_cannot_rewind_forks(compiler: str, builder: Builder, right: ars.Posterior) -> None:
    """As on another processor, and with the sanitizers: machine.h."""
    variant = Variant(compiler, ("-O2", "-pthread"), library_flags=("-DARS__SANITIZED",))
    found = run(
        [compiled(builder, [FOLDER / "guard.c"], variant), "nothing"], "auto", TRACES, workers=2, proposals=PROPOSALS
    )
    assert not differences(found, right)
    assert_forked(found)
    assert reasons(found.columns.loops) == {(ForkReason.SYSTEM, errno.ENOSYS)}

"""Continuations that are undone give the bits that forked ones give, whatever state the simulator's tries change.

200 generated programs, a hand-written one, the simulators of csim/ and the 50 random programs; by both compilers, from
-O0 to -O3, with libars linked in and beside; with one worker and with eight. ARS_REWIND=all (make rewind) compiles
every program in every way. Otherwise half of the generated programs take turns with some of the ways, and the
hand-written one with the others.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from generated_programs import C_FEATURES, FEATURES, OBSERVE, PER_FILE, PROGRAMS, SHAPES, generate, proposals, write
from program_source import to_c_file
from programs import C_FILE
from proposals import proposals as proposals_of
from random_programs import random_programs
from rewind_tools import FOLDER, assert_rewound, compiled, differences, reasons, run
from test_random_programs import PROGRAMS as RANDOM_PROGRAMS
from test_random_programs import SEED as RANDOM_SEED
from tools import same_bits

import ars
from ars._native import ForkReason

pytestmark = [pytest.mark.slow, pytest.mark.compiler, pytest.mark.timeout(600)]

ALL = os.environ.get("ARS_REWIND") == "all"
SEED = 14
MUNMAP = 11  # the number of the system call
FILES = tuple(range(PROGRAMS // PER_FILE)) if ALL else (0, 3, 4, 7, 8)
BY_HAND = tuple(range(10)) if ALL else (1, 2, 5, 6, 9)  # turns
# Flags, and whether libars is a file of its own. With as many compilers as there are, in turns.
WAYS = (
    (("-O2",), False),
    (("-O1",), True),
    (("-O3",), True),
    (("-O0",), False),
    (("-O3", "-fomit-frame-pointer", "-funroll-loops"), False),
    (("-O2", "-fstack-protector-all", "-D_FORTIFY_SOURCE=2"), True),
    (("-O0", "-static"), False),
    (("-Os",), True),
    (("-O2", "-fno-pie", "-no-pie"), False),
    (("-O3", "-fPIE", "-static-pie"), False),
)


def ways(turn: int) -> list[tuple[str, int]]:
    """Compilers and numbers of ways, for the program whose turn it is."""
    if ALL:
        return [(compiler, way) for compiler in COMPILERS for way in range(len(WAYS))]
    return [(COMPILERS[turn % len(COMPILERS)], turn % len(WAYS))]


def in_turns(turns: Sequence[int]) -> list[Any]:
    return [
        pytest.param(turn, compiler, *WAYS[way], id=f"{turn}-{compiler}{''.join(WAYS[way][0])}{'-so' * WAYS[way][1]}")
        for turn in turns
        for compiler, way in ways(turn)
    ]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("rewind"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [path for path, _ in write(SEED, tmp_path_factory.mktemp("generated"))]


# ---- generated programs ----------------------------------------------------------------------------------------------


def test_the_programs_have_every_kind_of_state_in_every_kind_of_loop() -> None:
    programs = [generate(SEED, index) for index in range(PROGRAMS)]
    kinds = Counter(feature for program in programs for feature in program.features)
    assert kinds.keys() == {*FEATURES, *C_FEATURES}
    assert min(kinds.values()) >= 10
    assert min(Counter(program.shape for program in programs).values()) >= 10
    assert {program.shape for program in programs} == set(SHAPES)


@pytest.mark.parametrize(("file", "compiler", "flags", "shared"), in_turns(FILES))
def test_generated_programs(
    file: int, compiler: str, flags: tuple[str, ...], shared: bool, builder: Builder, sources: list[Path]
) -> None:
    program = compiled(builder, [sources[file]], Variant(compiler, flags), shared=shared)
    options: dict[str, Any] = {"proposals": proposals(sources[file].read_text()), "observe": OBSERVE}
    check_traces_that_begin_anew(program, file, options)
    check_state_that_is_carried(program, options)


def check_traces_that_begin_anew(program: Path, file: int, options: dict[str, Any]) -> None:
    right = run([program, "fresh"], "fork", 120, workers=2, **options)
    assert len(set(right["which"].tolist())) == PER_FILE
    hard = [i for i in range(PER_FILE) if generate(SEED, file * PER_FILE + i).may_fork]
    for mode, workers in (("auto", 1), ("auto", 8), ("check", 8)):
        found = run([program, "fresh"], mode, 120, workers=workers, **options)
        assert not differences(found, right), (mode, workers)
        owner = found["which"].repeat(found.columns.traces["n_loops"].astype(int))
        is_hard = np.isin(owner, hard)
        assert_rewound(found.columns.loops[~is_hard], mode)
        assert reasons(found.columns.loops[is_hard]) <= {(ForkReason.SYSCALL, MUNMAP)}


def check_state_that_is_carried(program: Path, options: dict[str, Any]) -> None:
    """From trace to trace, by the one worker."""
    right = run([program, "carry"], "fork", 60, **options)
    for mode in ("auto", "check"):
        found = run([program, "carry"], mode, 60, **options)
        assert not differences(found, right), mode
        assert found.stats["rewinds"] > 0


# ---- a program by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("turn", "compiler", "flags", "shared"), in_turns(BY_HAND))
def test_stateful(turn: int, compiler: str, flags: tuple[str, ...], shared: bool, builder: Builder) -> None:
    del turn
    program = compiled(builder, [FOLDER / "stateful.cpp"], Variant(compiler, flags), shared=shared)
    given = {"x": ars.Beta(1.2, 1.4), "m": ars.Normal(0.4, 1.3)}
    carried = run([program], "fork", 40, proposals=given)
    anew = run([program, "fresh"], "fork", 40, workers=2, proposals=given)
    assert differences(carried, anew)
    for mode in ("auto", "check"):
        found = run([program], mode, 40, proposals=given)
        assert not differences(found, carried), mode
        assert_rewound(found.columns.loops, mode)
        found = run([program, "fresh"], mode, 40, workers=8, proposals=given)
        assert not differences(found, anew), mode
        assert_rewound(found.columns.loops, mode)


@pytest.mark.parametrize("arguments", [("64", "0", "0"), ("64", "1", "0"), ("1", "0", "1"), ("32", "1", "1")])
def test_memory_in_other_places(arguments: tuple[str, ...], builder: Builder) -> None:
    """Much of it, on small and on huge pages; a stack of the simulator's own."""
    program = compiled(builder, [FOLDER / "places.c"], Variant(COMPILERS[0], ("-O2",)))
    given = {"x": ars.Beta(1.2, 1.4), "m": ars.Normal(0.4, 1.3)}
    right = run([program, *arguments], "fork", 60, workers=2, proposals=given)
    for mode in ("auto", "check"):
        found = run([program, *arguments], mode, 60, workers=2, proposals=given)
        assert not differences(found, right), mode
        assert found.stats["rewinds"] > 0
        assert not reasons(found.columns.loops)


# ---- simulators of csim/ ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", same_bits.CASES, ids=same_bits.name_of)
def test_simulators_of_csim(case: same_bits.Case, csim: Callable[[str], str]) -> None:
    command = [csim(case.command[0]), *case.command[1:]]
    options: dict[str, Any] = {"observe": case.observe, "proposals": case.proposals}
    right = run(command, "fork", 40, workers=4, **options)
    for mode, workers in (("auto", 1), ("auto", 8), ("check", 2)):
        found = run(command, mode, 40, workers=workers, **options)
        assert not differences(found, right), (mode, workers)
        if right.stats["forks"]:  # the others have no marked loop
            assert_rewound(found.columns.loops, mode)
        else:
            assert not found.stats["rewinds"]


@pytest.mark.parametrize("name", ["marsaglia", "nested", "sequence"])
def test_proposals_that_are_asked_for_ahead(name: str, csim: Callable[[str], str]) -> None:
    (case,) = (case for case in same_bits.CASES if case.command == (name,))
    options: dict[str, Any] = {"observe": case.observe, "proposals": case.proposals}
    right = run([csim(name)], "fork", 60, workers=4, **options)
    for mode in ("fork", "auto", "check"):
        found = run([csim(name)], mode, 60, workers=4, ask_ahead=True, **options)
        assert not differences(found, right), mode
        if mode != "fork":
            assert_rewound(found.columns.loops, mode)


# ---- random programs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executables(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> tuple[list[Any], dict[str, Path]]:
    """The 50 programs of test_random_programs.py, by one compiler with optimisation, and by the other without."""
    programs = random_programs(tmp_path_factory, RANDOM_SEED, RANDOM_PROGRAMS)
    source = tmp_path_factory.mktemp("random_programs") / C_FILE
    source.write_text(to_c_file(programs), encoding="utf-8")
    flags = {
        compiler: (f"-O{3 * (turn == 0)}", "-Wno-unused", "-Wno-unused-parameter")
        for turn, compiler in enumerate(COMPILERS)
    }
    return programs, {name: builder.program([source], Variant(name, flags[name])) for name in COMPILERS}


@pytest.mark.parametrize("tenth", range(10))
def test_random_programs(tenth: int, executables: tuple[list[Any], dict[str, Path]]) -> None:
    programs, by_compiler = executables
    for program in programs[tenth::10]:
        executable = by_compiler[COMPILERS[program.index % len(COMPILERS)]]
        data = {name: values[0] if len(values) == 1 else list(values) for name, values in program.data.items()}
        options: dict[str, Any] = {"observe": data, "proposals": proposals_of(program), "workers": 4}
        with warnings.catch_warnings():
            # An interval whose ends numpy and libm compute from the same values may differ in the last bit.
            warnings.simplefilter("ignore", ars.SupportWarning)
            right = run([executable, str(program.index)], "fork", 30, **options)
            for mode in ("auto", "check"):
                found = run([executable, str(program.index)], mode, 30, **options)
                assert not differences(found, right), (program.index, mode)
                if right.stats["forks"]:
                    assert_rewound(found.columns.loops, mode)

"""Names of call paths are the same for every compiler, optimisation and load address. The programs in paths/ print the
frames of each of their draws; name_paths.c names them as ars-host does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler

HERE = Path(__file__).resolve().parent
BRIDGE = HERE.parents[1] / "bridge"
PARTS = ["names", "module", "tail", "code", "demangle", "elf_file", "dwarf", "dwarf_line", "dwarf_read", "dwarf_unit"]
SOURCES = {
    "paths.c": ["paths.c"],
    "tails.c": ["tails.c"],
    "paths.cpp": ["paths.cpp", "elsewhere.cpp"],
    "jumps.cpp": ["jumps.cpp", "engine.cpp"],
}
COMPILERS = {"gcc": "g++", "clang": "clang++"}

Build = Callable[..., Path]
Resolve = Callable[..., list[str]]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build("paths.c", "gcc", "-O2", "-g") compiles a program, once."""
    where = tmp_path_factory.mktemp("paths")
    draw = where / "draw.o"
    subprocess.run([os.environ.get("CC", "cc"), "-c", "-O0", str(HERE / "paths/draw.c"), "-o", str(draw)], check=True)

    @cache
    def made(program: str, compiler: str, *flags: str) -> Path:
        cxx = program.endswith(".cpp")
        command = [COMPILERS[compiler], "-std=c++11"] if cxx else [compiler]
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        path = where / "-".join([program, compiler, *(flag.strip("-") for flag in flags)])
        sources = [str(HERE / "paths" / source) for source in SOURCES[program]]
        subprocess.run([*command, *flags, *sources, str(draw), "-lm", "-o", str(path)], check=True)
        return path

    return made


@pytest.fixture(scope="module")
def resolve(tmp_path_factory: pytest.TempPathFactory) -> Resolve:
    """resolve(program, "debug") runs a program, and names its draws; all names must be of this quality."""
    tool = tmp_path_factory.mktemp("names") / "name_paths"
    rooms = [f"-I{BRIDGE / room}" for room in ("host", "common", "include")]
    parts = [str(BRIDGE / "host" / f"{part}.c") for part in PARTS]
    compiler = [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *rooms, str(HERE / "name_paths.c"), *parts, "-o", str(tool)], check=True)

    def names(program: Path, quality: str, size: int = 4096) -> list[str]:
        frames = subprocess.run([str(program)], check=True, capture_output=True).stdout
        lines = subprocess.run([str(tool), str(size)], input=frames, check=True, capture_output=True).stdout.decode()
        found = [line.split(" ", 1) for line in lines.splitlines()]
        assert {word for word, _ in found} == {quality}
        return [name for _, name in found]

    return names


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("optimise", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("program", SOURCES)
def test_every_build_with_debug_information_gives_the_same_names(
    build: Build, resolve: Resolve, program: str, compiler: str, optimise: str
) -> None:
    reference = resolve(build(program, "gcc", "-O0", "-g"), "debug")
    assert resolve(build(program, compiler, optimise, "-g"), "debug") == reference


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flags",
    [["-gdwarf-4"], ["-gdwarf-5"], ["-g", "-no-pie", "-fno-pie"], ["-g", "-ffunction-sections", "-Wl,--gc-sections"]],
    ids=" ".join,
)
def test_so_do_other_formats_and_layouts(build: Build, resolve: Resolve, compiler: str, flags: list[str]) -> None:
    for program in SOURCES:
        reference = resolve(build(program, "gcc", "-O0", "-g"), "debug")
        assert resolve(build(program, compiler, "-O2", *flags), "debug") == reference, program


def test_so_does_optimisation_at_link_time(build: Build, resolve: Resolve) -> None:
    for program in SOURCES:
        reference = resolve(build(program, "gcc", "-O0", "-g"), "debug")
        assert resolve(build(program, "gcc", "-O3", "-g", "-flto"), "debug") == reference, program


def test_names_say_the_functions_and_their_calls(build: Build, resolve: Resolve) -> None:
    """By hand, from the sources: any change of these names loses trained networks."""
    plain = resolve(build("paths.c", "clang", "-O3", "-g"), "debug")
    assert plain[:4] == [f"main#{outer}>isotropic#{inner}>flat#1" for outer in (1, 2) for inner in (1, 2)]
    assert plain[4:6] == ["main#1>two#2", "main#2>two#1"]
    assert plain[6:9] == [f"main#1>mixed#{i}" for i in (1, 2, 3)]  # ars_sample, ars_flat and ars_sample
    assert re.fullmatch(r"main#1>many#1(>many#1)+>flat#1", plain[9])  # recursion
    assert plain[10] == plain[11] == "main#1"  # one macro, two draws: told apart by the order of execution alone
    assert plain[12:14] == ["main#1>tail#1", "main#1>tail_of_tail#1>tail#1"]
    for compiler in COMPILERS:
        inlined = resolve(build("paths.c", compiler, "-O3", "-g"), "debug")
        assert inlined[-2:] == ["main#1>one_line#1", "main#1>one_line#1>one_line#1"]
    names = resolve(build("paths.cpp", "gcc", "-O2", "-g"), "debug")
    assert names[:4] == [
        "main#1>detector::model#1>detector::Square::Square#1",
        "main#1>detector::model#2>detector::Square::Square#1",
        "main#1>detector::model#1>detector::Square::area#1",
        "main#1>detector::model#1>detector::Square::area#1>detector::Shape::area#1",
    ]
    for wanted in (
        "main#1>detector::model#2>detector::overloaded#1",
        "main#1>detector::model#1>detector::repeat#1>detector::repeat#1",
        "main#1>detector::model#1>elsewhere#1>std::for_each>elsewhere::lambda#1",
        "main#1>detector::model#1>elsewhere#1>helper#1",
        "main#1>detector::model#2>detector::model::lambda#1>detector::helper#2",
        "main#1>detector::model#1>detector::model::Local::get#1",
        "main#1>detector::model#1>std::sort>detector::model::lambda#1",
        "main#1>detector::model#1>detector::Sum::operator_divide#1",
    ):
        assert wanted in names
    assert not [name for name in names if re.search(r"[/\s]|0x|paths|\.cpp|ars_", name)]


def test_vanished_frames_of_tail_calls_come_back(build: Build, resolve: Resolve) -> None:
    assert resolve(build("tails.c", "gcc", "-O3", "-g"), "debug") == [
        "main#1>draw#1",
        "main#1>deep#1>draw#1",
        "main#1>deeper#1>deep#1>draw#1",
        "main#2>deeper#1>deep#1>draw#1",
        "main#1>through#1>add#1",
    ]


def test_jumps_to_virtual_functions_are_calls_and_those_of_a_switch_are_not(build: Build, resolve: Resolve) -> None:
    names = resolve(build("jumps.cpp", "clang", "-Os", "-g"), "debug")
    assert names[:5] == [
        "main#1>descend#1>even#1>odd#1>even#1>Ars::flat#1",
        "main#1>descend#1>even#1>odd#2>Ars::flat#1",
        "main#1>descend#1>even#1>odd#1>even#2>Ars::flat#1",
        "main#1>descend#1>even#1>odd#2>Ars::flat#1",
        "main#1>descend#1>even#2>Ars::flat#1",
    ]
    cases = [f"main#1>by_case#{i}>Ars::flat#1" for i in range(1, 7)]
    assert names[10:] == [*cases[:3], "main#1>by_case#1>own#1>Ars::flat#1", *cases[3:]]


def test_without_debug_information_calls_are_ordered_by_address(build: Build, resolve: Resolve) -> None:
    """Without inlining the names are the same, but for macros, whose draws then differ; with it, functions miss."""
    reference = resolve(build("paths.c", "gcc", "-O0", "-g"), "debug")
    for compiler in COMPILERS:
        names = resolve(build("paths.c", compiler, "-O0"), "symbols")
        assert names[:10] + names[12:] == reference[:10] + reference[12:]
        assert names[10:12] == ["main#1", "main#2"]
        inlined = resolve(build("paths.c", compiler, "-O3"), "symbols")
        assert reference[0].endswith(">flat#1") and "flat" not in inlined[0]
        assert len(set(inlined)) >= len(set(reference))
    assert resolve(build("tails.c", "gcc", "-O2"), "symbols") == resolve(build("tails.c", "gcc", "-O0", "-g"), "debug")


def test_a_stripped_program_has_numbers_for_names(build: Build, resolve: Resolve, tmp_path: Path) -> None:
    """One for each name that the program has with its symbols, wherever it lies and whatever it is called."""
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    whole = build("paths.c", "gcc", "-O2")
    for name in ("stripped", "other"):
        subprocess.run(["strip", "-o", str(tmp_path / name), str(whole)], check=True)
    names, symbols = resolve(tmp_path / "stripped", "stripped"), resolve(whole, "symbols")
    assert len(set(zip(names, symbols, strict=True))) == len(set(names)) == len(set(symbols))
    assert all(re.fullmatch(r"fn\d+#\d+(>fn\d+#\d+)*", name) for name in names)
    assert resolve(tmp_path / "other", "stripped") == names


def test_load_address_and_directory_do_not_matter(build: Build, resolve: Resolve, tmp_path: Path) -> None:
    program = build("paths.cpp", "clang", "-O2", "-g")
    frames = [subprocess.run([str(program)], check=True, capture_output=True).stdout for _ in range(2)]
    assert frames[0].startswith(str(program).encode())
    shutil.copy(program, tmp_path / "moved")
    assert resolve(tmp_path / "moved", "debug") == resolve(program, "debug") == resolve(program, "debug")


def test_a_long_path_keeps_its_inner_end(build: Build, resolve: Resolve) -> None:
    program = build("paths.cpp", "gcc", "-O2", "-g")
    whole, short = resolve(program, "debug"), resolve(program, "debug", 96)
    for name, cut in zip(whole, short, strict=True):
        if len(name) < 96:
            assert cut == name
        else:
            hashed, _, rest = cut.partition(">")
            assert re.fullmatch(r"~[0-9a-f]{16}", hashed) and name.endswith(">" + rest) and len(cut) < 96
    assert len(set(short)) == len(set(whole))

"""The command line that compiles a simulator, the flags that are printed, and the sources that are written."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import ars
from ars.cli import main
from ars.toolchain import flags
from ars.toolchain.compiler import command_for, output_of
from ars.toolchain.fortran import module_for

LIBS = flags.libs()


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """machine("gcc", "g++", CC="gcc"): an environment whose PATH has these programs."""

    def make(*programs: str, **variables: str) -> dict[str, str]:
        for name in programs:
            (tmp_path / name).touch(mode=0o755)
        return {"PATH": str(tmp_path), **variables}

    return make


def words(text: str) -> list[str]:
    """A command line in which FLAGS stands for those of the compiler and LIBS for those of the linker."""
    parts = {"FLAGS": flags.cflags(), "LIBS": LIBS}
    return [word for each in shlex.split(text) for word in parts.get(each, [each])]


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("sim.c", "cc -O2 -g FLAGS sim.c -o sim LIBS"),
        ("dir/sim.cpp -o out", "c++ -O2 -g FLAGS dir/sim.cpp -o out LIBS"),
        ("-oout sim.cc", "c++ -O2 -g FLAGS -oout sim.cc LIBS"),
        ("sim.c -O3 -Wall -lgsl", "cc -g FLAGS sim.c -O3 -Wall -lgsl -o sim LIBS"),
        ("-ggdb3 -O sim.C", "c++ FLAGS -ggdb3 -O sim.C -o sim LIBS"),
        ("-c sim.c", "cc -O2 -g FLAGS -c sim.c"),
        ("-MM sim.cxx", "c++ -O2 -g FLAGS -MM sim.cxx"),
        ("main.o helper.a -o sim", "cc -O2 -g FLAGS main.o helper.a -o sim LIBS"),
        # A C++ compiler would take helper.c for C++. The value of an option is no source.
        ("a.cpp -include x.c h.c", "c++ -O2 -g FLAGS a.cpp -include x.c -x c h.c -x none -o a LIBS"),
        ("-x c++ sim.inc", "c++ -O2 -g FLAGS -x c++ sim.inc -x none -o sim LIBS"),
        ("-xc++ sim.c", "c++ -O2 -g FLAGS -xc++ sim.c -x none -o sim LIBS"),
        ("-x f95 sim.inc -x none a.o", "gfortran -O2 -g FLAGS -x f95 sim.inc -x none a.o -x none -o sim LIBS"),
        ("-x ada sim.inc -x none a.o", "cc -O2 -g FLAGS -x ada sim.inc -x none a.o -x none -o sim LIBS"),
        ("sim.f90 h.c", "gfortran -O2 -g FLAGS sim.f90 h.c -o sim LIBS"),
        ("h.cpp SIM.F", "gfortran -O2 -g FLAGS h.cpp SIM.F -o h LIBS -lstdc++"),
        ("@more", "cc -O2 -g FLAGS @more LIBS"),
        ("'my sim.c' -DTEXT='a b'", "cc -O2 -g FLAGS 'my sim.c' -DTEXT='a b' -o 'my sim' LIBS"),
    ],
)
def test_the_command(arguments: str, command: str, machine: Callable[..., dict[str, str]]) -> None:
    assert command_for(shlex.split(arguments), env=machine("cc", "c++", "gfortran")) == words(command)


def test_a_program_in_fortran_gets_the_module(machine: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    env, module = machine("fc", FC="fc -q", FFLAGS="-O1"), tmp_path / "m"
    expected = words(f"fc -q -g -O1 FLAGS -I{module} a.f90 -o a {module}/libars_fortran.a LIBS")
    assert command_for(["a.f90"], env=env, module=module) == expected
    assert command_for(["-c", "a.f90"], env=env, module=module) == words(f"fc -q -g -O1 FLAGS -I{module} -c a.f90")
    assert module_for(["a.c", "b.cpp"], env) is None


def test_variables_are_honoured(machine: Callable[..., dict[str, str]]) -> None:
    variables = {
        "CC": "ccache tcc -q",
        "CXX": "icpx",
        "CPPFLAGS": "-DP",
        "CFLAGS": "-O1 '-DN=a b'",
        "CXXFLAGS": "-g0",
        "LDFLAGS": "-fuse-ld=lld",
    }
    env = machine("ccache", "icpx", **variables)
    assert command_for(["a.c"], env=env) == words("ccache tcc -q -g -DP -O1 '-DN=a b' FLAGS -fuse-ld=lld a.c -o a LIBS")
    assert command_for(["-c", "a.c"], env=env) == words("ccache tcc -q -g -DP -O1 '-DN=a b' FLAGS -c a.c")
    assert command_for(["a.cc"], env=env) == words("icpx -O2 -DP -g0 FLAGS -fuse-ld=lld a.cc -o a LIBS")


def test_the_compilers_on_the_path(machine: Callable[..., dict[str, str]]) -> None:
    assert command_for(["a.c"], env=machine("clang", "g++"))[0] == "clang"
    assert command_for(["a.cpp"], env=machine())[0] == "g++"
    assert command_for(["a.c"], env=machine("gcc"))[0] == "gcc"


def test_a_static_libars_is_named_by_its_path(machine: Callable[..., dict[str, str]]) -> None:
    command = command_for(["a.c"], env=machine("cc"), static=True)
    assert command[-3:] == [str(Path(ars.get_include()).parent / "lib" / "libars.a"), "-lm", "-Wl,--eh-frame-hdr"]
    assert not any("rpath" in word or word == "-lars" for word in command)


def test_the_name_of_what_is_written() -> None:
    assert output_of(["a/b.c", "c.c"]) == "b"
    assert output_of(["b.c", "-o", "x"]) == output_of(["-ox", "b.c"]) == "x"
    assert output_of(["-c", "b.c"]) is None


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (
            "sim.c",
            {},
            "there is no C compiler: cc, gcc and clang are not on the PATH. Install.*set CC to its path",
        ),
        ("sim.cpp", {}, r"there is no C\+\+ compiler: .*apt-get install g\+\+.*set CXX to its path"),
        ("sim.c", {"CC": "icc -fast"}, "CC=icc -fast: there is no program icc. Set CC to a C compiler, or unset it"),
        ("sim.f90", {}, "there is no Fortran compiler: gfortran is not on the PATH. Install.*set FC to its path"),
        ("-Wall -o sim", {"CC": "true"}, r"name at least one source \(\.c, .*\.cpp.*\) or object file"),
        ("sim.c -o", {}, "-o needs a value"),
        ("sim.c", {"CC": "cc 'x"}, "CC=cc 'x: no closing quotation"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: str, variables: dict[str, str], says: str, machine: Callable[..., dict[str, str]]
) -> None:
    with pytest.raises(ars.CompileError, match=says):
        command_for(arguments.split(), env=machine(**variables))


def test_a_folder_with_a_comma(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "a,b c"
    (folder / "lib").mkdir(parents=True)
    monkeypatch.setattr("ars.__path__", [str(folder)])
    assert flags.ldflags() == [f"-L{folder}/lib", "-Xlinker", "-rpath", "-Xlinker", f"{folder}/lib"]


# ---- ars compile, ars config -----------------------------------------------------------------------------------------


def test_ars_compile_passes_everything_on(
    machine: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """To a compiler that says what it was given: options that look like ours, in any order, and its exit code."""
    path = Path(machine("shows")["PATH"]) / "shows"
    path.write_text('#!/bin/sh\nfor word; do printf "<%s>" "$word"; done\nexit 7\n')
    monkeypatch.setenv("CC", str(path))
    for name in ("CFLAGS", "CPPFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["compile", "--budget", "-O1", "-g1", "sim.c", "--traces=3", "--", "-o", "--out"]) == 7
    given = "".join(f"<{word}>" for word in words("FLAGS --budget -O1 -g1 sim.c --traces=3 -o --out LIBS"))
    out, err = capfd.readouterr()
    assert (out, err) == (given, "")
    for arguments in (["compile", "sim.c", "-v"], ["compile", "-v", "sim.c"], ["-v", "compile", "sim.c"]):
        assert main(arguments) == 7
        assert capfd.readouterr().err == shlex.join(words(f"{path} -O2 -g FLAGS sim.c -o sim LIBS")) + "\n"


def test_ars_compile_without_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile"]) == 2
    assert "name a source file: ars compile [-v] [--static] SOURCE ..." in capsys.readouterr().err
    assert main(["compile", "--help"]) == 0
    assert "--static" in capsys.readouterr().out
    assert main(["compile", "--static", "-Wall"]) == 1
    assert "ars compile: name at least one source" in capsys.readouterr().err


def test_ars_config(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        assert main(["config", *arguments]) == 0
        return capsys.readouterr().out

    package = Path(ars.get_include()).parent
    assert printed("--cflags", "--libs").split() == [*flags.cflags(), *LIBS]
    assert printed("--libs", "--cflags") == printed("--cflags", "--libs")  # in the order that a compiler needs
    assert printed("--ldflags").split() == [f"-L{package}/lib", f"-Wl,-rpath,{package}/lib"]
    assert printed("--libs", "--static").split() == [f"{package}/lib/libars.a", "-lm", "-Wl,--eh-frame-hdr"]
    assert printed("--cmakedir", "--version").splitlines() == [ars.get_cmake_dir(), ars.__version__]
    places = ("prefix", "includedir", "pyprob-cpp", "libdir", "cmakedir", "pkgconfigdir", "host", "examples")
    assert all(Path(printed(f"--{name}").strip()).exists() for name in places)
    everything = printed().splitlines()
    assert [line.split()[0] for line in everything] == ["version", *places, "cflags", "ldflags", "libs"]


def test_a_package_without_native_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ars.__path__", [str(tmp_path)])
    for call in (ars.get_include, ars.get_cmake_dir, flags.libs):
        with pytest.raises(ars.CompileError, match=rf"is not in the Python package \({tmp_path}\). Install"):
            call()


# ---- ars examples ----------------------------------------------------------------------------------------------------


def test_examples_are_written_and_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "examples"
    assert main(["examples", str(folder)]) == 0
    assert "ars compile marsaglia.c -o marsaglia" in capsys.readouterr().out
    names = {path.name for path in folder.iterdir()}
    assert {"README.md", "args.h", "marsaglia.c", "event_loop.cpp", "bench_loop.c"} <= names
    assert "ars compile" in (folder / "README.md").read_text()
    (folder / "nested.c").write_text("mine")
    (folder / "args.h").unlink()
    assert main(["examples", str(folder)]) == 1
    assert "exist already; nothing was written (--force overwrites)" in capsys.readouterr().err
    assert (folder / "nested.c").read_text() == "mine" and not (folder / "args.h").exists()
    assert main(["examples", str(folder), "--force"]) == 0
    assert (folder / "nested.c").read_text() != "mine" and (folder / "args.h").exists()

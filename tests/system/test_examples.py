"""The examples, compiled on demand into a cache; and `ars compile` with real compilers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ars
from ars.cli import main
from ars.toolchain import examples
from ars.toolchain.examples import cache_folder, example, sources

pytestmark = pytest.mark.compiler


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ars" / "examples"


def draws(program: Path | str) -> str:
    env = {**os.environ, "ARS_SEED": "1", "ARS_TRACES": "3"}
    return subprocess.run([program], env=env, capture_output=True, text=True, check=True, timeout=60).stdout


# ---- the cache -------------------------------------------------------------------------------------------------------


def test_an_example_is_compiled_once(cache: Path, csim: Callable[[str], str]) -> None:
    program = example("nested")
    assert program.is_relative_to(cache) and program.parent.name.startswith(f"{ars.__version__}-")
    assert len(draws(program).splitlines()) == 3
    assert draws(program) == draws(csim("nested"))
    before = program.stat()
    os.utime(program.parent, (0, 0))
    assert example("nested") == program
    assert program.stat().st_mtime_ns == before.st_mtime_ns and program.stat().st_ino == before.st_ino
    assert program.parent.stat().st_mtime > 1e9  # it has been used
    assert oct(program.parent.stat().st_mode & 0o777) == "0o700"


def test_another_compiler_or_flags_make_another_executable(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = example("nested")
    monkeypatch.setenv("CFLAGS", "-DSOMETHING")
    second = example("nested")
    assert first != second and draws(first) == draws(second)
    assert len(list(cache.iterdir())) == 2


def test_what_nobody_has_used_for_a_month_is_removed(cache: Path) -> None:
    old, recent = cache / "0.0.1-old", cache / "0.0.1-recent"
    for folder, days in ((old, 31), (recent, 29)):
        folder.mkdir(parents=True)
        (folder / "nested").touch()
        os.utime(folder, (time.time() - days * 86400,) * 2)
    example("nested")
    assert not old.exists() and recent.exists()


def test_many_at_once_get_a_whole_executable(cache: Path) -> None:
    """Each runs the example as soon as it has its path, while others still write theirs."""
    code = (
        "import subprocess, sys\n"
        "from ars.toolchain.examples import example\n"
        "print(example('nested'), subprocess.run([example('nested')], stdout=subprocess.DEVNULL).returncode)\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert said == [f"{example('nested')} 0\n"] * 4
    assert [path.name for path in cache.glob("*/*")] == ["nested"]


def test_a_compiler_that_fails_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-DARS_H=1 -include /nowhere.h")
    with pytest.raises(ars.CompileError, match=r"the example nested cannot be compiled\. cc .*\n.*nowhere\.h"):
        example("nested")
    assert not list(cache.glob("*/*"))


def test_without_static_libraries_of_the_system_it_is_linked_as_usual(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "_WHOLLY_STATIC", "-static-nonsense")
    program = example("nested")
    assert program.is_relative_to(cache)
    needed = subprocess.run(["objdump", "-p", program], capture_output=True, text=True, check=True).stdout
    assert "libc.so.6" in needed and "libars" not in needed
    assert len(draws(program).splitlines()) == 3


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ars.CompileError, match=r"cannot be compiled into .*: Not a directory. Set XDG_CACHE_HOME to"):
        example("nested")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the convention says to ignore
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "ars" / "examples"


def test_an_example_that_is_none() -> None:
    with pytest.raises(ars.CompileError, match=r"there is no example 'nets'; there are .*marsaglia, .*nested"):
        example("nets")


# ---- ars compile -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nested", "event_loop"])
@pytest.mark.parametrize("static", [False, True])
def test_c_and_cpp(name: str, static: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(sources()[name]), "-Wall", "-Werror", *(["--static"] if static else [])]) == 0
    assert len(draws(tmp_path / name).splitlines()) == 3
    with ars.Simulator([str(tmp_path / name)], workers=2) as simulator:
        assert len(simulator.prior(20, seed=1)) == 20


def test_c_and_cpp_in_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The C source would not compile as C++."""
    (tmp_path / "half.c").write_text("double half(double class) { return class / 2; }\n")
    (tmp_path / "sim.cpp").write_text(
        '#include <ars.hpp>\nextern "C" double half(double);\n'
        'static void model(void *) { ars::result("h", half(ars::sample("x", ars::normal(0, 1)))); }\n'
        "int main(int argc, char **argv) { return ars_main(argc, argv, model, nullptr); }\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "half.c", "sim.cpp", "-o", "sim"]) == 0
    with ars.Simulator(["./sim"], workers=2) as simulator:
        prior = simulator.prior(20, seed=1)
    assert (prior["h"] == prior["x"] / 2).all()
    # In two steps.
    assert main(["compile", "-c", "half.c"]) == 0
    assert main(["compile", "sim.cpp", "half.o", "-o", "again"]) == 0
    assert draws("./again") == draws("./sim")
    (tmp_path / "sim.cpp").write_text("#error no\n")
    assert main(["compile", "sim.cpp"]) == 1
    assert "#error no" in capfd.readouterr().err

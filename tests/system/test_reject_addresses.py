"""ars::reject of ars.hpp: the address of an unnamed loop is the same for both compilers and every optimisation level,
independent of the lines above it and of which loop is reached first."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "bridge" / "include"

# Stands in for libars: prints what a loop is called when it is entered.
STUB = """
#include <cstdio>
extern "C" void ars__register_loop_marks(ars__loop_mark *const *, ars__loop_mark *const *) {}
extern "C" bool ars__rs_start(ars__loop_mark *mark, void *, const void *) { std::puts(mark->name); return true; }
extern "C" void ars__rs_tag(void *) {}
extern "C" void ars__rs_end(void *, const char *, const char *) {}
"""

SOURCE = """
#include "ars.hpp"
#include <functional>
@STUB@
@ABOVE@
static void model(void *, bool backwards) {
    @LAMBDA@
    auto first = [] { ars::reject([] { return true; }); };
    auto second = [] { ars::reject([] { return true; }); ars::reject([] { return true; }); };
    if (backwards) { second(); first(); } else { first(); second(); }
    ars::reject([&] { ars::reject([] { return true; }); return true; });
}
template <class T> void templated(T) { ars::reject([] { return true; }); ars::reject([] { return true; }); }
namespace { struct Event { void run() { ars::reject([&] { return true; }); } }; }
static void partly(bool never) {
    if (never) ars::reject([] { return true; });
    ars::reject([] { return true; });
}
int main(int argc, char **) {
    model(nullptr, argc > 1);
    templated(1);
    templated('c');
    Event().run();
    partly(false);
    std::function<bool()> body = [] { return true; };
    ars::reject("named", body);
    try {
        ars::reject(std::function<bool()>(body));
    } catch (const std::logic_error &) { std::puts("refused: no lambda"); }
    auto again = [] { return true; };
    ars::reject(std::move(again));
    try {
        ars::reject(std::move(again));
    } catch (const std::logic_error &) { std::puts("refused: used twice"); }
}
"""

MODEL = [f"loops.cpp:model(void*, bool)#{k}" for k in range(5)]
REST = [
    "loops.cpp:templated<int>(int)#0",
    "loops.cpp:templated<int>(int)#1",
    "loops.cpp:templated<char>(char)#0",
    "loops.cpp:templated<char>(char)#1",
    "loops.cpp:(anonymous namespace)::Event::run()#0",
    "loops.cpp:partly(bool)#1",
    "named",
    "refused: no lambda",
    "loops.cpp:main()#0",
    "refused: used twice",
]


def addresses(
    folder: Path, compiler: str, level: str, above: str = "", extra_lambda: str = "", backwards: bool = False
) -> list[str]:
    source, program = folder / "loops.cpp", folder / "loops"
    text = SOURCE.replace("@STUB@", STUB).replace("@ABOVE@", above).replace("@LAMBDA@", extra_lambda)
    source.write_text(text)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", level, f"-I{INCLUDE}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True, timeout=100)
    arguments = [str(program), *(["backwards"] if backwards else [])]
    return subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=20).stdout.splitlines()


@pytest.fixture(params=["g++", "clang++"])
def compiler(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_addresses_are_the_same_for_every_compiler(compiler: str, level: str, tmp_path: Path) -> None:
    assert addresses(tmp_path, compiler, level) == MODEL + REST


def test_what_stands_above_does_not_matter(compiler: str, tmp_path: Path) -> None:
    above = "\n\n\nstatic int added = [] { return 1; }();\n\n"
    extra = "auto other = [] { return added; }; (void)other();"
    assert addresses(tmp_path, compiler, "-O1", above, extra) == addresses(tmp_path, compiler, "-O1")


def test_what_is_reached_first_does_not_matter(compiler: str, tmp_path: Path) -> None:
    found = addresses(tmp_path, compiler, "-O1", backwards=True)
    assert found[:5] == [MODEL[1], MODEL[2], MODEL[0], *MODEL[3:]]


def test_a_body_that_is_no_lambda_of_the_call_does_not_compile_without_a_name(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "lvalue.cpp"
    source.write_text('#include "ars.hpp"\nvoid f() { auto body = [] { return true; }; ars::reject(body); }\n')
    command = [compiler, "-std=c++11", "-fsyntax-only", f"-I{INCLUDE}", str(source)]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert failed.returncode != 0
    assert "needs a lambda written in the call" in failed.stderr

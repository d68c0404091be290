"""The files that a simulator consists of, found without running it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ars.store.executable import Program, file_sha256, read_elf, read_program

gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")


def _compile(path: Path, text: str, *flags: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(text)
    subprocess.run(["gcc", str(source), "-o", str(path), *flags], check=True)
    return path


def _library(path: Path, value: int, *flags: str) -> Path:
    name = path.name.removeprefix("lib").partition(".")[0]
    return _compile(
        path, f"int {name}(void) {{ return {value}; }}\n", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", *flags
    )


def _names(program: Program) -> dict[str, str]:
    return {f"{file.role} {file.name}": os.path.realpath(file.path) for file in program.files}


@gcc
def test_build_ids_and_what_is_needed_are_read(tmp_path: Path) -> None:
    library = _library(tmp_path / "lib" / "libone.so", 1, "-Wl,-soname,libone.so.1", "-Wl,--build-id=0xabcdef")
    shutil.copy(library, tmp_path / "lib" / "libone.so.1")
    flags = [str(library), "-Wl,-rpath,$ORIGIN/lib:/nowhere", "-Wl,--disable-new-dtags", "-Wl,--build-id=sha1"]
    program = _compile(tmp_path / "a", "int one(void); int main(void) { return one(); }\n", *flags)
    elf = read_elf(str(program))
    assert elf is not None
    assert "libone.so.1" in elf.needed
    assert elf.rpath == ("$ORIGIN/lib", "/nowhere")
    assert elf.runpath == ()
    assert len(elf.build_id) == 40
    found = read_elf(str(library))
    assert found is not None
    assert found.build_id == "abcdef"
    files = _names(read_program([str(program)], {}, None))
    assert files == {"executable a": str(program), "library libone.so.1": str(tmp_path / "lib" / "libone.so.1")}
    loaded = subprocess.run([program], check=False).returncode
    assert loaded == 1  # the loader finds it too


@gcc
def test_libraries_of_libraries_and_the_order_of_the_search(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH comes before RUNPATH, RPATH before LD_LIBRARY_PATH; as for the loader itself."""
    inner = _library(tmp_path / "in" / "libinner.so", 1)
    other = _library(tmp_path / "other" / "libinner.so", 2)
    outer = _compile(
        tmp_path / "out" / "libouter.so",
        "int inner(void); int outer(void) { return inner(); }\n",
        *("-shared", "-fPIC", str(inner), "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../in"),
    )
    text = "int outer(void); int main(void) { return outer(); }\n"
    runpath = ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{outer.parent}", "-L" + str(outer.parent), "-louter"]
    allowed = "-Wl,--allow-shlib-undefined"
    program = _compile(tmp_path / "a", text, *runpath, allowed)
    plain = read_program([str(program)], {}, None)
    assert _names(plain)["library libinner.so"] == str(inner)
    env = {"LD_LIBRARY_PATH": str(other.parent)}
    assert _names(read_program([str(program)], env, None))["library libinner.so"] == str(other)
    assert subprocess.run([program], env=env, check=False).returncode == 2
    assert _names(read_program(["./a"], {"LD_LIBRARY_PATH": "other"}, str(tmp_path)))["library libinner.so"] == str(
        other
    )
    old = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{outer.parent}:{inner.parent}", "-L" + str(outer.parent), "-louter"]
    with_rpath = _compile(tmp_path / "b", text, *old, allowed)
    _compile(outer, "int inner(void); int outer(void) { return inner(); }\n", "-shared", "-fPIC", str(inner))
    # An RPATH of the program counts for what its libraries ask for.
    assert _names(read_program([str(with_rpath)], env, None))["library libinner.so"] == str(inner)


@gcc
def test_a_changed_library_changes_the_identity(tmp_path: Path) -> None:
    library = _library(tmp_path / "libone.so", 1)
    program = _compile(
        tmp_path / "a", "int one(void); int main(void) { return one(); }\n", str(library), "-Wl,-rpath,$ORIGIN"
    )
    before = read_program([str(program)], {}, None)
    first = before.identity()
    assert before.unchanged()
    _library(library, 2)
    assert not before.unchanged()
    after = read_program([str(program)], {}, None).identity()
    assert after["executable"] == first["executable"]
    assert after["files"]["library libone.so"]["sha256"] == file_sha256(str(library))
    assert after["files"] != first["files"]


def test_libraries_of_the_system_are_left_out() -> None:
    program = read_program(["/bin/sh"], {}, None)
    assert [file.role for file in program.files] == ["executable"]


def test_scripts_their_interpreters_and_files_among_the_arguments(tmp_path: Path) -> None:
    interpreter = tmp_path / "interpreter"
    shutil.copy("/bin/sh", interpreter)
    script = tmp_path / "script"
    script.write_text(f"#!{interpreter} -e\n")
    by_env = tmp_path / "by_env"
    by_env.write_text("#!/usr/bin/env -S interpreter -e\n")
    card = tmp_path / "card.txt"
    card.write_text("1")
    for path in (script, by_env):
        program = read_program(
            [str(path), "card.txt", "--set=card.txt", "x", "."], {"PATH": str(tmp_path)}, str(tmp_path)
        )
        assert _names(program) == {
            f"executable {path.name}": str(path),
            "interpreter interpreter": str(interpreter),
            "argument 1 (card.txt)": str(card),
            "argument 2 (card.txt)": str(card),
        }
        assert program.identity()["executable"] == {"build_id": "", "sha256": file_sha256(str(path))}


@pytest.mark.parametrize("raw", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 58, b"\x7fELF\x01\x02" + b"\0" * 30])
def test_damaged_files_are_hashed_all_the_same(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(raw)
    assert read_program([str(path)], {}, None).identity()["executable"]["sha256"] == file_sha256(str(path))


def test_an_executable_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_program([str(tmp_path / "none")], {}, None)

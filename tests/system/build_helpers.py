"""Compiling small programs against the tree: its headers, and a static libars made once per compiler and flags."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "bridge" / "include"
COMMON = ROOT / "bridge" / "common"
LIBRARY = ROOT / "bridge" / "lib"
CXX = {"gcc": "g++", "clang": "clang++"}
COMPILERS = tuple(compiler for compiler, cxx in CXX.items() if shutil.which(compiler) and shutil.which(cxx))
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "-Wno-pass-failed")


class Variant(NamedTuple):
    """One way to compile a program."""

    compiler: str  # "gcc" or "clang"
    flags: tuple[str, ...]
    library_flags: tuple[str, ...] = ()  # those that libars itself needs too, such as -flto

    def __str__(self) -> str:
        return f"{self.compiler} {' '.join(self.flags)}"


class BuildError(Exception):
    """A compiler complained; the message holds its words."""


def _run(command: Sequence[str | Path]) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def _linker(variant: Variant) -> list[str]:
    return ["-fuse-ld=lld"] if variant.compiler == "clang" and "-flto" in variant.flags else []


class Builder:
    """Builds into one directory; a library is built when it is first needed."""

    def __init__(self, directory: Path, jobs: int | None = None) -> None:
        self._directory = directory
        self._jobs = jobs or max(len(os.sched_getaffinity(0)), 2)
        self._libraries: dict[tuple[str, tuple[str, ...]], Path] = {}
        self._count = 0

    def library(self, compiler: str, flags: tuple[str, ...] = ()) -> Path:
        """A static libars. $ARS_BUILD_DIR has one that will do, unless flags are asked for or it is sanitized."""
        key = (compiler, flags)
        if key not in self._libraries:
            built = Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build")) / "bridge" / "libars.a"
            usable = not flags and built.exists() and b"__asan" not in built.read_bytes()
            self._libraries[key] = built if usable else self._compile_library(compiler, flags)
        return self._libraries[key]

    def _compile_library(self, compiler: str, flags: tuple[str, ...]) -> Path:
        directory = self._fresh("libars")
        common = ["-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]
        sources = {directory / f"{c.stem}.o": c for room in (COMMON, LIBRARY) for c in sorted(room.glob("*.c"))}
        objects = list(sources)

        def compile_one(made: Path) -> None:
            rooms = (f"-I{INCLUDE}", f"-I{COMMON}", f"-I{LIBRARY}")
            _run([compiler, *common, *flags, *rooms, "-c", sources[made], "-o", made])

        self._all(compile_one, objects)
        archive = directory / "libars.a"
        archiver = "gcc-ar" if compiler == "gcc" else "llvm-ar"  # they understand objects made with -flto
        _run([shutil.which(archiver) or "ar", "rcs", archive, *objects])
        return archive

    def _fresh(self, name: str) -> Path:
        self._count += 1
        directory = self._directory / f"{self._count}-{name}"
        directory.mkdir(parents=True)
        return directory

    def _all(self, function: object, items: Iterable[object]) -> list[Path]:
        assert callable(function)
        with ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(function, items))

    def program(
        self, sources: Sequence[Path], variant: Variant, *, link: Sequence[str] = (), shared: bool = False
    ) -> Path:
        """An executable from C and C++ sources; shared: libars is a file beside it, that of $ARS_BUILD_DIR."""
        if shared:
            directory = Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build")) / "bridge"
            library, link = directory / "libars.so", [*link, f"-Wl,-rpath,{directory}"]
        else:
            library = self.library(variant.compiler, variant.library_flags)
        return self._program(self._fresh(sources[0].stem), sources, variant, library, link)

    def programs(self, wanted: Sequence[tuple[Sequence[Path], Variant]]) -> list[Path]:
        """Many executables, several at a time, in the order asked for."""
        libraries = [self.library(variant.compiler, variant.library_flags) for _, variant in wanted]
        directories = [self._fresh(sources[0].stem) for sources, _ in wanted]

        def make(i: object) -> Path:
            assert isinstance(i, int)
            sources, variant = wanted[i]
            return self._program(directories[i], sources, variant, libraries[i], ())

        return self._all(make, range(len(wanted)))

    def _program(
        self, directory: Path, sources: Sequence[Path], variant: Variant, library: Path, link: Sequence[str]
    ) -> Path:
        objects = []
        for source in sources:
            cxx = source.suffix == ".cpp"
            compiler = CXX[variant.compiler] if cxx else variant.compiler
            standard = "-std=c++11" if cxx else "-std=gnu11"
            objects.append(directory / f"{source.stem}.o")
            _run([compiler, standard, *WARNINGS, *variant.flags, f"-I{INCLUDE}", "-c", source, "-o", objects[-1]])
        linker = CXX[variant.compiler] if any(source.suffix == ".cpp" for source in sources) else variant.compiler
        program = directory / sources[0].stem
        _run([linker, *variant.flags, *_linker(variant), *objects, library, *link, "-lm", "-o", program])
        return program

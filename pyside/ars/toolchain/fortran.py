"""The Fortran module ``ars``, compiled by the compiler of the simulator when it is first asked for.

A .mod file belongs to the compiler and version that made it, so the package has sources. The module is kept in the
user's cache, in a folder named after the sources and the compiler.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import ars
from ars.errors import CompileError
from ars.installed import get_include, needed
from ars.toolchain.compiler import FORTRAN, LIBRARY, C, compiled_quietly, compiler_of, uses
from ars.toolchain.examples import user_cache

__all__ = ["module_for"]

_FLAGS: Final = ("-O2", "-g", "-fPIC", "-ffp-contract=off")
_SOURCES: Final = ("ars.f90", "abandon.c")


def module_for(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> Path | None:
    """The folder of ``ars.mod`` and its library, made now if it is not in the cache.

    Parameters
    ----------
    arguments : sequence of str
        Those of the compiler.
    env : mapping, optional
        CC, FC, PATH and the place of the cache (default: those of the process).

    Returns
    -------
    Path or None
        The folder. None if no source is in Fortran.

    Raises
    ------
    CompileError
        There is no Fortran compiler, it cannot compile the module, or there is nowhere to write.
    """
    env = os.environ if env is None else env
    if not uses(FORTRAN, arguments):
        return None
    compiler = compiler_of(FORTRAN, env)
    folder = user_cache(env) / "fortran" / f"{ars.__version__}-{_key(compiler, env)}"
    if (folder / LIBRARY).is_file():
        return folder
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as fresh:
            _compile(compiler, Path(fresh), env)
            _put(Path(fresh), folder)
    except OSError as error:
        raise CompileError(
            f"the Fortran module cannot be compiled into {folder}: {error.strerror or error}. Set XDG_CACHE_HOME to a "
            "folder that can be written"
        ) from error
    return folder


def _key(compiler: Sequence[str], env: Mapping[str, str]) -> str:
    """Names everything that the module depends on."""
    said = subprocess.run([*compiler, "--version"], env=env, capture_output=True, check=False)
    digest = hashlib.sha256(shlex.join(compiler).encode() + b"\0" + said.stdout)
    for path in (*(needed("fortran") / name for name in _SOURCES), Path(get_include()) / "ars.h"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    """Into ``folder``, where the compiler also writes ars.mod."""
    sources = needed("fortran")
    include = f"-I{get_include()}"
    for command in (
        [*compiler, *_FLAGS, "-c", str(sources / "ars.f90"), "-o", "ars.o"],
        [*compiler_of(C, env), *_FLAGS, include, "-c", str(sources / "abandon.c"), "-o", "abandon.o"],
        ["ar", "rcs", LIBRARY, "ars.o", "abandon.o"],
    ):
        complaint = compiled_quietly(command, cwd=folder, env=env)
        if complaint is not None:
            raise CompileError(f"the Fortran module cannot be compiled. {shlex.join(command)}\n{complaint}")


def _put(fresh: Path, folder: Path) -> None:
    """The library last: a folder that has it is complete. Several processes may do this at the same time."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in ("ars.mod", LIBRARY):
        os.replace(fresh / name, folder / name)

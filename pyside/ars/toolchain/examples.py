"""The example simulators: their sources, and executables that are compiled when they are first asked for.

An executable is kept in the user's cache, in a folder named after everything that it is made from: the version and the
bytes of libars, the sources, the compiler's name and flags. So it is compiled once, and never used for another libars.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import ars
from ars.errors import CompileError
from ars.installed import get_include, needed
from ars.toolchain.compiler import CXX, C, command_for, compiled_quietly

__all__ = ["cache_folder", "copy_sources", "example", "source_of", "sources", "user_cache"]

_log = logging.getLogger(__name__)

# As csim/ is compiled: no fused multiply-add, so that a seed gives the same bits everywhere.
_FLAGS = ("-O2", "-g", "-ffp-contract=off", "-fPIE")
_WHOLLY_STATIC = "-static-pie"  # a process with fewer mappings is forked and ended in two thirds of the time
_KEPT_FOR = 30 * 24 * 3600.0  # seconds without use


def sources() -> dict[str, Path]:
    """The source file of every example in C and C++, by the example's name."""
    suffixes = {suffix for language in (C, CXX) for suffix in language.suffixes}
    found = sorted(needed("examples").iterdir())
    return {path.stem: path for path in found if path.suffix in suffixes}


def source_of(name: str) -> Path:
    """The source file of one of them."""
    known = sources()
    if name not in known:
        raise CompileError(f"there is no example {name!r}; there are {', '.join(known)}")
    return known[name]


def user_cache(env: Mapping[str, str] | None = None) -> Path:
    """The folder of what is made once and kept: ~/.cache/ars, or in $XDG_CACHE_HOME."""
    given = (os.environ if env is None else env).get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "ars"


def cache_folder() -> Path:
    """Where executables are kept: ~/.cache/ars/examples, or in $XDG_CACHE_HOME."""
    return user_cache() / "examples"


def example(name: str) -> Path:
    """The executable of an example, compiled now if it is not in the cache.

    Parameters
    ----------
    name : str
        Name of the example, such as "marsaglia".

    Returns
    -------
    Path
        The executable. Several processes may ask for it at the same time.

    Raises
    ------
    CompileError
        There is no such example, no compiler, or nowhere to write.
    """
    source = source_of(name)
    command = command_for([*_FLAGS, source.name], static=True)
    key = _key(source, command)
    made = cache_folder() / f"{ars.__version__}-{key}" / name
    with contextlib.suppress(OSError):
        if os.access(made, os.X_OK):
            os.utime(made.parent)
            return made
    try:
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _compile(source, command, made)
    except OSError as error:
        raise CompileError(
            f"the example {name} cannot be compiled into {made.parent}: {error.strerror or error}. Set XDG_CACHE_HOME "
            f"to a folder that can be written, or compile it yourself: ars examples DIR, then ars compile {source.name}"
        ) from error
    _forget_old(made.parent)
    return made


def _key(source: Path, command: list[str]) -> str:
    """Names everything that the executable depends on, but the compiler's own version."""
    digest = hashlib.sha256(shlex.join(command).encode())
    headers = sorted([*source.parent.glob("*.h"), *Path(get_include()).rglob("*.h*")])
    for path in [source, *headers, needed("lib/libars.a")]:
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _compile(source: Path, command: list[str], made: Path) -> None:
    """Into a folder of our own, and then in one step into place: nobody ever sees half a file."""
    _log.info("compiling %s into %s", source.name, made)
    with tempfile.TemporaryDirectory(prefix=f".{made.name}-", dir=made.parent) as folder:
        fresh = Path(folder) / made.name
        where = command.index("-o") + 1
        words = [*command[:where], str(fresh), *command[where + 1 :]]
        for attempt in ([*words, _WHOLLY_STATIC], words):
            complaint = compiled_quietly(attempt, cwd=source.parent)
            if complaint is None:
                os.replace(fresh, made)
                return
    raise CompileError(f"the example {made.name} cannot be compiled. {shlex.join(words)}\n{complaint}")


def _forget_old(current: Path) -> None:
    """Removes what was compiled for a libars that nobody has used for a month."""
    with contextlib.suppress(OSError):
        for folder in current.parent.iterdir():
            if folder != current and time.time() - folder.stat().st_mtime > _KEPT_FOR:
                shutil.rmtree(folder, ignore_errors=True)


def _files() -> Iterator[Path]:
    for path in sorted(needed("examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def copy_sources(directory: Path, *, force: bool = False) -> list[Path]:
    """Writes the sources of all examples and their README; all of them or none.

    Parameters
    ----------
    directory : Path
        Folder to write to; made if it does not exist.
    force : bool, optional
        Overwrite files that are there (default: False).

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    FileExistsError
        A file is there already, and ``force`` was not given. Nothing was written.
    """
    top = needed("examples")
    pairs = [(path, directory / path.relative_to(top)) for path in _files()]
    there = [str(target) for _, target in pairs if os.path.lexists(target)]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise FileExistsError(f"{there[0]}{more} exist already; nothing was written (--force overwrites)")
    for path, target in pairs:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return [target for _, target in pairs]

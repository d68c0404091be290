"""The files that a simulator consists of: its executable, the shared libraries that it loads, and files among its
arguments.

Libraries are looked up in the order of ld.so(8), from the ELF files alone: nothing is executed. Libraries in the
directories of the system are left out, except libars itself.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Elf", "Program", "ProgramFile", "file_sha256", "loaded_files", "read_elf", "read_program"]

_MAGIC: Final = b"\x7fELF"
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4  # PT_*
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29  # DT_*
_BUILD_ID: Final = 3  # NT_GNU_BUILD_ID
_SYSTEM: Final = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/bin",
    "/usr/bin",
)
_MOST_FILES: Final = 4096
_DEEPEST_SCRIPT: Final = 4  # the kernel follows as many interpreters


# ---- ELF -------------------------------------------------------------------------------------------------------------


class Elf(NamedTuple):
    """What the loader reads of an ELF file."""

    build_id: str = ""  # hexadecimal; empty if there is none
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int
    alignment: int


def read_elf(path: str) -> Elf | None:
    """The dynamic section and the build id of an ELF file.

    Returns
    -------
    Elf or None
        None if the file is not an ELF file, or is too damaged to be read.
    """
    with open(path, "rb") as file:
        if file.read(4) != _MAGIC:
            return None

        def at(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(min(size, 16 << 20))

        try:
            return _parse(at(0, 64), at)
        except (struct.error, ValueError, IndexError, OverflowError, OSError):
            return None


def _parse(ident: bytes, at: Any) -> Elf:
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    begin, entry, count = (
        struct.unpack_from(order + "32xQ14xHH", ident) if wide else struct.unpack_from(order + "28xI10xHH", ident)
    )
    table = at(begin, entry * count)
    segments = [_segment(table[i * entry : (i + 1) * entry], wide, order) for i in range(count)]
    build_id = ""
    for segment in segments:
        if segment.kind == _NOTE and not build_id:
            build_id = _build_id(at(segment.offset, segment.size), order, segment.alignment)
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if dynamic is None:
        return Elf(build_id)
    raw = at(dynamic.offset, dynamic.size)
    pair = struct.Struct(order + ("qQ" if wide else "iI"))
    entries = [pair.unpack_from(raw, i) for i in range(0, len(raw) - pair.size + 1, pair.size)]
    strings = next((value for tag, value in entries if tag == _STRTAB), 0)
    loaded = next(s for s in [*segments, None] if s is None or (s.kind == _LOAD and 0 <= strings - s.address < s.size))
    if loaded is None:
        return Elf(build_id)

    def text(tag: int) -> list[str]:
        found = []
        for key, value in entries:
            if key == tag:
                raw_name = at(loaded.offset + strings - loaded.address + value, 4096)
                found.append(os.fsdecode(raw_name.split(b"\0", 1)[0]))
        return found

    def paths(tag: int) -> tuple[str, ...]:
        return tuple(part for each in text(tag) for part in each.split(":") if part)

    return Elf(build_id, tuple(text(_NEEDED)), paths(_RPATH), paths(_RUNPATH))


def _segment(raw: bytes, wide: bool, order: str) -> _Segment:
    if wide:
        kind, offset, address, size, alignment = struct.unpack_from(order + "I4xQQ8xQ8xQ", raw)
    else:
        kind, offset, address, size, alignment = struct.unpack_from(order + "III4xI8xI", raw)
    return _Segment(kind, offset, address, size, alignment)


def _build_id(notes: bytes, order: str, alignment: int) -> str:
    step = 8 if alignment == 8 else 4
    offset = 0
    while offset + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(order + "III", notes, offset)
        name = notes[offset + 12 : offset + 12 + name_size]
        begin = offset + 12 + -(-name_size // step) * step
        if kind == _BUILD_ID and name == b"GNU\0":
            return notes[begin : begin + size].hex()
        offset = begin + -(-size // step) * step
    return ""


# ---- where the loader looks ------------------------------------------------------------------------------------------


def _configured(path: str = "/etc/ld.so.conf", depth: int = 0) -> Iterator[str]:
    """The directories that ld.so.conf lists."""
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        for line in file:
            words = line.partition("#")[0].split()
            if len(words) > 1 and words[0] == "include" and depth < 8:
                for pattern in words[1:]:
                    for included in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern))):
                        yield from _configured(included, depth + 1)
            elif words:
                yield words[0]


def _expanded(directory: str, origin: str) -> list[str]:
    """$ORIGIN and $LIB as ld.so knows them."""
    for token in ("$ORIGIN", "${ORIGIN}"):
        directory = directory.replace(token, origin)
    if "$LIB" not in directory and "${LIB}" not in directory:
        return [directory]
    names = ("lib64", "lib", f"lib/{os.uname().machine}-linux-gnu")
    return [directory.replace("${LIB}", name).replace("$LIB", name) for name in names]


def _is_libars(path: str) -> bool:
    return os.path.basename(os.path.realpath(path)).startswith(("libars.", "libars-"))


def _is_system(path: str) -> bool:
    real = os.path.realpath(path)
    if _is_libars(real):
        return False
    return any(real.startswith(directory + "/") for directory in _SYSTEM)


class _Wanted(NamedTuple):
    """A library that is asked for, and where it may be."""

    name: str
    asking: str
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


class _Loader:
    """Finds libraries as ld.so does, and remembers every file that is not the system's."""

    def __init__(self, env: Mapping[str, str], cwd: str) -> None:
        self._cwd = cwd
        given = env.get("LD_LIBRARY_PATH", "").replace(";", ":")
        self._given = [part or "." for part in given.split(":")] if given else []
        self._preload = env.get("LD_PRELOAD", "").replace(":", " ").split()
        machine = os.uname().machine
        self._system = [*_configured(), f"/lib/{machine}-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
        self.found: dict[str, str] = {}  # real path -> the name that it was asked for by

    def load(self, executable: str) -> None:
        """The libraries of an executable, and theirs."""
        wanted = [_Wanted(name, executable, (), ()) for name in self._preload]
        wanted += self._needed(executable, ())
        while wanted and len(self.found) < _MOST_FILES:
            each = wanted.pop(0)
            for path in self._find(each):
                real = os.path.realpath(path)
                if real not in self.found and not _is_system(real):
                    self.found[real] = os.path.basename(each.name)
                    wanted += self._needed(path, each.rpath)

    @staticmethod
    def _needed(path: str, inherited: tuple[str, ...]) -> list[_Wanted]:
        """What a file asks for; its RPATH counts for those that it loads too, unless it has a RUNPATH."""
        elf = read_elf(path) or Elf()
        origin = os.path.dirname(os.path.realpath(path))
        runpath = tuple(place for each in elf.runpath for place in _expanded(each, origin))
        own = tuple(place for each in elf.rpath for place in _expanded(each, origin)) if not runpath else ()
        return [_Wanted(name, path, (*own, *inherited), runpath) for name in elf.needed]

    def _find(self, wanted: _Wanted) -> list[str]:
        """The file that the loader takes; also those for other processors beside it, which it may prefer."""
        if "/" in wanted.name:
            paths = _expanded(wanted.name, os.path.dirname(os.path.realpath(wanted.asking)))
            return [path for each in paths if os.path.isfile(path := os.path.join(self._cwd, each))]
        rpath = () if wanted.runpath else wanted.rpath
        for directory in (*rpath, *self._given, *wanted.runpath, *self._system):
            base = os.path.join(self._cwd, directory)
            found = glob.glob(os.path.join(glob.escape(base), "glibc-hwcaps", "*", glob.escape(wanted.name)))
            if os.path.isfile(os.path.join(base, wanted.name)):
                found.append(os.path.join(base, wanted.name))
            if found:
                return sorted(found)
        return []


# ---- programs --------------------------------------------------------------------------------------------------------


class ProgramFile(NamedTuple):
    """One file of a program, under the name by which an identity lists it."""

    role: str  # "executable", "library", "interpreter", "argument", "loaded"
    name: str
    path: str


class Program(NamedTuple):
    """The files of a program, and what tells cheaply that one was replaced."""

    command: tuple[str, ...]
    files: tuple[ProgramFile, ...]
    signature: tuple[tuple[int, ...], ...]

    def unchanged(self) -> bool:
        """Whether every file is the one that was there when this was read."""
        return self.signature == tuple(_stat_of(file.path) for file in self.files)

    def plus(self, paths: Iterable[str]) -> Program:
        """With files that it has loaded by itself."""
        known = {os.path.realpath(file.path) for file in self.files}
        more = tuple(ProgramFile("loaded", os.path.basename(path), path) for path in paths if path not in known)
        return self._replace(
            files=self.files + more, signature=self.signature + tuple(_stat_of(file.path) for file in more)
        )

    def build(self, *, libars: bool = True) -> str:
        """A digest of the code: build ids, and hashes of files that have none. Raises OSError like ``identity``.

        ``libars``: with that of libars, which is another one wherever it was compiled.
        """
        code = [file for file in self.files if file.role != "argument" and (libars or not _is_libars(file.path))]
        parts = [(file.role, file.name, _build_id_of(file.path) or file_sha256(file.path)) for file in code]
        return hashlib.sha256(repr(sorted(parts)).encode("utf-8", "surrogatepass")).hexdigest()

    def identity(self) -> dict[str, Any]:
        """Name, build id and SHA-256 of every file; for JSON. Raises OSError for a file that cannot be read."""
        found: dict[str, Any] = {"command": list(self.command), "executable": {}, "files": {}}
        for file in self.files:
            about = {"build_id": _build_id_of(file.path), "sha256": file_sha256(file.path)}
            if file.role == "executable":
                found["executable"] = about
            else:
                found["files"][_unused(f"{file.role} {file.name}", found["files"])] = about
        return found


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """Two files may have one base name; their order is that of the search."""
    return next(each for each in (name, *(f"{name} ({i})" for i in range(2, _MOST_FILES + 2))) if each not in taken)


def _build_id_of(path: str) -> str:
    elf = read_elf(path)
    return elf.build_id if elf is not None else ""


def file_sha256(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stat_of(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _interpreter(script: str, env: Mapping[str, str]) -> str | None:
    """The program that a #! line names; the one that env(1) would find."""
    with open(script, "rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return None
    words = os.fsdecode(first[2:]).split()
    if words and os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return shutil.which(names[0], path=env.get("PATH")) if names else None
    return words[0] if words else None


def _arguments(words: Iterable[str], cwd: str) -> Iterator[ProgramFile]:
    """Arguments, and values of --option=value, that name regular files."""
    for number, word in enumerate(words, 1):
        for text in (word, word.partition("=")[2]):
            path = os.path.join(cwd, text)
            with contextlib.suppress(OSError, ValueError):
                if text and stat.S_ISREG(os.stat(path).st_mode):
                    yield ProgramFile("argument", f"{number} ({os.path.basename(text)})", path)
                    break


def read_program(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> Program:
    """The files that a command consists of.

    Parameters
    ----------
    argv : sequence of str
        The path of the executable, found and checked, and its arguments.
    env : mapping
        The environment in which it is started: LD_LIBRARY_PATH, LD_PRELOAD and PATH count.
    cwd : str or None
        The directory in which it is started (default: the present one).

    Returns
    -------
    Program
        Nothing is hashed yet.

    Raises
    ------
    OSError
        The executable cannot be read.
    """
    where = os.path.abspath(cwd or os.getcwd())
    path = os.path.join(where, argv[0])
    loader = _Loader(env, where)
    files = [ProgramFile("executable", os.path.basename(path), path)]
    loader.load(path)
    for _ in range(_DEEPEST_SCRIPT):
        interpreter = _interpreter(path, env)
        if interpreter is None or not os.path.isfile(os.path.join(where, interpreter)):
            break
        path = os.path.join(where, interpreter)
        if not _is_system(path):
            files.append(ProgramFile("interpreter", os.path.basename(path), path))
        loader.load(path)
    files += [ProgramFile("library", name, found) for found, name in loader.found.items()]
    files += _arguments(argv[1:], where)
    return Program((os.path.basename(argv[0]), *argv[1:]), tuple(files), tuple(_stat_of(file.path) for file in files))


def loaded_files(pid: int, parent: int) -> list[str]:
    """The executable files outside of the system that a process has mapped: plugins, what a wrapper script started.

    Parameters
    ----------
    pid, parent : int
        A process and its parent, by their own word. In a container their numbers may be those of strangers here.

    Returns
    -------
    list of str
        Paths, sorted. Empty if the system does not show them, or if the process is not a child of ``parent`` here.
    """
    found: set[str] = set()
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) != parent:
                return []
    except (OSError, IndexError, ValueError):
        return []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6 and "x" in words[1] and words[5].startswith("/") and not _is_system(words[5]):
                found.add(words[5])
    return sorted(path for path in found if os.path.isfile(path))

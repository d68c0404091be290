"""Packages of generators: fetched by pip into a folder of their own, and unpacked there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from ars.errors import ArsError, CompileError
from ars.installed import needed
from ars.toolchain.compiler import command_for, compiled_quietly
from ars_lab.reproduce.workspace import Reporter, SilentReporter

__all__ = ["Kitchen", "Unavailable", "unpack"]

_DONE = ".complete"


class Unavailable(ArsError):
    """A package that a generator needs cannot be had here."""


class Kitchen:
    """The folder in which one generator is fetched and built.

    Parameters
    ----------
    folder : Path
        Made if it does not exist. What is there already is used.
    reporter : Reporter, optional
        Receives the progress of the runs (default: none).
    patience : float, optional
        Seconds for each download (default: no limit).
    """

    def __init__(self, folder: Path, reporter: Reporter | None = None, *, patience: float | None = None) -> None:
        self.folder = folder.resolve()
        self.reporter = reporter or SilentReporter()
        self.patience = patience

    def fetched(self, requirement: str, *, source: bool = False, only: Callable[[str], bool] | None = None) -> Path:
        """The unpacked files of a package of PyPI.

        Parameters
        ----------
        requirement : str
            Name and version, such as "ncrystal-core==4.4.6".
        source : bool, optional
            The source distribution instead of the wheel for this machine (default: False).
        only : callable, optional
            Which paths to unpack (default: all).

        Returns
        -------
        Path
            Folder with the files.

        Raises
        ------
        Unavailable
            pip cannot fetch it, and the message has pip's reason; or it takes longer than ``patience``.
        """
        kind = "source" if source else "wheel"
        folder = self.folder / "packages" / f"{requirement.replace('==', '-')}-{kind}"
        if (folder / _DONE).exists():
            return folder
        self.reporter.say(f"fetching {requirement} ({kind})")
        downloads = folder / "download"
        downloads.mkdir(parents=True, exist_ok=True)
        _pip_download(requirement, downloads, source, self.patience)
        archives = sorted(path for path in downloads.iterdir() if path.is_file())
        for archive in archives:
            unpack(archive, folder, only)
            archive.unlink()
        downloads.rmdir()
        (folder / _DONE).touch()
        return folder

    def compiled(self, name: str, sources: Sequence[Path], flags: Sequence[str]) -> Path:
        """An executable in the folder, compiled now unless it is newer than all that it is made from.

        Parameters
        ----------
        name : str
            File name of the executable.
        sources : sequence of Path
            Sources in C or C++.
        flags : sequence of str
            Further flags of the compiler and the linker. Flags for libars are added.

        Returns
        -------
        Path
            The executable, which has libars in it.

        Raises
        ------
        CompileError
            With the compiler's words.
        """
        made = self.folder / name
        command = command_for([*map(str, sources), *flags, "-o", str(made)], static=True)
        written = made.with_name(f"{name}.command")
        if _is_current(made, [*sources, needed("lib/libars.a")]) and _text(written) == shlex.join(command):
            return made
        self.reporter.say(f"compiling {name}")
        self.folder.mkdir(parents=True, exist_ok=True)
        complaint = compiled_quietly(command, cwd=self.folder)
        if complaint is not None:
            raise CompileError(f"{name} cannot be compiled. {shlex.join(command)}\n{complaint}")
        written.write_text(shlex.join(command))
        return made

    def source(self, *parts: str) -> Path:
        """A file of csim/generators, as the package has it."""
        return needed("examples").joinpath("generators", *parts)


def _is_current(made: Path, sources: Sequence[Path]) -> bool:
    return made.exists() and all(source.stat().st_mtime <= made.stat().st_mtime for source in sources)


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _pip_download(requirement: str, folder: Path, source: bool, patience: float | None) -> None:
    which = "--no-binary" if source else "--only-binary"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += [which, ":all:", "--no-deps", "--dest", str(folder), requirement]
    env = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}  # libars's, not theirs
    what = f"{requirement} cannot be fetched from PyPI ({'source' if source else 'a wheel for this machine'})"
    hint = "Without a network, set PIP_INDEX_URL or PIP_FIND_LINKS to a mirror that has it."
    try:
        code, said = _run(command, env, patience)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what}: it took longer than {patience:.0f} s. {hint}") from None
    if code:
        words = [line for line in said.splitlines() if line.strip()]
        reason = "\n".join(words[-3:]) or f"exit code {code}"
        raise Unavailable(f"{what}. {hint} pip says:\n{reason}")


def _run(command: Sequence[str], env: Mapping[str, str], patience: float | None) -> tuple[int, str]:
    """Exit code and stderr. pip builds source distributions in processes of its own, so all of its family is ended."""
    pip = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with pip:
        try:
            _, said = pip.communicate(timeout=patience)
        except BaseException:
            os.killpg(pip.pid, signal.SIGKILL)
            raise
    return pip.returncode, said


def unpack(archive: Path, folder: Path, only: Callable[[str], bool] | None = None) -> int:
    """Unpacks regular files of a wheel or of a .tar.gz; links and paths that lead elsewhere are refused.

    Parameters
    ----------
    archive : Path
        The file.
    folder : Path
        Where to.
    only : callable, optional
        Which paths to unpack (default: all).

    Returns
    -------
    int
        Files written.
    """
    wanted = only or (lambda _: True)
    count = 0
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                if not info.is_dir() and wanted(info.filename):
                    with wheel.open(info) as stream:
                        _write(folder, info.filename, stream)
                    count += 1
        return count
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and wanted(member.name):
                content = tar.extractfile(member)
                assert content is not None  # of a regular file
                _write(folder, member.name, content)
                count += 1
    return count


def _write(folder: Path, name: str, stream: IO[bytes]) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise Unavailable(f"the package has a file that leads out of its folder: {name}")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while block := stream.read(1 << 20):
            out.write(block)

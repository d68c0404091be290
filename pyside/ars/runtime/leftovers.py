"""Socket directories of controllers that were killed: removed by the next one that starts."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["owner_lives", "remove_stale"]

_NAME: Final = re.compile(r"ars-(\d+)-\w+")
_AGE: Final = 60.0  # seconds: a directory this young may be of a controller that is only just starting
_CLOCKS: Final = 10.0  # seconds by which the clocks of files and of processes may differ


def remove_stale(parents: Iterable[str | os.PathLike[str]], now: float | None = None) -> list[str]:
    """Removes what nobody uses: our user's, old, its controller dead, and no socket in it answered.

    Only sockets and the empty directory go, and never through a link: a directory with anything else in it stays.
    """
    removed: list[str] = []
    for parent in dict.fromkeys(os.path.realpath(p) for p in parents):
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                name = _NAME.fullmatch(entry.name)
                if name is None or owner_lives(int(name[1]), entry.path):
                    continue
                with contextlib.suppress(OSError):
                    if _unused(Path(entry.path), time.time() if now is None else now):
                        for inside in os.listdir(entry.path):
                            os.unlink(os.path.join(entry.path, inside))
                        os.rmdir(entry.path)
                        removed.append(entry.path)
    return removed


def owner_lives(pid: int, directory: str | os.PathLike[str]) -> bool:
    """Whether the process that made the directory is still there. One that began later only has its number."""
    if pid == os.getpid():
        return True
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        running = float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - running < os.lstat(directory).st_mtime + _CLOCKS
    except (FileNotFoundError, ProcessLookupError):
        return False
    except (OSError, ValueError, IndexError):  # it does not say when it began
        return True


def _unused(directory: Path, now: float) -> bool:
    about = os.lstat(directory)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or now - about.st_mtime < _AGE:
        return False
    return all(_dead_socket(directory / name) for name in os.listdir(directory))


def _dead_socket(path: Path) -> bool:
    """A process id means nothing in another container that shares this directory; a socket that is refused does."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False

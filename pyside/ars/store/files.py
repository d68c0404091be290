"""Files that are there whole or not at all, and JSON that others may have written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ars.errors import StorageError

__all__ = ["Bytes", "StorageError", "not_written", "parse_json", "write_whole"]

Bytes = bytes | bytearray | memoryview


def parse_json(text: str | bytes) -> Any:
    """The value that the text holds.

    Raises
    ------
    ValueError
        The text is not JSON, or is nested so deeply that reading it would exhaust the stack.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def write_whole(path: str | os.PathLike[str], parts: Iterable[Bytes]) -> None:
    """Writes a file under another name, makes sure that it is on the disk, then gives it its name.

    Whoever reads the path finds the old file or the new one, also after a crash. If writing fails, the old file is as
    it was and nothing half-written remains.
    """
    target = Path(path)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o666 & ~_umask())
        os.replace(temporary, target)
        temporary = None
        _sync_directory(target.parent)
    except OSError as error:
        raise not_written(target, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def not_written(target: Path, error: OSError) -> StorageError:
    """The error for a file that could not be replaced, with the reason in words."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    what = "the disk is full" if full else error.strerror or str(error)
    return StorageError(f"{target} could not be written: {what}. A file that was there is unchanged")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_directory(directory: Path) -> None:
    """So that the new name survives a crash too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The folder of a calibration: a file per data set, so that an interrupted one goes on where it was."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ars.calibration.dataset import Record
from ars.errors import StorageError
from ars.plain import plain
from ars.store.files import parse_json, write_whole
from ars.store.identity import differences

__all__ = ["Folder", "kept_seed"]

_ABOUT: Final = "calibration.json"
_FORMAT: Final = "ars calibration, 1"
_NAME: Final = re.compile(r"dataset-(\d+)\.json")


def kept_seed(directory: str | os.PathLike[str]) -> int | None:
    """The seed of the calibration that the folder holds; None if it holds none."""
    about = _read(Path(directory) / _ABOUT)
    return None if about is None else int(about["identity"]["seed"])


class Folder:
    """Records on disk.

    Parameters
    ----------
    directory : path
        Made if it does not exist.
    identity : mapping
        What the records depend on, for JSON.

    Raises
    ------
    StorageError
        If the folder holds another calibration, or cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self._path = Path(directory)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be created: {error.strerror or error}") from error
        about = _read(self._path / _ABOUT)
        mine = json.loads(json.dumps(plain(identity)))
        if about is None:
            if any(self._path.iterdir()):
                raise StorageError(f"{self._path} is not empty, and holds no calibration: choose another folder")
            self._write(_ABOUT, {"format": _FORMAT, "identity": mine})
        elif about["identity"] != mine:
            found = "; ".join(differences(about["identity"], mine))
            raise StorageError(f"{self._path} holds another calibration ({found}): choose another folder")

    def records(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Those that are there already."""
        found = {}
        for number in numbers:
            content = _read(self._path / f"dataset-{number:06d}.json")
            if content is not None:
                found[number] = Record.from_dict(content["record"])
        return found

    def keep(self, record: Record) -> None:
        """Write a record."""
        self._write(f"dataset-{record.number:06d}.json", {"format": _FORMAT, "record": record.to_dict()})

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        write_whole(self._path / name, [(json.dumps(plain(content), indent=1, allow_nan=False) + "\n").encode()])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = parse_json(path.read_bytes())
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError("it was not written by ars calibrate")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return content

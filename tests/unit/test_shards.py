"""Files that are written whole, and folders that hold no recorded traces. Recordings are tested in tests/system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ars.errors import ShardError, StorageError
from ars.store.files import write_whole
from ars.store.shards import Recording


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"format": "ars-traces", "version": 99}'])
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(ShardError, match=r"index\.json"):
        Recording(tmp_path)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="holds no recorded traces"):
        Recording(tmp_path)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, [b"old"])

    def parts() -> list[bytes]:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        write_whole(path, (part for _ in range(1) for part in parts()))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    write_whole(path, [b"n", b"ew"])
    assert path.read_bytes() == b"new"
    with pytest.raises(StorageError, match="could not be written: No such file"):
        write_whole(tmp_path / "missing" / "file", [b""])

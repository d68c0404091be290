"""Folders of runs that are not what they seem: each is refused, by name."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Sample, Trace, latent, pack

from ars.columns import Columns
from ars.errors import StorageError
from ars.progress import NoProgress
from ars.runtime.recorder import Recorder
from ars.store.files import parse_json, write_whole
from ars.store.resume import KeptRun, kept_seed
from ars.store.shards import encode_shard

SITES = (latent(0, "x"), latent(1, "y"))
IDENTITY: dict[str, Any] = {"seed": 7, "observe": {"y": {"sha256": "abc"}}}
HALF = 2**63


def some(*numbers: int, value: float = 0.0, site: int = 0) -> Columns:
    return pack([Trace(n, samples=[Sample(site, value + n % 1000)]) for n in numbers])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Traces 0 to 3 in two chunks."""
    with KeptRun(tmp_path / "run", IDENTITY, failed_too=True) as run:
        run.keep(some(0, 1), SITES)
        run.flush()
        run.keep(some(2, 3), SITES)
    return tmp_path / "run"


def loaded(folder: Path, first: int = 0, count: int = 100) -> list[int]:
    with KeptRun(folder, IDENTITY, failed_too=True) as run:
        found: list[int] = run.load(first, count)[0].traces["trace"].tolist()
    return found


def test_a_stray_copy_is_ignored(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Unclear: a ValueError about int()."""
    for name in ("chunk-copy.ars", "chunk-.ars", "chunk-1.ars", "chunk-0000001.ars", "chunk-٠٠٠٠٠٥.ars"):
        shutil.copy(folder / "chunk-000000.ars", folder / name)
    with caplog.at_level(logging.WARNING):
        assert loaded(folder) == [0, 1, 2, 3]
    assert "chunk-copy.ars is ignored" in caplog.text


@pytest.mark.parametrize("key", ["seed", "identity", "digest", "version", "format"])
def test_a_run_json_that_lacks_something(key: str, folder: Path) -> None:
    """Unclear: a KeyError 'seed'."""
    about = json.loads((folder / "run.json").read_text())
    (about["identity"] if key == "seed" else about).pop(key)
    (folder / "run.json").write_text(json.dumps(about))
    for call in (lambda: kept_seed(folder), lambda: loaded(folder)):
        with pytest.raises(StorageError, match=r"run\.json") as caught:
            call()
    if key == "seed":
        assert "has no seed" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", "[]", '{"a": ' * 100_000, "\xff"])
def test_a_damaged_run_json(text: str, folder: Path) -> None:
    (folder / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(StorageError, match=r"run\.json (is damaged|does not describe a run)"):
        loaded(folder)


def test_a_folder_of_the_first_version(folder: Path) -> None:
    (folder / "run.json").write_text(json.dumps({"format": "ars-run", "version": 1, "seed": 7}))
    with pytest.raises(StorageError, match="written by an earlier version of ars"):
        kept_seed(folder)


def test_chunks_without_a_run(folder: Path) -> None:
    (folder / "run.json").unlink()
    with pytest.raises(StorageError, match=r"holds finished traces \(chunk-000000.ars\), but no run.json"):
        loaded(folder)


def test_chunks_of_another_run(folder: Path, tmp_path: Path) -> None:
    with KeptRun(tmp_path / "other", IDENTITY | {"seed": 8}, failed_too=True) as run:
        run.keep(some(7), SITES)
    shutil.copy(tmp_path / "other" / "chunk-000000.ars", folder / "chunk-000005.ars")
    with pytest.raises(StorageError, match=r"chunk-000005.ars belongs to another run .* Remove it"):
        loaded(folder)
    write_whole(folder / "chunk-000005.ars", encode_shard(some(7), SITES, {}))  # without the name of a run
    with pytest.raises(StorageError, match="belongs to another run"):
        loaded(folder)


def test_one_trace_twice(folder: Path, tmp_path: Path) -> None:
    """Equal copies count once; other bits under the same number are refused."""
    shutil.copy(folder / "chunk-000000.ars", folder / "chunk-000007.ars")
    assert loaded(folder) == [0, 1, 2, 3]
    (folder / "chunk-000007.ars").unlink()
    shutil.copytree(folder, tmp_path / "other")
    for name in ("chunk-000000.ars", "chunk-000001.ars"):
        (tmp_path / "other" / name).unlink()
    with KeptRun(tmp_path / "other", IDENTITY, failed_too=True) as run:
        run.keep(some(9, 2, value=0.5), SITES)
    shutil.copy(tmp_path / "other" / "chunk-000000.ars", folder / "chunk-000007.ars")
    with pytest.raises(StorageError, match="two chunks hold trace 2 with different content"):
        loaded(folder)


def test_chunks_may_number_their_sites_differently(folder: Path) -> None:
    """As after a chunk was put back, or by a family that had met its sites in another order."""
    swapped = (SITES[1]._replace(id=0), SITES[0]._replace(id=1))
    with KeptRun(folder, IDENTITY, failed_too=True) as run:
        run.keep(some(1, 5, site=1), swapped)  # x has number 1 here; trace 1 is there already
    with KeptRun(folder, IDENTITY, failed_too=True) as run:
        columns, sites = run.load(0, 100)
    assert sites == SITES
    assert columns.samples["site"].tolist() == [0] * 5
    assert sorted(columns.traces["trace"].tolist()) == [0, 1, 2, 3, 5]


def test_numbers_around_half_of_their_range(tmp_path: Path) -> None:
    top = 2**64 - 2
    with KeptRun(tmp_path, IDENTITY, failed_too=True) as run:
        run.keep(some(HALF + 1, HALF - 1, HALF, top, 3), SITES)
    with KeptRun(tmp_path, IDENTITY, failed_too=True) as run:
        assert run.load(HALF - 1, 2)[0].traces["trace"].tolist() == [HALF - 1, HALF]
        assert run.load(HALF, 2**63 - 1)[0].traces["trace"].tolist() == [HALF + 1, HALF, top]
        assert run.load(0, 10)[0].traces["trace"].tolist() == [3]


@pytest.mark.parametrize("first", [HALF - 5, 2**64 - 11])
def test_what_is_missing_there(first: int) -> None:
    recorder = Recorder(10, "zero", NoProgress(), first=first)
    for offset in (0, 4, 5, 9):
        recorder.take(some(first + offset), lambda: SITES, str)
    assert recorder.missing() == [(first + 1, 3), (first + 6, 3)]
    assert recorder.columns().traces["trace"].tolist() == [first + offset for offset in (0, 4, 5, 9)]


# ---- writes that fail ------------------------------------------------------------------------------------------------


def test_a_write_that_fails_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    now = 0.0
    with KeptRun(tmp_path / "run", IDENTITY, failed_too=True, clock=lambda: now) as run:
        recorder = Recorder(10, "raise", NoProgress(), keeper=run)
        assert not recorder.take(some(0), lambda: SITES, str)
        shutil.move(tmp_path / "run", tmp_path / "moved")
        now = 10.0
        assert recorder.take(some(1), lambda: SITES, str)  # stop
        assert recorder.take(some(2), lambda: SITES, str)  # was under way
        assert recorder.columns().traces["trace"].tolist() == [0, 1, 2]
        error = recorder.unkept()
        assert error is not None
        assert "is gone. Finished traces could not be kept" in str(error)
        shutil.move(tmp_path / "moved", tmp_path / "run")
        assert recorder.unkept() is error  # there now, but the run is not complete
    assert loaded(tmp_path / "run") == [0, 1, 2]


def _left_unwritten(folder: Path, error: BaseException | None) -> None:
    with KeptRun(folder, IDENTITY, failed_too=True) as run:
        run.keep(some(0), SITES)
        shutil.rmtree(folder)
        if error is not None:
            raise error


def test_an_exception_is_not_replaced_by_a_write_that_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        _left_unwritten(tmp_path / "run", KeyboardInterrupt())
    assert "could not be kept" in caught.value.__notes__[0]
    with pytest.raises(StorageError, match="could not be kept"):
        _left_unwritten(tmp_path / "run", None)


def test_a_folder_that_cannot_be_written_can_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The list of controllers is not worth a finished result."""
    (folder / "controllers.jsonl").unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ars.store.resume._Controllers._add", full)
    assert loaded(folder) == [0, 1, 2, 3]
    assert "No space left" in caplog.text


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_deep_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


@pytest.mark.parametrize("where", ["metadata", "header"])
def test_deep_json_in_a_checkpoint(where: str, tmp_path: Path) -> None:
    """Unclear: a RecursionError."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    import zlib

    from ars.errors import CheckpointError
    from ars.network.facade import Network

    deep = '{"a": ' * 100_000 + "1" + "}" * 100_000
    if where == "header":
        text = json.dumps({"__metadata__": {"ars": deep, "ars_crc32": str(zlib.crc32(deep.encode()))}})
    else:
        text = '{"__metadata__": ' + deep + "}"
    path = tmp_path / "net.safetensors"
    path.write_bytes(np.uint64(len(text)).tobytes() + text.encode())
    with pytest.raises(CheckpointError, match="nested too deeply"):
        Network.load(path)

"""Traces on disk: what was drawn is what is read, interrupted recordings go on, and damage is named."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ars
from ars.columns import Columns, concatenate, sort_by_trace
from ars.errors import ShardError, StorageError
from ars.store.shards import Recording, record

Make = Callable[..., ars.Simulator]


def same(a: Columns, b: Columns) -> bool:
    """Equal to the last bit, but for the numbers that a host gave the sites."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("traces", "values")) and np.array_equal(
        a.samples["value"], b.samples["value"]
    )


def test_what_was_drawn_is_what_is_read(simulator: Make, tmp_path: Path) -> None:
    sim = simulator("branching", workers=2)
    recording = record(sim, 1000, tmp_path / "data", seed=5, shard_traces=300)
    assert [shard.traces for shard in recording.shards] == [300, 300, 300, 100]
    assert recording.traces == 1000 and recording.seed == 5
    drawn, _ = sim._prior_chunk(5, 0, 1000)
    assert same(concatenate([recording.load(i)[0] for i in range(4)]), drawn)
    assert sorted(os.listdir(tmp_path / "data")) == ["index.json", *(f"traces-{i:06d}.ars" for i in range(4))]


def test_a_recording_goes_on_where_it_stopped(simulator: Make, tmp_path: Path) -> None:
    sim = simulator("branching", workers=2)
    record(sim, 250, tmp_path, seed=5, shard_traces=100)
    (tmp_path / ".traces-000003.ars.x.tmp").write_bytes(b"half a shard")  # killed in the middle of writing
    sim.close()
    recording = record(sim, 500, tmp_path, shard_traces=100)
    assert not list(tmp_path.glob(".*"))
    drawn, _ = sim._prior_chunk(5, 0, 500)
    assert same(concatenate([recording.load(i)[0] for i in range(len(recording))]), drawn)
    assert record(sim, 400, tmp_path).traces == 500  # has enough
    with pytest.raises(ShardError, match="recorded with seed 5, not 6"):
        record(sim, 600, tmp_path, seed=6)


def test_every_epoch_has_every_trace_once_in_another_order(simulator: Make, tmp_path: Path) -> None:
    recording = record(simulator("gaussian", workers=2), 1000, tmp_path, seed=1, shard_traces=300)
    keep, held = 900, recording.last(100)
    assert [n for columns, _ in held for n in columns.traces["trace"].tolist()] == list(range(900, 1000))

    def epochs(skip: int, batches: int) -> list[list[int]]:
        parts = itertools.islice(recording.batches(64, 3, keep, skip), batches)
        return [columns.traces["trace"].tolist() for columns, _ in parts]

    per_epoch = 3 * 5  # three shards of 300 in batches of 60; the last shard is held out
    first = epochs(0, 2 * per_epoch)
    one, two = first[:per_epoch], first[per_epoch:]
    assert sorted(itertools.chain(*one)) == sorted(itertools.chain(*two)) == list(range(900))
    assert one != two and list(itertools.chain(*one)) != list(range(900))
    assert {len(batch) for batch in one} == {60}
    done = sum(len(batch) for batch in first[:17])
    assert epochs(done, 4) == first[17:21]
    whole = sort_by_trace(concatenate([c for c, _ in itertools.islice(recording.batches(64, 3, keep), per_epoch)]))
    drawn = concatenate([recording.load(i)[0] for i in range(3)])
    np.testing.assert_array_equal(whole.samples["value"], drawn.samples["value"])
    np.testing.assert_array_equal(whole.values, drawn.values)


def test_any_damage_is_noticed_and_named(simulator: Make, tmp_path: Path) -> None:
    recording = record(simulator("gaussian", workers=2), 50, tmp_path, seed=1)
    path = tmp_path / "traces-000000.ars"
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    inside = json.loads(good[16 : 16 + int.from_bytes(good[8:12], "little")])
    padding = {"start": len(good) - inside["bytes"]}
    spans = [
        (padding["start"] + about["offset"], padding["start"] + about["offset"] + about["count"] * about["item"])
        for about in inside["columns"].values()
    ]
    places = [0, 9, 13, 20, 200] + [int(rng.integers(*span)) for span in spans if span[1] > span[0]]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 0x10
        path.write_bytes(bad)
        with pytest.raises(ShardError, match=r"traces-000000\.ars is damaged"):
            Recording(tmp_path).load(0)
    for size in (0, 10, 300, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(ShardError, match=r"traces-000000.ars is truncated or damaged"):
            Recording(tmp_path).load(0)
    path.unlink()
    with pytest.raises(ShardError, match=r"traces-000000.ars cannot be read: No such file"):
        recording.load(0)


def test_another_simulators_folder_is_refused_with_a_list(simulator: Make, tmp_path: Path) -> None:
    recording = record(simulator("gaussian", 3, workers=2), 200, tmp_path, seed=1)
    other = simulator("truncated_normal", "a", workers=2)
    with pytest.raises(ShardError) as error:
        recording.check_simulator(*other._prior_chunk(0, 0, 200))
    text = str(error.value)
    assert "holds traces of another simulator" in text and "gaussian 3" in text
    assert "sample 'mu' is in the folder, not in the simulator" in text
    assert "is in the simulator, not in the folder" in text
    longer = simulator("gaussian", 5, workers=2)
    with pytest.raises(ShardError, match="observe 'y' has 3 numbers in the folder, 5 in the simulator"):
        recording.check_simulator(*longer._prior_chunk(0, 0, 200))
    with pytest.raises(ShardError, match="use another folder"):
        record(longer, 300, tmp_path)
    recording.check_simulator(*simulator("gaussian", 3, workers=2)._prior_chunk(9, 0, 200))


def full_disk(descriptor: int) -> None:
    del descriptor
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_named_and_leaves_what_was_there(
    simulator: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = simulator("gaussian", workers=2)
    record(sim, 50, tmp_path, seed=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(StorageError, match=r"traces-000001.ars could not be written: the disk is full"):
            record(sim, 100, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert record(sim, 100, tmp_path).traces == 100

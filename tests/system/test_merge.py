"""Recordings and results made in parallel, put together: the bits of one run, or an error that says why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_traces import assert_same

import ars
from ars.cli import main
from ars.columns import concatenate
from ars.errors import ArsError, ShardError, StorageError
from ars.store.recordings import Recordings, open_recordings

DATA = {"y": 0.7}
PROPOSALS: dict[str, Any] = {"b": lambda t: ars.Normal(0.4 * t["a"], 1.1)}
SMALL: dict[str, Any] = {"lstm_dim": 8, "batch_size": 32, "held_out": 20, "seed": 1, "threads": 1, "progress": False}


@pytest.fixture
def sim(csim: Callable[[str], str], started: Callable[[Any], Any]) -> ars.Simulator:
    return started(ars.Simulator([csim("nested")], workers=2))  # type: ignore[no-any-return]


# ---- recordings ------------------------------------------------------------------------------------------------------


@pytest.fixture
def halves(sim: ars.Simulator, tmp_path: Path) -> tuple[Path, Path]:
    """Two recordings that are ranges of one: 60 traces from 0 and 100 traces from 60 on."""
    sim.record(60, tmp_path / "a", seed=5, shard_traces=60)
    sim.record(100, tmp_path / "b", seed=5, first_trace=60, shard_traces=100)
    return tmp_path / "a", tmp_path / "b"


def test_ranges_of_one_recording_are_that_recording(
    sim: ars.Simulator, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    whole, _ = sim._prior_chunk(5, 0, 160)
    merged = ars.merge([halves[1], halves[0]], tmp_path / "all")  # in whatever order
    assert isinstance(merged, Recordings) and merged.traces == 160
    for found in (merged, open_recordings([halves[0], halves[1]]), open_recordings(tmp_path / "all")):
        there = concatenate([found.load(i)[0] for i in range(len(found))])
        assert np.array_equal(there.traces["trace"], np.arange(160))
        assert there.samples["value"].tobytes() == whole.samples["value"].tobytes()
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["index.json"]  # nothing was copied
    assert [part["path"] for part in json.loads((tmp_path / "all/index.json").read_text())["parts"]] == ["../a", "../b"]


def test_training_on_several_recordings_is_training_on_one(
    sim: ars.Simulator, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    """A list, a merged folder and one recording with the same shards give the same losses, also if it is resumed."""
    pytest.importorskip("torch")
    one = sim.record(60, tmp_path / "one", seed=5, shard_traces=60)
    sim.record(160, one.directory, shard_traces=100)
    ars.merge(halves, tmp_path / "all")
    a, b = halves
    losses = []
    for i, (first, then) in enumerate([([a, b], [b, a]), (tmp_path / "all",) * 2, (one.directory,) * 2]):
        options = {**SMALL, "out": tmp_path / f"{i}.safetensors", "resume": True}
        sim.train(100, data=first, **options)
        losses.append(sim.train(200, data=then, **options).history.loss)
        with pytest.raises(ArsError, match="begun on other traces"):
            sim.train(300, data=a, **options)
    assert len(losses[0]) > 1 and losses[1] == losses[0] == losses[2]


def test_recordings_that_hold_the_same_traces_are_named(
    sim: ars.Simulator, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = halves
    with pytest.raises(ShardError, match=r"a and .*a hold the same traces: numbers 0 to 59 of seed 5"):
        open_recordings([a, b, a])
    shutil.copytree(b, tmp_path / "copy")
    with pytest.raises(ShardError, match=r"hold the same traces: numbers 60 to 159 of seed 5"):
        ars.merge([b, tmp_path / "copy"], tmp_path / "all")
    sim.record(10, tmp_path / "other", seed=6)
    assert open_recordings([tmp_path / "other", a, b]).traces == 170  # the same numbers of another seed
    assert not (tmp_path / "all").exists()


def test_recordings_of_other_simulators_builds_and_sizes_are_named(
    csim: Callable[[str], str], sim: ars.Simulator, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = halves
    for arguments in (["2"], ["3"]):
        with ars.Simulator([csim("gaussian"), *arguments], workers=1) as other:
            other.record(20, tmp_path / arguments[0], seed=int(arguments[0]))
    with pytest.raises(ShardError, match=r"different simulators: .*nested and .*gaussian 2"):
        open_recordings([a, tmp_path / "2"])
    index = tmp_path / "3/index.json"
    same_name = json.loads(index.read_text())
    index.write_text(json.dumps({**same_name, "command": [same_name["command"][0], "2"]}))
    with pytest.raises(ShardError, match=r"observe 'y' has 2 numbers in .*2, 3 in .*3"):
        open_recordings([tmp_path / "2", tmp_path / "3"])
    index = b / "index.json"
    recorded = json.loads(index.read_text())
    assert len(recorded["executable"]) == 64
    index.write_text(json.dumps({**recorded, "executable": "0" * 64}))
    with pytest.raises(ShardError, match="different builds of nested"):
        open_recordings([a, b])
    sim.record(10, tmp_path / "rejected", seed=9, max_rejected=4)
    with pytest.raises(ShardError, match="differ in max_rejected: 0 and 4"):
        open_recordings([a, tmp_path / "rejected"])
    with pytest.raises(ShardError, match="empty list"):
        open_recordings([])


def test_a_part_that_was_moved_or_has_changed_is_named(
    sim: ars.Simulator, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    a, b = halves
    ars.merge([a, b], tmp_path / "x/all")
    with pytest.raises(ShardError, match="refers to other recordings, and has no traces of its own"):
        sim.record(200, tmp_path / "x/all")
    with pytest.raises(ShardError, match="a is a recording itself"):
        ars.merge([b], a)
    shutil.move(tmp_path / "x", tmp_path / "y")  # beside the parts, as before
    assert open_recordings(tmp_path / "y/all").traces == 160
    sim.record(150, b)
    with pytest.raises(ShardError, match=r"b, which has changed: it held 100 traces of seed 5 .* now 150 traces"):
        open_recordings(tmp_path / "y/all")
    ars.merge([a, b], tmp_path / "y/all")
    again = ars.merge([tmp_path / "y/all"], tmp_path / "again")  # refers to the recordings themselves
    assert isinstance(again, Recordings) and [part.directory.name for part in again.parts] == ["a", "b"]
    b.rename(tmp_path / "gone")
    with pytest.raises(ShardError, match=r"refers to \.\./\.\./b, and there is no recording at .*: move it back"):
        open_recordings(tmp_path / "y/all")


def test_a_recording_keeps_its_first_trace(sim: ars.Simulator, halves: tuple[Path, Path]) -> None:
    with pytest.raises(ShardError, match="b begins with trace 60, not 0"):
        sim.record(200, halves[1], first_trace=0)
    assert sim.record(120, halves[1]).shards[-1].first_trace == 160


# ---- results ---------------------------------------------------------------------------------------------------------


def test_four_ranges_are_one_run(sim: ars.Simulator, tmp_path: Path) -> None:
    """Of the prior, of a fixed budget, and of a plan in two phases that all ranges share."""
    ranges = [(0, 10), (10, 40), (50, 49), (99, 21)]
    parts = [sim.prior(count, seed=3, first_trace=first) for first, count in ranges]
    whole = sim.prior(120, seed=3)
    assert_same(ars.Traces.concat(parts), whole)
    assert ars.Traces.concat(parts).run == whole.run and whole.run.ranges == ((0, 120),)
    chosen = sim.posterior(DATA, 150, proposals=PROPOSALS, seed=4, budget=ars.Budget.auto(phases=2)).budget
    for budget in (ars.Budget(M=1, R=1), chosen):
        options: dict[str, Any] = {"proposals": PROPOSALS, "budget": budget, "seed": 3}
        pieces = [sim.posterior(DATA, count, first_trace=first, **options) for first, count in ranges]
        one = sim.posterior(DATA, 120, **options)
        found = ars.Posterior.concat(pieces)
        assert_same(found, one)
        assert found.log_weights().tobytes() == one.log_weights().tobytes() and found.run == one.run
    files = [tmp_path / "a.nc", tmp_path / "b.nc"]
    ars.Posterior.concat(pieces[2:]).save(files[0])
    ars.Posterior.concat(pieces[:2]).save(files[1])
    ars.merge(files, tmp_path / "whole.nc")
    loaded = ars.Posterior.load(tmp_path / "whole.nc")
    assert_same(loaded, one)
    assert loaded.log_weights().tobytes() == one.log_weights().tobytes() and loaded.run == one.run


def test_results_that_are_not_of_one_run_are_named(sim: ars.Simulator, tmp_path: Path) -> None:
    def saved(name: str, **options: Any) -> Path:
        asked = {"observe": DATA, "traces": 10, "seed": 3, "budget": None, "proposals": PROPOSALS, **options}
        sim.posterior(**asked).save(tmp_path / name)
        return tmp_path / name

    first = saved("first.nc")
    for name, options, why in (
        ("gap.nc", {"first_trace": 30}, r"traces 10 to 29 are in none of the 2 parts.*--first-trace 10 --traces 20"),
        ("overlap.nc", {"first_trace": 9}, "1 traces are in more than one part: 9"),
        ("seed.nc", {"first_trace": 10, "seed": 4}, r"seed\.nc is not of the same run as .*first\.nc: seed is 3 and 4"),
        ("proposals.nc", {"first_trace": 10, "proposals": {"b": ars.Normal(0, 2)}}, "the proposals differ"),
    ):
        with pytest.raises(StorageError, match=why):
            ars.merge([first, saved(name, **options)], tmp_path / "whole.nc")
    with pytest.raises(StorageError, match="does not exist"):
        ars.merge([first, tmp_path / "nowhere.nc"], tmp_path / "whole.nc")
    with pytest.raises(StorageError, match=r"must end in \.nc"):
        ars.merge([first], tmp_path / "whole.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="merge one kind at a time"):
        ars.merge([first, tmp_path / "folder"], tmp_path / "whole.nc")
    assert not (tmp_path / "whole.nc").exists()


@pytest.mark.filterwarnings("ignore::ars.BiasWarning")
def test_traces_that_failed_and_were_dropped_are_no_gap(csim: Callable[[str], str], tmp_path: Path) -> None:
    with ars.Simulator([csim("nested")], workers=2, max_tries=2) as sim:
        failed = sim.prior(60, seed=1, on_failure="skip")
        assert not np.array_equal(failed.trace_numbers, np.arange(60))
        options: dict[str, Any] = {"observe": DATA, "traces": 30, "seed": 1, "on_failure": "skip", "budget": None}
        for first in (0, 30):
            sim.posterior(first_trace=first, **options).save(tmp_path / f"{first}.nc")
    merged = ars.merge([tmp_path / "0.nc", tmp_path / "30.nc"], tmp_path / "whole.nc")
    assert isinstance(merged, ars.Posterior) and merged.run.ranges == ((0, 60),) == failed.run.ranges


# ---- the command line ------------------------------------------------------------------------------------------------


def test_ranges_on_the_command_line(csim: Callable[[str], str], tmp_path: Path, capsys: Any) -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    nested, at = csim("nested"), str(tmp_path)
    for name, first in (("a", "0"), ("b", "40")):
        words = ["--out", f"{at}/{name}", "--traces", "40", "--seed", "1", "--first-trace", first, "--workers", "2"]
        assert main(["record", nested, *words, "--quiet"]) == 0
    assert main(["merge", f"{at}/all", f"{at}/a", f"{at}/b"]) == 0
    assert "all: 80 traces in 2 recordings" in capsys.readouterr().out
    assert main(["merge", f"{at}/listed", f"{at}/a", f"{at}/b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": f"{at}/listed", "traces": 80, "recordings": 2}
    training = [
        *("--traces", "100", "--lstm-dim", "8", "--batch-size", "20", "--threads", "1"),
        "--seed",
        "1",
        "--quiet",
    ]
    two = ["--data", f"{at}/a", "--data", f"{at}/b"]
    for name, data in (("all", ["--data", f"{at}/all"]), ("two", two)):
        assert main(["train", nested, *training, *data, "--out", f"{at}/{name}.safetensors"]) == 0
    assert main(["train", nested, *two, "--record", "10"]) == 2
    assert "--record needs one --data" in capsys.readouterr().err
    losses = [ars.Network.load(f"{at}/{name}.safetensors").history.loss for name in ("all", "two")]
    assert losses[0] == losses[1]

    infer = ["infer", nested, "--observe", "y=0.7", "--network", f"{at}/all.safetensors", "--workers", "2", "--quiet"]
    assert main([*infer, "--traces", "120", "--seed", "9", "--out", f"{at}/pilot.nc"]) == 0
    budget = ["--seed", "3", "--budget", f"{at}/pilot.nc"]
    for first, count in (("0", "20"), ("20", "30")):
        words = ["--first-trace", first, "--traces", count, "--out", f"{at}/{first}.nc"]
        assert main([*infer, *budget, *words]) in (0, 3)
    assert main([*infer, *budget, "--traces", "50", "--out", f"{at}/one.nc"]) in (0, 3)
    assert main(["merge", f"{at}/whole.nc", f"{at}/20.nc", f"{at}/0.nc"]) == 0
    assert_same(ars.Posterior.load(f"{at}/whole.nc"), ars.Posterior.load(f"{at}/one.nc"))
    capsys.readouterr()
    assert main(["merge", f"{at}/again.nc", f"{at}/20.nc", f"{at}/0.nc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == 50
    assert main(["merge", f"{at}/x.nc", f"{at}/0.nc", f"{at}/pilot.nc"]) == 1
    for words, why in (
        (["--first-trace", "5", "--budget", "1 1"], "--first-trace needs --seed"),
        (["--first-trace", "5", "--seed", "1"], "--first-trace needs a budget that all ranges share"),
        (["--first-trace", "5", "--seed", "1", "--error", "0.1"], "--first-trace needs --traces"),
    ):
        capsys.readouterr()
        assert main([*infer, *words]) == 2
        assert why in capsys.readouterr().err
    torch.set_num_threads(before)

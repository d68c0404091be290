"""Finished traces on disk, the controllers' leftovers, what is still missing, and the names of failures."""

from __future__ import annotations

import argparse
import os
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, pack

from ars import failures
from ars._native import FailureKind, LoopMethod, RunFlag, failure_name
from ars.cli.options import add_limits, limits
from ars.columns import Columns
from ars.errors import StorageError
from ars.progress import NoProgress
from ars.runtime.leftovers import owner_lives, remove_stale
from ars.runtime.limits import Limits, half_of_memory
from ars.runtime.recorder import Recorder
from ars.store import shards
from ars.store.resume import KeptRun, kept_seed
from ars.wire import Listed, RunConfig

ROOT = Path(__file__).resolve().parents[2]
SITES = (latent(0, "x"), loop_site(1, "loop"))
ABOUT: dict[str, Any] = {"seed": 7, "command": ["sim"], "observe": "abc"}


def some(*numbers: int, failed: tuple[int, ...] = ()) -> Columns:
    return pack(
        [Trace(n, failure=1 if n in failed else 0, samples=[] if n in failed else [Sample(0, n)]) for n in numbers]
    )


# ---- chunks ----------------------------------------------------------------------------------------------------------


def test_what_was_kept_comes_back_once_and_in_range(tmp_path: Path) -> None:
    with KeptRun(tmp_path / "run", ABOUT, failed_too=True) as run:
        assert len(run.load(0, 100)[0].traces) == 0
        run.keep(some(4, 2, failed=(2,)), SITES[:1])
        run.flush()
        run.keep(some(9, 4), SITES)
    assert kept_seed(tmp_path / "run") == 7
    assert kept_seed(tmp_path / "other") is None
    with KeptRun(tmp_path / "run", ABOUT, failed_too=True) as run:
        columns, sites = run.load(0, 9)
        assert sorted(columns.traces["trace"].tolist()) == [2, 4]
        assert columns.failures["trace"].tolist() == [2]
        assert columns.samples["value"].tolist() == [4.0]
        assert sites == SITES
        run.keep(some(11), SITES)  # into a chunk of its own
    assert len(list((tmp_path / "run").glob("chunk-*.ars"))) == 3


def looping(number: int, method: int) -> Columns:
    columns = pack([Trace(number, loops=[Loop(1, tries=3, tries_q=10, accepted_q=4, runs_p=2, tries_p=5)])])
    columns.loops["method"] = method
    return columns


@pytest.mark.parametrize("size", [72, 88, 96])  # without method and reasons; s_pq_main; what was given up
def test_chunks_from_before_loops_had_all_their_fields(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = looping(4, 0)
    new.loops["s_pq_main"] = np.nan  # 0 would be a measurement
    names = [name for name in new.loops.dtype.names or () if new.loops.dtype.fields[name][1] < size]
    old = np.zeros(1, [(name, new.loops.dtype[name]) for name in names])
    for name in names:
        old[name] = new.loops[name]
    assert old.itemsize == size
    with monkeypatch.context() as patch, KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        patch.setitem(shards._ITEMS, "loops", old.dtype)
        run.keep(new._replace(loops=old), SITES)
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        assert run.load(0, 9)[0].loops.tobytes() == new.loops.tobytes()


def test_a_repetition_may_have_been_estimated_in_another_way(tmp_path: Path) -> None:
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        run.keep(looping(4, LoopMethod.FORK), SITES)
        run.flush()
        run.keep(looping(4, LoopMethod.REWIND), SITES)
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        assert run.load(0, 9)[0].loops["method"].tolist() == [LoopMethod.FORK]


def test_failed_traces_are_run_again_if_failures_raise(tmp_path: Path) -> None:
    with KeptRun(tmp_path, ABOUT, failed_too=False) as run:
        run.keep(some(1, 2, failed=(2,)), SITES)
    with KeptRun(tmp_path, ABOUT, failed_too=False) as run:
        assert run.load(0, 10)[0].traces["trace"].tolist() == [1]


def test_traces_are_written_every_few_seconds(tmp_path: Path) -> None:
    now = 0.0
    with KeptRun(tmp_path, ABOUT, failed_too=True, clock=lambda: now) as run:
        for number in range(10):
            run.keep(some(number), SITES)
            now += 0.9
            # at most 3 traces are in memory only
            assert len(list(tmp_path.glob("chunk-*"))) >= (number - 2) // 3


def test_another_run_is_refused(tmp_path: Path) -> None:
    with KeptRun(tmp_path, ABOUT, failed_too=True), pytest.raises(StorageError, match="another process"):
        KeptRun(tmp_path, ABOUT, failed_too=True)
    with pytest.raises(StorageError, match="seed was 7, is 8; observe was 'abc', is 'x'"):
        KeptRun(tmp_path, ABOUT | {"seed": 8, "observe": "x"}, failed_too=True)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(StorageError, match="does not describe a run"):
        KeptRun(tmp_path, ABOUT, failed_too=True)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_chunk_costs_its_traces_only(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        run.keep(some(1), SITES)
        run.flush()
        run.keep(some(2), SITES)
    path = tmp_path / "chunk-000000.ars"
    raw = path.read_bytes()
    _, header, _ = struct.unpack_from("<8sII", raw)
    first = -(-(16 + header) // 64) * 64  # byte of the first column
    flipped = raw[:first] + bytes([raw[first] ^ 1]) + raw[first + 1 :]
    path.write_bytes({"cut": raw[:-64], "flipped": flipped, "empty": b""}[damage])
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        assert run.load(0, 10)[0].traces["trace"].tolist() == [2]
    assert "its traces are run again" in caplog.text


# ---- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("came", "missing"),
    [
        ([], [(5, 10)]),
        ([5], [(6, 9)]),
        ([14], [(5, 9)]),
        ([7, 6, 11], [(5, 1), (8, 3), (12, 3)]),
        (list(range(5, 15)), []),
    ],
)
def test_the_gaps_are_what_is_missing(came: list[int], missing: list[tuple[int, int]]) -> None:
    recorder = Recorder(10, "zero", NoProgress(), first=5)
    for number in came:
        recorder.take(some(number), lambda: SITES, str)
    assert recorder.missing() == missing


@pytest.mark.parametrize("came", [[], [5], [2, 9], [9, 5, 2]])
def test_one_run_is_left_of_a_listed_one(came: list[int]) -> None:
    """With the tries that are known of its traces."""
    tries = {2: [7], 5: [], 9: [8, 0]}

    def listed(numbers: list[int]) -> Listed:
        known = [tries[number] for number in numbers]
        return Listed(
            np.array(numbers, np.uint64),
            np.array([len(each) for each in known], np.uint32),
            np.array([x for each in known for x in each], np.uint32),
        )

    config = RunConfig(1, 3, RunFlag.PROPOSE_PRIOR, first_trace=2, listed=listed([2, 5, 9]))
    recorder = Recorder(3, "zero", NoProgress(), first=2)
    for number in came:
        recorder.take(some(number), lambda: SITES, str)
    left = recorder.left(config)
    missing = [number for number in tries if number not in came]
    assert len(left) == bool(missing)
    for run in left:
        assert (run.first_trace, run.n_traces) == (missing[0], len(missing))
        assert run.listed is not None
        for mine, theirs in zip(run.listed, listed(missing), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_the_first_failures_of_a_kind_come_with_what_was_said() -> None:
    recorder = Recorder(100, "zero", NoProgress(), seed=3)
    recorder.sites = SITES
    said = iter(["one", "two", "three"])
    for number in range(6):
        assert not recorder.take(some(number, failed=(number,)), lambda: SITES, lambda: next(said))
    assert recorder.n_failed == 6
    assert [f.stderr for f in recorder.failures()] == ["one", "two", "three", "", "", ""]
    assert {f.seed for f in recorder.failures()} == {3}
    assert recorder.error() is None


# ---- leftovers -------------------------------------------------------------------------------------------------------


def _dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _directory(parent: Path, pid: int, *, age: float = 3600.0, bound: bool = True) -> Path:
    path = parent / f"ars-{pid}-abc"
    path.mkdir()
    if bound:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path / "host"))
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path


def test_directories_of_dead_controllers_are_removed(tmp_path: Path) -> None:
    dead = _directory(tmp_path, _dead_pid())
    empty = _directory(tmp_path, _dead_pid(), bound=False)
    assert sorted(remove_stale([tmp_path, tmp_path])) == sorted(map(str, (dead, empty)))
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_got_the_number_of_a_dead_controller_keeps_no_directory(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        old = _directory(tmp_path, process.pid)
        assert not owner_lives(process.pid, old)
        assert remove_stale([tmp_path]) == [str(old)]
        since = _directory(tmp_path, process.pid, age=0.0)
        assert owner_lives(process.pid, since)
        assert remove_stale([tmp_path], now=time.time() + 86_400) == []
        assert since.is_dir()
        process.communicate(b"\n")
    assert remove_stale([tmp_path], now=time.time() + 86_400) == [str(since)]


def test_directories_in_use_stay(tmp_path: Path) -> None:
    pid = _dead_pid()
    mine = _directory(tmp_path, os.getpid())
    young = _directory(tmp_path, pid, age=0.0)
    (young / "host").rename(young / "still")
    other = tmp_path / f"ars-{pid}-file"
    other.mkdir()
    (other / "precious").write_text("data")
    answers = tmp_path / f"ars-{pid}-live"
    answers.mkdir()
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / f"ars-{pid}-link").symlink_to(target)
    for path in (other, answers):
        os.utime(path, (1, 1))
    with socket.socket(socket.AF_UNIX) as listener:  # of another container, whose pids we do not see
        listener.bind(str(answers / "host"))
        listener.listen()
        os.utime(answers, (1, 1))
        assert remove_stale([tmp_path]) == []
    for path in (mine, young, other, answers, target):
        assert path.is_dir()


# ---- controllers that were lost --------------------------------------------------------------------------------------


def _die_with(folder: Path) -> int:
    """A process that works on the run, and is killed."""
    code = f"k = KeptRun({str(folder)!r}, {ABOUT!r}, failed_too=True); os.kill(os.getpid(), 9)"
    process = subprocess.Popen([sys.executable, "-c", f"import os; from ars.store.resume import KeptRun; {code}"])
    assert process.wait() == -9
    return process.pid


def test_controllers_that_were_lost_are_remembered(tmp_path: Path) -> None:
    """Killed ones only: not one that ended, with an error or without, nor one that was never let in."""
    with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
        assert run.lost == ()
        with pytest.raises(StorageError, match="another process"):
            KeptRun(tmp_path, ABOUT, failed_too=True)
    with pytest.raises(KeyboardInterrupt), KeptRun(tmp_path, ABOUT, failed_too=True):
        raise KeyboardInterrupt
    with pytest.raises(StorageError, match="holds another run"):
        KeptRun(tmp_path, ABOUT | {"seed": 8}, failed_too=True)
    first, second = _die_with(tmp_path), _die_with(tmp_path)
    log = tmp_path / "controllers.jsonl"
    log.write_bytes(log.read_bytes() + b'[]\n{"id": "ab", "pro')  # what a power cut may leave
    for _ in range(2):  # they stay part of the run's history
        with KeptRun(tmp_path, ABOUT, failed_too=True) as run:
            assert len(run.lost) == 2
            assert run.lost[0].startswith(f"process {first} on ")
            assert run.lost[1].startswith(f"process {second} on ")
    recorder = Recorder(10, "raise", NoProgress(), seed=7)
    recorder.resumed(run.lost)
    told = failures.Failures(incidents=recorder.incidents)
    assert [incident.kind for incident in told.incidents] == ["lost_controller"] * 2
    assert not told  # no trace failed
    assert repr(told).startswith(
        "the run was resumed after 2 lost controllers\n  lost_controller: the controller (process"
    )
    assert "started again" not in repr(told)


# ---- names and limits ------------------------------------------------------------------------------------------------


def test_every_kind_of_failure_has_one_name_everywhere() -> None:
    ours = {failure_name(code) for code in FailureKind if code}
    assert set(failures.KINDS) == ours | {"lost_host", "lost_controller"}
    listed = re.findall(r'X\(ARS_FAIL_(\w+), "(\w+)"\)', (ROOT / "bridge/lib/fail.c").read_text())
    assert {name for _, name in listed} == ours
    assert all(code.lower() == name for code, name in listed)
    table = (ROOT / "bridge/PROTOCOL.md").read_text().split("### 4.12")[1].split("## 5.")[0]
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", table, re.M)] == list(range(1, len(ours) + 1))


def test_limits_reach_the_simulators_environment() -> None:
    assert Limits().environment({}) == {"ARS_MAX_PROCESSES": "4096", "ARS_MAX_MEMORY": str(half_of_memory())}
    few = Limits(max_snapshots=7, max_memory=0, max_processes=99)
    assert few.environment({}) == {"ARS_MAX_PROCESSES": "99", "ARS_SNAPSHOTS": "7"}
    assert few.environment({"ARS_SNAPSHOTS": "3"}) == {"ARS_MAX_PROCESSES": "99"}
    assert 1 << 28 < half_of_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def test_limits_on_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    add_limits(parser)
    assert limits(parser.parse_args([])) == {}
    given = ["--max-memory", "2G", "--trace-timeout", "0", "--try-timeout", "1.5", "--max-processes", "100"]
    expected = {"max_memory": 2 << 30, "trace_timeout": 0.0, "try_timeout": 1.5, "max_processes": 100}
    assert limits(parser.parse_args(given)) == expected
    Limits(**expected)
    for wrong in (["--max-memory", "2X"], ["--try-timeout", "-1"], ["--max-processes", "2"], ["--max-tries", "0"]):
        with pytest.raises(SystemExit):
            parser.parse_args(wrong)

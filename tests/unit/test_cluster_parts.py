"""Parts of ``ars.cluster`` that need no cluster: sizes of tasks, lost tasks, and what a worker checks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ars
from ars._native import RunFlag
from ars.progress import NoProgress
from ars.runtime import launch, started_files
from ars.runtime.recorder import Recorder
from ars.runtime.setup import Setup
from ars.wire import Listed, RunConfig

pytest.importorskip("distributed", reason="needs the extra cluster")
from distributed import KilledWorker
from distributed.comm import CommClosedError

from ars.cluster import flight, tasks
from ars.cluster.chunks import Chunks, Piece
from ars.cluster.fleet import Fleet
from ars.cluster.tasks import Executable, SentNetwork


def chunks(*counts: int) -> Chunks:
    """Of several runs, one after another."""
    first, pieces = 0, []
    for count in counts:
        recorder = Recorder(count, "raise", NoProgress(), first=first)
        pieces.append(Piece(recorder, RunConfig(1, count, RunFlag.PROPOSE_PRIOR, first_trace=first)))
        first += count
    return Chunks(pieces)


# ---- sizes of tasks --------------------------------------------------------------------------------------------------


def test_tasks_take_two_seconds_by_the_measured_speed() -> None:
    left = chunks(10_000_000)
    assert left.size(4) == 128  # nothing is known
    left.measured(128, 0.256)  # 500 traces per second
    assert left.size(4) == 1000
    for _ in range(50):
        left.measured(1000, 100.0)  # much slower from now on
    assert left.size(4) == 20
    left.measured(100, 0.0)  # a clock that did not move is no reason for a huge task
    assert left.size(4) == 65_536


def test_the_last_tasks_are_smaller_so_that_all_workers_finish_together() -> None:
    left = chunks(1000)
    left.measured(1_000_000, 1.0)
    sizes = []
    while left:
        sizes.append(left.next(workers=2).config.n_traces)
    assert sizes[:3] == [250, 188, 141] and sizes[-1] == 1
    assert sum(sizes) == 1000 and sizes == sorted(sizes, reverse=True)


def test_tasks_hold_every_trace_once_and_stay_within_their_run() -> None:
    left = chunks(300, 50, 700)
    given: list[int] = []
    lost = left.next(workers=1)
    left.give_back(lost)
    assert left.left == 1050
    while left:
        recorder, config = left.next(workers=1)
        numbers = range(config.first_trace, config.first_trace + config.n_traces)
        assert {recorder.missing()[0][0] for _ in numbers} == {
            0 if numbers[0] < 300 else 300 if numbers[0] < 350 else 350
        }
        given += numbers
    assert given == list(range(1050)) and left.left == 0


def test_a_listed_run_is_divided_by_its_list() -> None:
    numbers = np.array([3, 5, 8, 13, 21], dtype=np.uint64)
    config = RunConfig(1, 5, RunFlag.PROPOSE_PRIOR, first_trace=3, listed=Listed.of(numbers))
    left = Chunks([Piece(Recorder(5, "raise", NoProgress()), config)])
    found = []
    while left:
        part = left.next(workers=1).config
        assert part.listed is not None
        found += part.listed.traces.tolist()
    assert found == numbers.tolist()


# ---- tasks that are lost ---------------------------------------------------------------------------------------------


class Doomed:
    """A task whose worker is always lost."""

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        raise KilledWorker("task", SimpleNamespace(address="tcp://10.0.0.1:1"), 3)


class Nowhere:
    """A cluster on which nothing survives."""

    setup = Setup(("sim",))

    def size(self) -> tuple[int, int]:
        return 1, 1

    def submit(self, *_: object) -> Doomed:
        return Doomed()

    def send_again(self, _: object) -> None:
        pass

    def give_up(self, _: object) -> None:
        pass


def test_lost_tasks_are_noted_although_the_run_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "wait", lambda *_, **__: None)
    recorder = Recorder(100, "raise", NoProgress())
    left = Chunks([Piece(recorder, RunConfig(1, 100, RunFlag.PROPOSE_PRIOR))])
    with pytest.raises(ars.HostLostError, match="20 tasks were lost in a row"):
        list(flight.Flight(Nowhere(), left, None, None).outcomes(None))  # type: ignore[arg-type]
    assert recorder.restarts > 20 and {each.kind for each in recorder.incidents} == {"lost_host"}


def test_a_scheduler_that_is_lost_in_mid_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: object) -> None:
        raise CommClosedError("Stream is closed")

    def gather(_: object) -> None:
        closed(None)

    monkeypatch.setattr(flight, "wait", lambda *_, **__: None)
    monkeypatch.setattr(Doomed, "result", closed)
    scheduler = SimpleNamespace(address="tcp://10.0.0.9:8786")
    client: Any = SimpleNamespace(scheduler=scheduler, gather=gather, nthreads=lambda: {"tcp://10.0.0.1:1": 1})
    fleet = Fleet(client, Setup(("sim",)))
    monkeypatch.setattr(fleet, "submit", lambda *_: Doomed())
    left = Chunks([Piece(Recorder(100, "raise", NoProgress()), RunConfig(1, 100, RunFlag.PROPOSE_PRIOR))])
    with pytest.raises(ars.HostLostError, match=r"the scheduler at tcp://10.0.0.9:8786 no longer answers"):
        list(flight.Flight(fleet, left, None, None).outcomes(None))
    with pytest.raises(ars.HostLostError, match=r"the scheduler at tcp://10.0.0.9:8786 no longer answers"):
        fleet.gather(len, [], None)


def test_a_task_of_a_run_that_is_over_does_not_end_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RunInterrupted is a KeyboardInterrupt, which would end the worker's event loop."""

    def closed(*_: object) -> None:
        raise ars.RunInterrupted("the simulator was closed during the run")

    (file := tmp_path / "sim").write_bytes(b"one")
    file.chmod(0o755)
    plugin = tasks.Simulators("run", Setup((str(file),)), tasks.version_here())
    plugin.setup(None)
    worker = SimpleNamespace(address="tcp://10.0.0.1:1", plugins={"run": plugin})
    monkeypatch.setattr(tasks, "get_worker", lambda: worker)
    monkeypatch.setattr(tasks, "_run", closed)
    task = tasks.Task("run", RunConfig(1, 100, RunFlag.PROPOSE_PRIOR), None, "")
    refused = tasks.run_task(tasks.packed(task), None)
    plugin.teardown(None)
    assert isinstance(refused, tasks.Refused) and isinstance(refused.error, ars.HostLostError)


# ---- what a worker checks --------------------------------------------------------------------------------------------


def test_an_executable_is_read_again_only_if_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sim"
    file.write_bytes(b"one")
    file.chmod(0o755)
    reads: list[str] = []
    digest = hashlib.file_digest

    def counted(*arguments: Any) -> Any:
        reads.append("")
        return digest(*arguments)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    executable = Executable(Setup((str(file),)))
    first = executable.digest()
    assert executable.digest() == first == hashlib.sha256(b"one").hexdigest() and len(reads) == 1
    before = os.stat(file)
    file.write_bytes(b"two")  # the same size, and then the same time: as rsync --times leaves it
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert executable.digest() == hashlib.sha256(b"two").hexdigest() and len(reads) == 2
    file.unlink()
    with pytest.raises(ars.LaunchError, match="no such file"):
        executable.digest()


def test_an_executable_that_goes_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sim"
    file.write_bytes(b"one")
    file.chmod(0o755)
    found = started_files.resolve_command

    def removed_then(*arguments: Any) -> list[str]:
        command = found(*arguments)
        file.unlink()
        return command

    monkeypatch.setattr(started_files, "resolve_command", removed_then)
    with pytest.raises(ars.LaunchError, match="there is no such file"):
        Executable(Setup((str(file),))).digest()
    file.write_bytes(b"one")
    file.chmod(0o755)
    monkeypatch.setattr(launch, "resolve_command", removed_then)
    with pytest.raises(ars.LaunchError, match="the file no longer exists"):
        launch.Family([str(file)])


def test_a_network_that_is_not_the_one_that_was_sent() -> None:
    sent = SentNetwork(b"bytes of another network", b"")
    with pytest.raises(ars.NetworkError, match="another one here"):
        sent.network("0" * 64)

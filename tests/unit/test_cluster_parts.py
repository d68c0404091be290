"""Parts of ``ars.cluster`` that need no cluster: sizes of tasks, lost tasks, and what a worker checks."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
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

from ars.cluster import flight, simulators, tasks, watch
from ars.cluster.chunks import Chunks, Piece
from ars.cluster.errands import errands
from ars.cluster.fleet import Fleet
from ars.cluster.sent import SentNetwork, packed, unpacked
from ars.runtime.started_files import Executable


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


def test_tasks_get_smaller_while_they_are_lost_and_nothing_comes() -> None:
    """128 traces of a minute each would take two hours, which preempted workers do not have."""
    left = chunks(1000)
    sizes = []
    for _ in range(10):
        piece = left.next(workers=2)
        sizes.append(piece.config.n_traces)
        left.lost(piece)
    assert sizes == [128, 64, 32, 16, 8, 4, 2, 1, 1, 1] and left.left == 1000
    left.measured(1, 0.01)  # 100 traces per second
    assert left.size(2) == 200


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

    def lease(self) -> int:
        return 0

    def size(self) -> tuple[int, int]:
        return 1, 1

    def submit(self, *_: object) -> Doomed:
        return Doomed()

    def errand(self, *_: object) -> Doomed:
        return Doomed()

    def send(self, *_: object, **__: object) -> None:
        pass

    def give_up(self, _: object) -> None:
        pass


def test_lost_tasks_are_noted_although_the_run_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "wait", lambda *_, **__: None)
    recorder = Recorder(100, "raise", NoProgress())
    left = Chunks([Piece(recorder, RunConfig(1, 100, RunFlag.PROPOSE_PRIOR))])
    with pytest.raises(ars.HostLostError, match=r"20 tasks were lost in a row; .*lost with a task of \d+ traces"):
        list(flight.Flight(Nowhere(), left, None).outcomes(None))  # type: ignore[arg-type]
    assert recorder.restarts > 20 and {each.kind for each in recorder.incidents} == {"lost_host"}


def test_chains_and_data_sets_are_given_up_only_after_as_many_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask by itself gives a task up when four workers were lost with it."""
    monkeypatch.setattr(watch, "wait", lambda *_, **__: None)
    nowhere: Any = Nowhere()
    with pytest.raises(ars.HostLostError, match=r"20 tasks were lost in a row; .*lost with a group of chains"):
        list(errands(nowhere, len, [b"task"], None, "a group of chains"))


def fleet_of(**client: Any) -> Fleet:
    """On a cluster that is only its client's methods."""
    scheduler = SimpleNamespace(address="tcp://10.0.0.9:8786")
    client = {"status": "running", "nthreads": lambda: {"tcp://10.0.0.1:1": 1}, **client}
    made: Any = SimpleNamespace(scheduler=scheduler, **client)
    return Fleet(made, Setup(("sim",)))


def test_a_scheduler_that_is_lost_in_mid_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: object) -> None:
        raise CommClosedError("Stream is closed")

    monkeypatch.setattr(watch, "wait", lambda *_, **__: None)
    monkeypatch.setattr(Doomed, "result", closed)
    fleet = fleet_of()
    monkeypatch.setattr(fleet, "submit", lambda *_: Doomed())
    monkeypatch.setattr(fleet, "errand", lambda *_: Doomed())
    left = Chunks([Piece(Recorder(100, "raise", NoProgress()), RunConfig(1, 100, RunFlag.PROPOSE_PRIOR))])
    with pytest.raises(ars.HostLostError, match=r"the scheduler at tcp://10.0.0.9:8786 no longer answers"):
        list(flight.Flight(fleet, left, None).outcomes(None))
    with pytest.raises(ars.HostLostError, match=r"the scheduler at tcp://10.0.0.9:8786 no longer answers"):
        list(errands(fleet, len, [b"task"], None, "a data set"))


def test_a_client_that_was_closed_is_named() -> None:
    """Its methods then find no scheduler to ask, or refuse."""

    def closed(*_: object, **__: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'ncores'")

    fleet = fleet_of(status="closed", nthreads=closed, submit=closed, scatter=closed)
    for ask in (
        fleet.size,
        lambda: fleet.errand(len, b"task", None),
        lambda: fleet.send(SentNetwork(b"network", b"")),
    ):
        with pytest.raises(ars.HostLostError, match="the client was closed during the run, or has given up the sched"):
            ask()


def test_no_workers_for_too_long_ends_chains_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 10))
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(watch, "wait", lambda *_, **__: None)
    monkeypatch.setattr(Doomed, "done", lambda _: False)
    nowhere: Any = Nowhere()
    monkeypatch.setattr(nowhere, "size", lambda: (0, 0))
    with pytest.raises(ars.HostLostError, match="the cluster has had no workers for 70 s"):
        list(errands(nowhere, len, [b"task"], None, "a group of chains"))


def test_a_network_is_sent_again_once_for_all_tasks_that_were_lost_with_it() -> None:
    sent: list[object] = []

    def scatter(network: object, **_: object) -> object:
        sent.append(network)
        return object()

    fleet, network = fleet_of(scatter=scatter), SentNetwork(b"network", b"")
    first = fleet.send(network)
    assert fleet.send(network) is first and len(sent) == 1
    again = fleet.send(network, lost=first)
    assert again is not first and len(sent) == 2
    assert fleet.send(network, lost=first) is again and len(sent) == 2
    assert fleet.send(None) is None


def test_a_network_that_nobody_is_there_to_take() -> None:
    """Dask waits for a worker by itself, and then raises its own error, without .partial."""

    def scatter(_: object, timeout: float, **__: object) -> None:
        assert timeout == Setup(("sim",)).limits.startup_timeout
        raise TimeoutError("No valid workers found")

    with pytest.raises(ars.HostLostError, match="the cluster has had no workers for 60 s"):
        fleet_of(scatter=scatter).send(SentNetwork(b"network", b""))


# ---- tasks of runs that are over -------------------------------------------------------------------------------------


def plugin_in(folder: Path) -> simulators.Simulators:
    """On a worker that has the task "task"."""
    (file := folder / "sim").write_bytes(b"one")
    file.chmod(0o755)
    plugin = simulators.Simulators("run", Setup((str(file),)), simulators.version_here(), "presence")
    plugin.setup(SimpleNamespace(state=SimpleNamespace(tasks={"task": SimpleNamespace(state="executing")})))
    return plugin


def test_a_task_of_a_run_that_is_over_does_not_end_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RunInterrupted is a KeyboardInterrupt, which would end the worker's event loop."""

    def closed(*_: object) -> None:
        raise ars.RunInterrupted("the simulator was closed during the run")

    plugin = plugin_in(tmp_path)
    plugins = {"run": plugin}
    worker = SimpleNamespace(address="tcp://10.0.0.1:1", plugins=plugins, get_current_task=lambda: "task")
    monkeypatch.setattr(simulators, "get_worker", lambda: worker)
    monkeypatch.setattr(tasks, "_run", closed)
    task = packed(tasks.Task("run", RunConfig(1, 100, RunFlag.PROPOSE_PRIOR), None, ""))
    refused = tasks.run_task(task, None)
    plugin.teardown(None)
    assert isinstance(refused, simulators.Refused) and isinstance(refused.error, ars.HostLostError)
    assert refused.error.args == ("the simulator was closed during the run",)
    plugins.clear()
    refused = tasks.run_task(task, None)
    assert isinstance(refused, simulators.Refused) and isinstance(refused.error, ars.HostLostError)


# ---- an executable that changes while it starts ----------------------------------------------------------------------


def fitted(folder: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path, Any], object]) -> Any:
    """What a task gives that does ``work(executable, processes)`` and found the right executable when it began."""
    plugin = plugin_in(folder)
    worker = SimpleNamespace(address="tcp://10.0.0.1:1", plugins={"run": plugin}, get_current_task=lambda: "task")
    monkeypatch.setattr(simulators, "get_worker", lambda: worker)
    digest = hashlib.sha256(b"one").hexdigest()
    task = packed(tasks.Task("run", RunConfig(1, 100, RunFlag.PROPOSE_PRIOR), None, digest))
    try:
        return simulators.on_worker(task, lambda _, __, processes: work(folder / "sim", processes))
    finally:
        plugin._processes.session = None  # type: ignore[union-attr]
        plugin.teardown(None)


@pytest.mark.parametrize("error", [ars.LaunchError("the file no longer exists"), ars.HostLostError("gone"), OSError(2)])
def test_an_executable_that_is_removed_while_it_starts_is_the_reason_for_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def work(file: Path, _: Any) -> None:
        file.unlink()
        raise error

    refused = fitted(tmp_path, monkeypatch, work)
    assert isinstance(refused, simulators.Refused) and isinstance(refused.named(), ars.LaunchError)
    assert "worker tcp://10.0.0.1:1" in str(refused.error) and "there is no such file" in str(refused.error)


def test_traces_of_an_executable_that_was_replaced_while_it_started_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(file: Path, processes: Any) -> str:
        file.write_bytes(b"two")
        processes.session = object()
        return "traces"

    refused = fitted(tmp_path, monkeypatch, work)
    assert isinstance(refused, simulators.Refused) and "another build on this worker" in str(refused.named())


def test_an_executable_that_is_replaced_while_it_runs_spoils_no_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes are those of before. The next task finds the other one."""

    def work(file: Path, _: Any) -> str:
        file.write_bytes(b"two")
        return "traces"

    answer = fitted(tmp_path, monkeypatch, work)
    assert isinstance(answer, simulators.Answer) and answer.found == "traces"


def test_another_shared_library_is_named_with_both_workers() -> None:
    fleet = fleet_of()
    for worker, build in (("a", ""), ("b", "one"), ("c", ""), ("d", "one")):
        fleet.check_build(simulators.Answer(worker, f"{build} in {worker}", build, None))
    assert fleet.files.build == "one in b"
    with pytest.raises(ars.ArsError, match=r"worker e: sim loads another build of a shared library .* worker b:"):
        fleet.check_build(simulators.Answer("e", "one", "two", None))


def test_a_task_that_waited_for_another_one_starts_nothing_after_the_end(tmp_path: Path) -> None:
    """Of a worker with two threads: its simulator would belong to nobody."""
    plugin = plugin_in(tmp_path)
    with plugin.exclusively("task") as processes:
        plugin.teardown(None)
    with pytest.raises(ars.RunInterrupted, match="the run is over"), plugin.exclusively("task"):
        raise AssertionError("it has begun")
    assert not processes.running


@pytest.mark.parametrize("state", [None, "cancelled"])
def test_a_task_that_was_given_up_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Any) -> None:
    """Dask lets it run to its end, which may be hours away."""
    monkeypatch.setattr(simulators, "_LOOK", 0.001)
    plugin = plugin_in(tmp_path)
    there = plugin._worker.state.tasks
    with plugin.exclusively("task") as processes:
        lease = processes.lease()
        if state is None:
            there.clear()
        else:
            there["task"].state = state
        while processes.lease() == lease:  # nobody has closed it
            time.sleep(0.001)
    with pytest.raises(ars.RunInterrupted, match="the run is over"), plugin.exclusively("task"):
        raise AssertionError("it has begun")
    plugin.teardown(None)


@pytest.mark.parametrize("client_is_there", [True, False])
def test_a_simulator_whose_client_is_gone_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client_is_there: bool
) -> None:
    """A client that was killed has closed nothing."""
    asked: list[object] = []

    def ask(*_: object, keys: list[str], **__: object) -> dict[str, str | None]:
        asked.append(keys)
        return {"presence": "memory" if client_is_there else None}

    monkeypatch.setattr(simulators, "_LOOK", 0.001)
    monkeypatch.setattr(simulators, "_QUIET", 0.001)
    monkeypatch.setattr(simulators, "sync", ask)
    plugin = plugin_in(tmp_path)
    plugin._worker.loop, plugin._worker.scheduler = None, SimpleNamespace(get_task_status=None)
    with plugin.exclusively("task") as processes:
        assert not asked  # it has something to do
    while len(asked) < 2 and plugin._processes is not None:
        time.sleep(0.001)
    assert asked[0] == ["presence"]
    assert plugin._processes is (processes if client_is_there else None)
    with plugin.exclusively("task") as again:  # a task can come all the same
        assert (again is processes) == client_is_there
    plugin.teardown(None)


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    with (
        (tmp_path / "file").open("w") as file,
        pytest.raises(ars.ArsError, match=r"the proposals cannot be sent .*not opened"),
    ):
        packed({"x": lambda t: file.write(str(t))}, "the proposals")
    assert unpacked(packed({"x": lambda t: t + 1}))["x"](1) == 2


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
    with pytest.raises(ars.NetworkError, match="has a different network"):
        sent.network("0" * 64)

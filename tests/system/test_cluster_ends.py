"""How runs on a cluster end early, and what they are refused for: nothing hangs, nothing is lost, nothing is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_tools import DATA, gone
from same_traces import assert_same

import ars
from ars.runtime.leftovers import remove_stale

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
import ars.cluster  # noqa: E402
from ars.cluster import groups  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS: dict[str, Any] = {"threads_per_worker": 2, "dashboard_address": ":0", "silence_logs": 50}
CLIENT = """
import sys
import ars.cluster
from distributed import Client

class Say:
    def update(self, done, total):
        print(done, flush=True)

    def close(self):
        pass

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        ars.cluster.prior(client, sys.argv[2], 10**10, seed=1, workers=2, progress=Say())
"""
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ars":
            raise ModuleNotFoundError("No module named 'ars'", name="ars")

sys.meta_path.insert(0, Without())
"""  # a Python without libars


@pytest.fixture(scope="module")
def client(own_processes: Callable[[], dict[int, str]]) -> Iterator[Any]:
    """Two workers of two threads each: a task waits there while another one runs."""
    before = own_processes()
    with distributed.LocalCluster(n_workers=2, **OPTIONS) as cluster, distributed.Client(cluster) as made:
        yield made
    remove_stale([tempfile.gettempdir()], now=time.time() + 86_400)
    assert gone(lambda: {pid: what for pid, what in own_processes().items() if pid not in before})


@pytest.fixture(autouse=True)
def nothing_left_behind(own_processes: Callable[[], dict[int, str]]) -> Iterator[None]:
    """In place of the check of all other tests, which would find the cluster: no simulator outlives its run."""
    yield
    assert gone(lambda: {pid: what for pid, what in own_processes().items() if "ars-host" in what})


@pytest.fixture
def nested(csim: Callable[[str], str]) -> list[str]:
    return [csim("nested")]


class When:
    """Does something when so many traces have come in."""

    def __init__(self, traces: int, action: Callable[[], object]) -> None:
        self._traces, self._action = traces, action
        self.updates: list[tuple[int, int]] = []

    def update(self, done: int, total: int) -> None:
        self.updates.append((done, total))
        if done >= self._traces:
            self._traces = total + 1  # once
            self._action()

    def close(self) -> None:
        pass


def press() -> None:
    raise KeyboardInterrupt


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_client_that_cannot_be_used(client: Any, nested: list[str]) -> None:
    for wrong in (client.scheduler.address, client.cluster):
        with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
            ars.cluster.prior(wrong, nested, 10)
    with distributed.Client(client.cluster) as other:
        pass
    with pytest.raises(ValueError, match="the client is closed: make a new one"):
        ars.cluster.prior(other, nested, 10)


def test_an_asynchronous_client_needs_another_thread(client: Any, nested: list[str]) -> None:
    async def both() -> int:
        async with distributed.Client(client.scheduler.address, asynchronous=True) as other:
            with pytest.raises(ValueError, match=r"asyncio\.to_thread"):
                ars.cluster.prior(other, nested, 10)
            return len(await asyncio.to_thread(ars.cluster.prior, other, nested, 10, 1, workers=2))

    assert asyncio.run(both()) == 10


def test_code_that_cannot_be_sent(client: Any, nested: list[str]) -> None:
    lock = threading.Lock()

    def propose(_: object) -> ars.Normal:
        with lock:
            return ars.Normal(0.4, 1.1)

    for run in (
        lambda: ars.cluster.posterior(client, nested, DATA, 50, proposals={"b": propose}, workers=2),
        lambda: ars.cluster.mcmc(client, nested, DATA, 20, 4, proposals={"b": propose}, workers=2),
        lambda: ars.calibrate(nested, datasets=10, traces=20, proposals={"b": propose}, client=client),
    ):
        with pytest.raises(ars.ArsError, match=r"the proposals cannot be sent to the workers .*lock"):
            run()


def test_options_and_methods_that_there_are_not(client: Any, nested: list[str]) -> None:
    with pytest.raises(TypeError, match=r"ars\.cluster\.mcmc\(\) got an unexpected keyword argument 'bogus'"):
        ars.cluster.mcmc(client, nested, DATA, 20, bogus=1)
    with (
        ars.cluster.simulator(client, nested, workers=2) as simulator,
        pytest.raises(ars.ArsError, match=r"Chains need ars\.cluster\.mcmc"),
    ):
        simulator.mcmc(DATA, 20, 4, seed=1)


def test_a_module_that_workers_do_not_have_costs_no_worker(client: Any, nested: list[str], tmp_path: Path) -> None:
    """Of chains and calibrations, too."""
    (tmp_path / "mine_alone.py").write_text("import ars\n\n\ndef propose(t):\n    return ars.Normal(0.4, 1.1)\n")
    pids = client.run(os.getpid)
    sys.path.insert(0, str(tmp_path))
    try:
        import mine_alone  # type: ignore[import-not-found]

        proposals = {"b": mine_alone.propose}
        with pytest.raises(ars.ArsError, match=r"worker tcp://.*No module named 'mine_alone'"):
            ars.cluster.mcmc(client, nested, DATA, 20, 4, proposals=proposals, workers=2)
        with pytest.raises(ars.ArsError, match=r"worker tcp://.*No module named 'mine_alone'"):
            ars.calibrate(nested, datasets=10, traces=20, proposals=proposals, client=client)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("mine_alone", None)
    assert client.run(os.getpid) == pids


def test_workers_with_two_builds_where_the_client_has_none(client: Any, nested: list[str], tmp_path: Path) -> None:
    """Nobody but the workers can tell which build is meant: all must have that of the first that is asked."""
    before = client.run(os.getcwd)
    try:
        for number, worker in enumerate(before):
            (folder := tmp_path / str(number)).mkdir()
            shutil.copy(nested[0], folder / "only-there")
            client.run(os.chdir, folder, workers=[worker])
        assert len(ars.cluster.prior(client, "./only-there", 50, seed=1, workers=2)) == 50
        with (tmp_path / "1" / "only-there").open("ab") as file:
            file.write(b"another build")
        for run in (
            lambda: ars.cluster.prior(client, "./only-there", 10**10, seed=1, workers=2),
            lambda: ars.cluster.mcmc(client, "./only-there", DATA, 500, 8, seed=1, groups=4, workers=2),
        ):
            with pytest.raises(ars.ArsError, match=r"worker tcp://.*only-there is another build on this worker"):
                run()
    finally:
        for worker, folder in before.items():
            client.run(os.chdir, folder, workers=[worker])


def test_a_worker_without_libars_is_named_and_nothing_is_left(
    client: Any, nested: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes to a cluster whose other workers have it, and they have no plugin of the run afterwards."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    before = dict(client.nthreads())
    words = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--nthreads", "1"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    without = subprocess.Popen([*words, "--no-dashboard", "--no-nanny"], stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        client.wait_for_workers(len(before) + 1, timeout=120)
        [name] = set(client.nthreads()) - set(before)
        for run in (
            lambda: ars.cluster.prior(client, nested, 100, seed=1, workers=2),
            lambda: ars.cluster.mcmc(client, nested, DATA, 20, 4, seed=1, workers=2),
        ):
            with pytest.raises(ars.ArsError, match=rf"worker {name}: libars cannot be loaded there \(No module named"):
                run()
        assert set(client.nthreads()) == {*before, name}  # none was lost for it
        left = client.run(lambda dask_worker: [each for each in dask_worker.plugins if each.startswith("ars-")])
        assert not any(left.values())
    finally:
        without.terminate()
        without.wait(60)
    deadline = time.monotonic() + 120.0
    while set(client.nthreads()) != set(before):
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- several at once -------------------------------------------------------------------------------------------------


def test_runs_of_several_threads_and_clients_at_the_same_time(client: Any, nested: list[str]) -> None:
    found: dict[int, Any] = {}
    with distributed.Client(client.scheduler.address) as other:

        def run(number: int, mine: Any) -> None:
            found[number] = ars.cluster.prior(mine, nested, 500, seed=number, workers=2)

        threads = [threading.Thread(target=run, args=(i, (client, other)[i % 2])) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with ars.Simulator(nested, workers=2) as simulator:
        for number in range(4):
            assert_same(found[number], simulator.prior(500, seed=number))


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_a_simulator_that_another_thread_closes(client: Any, nested: list[str]) -> None:
    simulator = ars.cluster.simulator(client, nested, workers=2)
    begun = threading.Event()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            simulator.prior(10**10, seed=1, progress=When(1, begun.set))
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(300)
    with pytest.raises(RuntimeError, match="in the middle of a run"):
        simulator.prior(10, seed=1)
    simulator.close()
    thread.join(300)
    [error] = caught
    assert isinstance(error, ars.RunInterrupted) and error.partial is not None and len(error.partial) > 0
    assert len(simulator.prior(10, seed=1)) == 10
    simulator.close()


def test_chains_that_are_interrupted_keep_the_groups_that_were_done(
    client: Any, nested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has the bits of a run of its own on one machine, with the seed that was drawn for it."""
    asked: dict[str, Any] = {"seed": 1, "groups": 5, "workers": 2, "warmup": 10}
    shown = When(10**9, press)
    whole = ars.cluster.mcmc(client, nested, DATA, 20, 10, **asked, progress=shown)
    assert shown.updates[-1] == (10 * (20 + 10),) * 2 and [done for done, _ in shown.updates] == sorted(
        done for done, _ in shown.updates
    )
    seeds = np.random.SeedSequence(1).generate_state(5, np.uint64).tolist()
    with ars.Simulator(nested, workers=2) as simulator:
        for group in (0, 4):
            here = simulator.mcmc(DATA, 20, 2, seed=seeds[group], warmup=10)
            rows = slice(2 * group, 2 * group + 2)
            assert all(np.array_equal(whole[name][rows], here[name], equal_nan=True) for name in here)

    def pressed(*arguments: Any) -> Iterator[Any]:
        yield next(errands(*arguments))
        press()

    errands = groups.errands
    monkeypatch.setattr(groups, "errands", pressed)
    with pytest.raises(ars.RunInterrupted) as caught:
        ars.cluster.mcmc(client, nested, DATA, 20, 10, **asked)
    partial: Any = caught.value.partial
    assert partial is not None and partial.shape == (2, 20)


def test_a_client_that_is_killed_leaves_no_simulator(client: Any, nested: list[str], tmp_path: Path) -> None:
    """Neither one that works for it, nor one that waits: the fixture looks for processes."""

    def hurry() -> float:
        from ars.cluster import simulators

        before, simulators._QUIET = simulators._QUIET, 2.0  # type: ignore[misc]
        return before

    def back(seconds: float) -> None:
        from ars.cluster import simulators

        simulators._QUIET = seconds  # type: ignore[misc]

    [before, *_] = client.run(hurry).values()
    try:
        (tmp_path / "client.py").write_text(CLIENT)
        words = [sys.executable, str(tmp_path / "client.py"), client.scheduler.address, *nested]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        deadline = time.monotonic() + 120.0
        while any(client.run(_with_processes).values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        client.run(back, before)


def _with_processes(dask_worker: Any) -> list[str]:
    """Plugins of ours on a worker that have a simulator."""
    return [name for name, plugin in dask_worker.plugins.items() if getattr(plugin, "_processes", None) is not None]


def test_a_scheduler_that_is_lost(nested: list[str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [*words, "--no-dashboard", "--scheduler-file", str(file)], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    worker: Any = None
    try:
        while not file.exists():
            assert scheduler.poll() is None
            time.sleep(0.05)
        words = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
        words += ["--no-dashboard", "--no-nanny", "--death-timeout", "120"]
        worker = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=tmp_path)
        with distributed.Client(scheduler_file=str(file), timeout=120) as lonely:
            lonely._timeout = 5  # from now on: seconds until it gives up a scheduler that is gone
            killed = When(1, scheduler.kill)
            gone = r"the scheduler at tcp://[0-9.:]+( no longer answers|;)"  # the client may notice first, and close
            with pytest.raises(ars.HostLostError, match=gone) as caught:
                ars.cluster.prior(lonely, nested, 10**10, seed=1, workers=2, progress=killed)
            assert caught.value.partial is not None and len(caught.value.partial) > 0
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.terminate()
                process.wait(60)

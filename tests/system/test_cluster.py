"""Runs on a Dask cluster are, bit for bit, those of one machine, whatever happens to its workers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from cluster_tools import DATA, gone
from same_traces import assert_same

import ars
from ars.cli import dask_words, main
from ars.columns import take
from ars.runtime.leftovers import remove_stale

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
import dask  # noqa: E402

import ars.cluster  # noqa: E402
from ars.cluster.certificates import make_certificates  # noqa: E402
from ars.cluster.fleet import Fleet  # noqa: E402
from ars.cluster.sent import SentNetwork  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WORKERS = 2
KILLS = os.environ.get("ARS_CLUSTER") == "all"
SHIFTED = """
#include <ars.h>

double shift(void);

static void model(void *user) {
    (void)user;
    double x = ars_sample("x", ars_normal(0, 1));
    ars_observe("y", ars_normal(x + shift(), 1));
}

int main(int argc, char **argv) { return ars_main(argc, argv, model, NULL); }
"""  # which a library shifts
PROPOSALS: dict[str, Any] = {"b": lambda t: ars.Normal(0.4 * t["a"], 1.1)}


@pytest.fixture(scope="module")
def client(own_processes: Callable[[], dict[int, str]]) -> Iterator[Any]:
    """A cluster of this machine, with nannies, for all tests of this module. Nothing of it may be left in the end."""
    before = own_processes()
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    patient = {"distributed.deploy.lost-worker-timeout": "600s"}  # else it gives up a worker that is slow to come back
    with (
        dask.config.set(patient),
        distributed.LocalCluster(n_workers=WORKERS, **options) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made
    remove_stale([tempfile.gettempdir()], now=time.time() + 86_400)  # sockets of workers that were killed
    assert gone(lambda: {pid: what for pid, what in own_processes().items() if pid not in before})


@pytest.fixture(autouse=True)
def nothing_left_behind(own_processes: Callable[[], dict[int, str]]) -> Iterator[None]:
    """In place of the check of all other tests, which would find the cluster: no simulator outlives its run."""
    yield
    assert gone(lambda: {pid: what for pid, what in own_processes().items() if "ars-host" in what})


@pytest.fixture
def nested(csim: Callable[[str], str]) -> list[str]:
    return [csim("nested")]


@pytest.fixture(scope="module")
def network(csim: Callable[[str], str]) -> Any:
    pytest.importorskip("torch")
    with ars.Simulator([csim("nested")], workers=2) as simulator:
        return simulator.train(500, lstm_dim=8, batch_size=50, seed=1)


def resized(client: Any, workers: int) -> None:
    """Waits until the cluster has so many workers."""
    client.cluster.scale(workers)
    deadline = time.monotonic() + 120.0
    while len(client.nthreads()) != workers:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("workers", [1, 4, WORKERS] if KILLS else [WORKERS])
def test_any_number_of_workers(client: Any, nested: list[str], network: Any, workers: int) -> None:
    """The prior; proposals by hand, in two phases; a network with a fixed budget."""
    resized(client, workers)
    fixed: dict[str, Any] = {"network": network, "budget": ars.Budget(M=1, R=1), "seed": 3}
    with ars.Simulator(nested, workers=2) as simulator:
        prior = simulator.prior(500, seed=1)
        by_hand = simulator.posterior(DATA, 500, proposals=PROPOSALS, seed=2)
        by_network = simulator.posterior(DATA, 200, **fixed)
    assert_same(ars.cluster.prior(client, nested, 500, seed=1, workers=2), prior)
    there = ars.cluster.posterior(client, nested, DATA, 500, proposals=PROPOSALS, seed=2, workers=2)
    assert_same(there, by_hand)
    assert there.log_evidence("ars") == by_hand.log_evidence("ars")
    assert str(there.budget) == str(by_hand.budget)
    assert_same(ars.cluster.posterior(client, nested, DATA, 200, **fixed, workers=2), by_network)


@pytest.fixture
def elsewhere(client: Any) -> Iterator[Callable[..., None]]:
    """Moves workers to another folder, where they look for relative paths: elsewhere(folder, worker)."""
    before = client.run(os.getcwd)

    def move(folder: Path, *workers: str) -> None:
        client.run(os.chdir, folder, workers=list(workers) or None)

    yield move
    for worker, folder in before.items():
        client.run(os.chdir, folder, workers=[worker], on_error="ignore")


def test_a_network_file_is_that_of_the_client_whatever_the_nodes_have(
    client: Any,
    nested: list[str],
    network: Any,
    tmp_path: Path,
    elsewhere: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    network.save(tmp_path / "here" / "net.safetensors")
    with ars.Simulator(nested, workers=2) as simulator:
        other = simulator.train(100, lstm_dim=8, batch_size=50, seed=9)
    other.save(tmp_path / "there" / "net.safetensors")
    elsewhere(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "here")
    options: dict[str, Any] = {"budget": None, "seed": 3, "workers": 2}
    one = ars.cluster.posterior(client, nested, DATA, 100, "net.safetensors", **options)
    assert_same(one, ars.cluster.posterior(client, nested, DATA, 100, network, **options))

    send = Fleet.send  # and if another one comes in its place, a worker says so
    monkeypatch.setattr(Fleet, "send", lambda self, *_, **__: send(self, SentNetwork.of(other)))
    with pytest.raises(ars.NetworkError, match=r"worker tcp://.*this worker has a different network"):
        ars.cluster.posterior(client, nested, DATA, 100, network, **options)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")
def test_a_refinement(client: Any, nested: list[str], network: Any) -> None:
    """Its rounds are drawn by the workers, and the refined network has the bits of one machine."""
    config = ars.RefineConfig(
        traces=100, rounds=2, most=1, steps=6, batch_size=32, effective=20, enough=1.0, M=2, patience=2, seed=7
    )
    with ars.Simulator(nested, workers=2) as simulator:
        here = network.refine(simulator, DATA, config=config, threads=1)
    there = ars.cluster.refine(client, nested, network, DATA, config=config, threads=1, workers=2)
    assert here.refinement is not None and there.refinement is not None
    rounds = [
        [{name: value for name, value in each.items() if name != "seconds"} for each in about["rounds"]]
        for about in (here.refinement, there.refinement)
    ]
    assert len(rounds[0]) == 3  # the start, and two rounds
    np.testing.assert_equal(rounds[0], rounds[1])
    for about in ("ess_share", "ess_share_before", "best_round", "improved"):
        assert here.refinement[about] == there.refinement[about]
    mine, theirs = here.network.state_dict(), there.network.state_dict()
    assert mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


class Killer:
    """Kills a worker's process whenever a few more traces have come in, a limited number of times."""

    def __init__(self, client: Any, times: int) -> None:
        self._client, self._left, self._next = client, times, 1
        self.killed = 0

    def update(self, done: int, total: int) -> None:
        del total
        if self._left and done >= self._next:
            pids = list(self._client.run(os.getpid, on_error="ignore").values())
            if pids:  # else all of them are being started
                self._next = done + 200
                self._left -= 1
                os.kill(pids[self.killed % len(pids)], signal.SIGKILL)
                self.killed += 1

    def close(self) -> None:
        pass


def test_a_worker_that_is_killed_changes_no_bit(client: Any, nested: list[str]) -> None:
    with ars.Simulator(nested, workers=2) as simulator:
        prior = simulator.prior(2000, seed=5)
    killer = Killer(client, times=1)
    assert_same(ars.cluster.prior(client, nested, 2000, seed=5, workers=2, progress=killer), prior)
    assert killer.killed == 1
    resized(client, WORKERS)


@pytest.mark.skipif(not KILLS, reason="kills workers for a while: ARS_CLUSTER=all, as make chaos sets it")
def test_workers_that_are_killed_change_no_bit(client: Any, nested: list[str], network: Any, tmp_path: Path) -> None:
    with ars.Simulator(nested, workers=2) as simulator:
        prior = simulator.prior(2000, seed=5)
        post = simulator.posterior(DATA, 1000, network=network, budget=None, seed=3)
    killer = Killer(client, times=3)
    assert_same(ars.cluster.prior(client, nested, 2000, seed=5, workers=2, progress=killer), prior)
    assert killer.killed == 3
    options: dict[str, Any] = {"budget": None, "seed": 3, "workers": 2, "progress": Killer(client, times=3)}
    assert_same(ars.cluster.posterior(client, nested, DATA, 1000, network, **options), post)
    shards = [tmp_path / where for where in ("here", "there")]
    with ars.Simulator(nested, workers=2) as simulator:
        simulator.record(1500, shards[0], seed=1, shard_traces=700)
    killer = Killer(client, times=2)
    ars.cluster.record(client, nested, shards[1], 1500, seed=1, shard_traces=700, workers=2, progress=killer)
    names = [sorted(path.name for path in where.glob("*.ars")) for where in shards]
    assert names[0] == names[1] and len(names[0]) == 3 and killer.killed == 2
    asked: dict[str, Any] = {"seed": 1, "groups": 3, "workers": 2, "warmup": 100}
    chains = ars.cluster.mcmc(client, nested, DATA, 200, 6, **asked)
    killer = Killer(client, times=2)
    again = ars.cluster.mcmc(client, nested, DATA, 200, 6, **asked, progress=killer)
    assert all(np.array_equal(chains[name], again[name], equal_nan=True) for name in chains) and killer.killed == 2
    resized(client, WORKERS)


def test_a_folder_on_the_client_is_resumed(client: Any, nested: list[str], tmp_path: Path) -> None:
    options: dict[str, Any] = {"proposals": {"b": ars.Normal(0.4, 1.1)}, "budget": ars.Budget(M=1, R=1), "seed": 4}
    options |= {"workers": 2, "resume": tmp_path / "kept"}
    part = ars.cluster.posterior(client, nested, DATA, 300, **options)
    whole = ars.cluster.posterior(client, nested, DATA, 600, **options)
    assert whole.stats["traces_resumed"] == len(part)
    folder = {"resume": options.pop("resume")}
    first = ars.cluster.posterior(client, nested, DATA, 100, **options)
    del options["workers"]
    with ars.Simulator(nested, workers=2) as simulator:
        here = simulator.posterior(DATA, 600, **options)
        longer = simulator.posterior(DATA, 650, **options, **folder)  # one machine goes on with the cluster's folder
        rest = simulator.posterior(DATA, 500, first_trace=100, **options)
    assert_same(whole, here)
    assert longer.stats["traces_resumed"] == 600
    assert_same(ars.Posterior.concat([first, rest]), here)  # a part of either kind


def test_a_recording(client: Any, nested: list[str], tmp_path: Path) -> None:
    with ars.Simulator(nested, workers=2) as simulator:
        simulator.record(700, tmp_path / "here", seed=1, shard_traces=300)
    ars.cluster.record(client, nested, tmp_path / "there", 700, seed=1, shard_traces=300, workers=2)
    shards = [sorted(path.name for path in (tmp_path / where).glob("*.ars")) for where in ("here", "there")]
    assert shards[0] == shards[1] and len(shards[0]) == 3
    here, there = (ars.store.shards.Recording(tmp_path / where) for where in ("here", "there"))
    assert [shard.traces for shard in here.shards] == [shard.traces for shard in there.shards]


def test_chains_in_groups(client: Any, nested: list[str]) -> None:
    chains = ars.cluster.mcmc(client, nested, DATA, 60, 6, seed=1, groups=3, workers=2, warmup=30)
    again = ars.cluster.mcmc(client, nested, DATA, 60, 6, seed=1, groups=3, workers=2, warmup=30)
    assert chains.shape == (6, 60) and set(chains) == {"a", "b", "sum"}
    assert all(np.array_equal(chains[name], again[name], equal_nan=True) for name in chains)
    assert len({tuple(row) for row in chains["a"]}) == 6


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ars.BiasWarning")
def test_a_failure_ends_the_run_as_on_one_machine(client: Any, nested: list[str]) -> None:
    with pytest.raises(ars.TraceFailure, match="too_many_tries") as caught:
        ars.cluster.prior(client, nested, 2000, seed=1, workers=2, max_tries=2)
    assert caught.value.partial is not None and len(caught.value.partial) > 0
    zero = ars.cluster.prior(client, nested, 500, seed=1, workers=2, max_tries=2, on_failure="skip")
    with ars.Simulator(nested, workers=2, max_tries=2) as simulator, pytest.warns(ars.BiasWarning):
        here = simulator.prior(500, seed=1, on_failure="skip")
    assert zero.failures["too_many_tries"] == here.failures["too_many_tries"] > 0


def test_a_worker_without_the_executable_is_named(client: Any, tmp_path: Path) -> None:
    with pytest.raises(ars.LaunchError, match=r"worker tcp://.*no such file"):
        ars.cluster.prior(client, [str(tmp_path / "missing")], 10)


def test_another_build_is_named(client: Any, nested: list[str], tmp_path: Path) -> None:
    copy = tmp_path / "nested"
    shutil.copy(nested[0], copy)
    with ars.cluster.simulator(client, [str(copy)], workers=2) as simulator:
        simulator.prior(10, seed=1)
        other = tmp_path / "other"
        other.write_bytes(copy.read_bytes() + b"another build")
        other.chmod(0o755)
        other.replace(copy)
        with pytest.raises(ars.ArsError, match="another build on this worker"):
            simulator.prior(10, seed=1)


class When:
    """Does something once, when so many traces have come in."""

    def __init__(self, traces: int, action: Callable[[], object]) -> None:
        self._traces, self._action = traces, action
        self.happened = False

    def update(self, done: int, total: int) -> None:
        del total
        if done >= self._traces and not self.happened:
            self.happened = True
            self._action()

    def close(self) -> None:
        pass


def test_ctrl_c_keeps_the_traces_and_the_workers(client: Any, nested: list[str]) -> None:
    """Tasks of seconds are in the middle of their work by then. What ends them must not end the workers."""
    resized(client, WORKERS)
    pids = client.run(os.getpid)

    def press() -> None:
        raise KeyboardInterrupt

    with pytest.raises(ars.RunInterrupted) as caught:
        ars.cluster.prior(client, nested, 1_000_000, seed=1, workers=2, progress=When(20_000, press))
    assert caught.value.partial is not None and len(caught.value.partial) >= 20_000
    assert len(ars.cluster.prior(client, nested, 100, seed=1, workers=2)) == 100
    assert client.run(os.getpid) == pids


@pytest.mark.parametrize("wrong", ["another build on this worker", "there is no such file"])
def test_one_worker_that_does_not_fit_is_named_and_nothing_is_lost(
    client: Any,
    nested: list[str],
    tmp_path: Path,
    elsewhere: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    """The executable is replaced, or removed, on one of two workers in the middle of a run, or while its simulator
    starts. The run would take days: it cannot end before that worker has had another task."""
    resized(client, WORKERS)  # one that was lost in an earlier test may be on its way back
    workers = list(client.nthreads())
    for folder, worker in zip(("good", "bad"), workers, strict=True):
        (tmp_path / folder).mkdir()
        shutil.copy(nested[0], tmp_path / folder / "sim")
        elsewhere(tmp_path / folder, worker)
    monkeypatch.chdir(tmp_path / "good")
    bad = tmp_path / "bad" / "sim"

    def spoil() -> None:
        if "build" in wrong:
            other = tmp_path / "other"
            other.write_bytes(bad.read_bytes() + b"another build")
            other.chmod(0o755)
            other.replace(bad)
        else:
            bad.unlink()

    spoiled = When(200, spoil)
    with pytest.raises(ars.ArsError, match=wrong) as caught:
        ars.cluster.prior(client, ["./sim"], 10**10, seed=1, workers=2, progress=spoiled)
    assert spoiled.happened and f"worker {workers[1]}" in str(caught.value)
    partial: Any = caught.value.partial
    assert partial is not None and len(partial) >= 200
    kept = partial.columns.traces["trace"].astype(np.int64)
    kept = kept[kept < 5000]  # the others took the same way
    with ars.Simulator(nested, workers=2) as simulator:
        whole = simulator.prior(5000, seed=1)
    first = SimpleNamespace(columns=take(partial.columns, np.arange(len(kept))), sites=partial.sites)
    assert_same(first, SimpleNamespace(columns=take(whole.columns, kept), sites=whole.sites))


def test_an_executable_that_is_removed_while_it_starts_is_named(
    client: Any, nested: list[str], tmp_path: Path, elsewhere: Callable[..., None]
) -> None:
    """By then, the worker has found that it is the right one."""

    def remove_then_start() -> None:
        import pathlib

        from ars.runtime import launch

        real = launch._start

        def start(argv: list[str], *rest: Any) -> Any:
            launch._start = real
            pathlib.Path(argv[0]).unlink()
            return real(argv, *rest)

        launch._start = start

    resized(client, WORKERS)
    workers = list(client.nthreads())
    for worker in workers:
        (folder := tmp_path / worker.rpartition(":")[2]).mkdir()
        shutil.copy(nested[0], folder / "sim")
        elsewhere(folder, worker)
    client.run(remove_then_start, workers=workers[1:])
    with pytest.raises(ars.LaunchError, match="there is no such file") as caught:
        ars.cluster.prior(client, ["./sim"], 10**10, seed=1, workers=2)
    assert f"worker {workers[1]}" in str(caught.value)


def test_another_shared_library_is_named(client: Any, tmp_path: Path, elsewhere: Callable[..., None]) -> None:
    """The executable is the same on both workers, and so nothing else could tell."""
    resized(client, WORKERS)
    (tmp_path / "sim.c").write_text(SHIFTED)
    for worker, shift in zip(client.nthreads(), ("0.5", "0.25"), strict=True):
        (folder := tmp_path / worker.rpartition(":")[2]).mkdir()
        source = folder / "shift.c"
        source.write_text(f"double shift(void);\ndouble shift(void) {{ return {shift}; }}\n")
        subprocess.run([COMPILERS[0], "-shared", "-fPIC", source, "-o", folder / "libshift.so"], check=True)
        elsewhere(folder, worker)
    link = [f"-L{folder}", "-lshift", "-Wl,-rpath,$ORIGIN"]
    built = Builder(tmp_path / "built").program([tmp_path / "sim.c"], Variant(COMPILERS[0], ("-O2",)), link=link)
    for worker in client.nthreads():
        shutil.copy(built, tmp_path / worker.rpartition(":")[2] / "sim")
    for run in (
        lambda: ars.cluster.prior(client, ["./sim"], 10**10, seed=1, workers=2),
        lambda: ars.cluster.mcmc(client, ["./sim"], {"y": 1.0}, 50, 8, seed=1, groups=4, workers=2),
    ):
        with pytest.raises(ars.ArsError, match=r"worker .*\./sim loads another build of a shared library here than on"):
            run()


def test_a_module_that_workers_do_not_have_is_named(client: Any, nested: list[str], tmp_path: Path) -> None:
    """Code that comes with the client's own proposals: here, one of a module that only the client has."""
    (tmp_path / "only_here.py").write_text("import ars\n\n\ndef propose(t):\n    return ars.Normal(0.4, 1.1)\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import only_here  # type: ignore[import-not-found]

        with pytest.raises(ars.ArsError, match=r"worker tcp://.*cannot load.*No module named 'only_here'"):
            ars.cluster.posterior(client, nested, DATA, 50, proposals={"b": only_here.propose}, workers=2)
        assert len(client.nthreads()) == WORKERS  # none was lost for it
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("only_here", None)


def test_a_cluster_without_workers_is_not_waited_for(nested: list[str]) -> None:
    options = {"n_workers": 0, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as lonely,
        pytest.raises(ars.LaunchError, match=r"has no workers after 1 s"),
    ):
        ars.cluster.prior(lonely, nested, 10, startup_timeout=1)


@pytest.mark.parametrize("scheme", ["", "tls://"])
def test_a_listener_that_is_no_scheduler(
    nested: list[str], scheme: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It accepts connections, and says nothing. Dask by itself would wait forever."""
    monkeypatch.setattr(dask_words, "_CONNECT_WITHIN", 0.5)
    monkeypatch.setattr(dask_words, "_GREET_WITHIN", 0.5)
    files = make_certificates(tmp_path / "tls")
    tls = ["--tls-ca", str(files.ca), "--tls-cert", str(files.cert), "--tls-key", str(files.key)] if scheme else []
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"{scheme}127.0.0.1:{mute.getsockname()[1]}"
        assert main(["infer", *nested, "--observe", "y=1", "--dask", address, *tls]) == 1
    assert "no scheduler answers there, or it refuses the connection" in capsys.readouterr().err


# ---- calibration -----------------------------------------------------------------------------------------------------


def test_a_calibration_is_that_of_one_machine(client: Any, csim: Callable[[str], str]) -> None:
    options: dict[str, Any] = {"datasets": 12, "traces": 30, "seed": 3, "budget": ars.Budget(M=1, N=4)}
    options["proposals"] = {"z": ars.Normal(-1.0, 1.0)}
    command = [csim("truncated_normal"), "b"]
    found = [ars.calibrate(command, **options, client=where) for where in (None, client)]
    here, there = ([{**record.to_dict(), "seconds": 0.0} for record in each.records] for each in found)
    assert here == there


# ---- the command line ------------------------------------------------------------------------------------------------


def test_infer_on_a_cluster(client: Any, nested: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--observe", "y=0.7", "--traces", "300", "--seed", "1", "--workers", "2", "--quiet"]
    assert main(["infer", *nested, *common]) == 0
    here = capsys.readouterr().out
    assert main(["infer", *nested, *common, "--dask", client.scheduler.address]) == 0
    there = capsys.readouterr().out
    rows = [line for line in here.splitlines() if line.split()[:1] in (["a"], ["b"], ["sum"])]
    assert rows and all(row in there for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dask", "127.0.0.1:1", "--listen", "tcp://*:5555"], "--dask or --listen, not both"),
        (["--tls-ca", "ca.pem"], "--tls-ca goes with --dask"),
        (["--dask", "tls://127.0.0.1:1", "--tls-ca", "ca.pem"], "needs all of --tls-ca, --tls-cert and --tls-key"),
    ],
)
def test_options_that_contradict_each_other(
    nested: list[str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["infer", *nested, "--observe", "y=1", *words]) == 2
    assert message in capsys.readouterr().err


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example runs, on the cluster that is there."""
    root = Path(__file__).resolve().parents[2]
    [block] = re.findall(r"```python\n(.*?)```", (root / "docs/cluster.md").read_text(), flags=re.DOTALL)
    [decay] = re.findall(r"```c\n(.*?)```", (root / "README.md").read_text(), flags=re.DOTALL)
    (tmp_path / "decay.c").write_text(decay)
    built = Builder(tmp_path / "built").program([tmp_path / "decay.c"], Variant(COMPILERS[0], ("-O2",)))
    (tmp_path / "decay").symlink_to(built)
    monkeypatch.chdir(tmp_path)
    call = re.search(r"ars\.cluster\.posterior\(client, \[\"\./decay\"\], (.*)\)\n", block)
    assert call is not None
    post = ars.cluster.posterior(client, [str(built)], {"signal": 1.2}, traces=500, seed=1)
    assert "traces=2_000, seed=1" in call[1] and '{"signal": 1.2}' in call[1]
    assert len(post) == 500

"""Death in any order, resumed runs, limits: nothing hangs, nothing is lost, and every number is the right one."""

from __future__ import annotations

import functools
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from family_tools import ROLES, RUN_CLI, end, environment, members, wait_for

import ars
from ars.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

HERE = Path(__file__).resolve().parent
BUDGET = ars.Budget(M=2, N=4)
OBSERVE = {"y1": 0.0, "y2": 0.0}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("faults"))
    (program,) = builder.programs([([HERE / "faults" / "faults.c"], Variant(COMPILERS[0], ("-O1",)))])
    return str(program)


@pytest.fixture
def start_forking(faults: str, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    """For tests of processes: every continuation has one."""

    def make(*arguments: object, **options: Any) -> ars.Simulator:
        settings = {"workers": 2, "continuations": "fork", **options}
        return started(ars.Simulator([faults, *map(str, arguments)], **settings))

    return make


@pytest.fixture
def start(start_forking: Callable[..., ars.Simulator], mode: str) -> Callable[..., ars.Simulator]:
    return functools.partial(start_forking, continuations=mode)


def posterior(sim: ars.Simulator, traces: int = 200, **options: Any) -> ars.Posterior:
    options = {"observe": {"y": 0.5}, "budget": BUDGET, "seed": 3, **options}
    return sim.posterior(traces=traces, **options)


# ---- death -----------------------------------------------------------------------------------------------------------


# Which entries are estimated both ways depends on who came first, and so does what it cost.
COUNTERS = {
    "auto": ("traces", "tries_q", "tries_p"),
    "fork": ("traces", "snapshots", "continuations", "tries_q", "tries_p"),
}
DEATHS = [("fork", role) for role in ROLES] + [("auto", role) for role in ("host", "zygote", "worker")]


@pytest.mark.parametrize(("mode", "role"), DEATHS)
def test_one_death_costs_nothing(mode: str, role: str, csim: Callable[[str], str]) -> None:
    """kill -9 of one process of the family: the run goes on, and its result is the one it would have had."""
    traces = 150 if mode == "fork" else 2000  # it lasts long enough for the killer

    def run(sim: ars.Simulator) -> ars.Posterior:
        return sim.posterior(
            observe=OBSERVE,
            traces=traces,
            proposals={"x1": ars.Normal(0.0, 0.6)},
            budget=ars.Budget(M=10, N=20),
            seed=4,
        )

    with ars.Simulator([csim("marsaglia")], workers=2, continuations=mode) as sim:
        right = run(sim)
        done = threading.Event()
        killed: list[float] = []

        def kill() -> None:
            while not done.is_set():
                assert sim.pid is not None or not sim.running
                for member in list(members(sim.pid or 0)):
                    token = environment(sim.pid or 0).get("ARS_TOKEN", "")
                    if member.role == role and token and end(member.pid, token):
                        killed.append(time.monotonic())
                        return

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            post = run(sim)
        finally:
            done.set()
            killer.join()
        assert killed, "the run was over before anything could be killed"
        assert not post.failures
        for method in ("ars", "ic", "biased"):
            assert post.log_weights(method).tobytes() == right.log_weights(method).tobytes()
        assert post["mu"].tobytes() == right["mu"].tobytes()
        for name in COUNTERS[mode]:
            assert post.stats[name] == right.stats[name] > 0, name
        # One per trace at least; how many are left to the prior before that is known depends on who asks first.
        assert min(post.stats["requests"], right.stats["requests"]) >= traces
        lost = role in ("host", "zygote")
        assert post.stats["restarts"] == lost
        assert right.stats["traces_of_lost_hosts"] == 0
        assert 0 <= post.stats["traces_of_lost_hosts"] < traces * lost + (not lost)
        if lost:
            assert post.failures.incidents[0].kind == "lost_host"
            assert "signal 9" in post.failures.incidents[0].text or "SIGKILL" in post.failures.incidents[0].text
        else:
            assert post.stats["replays"] <= 1  # 0: it was between two traces, or had done its work


CONTROLLER = """
import sys, ars
ars.Simulator._estimates_the_prior = True
sim = ars.Simulator([sys.argv[1]], workers=2, continuations=sys.argv[2])
sim.prior(1)
print(sim.pid, flush=True)
options = {"resume": sys.argv[3]} if len(sys.argv) > 3 else {}
post = sim.posterior({"y1": 0.0, "y2": 0.0}, 10_000_000, budget=ars.Budget(M=2, N=4), seed=5, **options)
"""


def _controller(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_killed_controller_leaves_nothing_and_can_be_resumed(
    mode: str, csim: Callable[[str], str], tmp_path: Path
) -> None:
    """Within 5 seconds the whole family is gone; the next controller goes on, and gives what one run would have."""
    folder = tmp_path / "run"
    process, host = _controller(csim("marsaglia"), mode, str(folder))
    token = environment(host)["ARS_TOKEN"]
    directory = Path(environment(host)["ARS_ENDPOINT"].removeprefix("ipc://")).parent
    try:
        assert wait_for(lambda: list(folder.glob("chunk-*.ars")), 60)
        family = [member.pid for member in members(host)]
        assert len(family) > 3
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    # 5 s are promised (docs/reliability.md); the rest is for a machine that stands still.
    gone = wait_for(lambda: not any(environment(pid).get("ARS_TOKEN") == token for pid in family), 20)
    assert gone, "the family outlived its controller"

    with ars.Simulator([csim("marsaglia")], workers=3, continuations=mode) as sim:
        whole = sim.posterior(OBSERVE, 2000, budget=BUDGET, seed=5)
        resumed = sim.posterior(OBSERVE, 2000, budget=BUDGET, resume=folder)  # with the folder's seed
        assert resumed.stats["traces_resumed"] > 0
        (incident,) = resumed.failures.incidents
        assert (incident.kind, incident.trace, incident.seed) == ("lost_controller", -1, 5)
        assert f"the controller (process {process.pid} on " in incident.text
        assert "resumed after 1 lost controllers" in resumed.summary()
        assert not resumed.failures
        assert not whole.failures.incidents
        for name in COUNTERS[mode]:
            assert resumed.stats[name] == whole.stats[name] > 0, name
        assert resumed.log_weights("ars").tobytes() == whole.log_weights("ars").tobytes()
        assert resumed["mu"].tobytes() == whole["mu"].tobytes()
        again = sim.posterior(OBSERVE, 1000, budget=BUDGET, seed=5, resume=folder)
        assert again.stats["traces_resumed"] == 1000
        assert again.log_weights("ars").tobytes() == whole.log_weights("ars")[:1000].tobytes()
        with pytest.raises(ars.ArsError, match="holds another run: seed was 5, is 6"):
            sim.posterior(OBSERVE, 1000, budget=BUDGET, seed=6, resume=folder)
        with pytest.raises(ars.ArsError, match="holds another run: N was 4, is 5; observe: y2"):
            sim.posterior({"y1": 0.0, "y2": 1.0}, 1000, budget=ars.Budget(M=2, N=5), seed=5, resume=folder)
    # what it left behind is removed by a later controller, when it is old enough to be nobody's
    if directory.exists():
        os.utime(directory, (1, 1))
        with ars.Simulator([csim("marsaglia")], workers=1) as sim:
            sim.prior(1)
        assert not directory.exists()


def test_ctrl_c_stops_with_a_summary_and_resume_goes_on(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ars infer`, interrupted and started again, is `ars infer` in one go."""
    common = [
        csim("marsaglia"),
        "--observe",
        "y1=0",
        "--observe",
        "y2=0",
        "--budget",
        "2",
        "4",
        "--seed",
        "8",
        "--quiet",
    ]
    command = ["infer", *common, "--workers", "2", "--resume", str(tmp_path / "run")]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            RUN_CLI,
            *command,
            "--traces",
            "50000000",
            "--out",
            str(tmp_path / "interrupted.npz"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_for(lambda: list((tmp_path / "run").glob("chunk-*.ars")), 60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert re.search(r"interrupted after [\d,]+ of 50,000,000 traces", err)
    assert "the same command continues with them" in err
    assert "evidence" in out
    finished = int(re.search(r"interrupted after ([\d,]+)", err)[1].replace(",", ""))  # type: ignore[index]
    with np.load(tmp_path / "interrupted.npz") as kept:
        assert len(kept["trace"]) == finished > 0
    assert main([*command, "--traces", "1500", "--out", str(tmp_path / "a.npz")]) == 0
    assert "lost_controller" not in capsys.readouterr().out  # it took its leave
    assert main(["infer", *common, "--traces", "1500", "--out", str(tmp_path / "b.npz")]) == 0
    capsys.readouterr()
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert set(a.files) == set(b.files)
        for name in a.files:
            assert a[name].tobytes() == b[name].tobytes(), name


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_loop_that_can_never_accept_ends_within_its_limit(start: Callable[..., ars.Simulator]) -> None:
    """10 million tries by default; 200,000 here, and the same words."""
    sim = start("never", max_tries=200_000)
    with pytest.raises(ars.TraceFailure) as caught:
        posterior(sim, 4)
    failure = caught.value.failures[0]
    assert failure.kind == "too_many_tries"
    assert "the loop hopeless was not accepted in 200000 tries" in failure.text
    assert (failure.loop, failure.site, failure.seed) == ("hopeless", "hopeless/x", 3)


@pytest.mark.parametrize("where", [0, 1], ids=["in_trace", "in_continuation"])
def test_a_try_that_takes_too_long_ends(where: int, start: Callable[..., ars.Simulator]) -> None:
    right = posterior(start("slow_try", 1), 12, budget=None, in_loops="prior")  # no continuations: nothing is slow
    post = posterior(start("slow_try", where, try_timeout=0.4, workers=4), 12, on_failure="zero")
    slow = right["slow"] < 0.2
    assert dict(post.failures) == {"try_timeout": int(slow.sum())}
    assert post["sum"][~slow].tobytes() == right["sum"][~slow].tobytes()
    failure = post.failures.examples[0]
    assert "one try of the loop slow loop took more than 0.4 s; raise try_timeout" in failure.text
    assert failure.loop == "slow loop"


def test_many_short_tries_are_no_long_one(start: Callable[..., ars.Simulator]) -> None:
    assert len(posterior(start("long_loop", try_timeout=0.6, workers=2), 2)) == 2


def test_a_process_that_leaks_is_replaced_before_it_hurts(start: Callable[..., ars.Simulator]) -> None:
    """Each trace leaks 40 MB, the limit is 100 MB: workers crash, and their traces come out in new ones."""
    right = posterior(start("nothing"), 30)
    post = posterior(start("leaky", 40, max_memory=100 << 20), 30)
    assert not post.failures
    assert post.stats["replays"] >= 5
    assert post["sum"].tobytes() == right["sum"].tobytes()
    assert len(posterior(start("leaky", 40, max_memory=0), 5)) == 5


def test_a_trace_that_needs_more_memory_than_it_may_fails(start: Callable[..., ars.Simulator]) -> None:
    post = posterior(start("hungry", 200, max_memory=100 << 20), 30, on_failure="zero")
    right = posterior(start("hungry", 1), 30)
    hungry = right["hungry"] < 0.2
    assert dict(post.failures) == {"crash": int(hungry.sum())}
    assert post["sum"][~hungry].tobytes() == right["sum"][~hungry].tobytes()
    assert len(posterior(start("hungry", 200, max_memory=400 << 20), 5)) == 5


def test_a_trace_that_is_too_long_for_the_memory_fails_by_name(start: Callable[..., ars.Simulator]) -> None:
    post = posterior(start("wordy", 300, max_memory=6 << 20), 30, on_failure="zero")
    right = posterior(start("wordy", 0), 30)
    hungry = right["hungry"] < 0.2
    assert dict(post.failures) == {"memory": int(hungry.sum())}
    assert "no room for a trace of more than" in post.failures.examples[0].text
    assert post.failures.examples[0].site == "word"
    assert post.stats["replays"] == hungry.sum()  # the memory may have been short because of the traces before
    assert post["sum"][~hungry].tobytes() == right["sum"][~hungry].tobytes()


def test_a_process_that_vanishes_is_a_failure_by_name(start: Callable[..., ars.Simulator]) -> None:
    """The simulator ignores SIGCHLD, so how its children end is nowhere to be found."""
    post = posterior(start("vanishing"), 30, on_failure="zero")
    right = posterior(start("vanishing"), 30, budget=None, in_loops="prior")  # no continuations
    vanishes = right["vanishes"] < 0.2
    assert dict(post.failures) == {"lost": int(vanishes.sum())}
    example = post.failures.examples[0]
    assert "of the loop trap door vanished" in example.text
    assert (example.loop, example.seed) == ("trap door", 3)
    assert post["sum"][~vanishes].tobytes() == right["sum"][~vanishes].tobytes()


def test_more_loops_than_processes_lower_the_number_of_workers(
    start_forking: Callable[..., ars.Simulator], caplog: pytest.LogCaptureFixture
) -> None:
    """60 loops need 120 processes; with 8 workers and 200 in all it takes turns."""
    right = posterior(start_forking("loops", 60, workers=2), 10)
    post = posterior(start_forking("loops", 60, workers=8, max_processes=200), 10)
    assert not post.failures
    assert post.log_weights("ars").tobytes() == right.log_weights("ars").tobytes()
    if post.stats["forks_refused"]:
        assert post.stats["fewest_workers"] < 8
        assert "the run continued with" in caplog.text
    with pytest.raises(ars.TraceFailure, match=r"as many as max_processes allows") as caught:
        posterior(start_forking("loops", 60, workers=1, max_processes=50), 2)
    assert caught.value.failures[0].kind == "fork"


def test_a_system_without_processes_is_a_clear_error(start_forking: Callable[..., ars.Simulator]) -> None:
    """RLIMIT_NPROC does not bind root; the limit of processes in a fork's own words is tested in test_injection."""
    if os.getuid() == 0:
        pytest.skip("root has no limit of processes")
    sim = start_forking("loops", 5)
    sim._processes.ready()
    assert sim.pid is not None
    (zygote,) = (member.pid for member in members(sim.pid) if member.role == "zygote")  # it forks the workers
    resource.prlimit(zygote, resource.RLIMIT_NPROC, (1, 1))
    with pytest.raises(ars.TraceFailure, match="refused to fork"):
        posterior(sim, 5)


def test_a_thousand_live_continuations_finish(start_forking: Callable[..., ars.Simulator]) -> None:
    """4 traces of 250 loops. Each continuation waits until 1,000 of them are there, so they are alive at once."""
    post = posterior(start_forking("barrier", 1000, workers=4, trace_timeout=100), 4, budget=ars.Budget(M=1, N=1))
    assert len(post) == 4
    assert not post.failures
    assert np.all(post.columns.loops["tries_q"] == 1) and np.all(post.columns.loops["runs_p"] == 1)
    assert len(post.columns.loops) == 1000
    assert post.stats["continuations"] >= 1000


# ---- replay by hand --------------------------------------------------------------------------------------------------


def test_a_failed_trace_is_run_again_alone(
    start: Callable[..., ars.Simulator], faults: str, capfd: pytest.CaptureFixture[str]
) -> None:
    post = posterior(start("crash"), 40, on_failure="zero")
    example = post.failures.examples[0]
    assert (example.kind, example.detail, example.seed) == ("crash", signal.SIGABRT, 3)
    assert example.site == "faults.c:one_loop#0/before"
    # stderr comes by another way than the failure does, so perhaps later than the first of them
    assert any("about to divide by zero" in each.stderr for each in post.failures.examples)
    command = ["replay", faults, "crash", "--seed", "3", "--observe", "y=0.5", "--budget", "2", "4", "--trace"]
    assert main([*command, str(example.trace)]) == 1
    said = capfd.readouterr().out
    assert f"trace {example.trace}: crash (SIGABRT)" in said
    assert "about to divide by zero" in said
    good = int(np.flatnonzero(post.columns.traces["failure"] == 0)[0])
    assert main([*command, str(good)]) == 0
    said = capfd.readouterr().out
    assert f"first[0] = {float(post['first'][good])!r}" in said
    assert f"log weight (ars) = {float(post.log_weights('ars')[good])!r}" in said


def test_a_replay_waits_for_a_debugger(csim: Callable[[str], str], tmp_path: Path) -> None:
    """--wait prints the worker's number and begins when told to; --debugger is run with that number."""
    python = [sys.executable, "-c", RUN_CLI]
    command = [*python, "replay", csim("marsaglia"), "--seed", "1", "--trace", "5"]
    process = subprocess.Popen([*command, "--wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    line = process.stdout.readline()
    pid = int(line.split()[1])
    assert line == f"process {pid} will run trace 5\n"
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "marsaglia"
    out, _ = process.communicate("\n", timeout=60)
    assert "trace 5 of seed 1 is complete" in out
    script = tmp_path / "debugger"
    script.write_text(f"#!/bin/sh\necho $2 > {tmp_path}/attached\n")
    script.chmod(0o755)
    done = subprocess.run(
        [*command, "--debugger", f"{script} -p"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int((tmp_path / "attached").read_text()) > 1

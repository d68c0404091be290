"""One owner of the controller's sockets and processes: whoever lets go of a Simulator, whenever and in whatever thread.

Everything that used to hang runs in a process of its own, under a hard time limit. The limit is long: it says that
there is no hang, not how fast the machine is.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ars

LIMIT = 240.0  # seconds

PREAMBLE = """
import gc, os, pathlib, sys, threading, time
import ars
path = sys.argv[1]

def processes():
    wanted = ("ARS_CONTROLLER_PID=%d" % os.getpid()).encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and wanted in pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\\0"):
                found.append(int(entry))
        except OSError:
            pass
    return found

def nothing_left():
    deadline = time.monotonic() + 60
    while (left := processes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, left
"""


def run_alone(code: str, path: str, *, code_wanted: int = 0) -> str:
    """Runs this with a simulator's path as its argument; a hang is an error, and what it prints is returned."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + code, path], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == code_wanted, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    assert "Unclosed" not in done.stderr, done.stderr
    return done.stdout


# ---- garbage ---------------------------------------------------------------------------------------------------------

CYCLE = """
class Analysis:
    def __init__(self):
        self.sim = ars.Simulator(path, workers=1)
        self.callback = self.report
    def report(self): pass

analysis = Analysis()
analysis.sim.prior(5, seed=1)
assert processes()
del analysis
gc.collect()
nothing_left()
print("ended")
"""

KEPT_EXCEPTION = """
def fail():
    sim = ars.Simulator(path, workers=1)
    sim.prior(5, seed=1)
    raise ValueError("in the user's code")

try:
    fail()
except ValueError as error:
    kept = error
    kept.itself = kept
assert processes()
del kept
gc.collect()
nothing_left()
print("ended")
"""


@pytest.mark.parametrize("code", [CYCLE, KEPT_EXCEPTION], ids=["cycle", "kept_exception"])
def test_the_garbage_collector_ends_a_simulator(code: str, csim: Callable[[str], str]) -> None:
    assert run_alone(code, csim("gaussian")) == "ended\n"


SOAK = """
import random, traceback
random.seed(1)

class Holder:
    def __init__(self):
        self.sim = ars.Simulator(path, workers=1)
        self.me = self

def unclosed_in_a_cycle(): Holder().sim.prior(2, seed=1)
def never_used(): Holder()
def closed_in_a_cycle():
    holder = Holder(); holder.sim.prior(2, seed=1); holder.sim.close()
def closed_twice():
    sim = ars.Simulator(path, workers=1); sim.prior(2, seed=1); sim.close(); sim.close()
def used_after_close():
    sim = ars.Simulator(path, workers=1); sim.prior(1, seed=1); sim.close(); sim.prior(1, seed=1)
def with_block():
    with ars.Simulator(path, workers=1) as sim: sim.prior(2, seed=1)
def in_an_exception():
    try:
        holder = Holder(); holder.sim.prior(2, seed=1); holder.error = None
        raise ValueError
    except ValueError as error:
        holder.error = error
def bad_input():
    holder = Holder()
    try: holder.sim.posterior({"nothing": 1.0}, 3, seed=1)
    except ars.ArsError as error: holder.error = error
def in_a_thread():
    thread = threading.Thread(target=unclosed_in_a_cycle); thread.start(); thread.join()
def closed_by_another_thread():
    sim = ars.Simulator(path, workers=1); sim.prior(1, seed=1)
    thread = threading.Thread(target=sim.close); thread.start(); thread.join()

kinds = [unclosed_in_a_cycle, never_used, closed_in_a_cycle, closed_twice, used_after_close, with_block,
         in_an_exception, bad_input, in_a_thread, closed_by_another_thread]
for turn in range(200):
    kinds[turn % len(kinds)]()
    if random.random() < 0.2: gc.collect()
gc.collect()
nothing_left()
threads = [t.name for t in threading.enumerate() if t.name.startswith("ars-")]
assert not threads, threads
descriptors = len(os.listdir("/proc/self/fd"))
assert descriptors < 40, descriptors
print("ended")
"""


def test_two_hundred_simulators_leave_nothing(csim: Callable[[str], str]) -> None:
    assert run_alone(SOAK, csim("gaussian")) == "ended\n"


# ---- Ctrl-C while the simulator starts -------------------------------------------------------------------------------

# At the two moments at which something exists that nobody knows yet: after the call that makes it.
INTERRUPTED_SOCKET = """
import signal, zmq
class Interrupted(zmq.Socket):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)
zmq.Context._socket_class = Interrupted
"""
INTERRUPTED_START = """
import signal
from ars.runtime import launch
start = launch._start
def interrupted(*args):
    process = start(*args)
    signal.raise_signal(signal.SIGINT)
    return process
launch._start = interrupted
"""
INTERRUPTED = """
sim = ars.Simulator(path, workers=1)
try:
    sim.prior(5, seed=1)
except KeyboardInterrupt as error:
    kept = error   # with every frame, so that nothing ends because nobody refers to it
    nothing_left()
    assert not sim.running
    print("ended", flush=True)
"""


@pytest.mark.parametrize("code", [INTERRUPTED_SOCKET, INTERRUPTED_START], ids=["socket", "process"])
def test_ctrl_c_while_a_simulator_starts_ends_it(code: str, csim: Callable[[str], str]) -> None:
    assert run_alone(code + INTERRUPTED, csim("gaussian")) == "ended\n"


# ---- the end of the interpreter, and forks ---------------------------------------------------------------------------

DAEMON = """
sim = ars.Simulator(path, workers=1)
sim.prior(1, seed=1)
def run():
    try:
        sim.prior(100_000_000, seed=2)
    except ars.RunInterrupted:
        print("stopped", flush=True)
thread = threading.Thread(target=run, daemon=True)
thread.start()
while not sim._processes.use.busy.locked(): time.sleep(0.001)
time.sleep(0.2)
print(sim.pid, flush=True)
"""


def test_an_interpreter_that_ends_in_the_middle_of_a_daemon_threads_run(csim: Callable[[str], str]) -> None:
    """It waits until the run has stopped. A thread that it ends inside of C++ code, such as numpy's, aborts it."""
    pid, stopped = run_alone(DAEMON, csim("gaussian")).split()
    assert stopped == "stopped"
    assert not os.path.exists(f"/proc/{pid}")


FORKED = """
sim = ars.Simulator(path, workers=1)
mine = sim.prior(20, seed=1)["mu"]
child = os.fork()
if child == 0:
    try:
        assert not sim.running
        assert (sim.prior(20, seed=1)["mu"] == mine).all()   # its own family
        sim.close()
        del sim
        gc.collect()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)   # atexit runs, in the child too
assert os.waitpid(child, 0)[1] == 0
assert sim.running
assert (sim.prior(20, seed=1)["mu"] == mine).all()           # ours has not been touched
print("ended")
"""

FORKED_IN_A_RUN = """
sim = ars.Simulator(path, workers=1)
sim.prior(1, seed=1)
stop = threading.Event()
def go_on():
    try: sim.prior(100_000_000, seed=2)
    except ars.RunInterrupted: stop.set()
thread = threading.Thread(target=go_on)
thread.start()
while not sim._processes.use.busy.locked(): time.sleep(0.001)
child = os.fork()
if child == 0:
    good = len(sim.prior(20, seed=1)) == 20   # the lock of the parent's thread is not held here
    sim.close()
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
sim.close()
thread.join()
assert stop.is_set()
nothing_left()
print("ended")
"""


@pytest.mark.parametrize("code", [FORKED, FORKED_IN_A_RUN], ids=["idle", "in_a_run"])
def test_a_forked_copy_has_nothing_to_do_with_ours(code: str, csim: Callable[[str], str]) -> None:
    assert "ended\n" in run_alone(code, csim("gaussian"))


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_simulator_is_not_copied(how: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="owns processes: make one where it is needed"):
        how(ars.Simulator("anything"))


# ---- close -----------------------------------------------------------------------------------------------------------


def _until_running(sim: ars.Simulator) -> None:
    while not sim._processes.use.busy.locked():
        time.sleep(0.001)


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03, 0.1, 0.3])
def test_close_from_another_thread_stops_the_run(delay: float, simulator: Callable[..., ars.Simulator]) -> None:
    """Whenever it comes: the run ends with what had finished, which is right, and the simulator stays closed."""
    sim = simulator("gaussian", workers=2)
    right = sim.prior(50, seed=2)["mu"] if delay else None
    caught: list[BaseException] = []

    def run() -> None:
        try:
            sim.prior(100_000_000, seed=2)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    _until_running(sim)
    time.sleep(delay)
    sim.close()
    assert not sim.running  # nobody starts it again behind our back
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert not sim.running
    (error,) = caught
    assert isinstance(error, ars.RunInterrupted)
    assert "closed" in str(error)
    partial = error.partial
    assert partial is not None
    assert len(partial) < 100_000_000
    if right is not None:
        numbers = partial.trace_numbers
        early = numbers < 50
        np.testing.assert_array_equal(partial["mu"][early], right[numbers[early]])


def test_close_in_the_middle_of_a_posterior_with_proposals(simulator: Callable[..., ars.Simulator]) -> None:
    """Called by the proposal itself: the run that it is part of ends."""
    sim = simulator("gaussian", workers=2)
    calls: list[int] = []

    def proposal(t: ars.Drawn) -> ars.Distribution:
        calls.append(t.rows)
        if len(calls) == 20:
            sim.close()
        return ars.Normal(np.zeros(t.rows), 1.0)

    with pytest.raises(ars.RunInterrupted, match="closed during the run") as caught:
        sim.posterior({"y": 0.5}, 1_000_000, proposals={"mu": proposal}, seed=1)
    assert caught.value.partial is not None
    assert not sim.running
    assert len(sim.prior(3, seed=1)) == 3  # a run that somebody asks for starts it again


def test_close_ends_what_takes_several_runs(simulator: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    """A recording draws its shards in runs of their own: the next one does not begin after a close."""
    sim = simulator("gaussian", workers=2)
    caught: list[BaseException] = []

    def record() -> None:
        try:
            sim.record(2**39, tmp_path / "traces", seed=1, shard_traces=200)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=record)
    thread.start()
    while len(list(tmp_path.glob("traces/traces-*.ars"))) < 3:
        time.sleep(0.01)
    sim.close()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert isinstance(caught[0], ars.RunInterrupted)
    assert not sim.running


def test_close_before_a_network_is_checked(
    simulator: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A posterior looks at the simulator's sites first. It does not start one for that which was closed in between."""
    proposers = pytest.importorskip("ars.network.serve.proposer")
    sim = simulator("nested", workers=2)
    network = sim.train(64, lstm_dim=8, batch_size=32, seed=1, progress=False)
    make = proposers.NetworkProposer

    def after_close(*arguments: object) -> object:
        sim.close()
        return make(*arguments)

    monkeypatch.setattr(proposers, "NetworkProposer", after_close)
    with pytest.raises(ars.RunInterrupted, match="closed"):
        sim.posterior({"y": 2.0}, 10, network=network, seed=1)
    assert not sim.running


def test_a_run_that_is_stuck_in_the_users_code_does_not_hold_up_close(
    simulator: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ars.runtime.processes._CLOSE_WITHIN", 0.2)
    sim = simulator("gaussian", workers=2)
    inside, go_on = threading.Event(), threading.Event()
    caught: list[BaseException] = []

    def proposal(t: ars.Drawn) -> ars.Distribution:
        inside.set()
        go_on.wait(LIMIT)
        return ars.Normal(np.zeros(t.rows), 1.0)

    def run() -> None:
        try:
            sim.posterior({"y": 0.5}, 1000, proposals={"mu": proposal}, seed=1)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(LIMIT)
    pid = sim.pid
    sim.close()  # returns, and the processes are gone
    assert not os.path.exists(f"/proc/{pid}")
    go_on.set()
    thread.join(LIMIT)
    assert isinstance(caught[0], ars.RunInterrupted)
    assert not sim.running
    assert len(sim.prior(3, seed=1)) == 3

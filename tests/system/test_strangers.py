"""A listening controller among strangers: scanners, health checks, held connections, and nonsense with the right key.

The real simulator still gets in. All traffic is between processes of this machine, and every loop has an end.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from zmq.utils import z85

import ars
from ars.errors import LaunchError
from ars.runtime.keys import make_pair, read_keys
from ars.runtime.launch import find_host

LIMIT = 200.0  # seconds: no hang, whatever the machine does meanwhile
SEED, TRACES = 5, 100

KNOCK = """
import socket, sys
host, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for i in range(n):
    with socket.create_connection((host, port), timeout=100) as s:
        pass
print("done", flush=True)
"""

HOLD = """
import socket, sys
host, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for i in range(n):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((host, port))
    held.append(s)
print("done", flush=True)
sys.stdin.read()
"""


class Waiting:
    """A controller that listens, in a thread, and those who come to it."""

    def __init__(self, csim: Callable[[str], str], pair: tuple[Path, Path], errors: Path) -> None:
        self._csim = csim
        self._pair = pair
        self._errors = errors
        self._pool = ThreadPoolExecutor(1)
        self._addresses: queue.Queue[str] = queue.Queue()
        self._processes: list[subprocess.Popen[bytes]] = []

    def listen(self, **options: Any) -> Future[ars.Simulator]:
        future = self._pool.submit(
            ars.Simulator.listen,
            "tcp://127.0.0.1:*",
            key=self._pair[0],
            announce=lambda address, _: self._addresses.put(address),
            **{"startup_timeout": LIMIT, **options},
        )
        self.endpoint = self._addresses.get(timeout=LIMIT)
        self.host, self.port = "127.0.0.1", self.endpoint.rpartition(":")[2]
        return future

    def strangers(self, script: str, n: int) -> subprocess.Popen[bytes]:
        """Another process, as strangers are: descriptors are numbered anew there."""
        process = subprocess.Popen(
            [sys.executable, "-c", script, self.host, self.port, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        return process

    def simulator_comes(self) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "ARS_ENDPOINT": self.endpoint,
            "ARS_KEY": str(self._pair[1]),
            "ARS_HOST": find_host(os.environ),
            "ARS_WORKERS": "2",
        }
        with self._errors.open("ab") as errors:
            self._processes.append(
                subprocess.Popen([self._csim("truncated_normal")], env=env, stderr=errors, stdout=subprocess.DEVNULL)
            )
        return self._processes[-1]

    def said(self) -> str:
        return self._errors.read_text()

    def end(self) -> None:
        self._pool.shutdown()
        for process in self._processes:
            process.terminate()
            process.communicate(timeout=LIMIT)


@pytest.fixture
def waiting(csim: Callable[[str], str], tmp_path: Path) -> Iterator[Waiting]:
    controller = Waiting(csim, make_pair(tmp_path / "keys"), tmp_path / "stderr")
    yield controller
    controller.end()


@pytest.fixture(scope="module")
def right(csim: Callable[[str], str]) -> Any:
    """The results of the same simulator started by the controller itself."""
    with ars.Simulator([csim("truncated_normal")], workers=2) as sim:
        return sim.prior(TRACES, seed=SEED).columns


def assert_right(sim: ars.Simulator, right: Any) -> None:
    found = sim.prior(TRACES, seed=SEED).columns
    np.testing.assert_array_equal(found.samples["value"], right.samples["value"])


def test_ten_thousand_connections_without_a_key(waiting: Waiting, right: Any) -> None:
    """libzmq's monitor used to fill up after some 2,100 of them, and the controller stood still for ever."""
    coming = waiting.listen()
    waiting.strangers(KNOCK, 10_000)
    assert not coming.done()
    waiting.simulator_comes()
    with coming.result(LIMIT) as sim:
        assert_right(sim, right)


def test_six_hundred_connections_that_are_held(waiting: Waiting, right: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far more than may wait at once. Those that show no key are cut off, and the simulator has its turn."""
    monkeypatch.setattr("ars.runtime.door._MOST_WAITING", 100)
    monkeypatch.setattr("ars.runtime.door._HANDSHAKE_MS", 500)
    coming = waiting.listen()
    waiting.strangers(HOLD, 600)
    waiting.simulator_comes()
    with coming.result(LIMIT) as sim:
        assert_right(sim, right)


def test_a_stranger_who_left_is_not_taken_for_the_simulator(waiting: Waiting, right: Any) -> None:
    """Its descriptor's number becomes the simulator's. The news of its end used to end the simulator's run."""
    coming = waiting.listen()
    for _ in range(3):
        waiting.strangers(KNOCK, 1)
    waiting.simulator_comes()
    with coming.result(LIMIT) as sim:
        assert_right(sim, right)
        assert sim._processes.session is not None
        assert not sim._processes.session._family.exited()  # asked in a run whenever nothing has come for a while
        assert_right(sim, right)
        assert sim.running


def _insider(waiting: Waiting, pair: tuple[Path, Path]) -> tuple[Any, zmq.Socket[bytes]]:
    """A socket with the simulator's own keys."""
    keys = read_keys(pair[1], "simulator")
    context = zmq.Context()
    insider = context.socket(zmq.DEALER)
    insider.setsockopt(zmq.LINGER, 0)
    insider.setsockopt(zmq.SNDHWM, 0)
    insider.setsockopt(zmq.CURVE_SERVERKEY, z85.encode(keys.peer))
    insider.setsockopt(zmq.CURVE_PUBLICKEY, z85.encode(keys.public))
    insider.setsockopt(zmq.CURVE_SECRETKEY, z85.encode(keys.secret))
    insider.connect(waiting.endpoint)
    return context, insider


def test_garbage_with_the_right_key_does_not_move_the_deadline(waiting: Waiting) -> None:
    """Frames keep coming, so the loop never finds the socket empty. Each used to cost 0.1 s, and none looked at the
    clock: the handshake lasted until the garbage ended. Here it never ends, so only the deadline can end the wait."""
    began = time.monotonic()
    coming = waiting.listen(startup_timeout=3.0)
    context, insider = _insider(waiting, waiting._pair)
    over = threading.Event()

    def talk() -> None:
        while not over.is_set() and time.monotonic() - began < LIMIT:
            if insider.poll(10, zmq.POLLOUT):
                insider.send(b"\x99" * 64)

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        with pytest.raises(LaunchError, match=r"no simulator connected within 3 s.*unknown peers were refused"):
            coming.result(LIMIT - 50)
    finally:
        over.set()
        talker.join()
        context.destroy(linger=0)


def test_garbage_with_the_right_key_does_not_keep_the_simulator_out(waiting: Waiting, right: Any) -> None:
    coming = waiting.listen()
    context, insider = _insider(waiting, waiting._pair)
    for _ in range(500):
        insider.send(b"\x99" * 64)
    assert insider.poll(int(LIMIT * 1000))  # it has been refused, so it was heard
    waiting.simulator_comes()
    with coming.result(LIMIT) as sim:
        assert_right(sim, right)
    context.destroy(linger=0)


def test_strangers_during_a_run_and_between_runs(waiting: Waiting, right: Any) -> None:
    """The door is shut once the simulator is there: connections are not even accepted."""
    coming = waiting.listen()
    waiting.simulator_comes()
    with coming.result(LIMIT) as sim:
        before = len(os.listdir("/proc/self/fd"))
        holder = waiting.strangers(HOLD, 200)
        assert_right(sim, right)
        time.sleep(0.2)
        assert len(os.listdir("/proc/self/fd")) < before + 50
        assert_right(sim, right)
        holder.terminate()


def test_close_ends_the_wait_for_a_simulator(waiting: Waiting) -> None:
    """A run that has lost its simulator waits for another one; close does not wait with it."""
    coming = waiting.listen(startup_timeout=10 * LIMIT)
    process = waiting.simulator_comes()
    sim = coming.result(LIMIT)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            sim.prior(100_000_000, seed=1)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not sim._processes.use.busy.locked():
        time.sleep(0.001)
    process.kill()
    process.wait()
    waiting._addresses.get(timeout=LIMIT)  # the controller has announced that it waits again
    sim.close()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert isinstance(caught[0], ars.RunInterrupted)
    assert not sim.running

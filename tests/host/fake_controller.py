"""A controller for tests of ars-host: real ZeroMQ, messages packed and unpacked by hand."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import zmq

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "host" / "golden"))
import make_golden as g  # noqa: E402

TOKEN = "00112233445566778899aabbccddeeff"
PATIENCE = 20.0  # seconds until a test gives up waiting
CRASH, EXIT, TIMEOUT, NAN, MISUSE, FORK, THREADS, PROTOCOL, TRY_TIMEOUT = 1, 2, 3, 5, 6, 13, 14, 17, 20
FORKED = 1  # a loop's method
NORMAL_3 = g.dist(g.NORMAL, 3.0, 1.0)


class Done(NamedTuple):
    """The counters of a DONE message."""

    traces: int
    workers_started: int
    cancelled: int
    replays: int
    forks_refused: int
    fewest_workers: int


class Trace:
    """One trace of a TRACES message, unpacked by hand."""

    def __init__(self, number: int, failure: int, text: str, detail: int) -> None:
        self.number, self.failure, self.text, self.detail = number, failure, text, detail
        self.samples: list[float] = []
        self.loops: list[tuple[int, ...]] = []
        self.values: tuple[float, ...] = ()
        self.tries: list[tuple[int, ...]] = []
        self.rejected: list[float] = []


def unpack_traces(frames: list[bytes]) -> list[Trace]:
    head, traces, samples, _, _, loops, values, failures, rejected_tries, rejected = frames
    out = []
    at = {"sample": 0, "loop": 0, "value": 0, "failure": 0, "try": 0, "rejected": 0}
    for i in range(struct.unpack_from("<I", head, 12)[0]):
        numbers = struct.unpack_from("<QIIIIIIII", traces, 64 * i)
        number, failure, _, n_samples, _, _, n_loops, n_values, n_tries = numbers
        text, detail = "", 0
        if failure:
            owner, kind, detail, *_, raw = struct.unpack_from("<QIiII512s", failures, at["failure"])
            assert (owner, kind) == (number, failure)
            text = raw.split(b"\0")[0].decode()
            at["failure"] += 536
        trace = Trace(number, failure, text, detail)
        for _ in range(n_samples):
            trace.samples.append(struct.unpack_from("<d", samples, at["sample"] + 16)[0])
            at["sample"] += 40
        for _ in range(n_loops):
            _, _, _, forks, tries, _, tries_q, accepted_q, runs_p, tries_p, s_pq, _, method, *_ = struct.unpack_from(
                "<IIiIQdQQQQdIHHiId", loops, at["loop"]
            )
            trace.loops.append((tries, tries_q, accepted_q, runs_p, tries_p, forks, int(s_pq), method))
            at["loop"] += 120
        trace.values = struct.unpack_from(f"<{n_values}d", values, at["value"])
        at["value"] += 8 * n_values
        for _ in range(n_tries):
            _, _, parent, prefix, n, recorded, total = struct.unpack_from("<IIiIIIQ", rejected_tries, at["try"])
            trace.tries.append((parent, prefix, n, recorded, total))
            at["try"] += 32
            for _ in range(n):
                trace.rejected.append(struct.unpack_from("<d", rejected, at["rejected"] + 16)[0])
                at["rejected"] += 40
        out.append(trace)
    columns = {"sample": samples, "loop": loops, "value": values, "failure": failures, "try": rejected_tries}
    for name, column in {**columns, "rejected": rejected}.items():
        assert at[name] == len(column)
    return out


class Step:
    """One item of a STEPS message."""

    def __init__(self, frame: bytes, at: int) -> None:
        self.size, self.ticket, self.trace, _, self.site, self.instance = struct.unpack_from("<IIQQII", frame, at)


def unpack_steps(frame: bytes) -> list[Step]:
    out: list[Step] = []
    at = 24
    for _ in range(struct.unpack_from("<I", frame, 12)[0]):
        out.append(Step(frame, at))
        at += out[-1].size
    assert at == len(frame)
    return out


class Controller:
    """A ROUTER that has launched one family. Keeps what it hears, by message type."""

    def __init__(
        self, programs: tuple[Path, Path], endpoint: str, settings: dict[str, str], here: Path, receive_limit: int
    ) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.RCVHWM, receive_limit)
        self.socket.bind(endpoint)
        endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        env = {**os.environ, "ARS_ENDPOINT": endpoint, "ARS_TOKEN": TOKEN, "ARS_CONTROLLER_PID": str(os.getpid())}
        env.update(settings)
        self.stderr = here / "stderr"
        with self.stderr.open("wb") as err:
            self.process = subprocess.Popen([str(programs[0]), str(programs[1])], env=env, stderr=err)
        self.peer = b""
        self.traces: dict[int, Trace] = {}
        self.steps: list[list[Step]] = []
        self.done = Done(0, 0, 0, 0, 0, 0)
        self.error = ""

    def receive(self, seconds: float = PATIENCE) -> tuple[int, list[bytes]]:
        assert self.socket.poll(int(seconds * 1000)), f"no message; stderr: {self.stderr.read_text()}"
        self.peer, *frames = self.socket.recv_multipart()
        magic, version, kind, size = struct.unpack_from("<IHHI", frames[0])
        assert (magic, version, size) == (g.MAGIC, g.VERSION, len(frames[0]))
        return kind, frames

    def send(self, frame: bytes) -> None:
        self.socket.send_multipart([self.peer, frame])

    def greet(self) -> bytes:
        kind, frames = self.receive()
        assert kind == g.HELLO
        self.send(g.welcome())
        return frames[0]

    def follow(self, answer: Callable[[list[Step]], bytes | None], until: int = g.DONE) -> None:
        """Listens to a run until a message of type `until`."""
        while True:
            kind, frames = self.receive()
            if kind == g.STEPS:
                self.steps.append(unpack_steps(frames[0]))
                reply = answer(self.steps[-1])
                if reply is not None:
                    self.send(reply)
            elif kind == g.TRACES:
                for trace in unpack_traces(frames):
                    assert trace.number not in self.traces, "a trace came twice"
                    self.traces[trace.number] = trace
            elif kind == g.DONE:
                self.done = Done(*struct.unpack_from("<6Q", frames[0], 24))
            elif kind == g.ERROR:
                self.error = frames[0][24:].decode()
            if kind in (until, g.DONE, g.ERROR):
                return

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            if self.peer:
                self.send(g.frame(g.QUIT))
            else:
                self.process.terminate()
            assert self.exit_code() == 0
        self.context.destroy(linger=0)


Launch = Callable[..., Controller]


def reply_all(steps: list[Step], proposal: bytes = NORMAL_3) -> bytes:
    return g.replies(*(g.reply(s.ticket, proposal) for s in steps))


def reply_by_trace(steps: list[Step]) -> bytes:
    """Every proposal tells which request it answers."""
    return g.replies(
        *(g.reply(s.ticket, g.dist(g.NORMAL, 1000.0 * s.trace + s.instance, 1.0)) for s in reversed(steps))
    )

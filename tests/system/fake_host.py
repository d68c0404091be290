"""Plays an ars-host over a real socket, well or badly: the controller's tests need a peer that errs. fake_simulator.py
starts it.

Its model: x ~ Normal(0, 1), u ~ Uniform(0, 1), observe y; a trace asks for x, then tells it and asks for u. Values are
the proposals' first parameters, so that tests can see which proposal arrived.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np
import zmq

from ars import _native as native
from ars import wire
from ars._native import DTYPES, DistKind, FailureKind, Message, RunFlag, SiteKind
from ars.distributions import Distribution, Normal, Uniform, decode

SITES = [
    (SiteKind.SAMPLE, DistKind.NORMAL, "x"),
    (SiteKind.SAMPLE, DistKind.UNIFORM, "loop/u"),
    (SiteKind.OBSERVE, DistKind.NORMAL, "y"),
    (SiteKind.LOOP, 0, "loop"),
]
PRIORS: list[Distribution] = [Normal(0.0, 1.0), Uniform(0.0, 1.0)]
CHUNK = 16


def framed(kind: Message, body: bytes, count: int, run: int) -> bytes:
    header = np.array([(native.MAGIC, native.VERSION, kind, 24 + len(body), count, run)], dtype=DTYPES["header"])
    return header.tobytes() + body


def sites_message(run: int) -> bytes:
    body = b""
    for number, (kind, dist, address) in enumerate(SITES):
        name = address.encode()
        body += np.array([(number, kind, dist, len(name), 0)], dtype=DTYPES["site"]).tobytes()
        body += name.ljust(-(-len(name) // 8) * 8, b"\0")
    return framed(Message.SITES, body, len(SITES), run)


def step_item(ticket: int, trace: int, state: int, site: int, told: list[tuple[int, int, float]]) -> bytes:
    body = np.array(told, dtype=DTYPES["told"]).tobytes() + PRIORS[site].encode(1)[0]
    head = np.array([(40 + len(body), ticket, trace, state, site, 0, len(told), 0)], dtype=DTYPES["step"])
    return head.tobytes() + body


def value_of(proposal: bytes, site: int) -> float:
    kind = int(np.frombuffer(proposal, DTYPES["dist"], 1)["kind"][0])
    used = PRIORS[site] if kind == DistKind.PRIOR else decode(proposal)
    return float(next(iter(used.parameters.values())))


def numbers_of(config: wire.RunConfig) -> list[int]:
    first = config.first_trace
    return list(range(first, first + config.n_traces)) if config.listed is None else config.listed.traces.tolist()


class FakeHost:
    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.socket = zmq.Context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 1000)
        self.socket.connect(os.environ["ARS_ENDPOINT"])
        self.announced = False

    def hello(self) -> None:
        token = "0" * 32 if self.mode == "token" else os.environ["ARS_TOKEN"]
        versions = (98, 99) if self.mode == "version" else (native.VERSION, native.VERSION)
        self.socket.send(wire.encode_hello(wire.Hello(*versions, 1, os.getpid(), os.getpid(), token)))

    def serve(self) -> None:
        while True:
            frame = self.socket.recv()
            kind = wire.decode_header(frame).type
            if kind is Message.SITES:  # of an earlier one of us, which has announced them all
                assert wire.decode_sites(frame) == wire.decode_sites(sites_message(1))
                self.announced = True
            elif kind is Message.RUN:
                self.run(*wire.decode_run(frame))
            elif kind is Message.QUIT and self.mode != "stubborn":
                return
            elif kind is Message.ERROR:
                sys.stderr.write(f"told: {wire.decode_error(frame)}\n")
                return

    def done(self, run: int, traces: int, cancelled: bool = False) -> None:
        message = np.zeros(1, dtype=DTYPES["done"])
        message["header"] = (native.MAGIC, native.VERSION, Message.DONE, DTYPES["done"].itemsize, 0, run)
        message["traces"] = traces
        message["cancelled"] = cancelled
        self.socket.send(message.tobytes())

    def run(self, run: int, config: wire.RunConfig) -> None:
        if not self.announced:
            self.socket.send(sites_message(run))
            self.announced = True
        finished = 0
        while finished < config.n_traces:
            numbers = numbers_of(config)[finished : finished + CHUNK]
            if self.mode == "hang":
                self.until_cancelled()
                return self.done(run, finished, cancelled=True)
            if self.mode == "deaf":
                time.sleep(3600)
            if (self.mode == "die" and finished >= 2 * CHUNK) or self.mode == "stillborn":
                sys.stderr.write("boom: the world ended\n")
                sys.stderr.flush()
                self.socket.close(linger=2000)  # what was sent arrives: the death comes after it
                self.socket.context.term()
                os._exit(3)
            if self.mode == "error" and finished:
                self.socket.send(wire.encode_error("no more memory in the segment", run))
                return None
            if self.mode == "garbage" and finished:
                self.socket.send(b"\x99" * 64)
                return None
            self.traces(run, config, numbers)
            finished += len(numbers)
            if self.socket.poll(0) and self.cancelled():
                return self.done(run, finished, cancelled=True)
        return self.done(run, finished - (self.mode == "miscount"))

    def until_cancelled(self) -> None:
        while not self.cancelled():
            pass

    def cancelled(self) -> bool:
        return wire.decode_header(self.socket.recv()).type is Message.CANCEL

    def ask(self, run: int, items: list[bytes]) -> tuple[Any, wire.Replies] | None:
        self.socket.send(framed(Message.STEPS, b"".join(items), len(items), run))
        frame = self.socket.recv()
        if wire.decode_header(frame).type is not Message.REPLIES:
            return None
        return wire.decode_replies(frame)

    def traces(self, run: int, config: wire.RunConfig, numbers: list[int]) -> None:
        xs, us = [0.0] * len(numbers), [0.0] * len(numbers)
        if not config.flags & RunFlag.PROPOSE_PRIOR:
            answer = self.ask(run, [step_item(i, n, 0, 0, []) for i, n in enumerate(numbers)])
            if answer is None:
                self.done(run, numbers[0], cancelled=True)
                return self.serve()
            xs = [value_of(p, 0) + n for p, n in zip(answer[1].proposals, numbers, strict=True)]
            states = [9999 if self.mode == "state" else int(s) for s in answer[1].state]
            told = [[(0, 0, x)] for x in xs]
            answer = self.ask(
                run, [step_item(i, n, states[i], 1, told[i]) for i, n in reversed(list(enumerate(numbers)))]
            )
            if answer is None:
                self.done(run, numbers[0], cancelled=True)
                return self.serve()
            for ticket, proposal in zip(answer[0].tolist(), answer[1].proposals, strict=True):
                us[ticket] = value_of(proposal, 1)
        return self.send_traces(run, numbers, xs, us)

    def send_traces(self, run: int, numbers: list[int], xs: list[float], us: list[float]) -> None:
        place = {number: i for i, number in enumerate(numbers)}
        numbers = numbers[::-1]  # out of order, as from several workers
        kinds = {"fail": FailureKind.CRASH, "observation": FailureKind.OBSERVATION}
        failed = [n for n in numbers if self.mode in kinds and n % 20 == 3]
        good = [n for n in numbers if n not in failed]
        traces = np.zeros(len(numbers), dtype=DTYPES["trace"])
        traces["trace"] = numbers
        ok = np.isin(numbers, good)
        traces["failure"] = np.where(ok, 0, kinds.get(self.mode, 0))
        for field, count in (("n_samples", 2), ("n_observes", 1), ("n_loops", 1)):
            traces[field] = np.where(ok, count, 0)
        samples = np.zeros(2 * len(good), dtype=DTYPES["sample"])
        samples["site"] = [0, 1] * len(good)
        samples["loop"] = [-1, 0] * len(good)
        samples["prior"] = [DistKind.NORMAL, DistKind.UNIFORM] * len(good)
        samples["value"] = [v for n in good for v in (xs[place[n]], us[place[n]])]
        observes = np.zeros(len(good), dtype=DTYPES["values"])
        observes["site"] = 2
        loops = np.zeros(len(good), dtype=DTYPES["loop"])
        loops["site"], loops["parent"], loops["tries"] = 3, -1, 1
        loops["tries_q"], loops["accepted_q"], loops["runs_p"], loops["tries_p"] = 10, 10, 1, 1
        failures = np.zeros(len(failed), dtype=DTYPES["failure"])
        failures["trace"], failures["kind"] = failed, kinds.get(self.mode, 0)
        failures["detail"], failures["text"] = 11, b"went wrong at x"
        failures["loop"], failures["site"] = 3, 0
        columns = [traces, samples, observes, np.zeros(0, DTYPES["result"]), loops, np.zeros(0), failures]
        columns += [np.zeros(0, DTYPES["try"]), np.zeros(0, DTYPES["sample"])]
        self.socket.send_multipart([framed(Message.TRACES, b"", len(numbers), run), *(c.tobytes() for c in columns)])

"""ars-host between a fake family (fake_family.c, real processes) and a fake controller (this file, real ZeroMQ)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import zmq

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bridge" / "golden"))
import make_golden as g  # noqa: E402

TOKEN = "00112233445566778899aabbccddeeff"
PATIENCE = 20.0  # seconds until a test gives up waiting
CRASH, EXIT, TIMEOUT, NAN, MISUSE, FORK, THREADS, PROTOCOL, TRY_TIMEOUT = 1, 2, 3, 5, 6, 13, 14, 17, 20
NORMAL_3 = g.dist(g.NORMAL, 3.0, 1.0)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The fake family and ars-host: the one in ARS_HOST, or one built here."""
    where = tmp_path_factory.mktemp("host")
    compiler = [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", f"-I{ROOT}/bridge/lib"]
    family, host = where / "fake_family", Path(os.environ.get("ARS_HOST", where / "ars-host"))
    subprocess.run([*compiler, str(ROOT / "tests/bridge/fake_family.c"), "-o", str(family)], check=True)
    if not host.exists():
        sources = [*sorted((ROOT / "bridge/host").glob("*.c")), ROOT / "bridge/lib/wire.c"]
        subprocess.run([*compiler, *map(str, sources), "-o", str(host), "-lzmq", "-lpthread"], check=True)
    return family, host


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
            _, _, _, forks, tries, _, tries_q, accepted_q, runs_p, tries_p, s_pq = struct.unpack_from(
                "<IIiIQdQQQQd", loops, at["loop"]
            )
            trace.loops.append((tries, tries_q, accepted_q, runs_p, tries_p, forks, int(s_pq)))
            at["loop"] += 72
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
        self.done: tuple[int, ...] = ()
        self.error = ""

    def receive(self, seconds: float = PATIENCE) -> tuple[int, list[bytes]]:
        assert self.socket.poll(int(seconds * 1000)), f"no message; stderr: {self.stderr.read_text()}"
        self.peer, *frames = self.socket.recv_multipart()
        magic, version, kind, size = struct.unpack_from("<IHHI", frames[0])
        assert (magic, version, size) == (g.MAGIC, 1, len(frames[0]))
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
                self.done = struct.unpack_from("<13Q", frames[0], 24)
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


def descendants_are_gone(mark: str) -> bool:
    """No process has this word in its environment."""
    word = f"FAKE_MARK={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word in (entry / "environ").read_bytes().split(b"\0"):
                    return False
            except OSError:
                continue
    return True


@pytest.fixture
def launch(programs: tuple[Path, Path], tmp_path: Path) -> Iterator[Launch]:
    started: list[Controller] = []
    mark = tmp_path.name
    directory = tempfile.mkdtemp(prefix="arst-")

    def start(endpoint: str = f"ipc://{directory}/s", receive_limit: int = 1000, **settings: str) -> Controller:
        plan = settings.pop("plan", "")
        settings = {f"FAKE_{name.upper()}" if name.islower() else name: value for name, value in settings.items()}
        settings.update(FAKE_PLAN=f",{plan},".replace(",", ",,"), FAKE_MARK=mark)
        started.append(Controller(programs, endpoint, settings, tmp_path, receive_limit))
        return started[-1]

    yield start
    for controller in started:
        controller.close()
    shutil.rmtree(directory)
    end = time.monotonic() + 30
    while not descendants_are_gone(mark):
        assert time.monotonic() < end, "a process was left behind"
        time.sleep(0.02)


def reply_all(steps: list[Step], proposal: bytes = NORMAL_3) -> bytes:
    return g.replies(*(g.reply(s.ticket, proposal) for s in steps))


def reply_by_trace(steps: list[Step]) -> bytes:
    """Every proposal tells which request it answers."""
    return g.replies(
        *(g.reply(s.ticket, g.dist(g.NORMAL, 1000.0 * s.trace + s.instance, 1.0)) for s in reversed(steps))
    )


# ---- the greeting ----------------------------------------------------------------------------------------------------


def test_hello_carries_token_and_pids(launch: Launch) -> None:
    c = launch(workers="3")
    hello = c.greet()
    low, high, workers, host, zygote, token = struct.unpack_from("<HHIII32s", hello, 24)
    assert (low, high, workers, token.decode()) == (1, 1, 3, TOKEN)
    assert host == c.process.pid
    assert Path(f"/proc/{zygote}").exists()
    assert Path(f"/proc/{host}/comm").read_text().strip().startswith("ars-host")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (g.welcome(7), "version 7"),
        (g.frame(g.ERROR, b"wrong token", 11), "the controller refused: wrong token"),
        (g.run(), "message type 3"),
        (b"\0" * 40, "wrong magic"),
        (g.welcome()[:-8], "the header says 32 bytes"),
    ],
)
def test_a_wrong_answer_to_hello_ends_the_host(launch: Launch, answer: bytes, expected: str) -> None:
    c = launch()
    assert c.receive()[0] == g.HELLO
    c.send(answer)
    assert c.exit_code() == 1
    assert expected in c.stderr.read_text()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"ARS_ENDPOINT": "tcp://10.0.0.1:5555"}, "tcp needs keys: set ARS_KEY"),
        ({"ARS_ENDPOINT": "tcp://127.0.0.1:5555"}, "tcp needs keys: set ARS_KEY"),
        ({"ARS_ENDPOINT": "tcp://10.0.0.1:5555", "ARS_INSECURE_LOOPBACK": "1"}, "not a loopback address"),
        ({"ARS_ENDPOINT": "tcp://127.0.0.1.a.org:5555", "ARS_INSECURE_LOOPBACK": "1"}, "not a loopback address"),
        ({"ARS_ENDPOINT": "tcp://10.0.0.1:5555", "ARS_KEY": "/nowhere"}, "ARS_KEY=/nowhere: No such file"),
        ({"ARS_ENDPOINT": "tcp://10.0.0.1:5555", "ARS_KEY": "/dev/null"}, "ARS_KEY=/dev/null: this is no file"),
        ({"unsealed": "1"}, "not sealed against shrinking"),
        ({"ARS_ENDPOINT": "inproc://x"}, "must be ipc://"),
        ({"ARS_TOKEN": "x" * 33}, "more than 32"),
        ({"shm_version": "9"}, "another version"),
        ({"ARS_CONTROLLER_PID": "4194999"}, "is gone"),
    ],
)
def test_bad_settings_are_refused(launch: Launch, setting: dict[str, str], expected: str) -> None:
    c = launch(**setting)
    assert c.exit_code() == 1
    assert expected in c.stderr.read_text()


def test_help_and_version(programs: tuple[Path, Path]) -> None:
    host = str(programs[1])
    assert "--zygote-pid" in subprocess.run([host, "--help"], capture_output=True, text=True, check=True).stdout
    assert "protocol 1" in subprocess.run([host, "--version"], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([host, "--workers", "0"], capture_output=True).returncode == 2


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", [None, "tcp://127.0.0.1:*"])
def test_prior_run(launch: Launch, endpoint: str | None) -> None:
    c = launch(endpoint, ARS_INSECURE_LOOPBACK="1") if endpoint else launch()
    c.greet()
    for number, n in ((1, 5000), (2, 1)):  # workers live across runs
        c.traces.clear()
        c.send(g.run(number, flags=g.PROPOSE_PRIOR, first=10, n=n))
        c.follow(reply_all)
        assert sorted(c.traces) == list(range(10, 10 + n))
        assert all(t.failure == 0 and t.values == (float(t.number),) and t.samples == [-2.0] for t in c.traces.values())
        assert c.done[0] == n
        assert c.done[5] == 0
        assert c.done[9] == 0
        assert c.done[8] == (2 if number == 1 else 0)


def test_each_reply_reaches_its_question_and_questions_travel_together(launch: Launch) -> None:
    c = launch(workers="16", steps="5")
    c.greet()
    c.send(g.run(n=200, flags=0))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(200))
    for t in c.traces.values():
        assert t.samples == [1000.0 * t.number + i for i in range(5)]
    assert c.done[5] == sum(map(len, c.steps)) == 1000
    assert len(c.steps) < 500, f"{len(c.steps)} messages for 1000 requests"


def test_several_requests_in_one_question(launch: Launch) -> None:
    """Answered together, whatever the order of the replies, and by however many messages."""
    c = launch(workers="4", steps="9", several="1")
    c.greet()
    c.send(g.run(n=60, flags=0))

    def in_pieces(steps: list[Step]) -> bytes:
        c.send(reply_by_trace(steps[1::2]))
        wrong = g.dist(g.NORMAL, -99.0, 1.0)
        c.send(g.replies(*(g.reply(s.ticket, wrong) for s in steps[1::2])))  # a second time
        return reply_by_trace(steps[::2])

    c.follow(in_pieces)
    assert sorted(c.traces) == list(range(60))
    for t in c.traces.values():
        assert t.samples == [1000.0 * t.number + i for i in range(9)]
    assert c.done[5] == sum(map(len, c.steps)) == 9 * 60
    assert all(len(steps) % 9 == 0 for steps in c.steps)


def test_more_answers_than_a_mailbox_holds(launch: Launch) -> None:
    """Those that fit are handed over; the process asks for the others again if it wants them."""
    c = launch(workers="1", steps="20", several="1")
    c.greet()
    c.send(g.run(n=5, flags=0))
    numbers = [x for _ in range(20) for x in (0.05, g.NORMAL, 0.0, 1.0, 0.0, 0.0)]
    large = g.dist(g.MIXTURE, *numbers)
    c.follow(lambda steps: g.replies(*(g.reply(s.ticket, large) for s in steps)))
    fit = 8192 // (24 + len(large))
    assert 1 < fit < 20
    for t in c.traces.values():
        assert t.samples == [0.05] * fit + [-9.0] * (20 - fit)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("twosites", "step requests about several sites in one question"),
        ("nostep", "a question without a step request"),
        ("asone", "3 step requests in one question"),
    ],
)
def test_bad_questions_of_several_requests_cost_one_trace(launch: Launch, plan: str, expected: str) -> None:
    c = launch(steps="3", several="1", plan=f"4={plan}")
    c.greet()
    c.send(g.run(n=20, flags=0))
    c.follow(reply_all)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {4: PROTOCOL}
    assert expected in c.traces[4].text


def always_prior(run: int, steps: list[Step]) -> bytes:
    return g.replies(*(g.reply(s.ticket, g.dist(g.PRIOR), flags=1) for s in steps), run_number=run)


def test_always_prior_stops_the_questions(launch: Launch) -> None:
    c = launch(workers="1")
    c.greet()
    for number in (1, 2):  # the word holds for one run
        c.send(g.run(number, n=50, flags=0))
        c.follow(partial(always_prior, number))
        assert c.done[5] == 1
        c.traces.clear()


def test_stale_replies_are_dropped(launch: Launch) -> None:
    c = launch(workers="2")
    c.greet()
    c.send(g.run(n=30, flags=0))

    def answer(steps: list[Step]) -> bytes:
        wrong = g.dist(g.NORMAL, -99.0, 1.0)
        forged = [g.reply(s.ticket ^ 0x40000000, wrong) for s in steps] + [g.reply(0xFFFFFFFF, wrong)]
        c.send(g.replies(*(g.reply(s.ticket, wrong) for s in steps), run_number=99))  # another run
        right = [g.reply(s.ticket, NORMAL_3) for s in steps]
        twice = [g.reply(s.ticket, wrong) for s in steps]
        return g.replies(*forged, *right, *twice)

    c.follow(answer)
    assert len(c.traces) == 30
    assert all(t.samples == [3.0] for t in c.traces.values())


def test_a_record_larger_than_the_ring(launch: Launch) -> None:
    c = launch(plan="1=big,2=big")
    c.greet()
    c.send(g.run(n=4, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert {t.number: len(t.values) for t in c.traces.values()} == {0: 1, 1: 150_000, 2: 150_000, 3: 1}
    assert c.traces[2].values == tuple(float(2 + i) for i in range(150_000))


def test_a_slow_controller_loses_nothing(launch: Launch) -> None:
    c = launch(plan=",".join(f"{i}=big" for i in range(100)), receive_limit=2)
    c.greet()
    c.send(g.run(n=120, flags=g.PROPOSE_PRIOR, timeout=1.0))
    time.sleep(2.5)  # high-water marks are reached: the families wait, and their time stands still
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(120))
    assert not any(t.failure for t in c.traces.values())


def test_snapshots(launch: Launch) -> None:
    c = launch(workers="4")
    c.greet()
    c.send(g.run(n=40, flags=g.ESTIMATE, tries_q=10, runs_p=3))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(40))
    for t in c.traces.values():
        assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i) for i in range(3)]
    traces, snapshots, continuations, tries_q, tries_p, requests = c.done[:6]
    assert (traces, snapshots, continuations, tries_q, tries_p) == (40, 120, 360, 1200, 720)
    assert requests == 40 * 4


def test_rejected_tries(launch: Launch) -> None:
    """They are passed on, if the run asks for them; what makes no sense costs its trace."""
    c = launch(plan="3=tries,4=badtry,5=fewtries,9=tries,23=tries")
    c.greet()
    c.send(g.run(n=20, flags=g.PROPOSE_PRIOR | g.RECORD_REJECTED, max_rejected=2))
    c.follow(reply_all)
    both = [(-1, 0, 1, 2, 3), (-1, 0, 0, 2, 3)]
    assert {n: t.tries for n, t in c.traces.items() if t.tries} == {3: both, 9: both}
    assert {n: t.rejected for n, t in c.traces.items() if t.rejected} == {3: [3.0], 9: [9.0]}
    assert {n: t.failure for n, t in c.traces.items() if t.failure} == {4: PROTOCOL, 5: PROTOCOL}
    assert "rejected try 0 has parent 0 of 2" in c.traces[4].text
    assert "rejected tries have 4 samples, more than there are" in c.traces[5].text
    c.send(g.run(2, first=20, n=5, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert c.traces[23].failure == PROTOCOL and "rejected tries that nobody asked for" in c.traces[23].text


# ---- failures --------------------------------------------------------------------------------------------------------


def test_deaths_cost_one_trace_each(launch: Launch) -> None:
    c = launch(plan="3=crash,50=exit,51=fail,52=partial,53=badsite,200=crash,201=crash")
    c.greet()
    c.send(g.run(n=1000, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(1000))
    failures = {t.number: (t.failure, t.detail) for t in c.traces.values() if t.failure}
    assert failures == {
        3: (CRASH, signal.SIGSEGV),
        50: (EXIT, 3),
        51: (MISUSE, 0),
        52: (CRASH, signal.SIGABRT),
        53: (PROTOCOL, 0),
        200: (CRASH, signal.SIGSEGV),
        201: (CRASH, signal.SIGSEGV),
    }
    assert "signal 11" in c.traces[3].text
    assert c.traces[51].text == "misused"
    assert "77" in c.traces[53].text
    assert c.done[8] > 2
    assert c.done[10] == 5, "what died was run again once; what reported a failure, or made no sense, was not"


def test_a_trace_that_was_killed_comes_out_as_it_would_have(launch: Launch) -> None:
    """A death of its own is forgiven once, SIGKILL three times: in workers and in snapshots."""
    c = launch(plan="3=kill1,4=kill3,5=kill4,6=crash1,7=crash2,8=snapkill3,9=snapkill4,10=snapdie1,11=snapdie2")
    c.greet()
    c.send(g.run(n=40, flags=g.ESTIMATE, tries_q=10, runs_p=3))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(40))
    failures = {t.number: (t.failure, t.detail) for t in c.traces.values() if t.failure}
    kill, segv = (CRASH, signal.SIGKILL), (CRASH, signal.SIGSEGV)
    assert failures == {5: kill, 7: segv, 9: kill, 11: segv}
    for t in c.traces.values():
        if not t.failure:
            assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i) for i in range(3)]
            assert t.samples == [1000.0 * t.number]
    assert c.done[10] == 1 + 3 + 3 + 1 + 1 + 3 + 3 + 1 + 1


def test_the_question_of_a_dead_continuation_is_nobodys(launch: Launch) -> None:
    """It is still in the mailbox when its trace is over."""
    c = launch(plan=",".join(f"{i}=snapask2" for i in range(0, 40, 3)))
    c.greet()
    c.send(g.run(n=40, flags=g.ESTIMATE, tries_q=10, runs_p=3))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(40))
    for t in c.traces.values():
        assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i) for i in range(3)], t.text
    assert c.done[10] == 2 * 14


def test_requests_of_a_trace_that_is_over_are_not_sent(launch: Launch) -> None:
    """They wait while the controller is busy; meanwhile their process dies, twice, and the trace is reported."""
    c = launch(workers="2", plan="1=slower,1=askdie")
    c.greet()
    c.send(g.run(n=2, flags=0))
    c.follow(lambda _: None, until=g.STEPS)
    assert [step.trace for step in c.steps[0]] == [0]
    while 1 not in c.traces:
        c.follow(reply_all, until=g.TRACES)
    assert c.traces[1].failure == CRASH
    c.send(reply_all(c.steps[0]))
    c.follow(reply_all)
    assert c.traces[0].samples == [3.0]
    assert [step.trace for steps in c.steps for step in steps] == [0]


def test_refused_forks_of_a_trace_lower_the_number_of_workers(launch: Launch) -> None:
    """Each refusal halves it; with one worker left a trace is tried three times more."""
    c = launch(plan="3=fork1,20=fork3,30=fork9", workers="8")
    c.greet()
    c.send(g.run(n=60, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(60))
    assert {t.number: (t.failure, t.detail) for t in c.traces.values() if t.failure} == {30: (FORK, 11)}
    replays, refused, fewest = c.done[10:]
    # Refusals of trace 30 that come while there is more than one worker lower their number, and do not count as tries.
    assert fewest == 1 and refused == replays + 1
    assert 1 + 3 + 3 <= replays <= 1 + 3 + 3 + 3
    assert "going on with 1 worker\n" in c.stderr.read_text()
    c.traces.clear()
    c.send(g.run(2, n=60, flags=g.PROPOSE_PRIOR, first=1000))
    c.follow(reply_all)
    assert c.done[12] == 8, "a new run begins with all of them"


def test_one_try_that_takes_too_long(launch: Launch) -> None:
    c = launch(plan="4=hangtry")
    c.greet()
    c.send(g.run(n=10, flags=0, timeout=60.0, try_timeout=0.3))

    def late(steps: list[Step]) -> bytes:
        time.sleep(0.5)  # waiting for the controller does not count
        return reply_all(steps)

    c.follow(late)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {4: TRY_TIMEOUT}
    assert "0.3 s" in c.traces[4].text and "try_timeout" in c.traces[4].text


def test_sites_of_an_earlier_family_keep_their_ids(launch: Launch) -> None:
    """The host does not announce them again, and uses the controller's numbers."""
    c = launch()
    c.greet()
    known = [g.site(0, g.LOOP, 0, b"loop"), g.site(1, g.RESULT, 0, b"gone"), g.site(2, g.SAMPLE, g.NORMAL, b"x")]
    c.send(g.sites(*known))
    c.send(g.run(n=3, flags=0))
    asked: list[int] = []

    def answer(steps: list[Step]) -> bytes:
        asked.extend(s.site for s in steps)
        return reply_all(steps)

    kind, frames = c.receive()
    assert kind == g.SITES
    assert frames[0] == g.sites(g.site(3, g.RESULT, 0, b"result"))
    c.follow(answer)
    assert asked == [2, 2, 2]


@pytest.mark.parametrize(
    "known",
    [
        [g.site(1, g.LOOP, 0, b"loop")],
        [g.site(0, g.LOOP, 0, b"loop"), g.site(0, g.LOOP, 0, b"other")],
        [g.site(0, g.LOOP, 0, b"loop"), g.site(1, g.LOOP, 0, b"loop")],
    ],
)
def test_sites_out_of_turn_are_refused(launch: Launch, known: list[bytes]) -> None:
    c = launch()
    c.greet()
    c.send(g.sites(*known))
    kind, frames = c.receive()
    assert kind == g.ERROR
    assert b"out of turn" in frames[0]
    assert c.exit_code() == 1


def test_sites_come_once_and_first(launch: Launch) -> None:
    c = launch()
    c.greet()
    c.send(g.run(n=3, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    c.send(g.sites(g.site(0, g.LOOP, 0, b"loop")))
    c.follow(reply_all)
    assert "after the first run" in c.error
    assert c.exit_code() == 1


def test_workers_can_be_forked_before_the_run(launch: Launch) -> None:
    c = launch(ARS_PREFORK="1", workers="2")
    zygote = struct.unpack_from("<I", c.greet(), 36)[0]
    end = time.monotonic() + PATIENCE
    while len(Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    c.send(g.run(n=3, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert len(c.traces) == 3


def test_a_bad_question_costs_one_trace(launch: Launch) -> None:
    c = launch(plan="4=badstep")
    c.greet()
    c.send(g.run(n=20, flags=0))
    c.follow(reply_all)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {4: PROTOCOL}
    assert "5000 values told" in c.traces[4].text


def test_failures_of_snapshots(launch: Launch) -> None:
    c = launch(plan="2=snapfail,5=snapdie")
    c.greet()
    c.send(g.run(n=12, flags=g.ESTIMATE))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(12))
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {2: NAN, 5: CRASH}
    assert c.traces[2].text == "a NaN in a continuation"
    # Both workers may have nothing to do but trace 5, which is for a new process: one of them makes room, not both.
    assert c.done[8] <= 3, "the workers lived on, but for one that made room for a new one to run trace 5 again"
    assert c.done[10] == 1


def test_timeout_counts_own_time_only(launch: Launch) -> None:
    c = launch(plan="1=hang,2=slow", workers="3")
    c.greet()
    started = time.monotonic()
    c.send(g.run(n=6, flags=0, timeout=1.0))

    def late(steps: list[Step]) -> bytes:
        time.sleep(1.3)  # longer than the limit, and nobody's fault
        return reply_all(steps)

    c.follow(late)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {1: TIMEOUT}
    assert "1 s" in c.traces[1].text
    assert "trace_timeout" in c.traces[1].text
    assert sorted(c.traces) == list(range(6))
    assert time.monotonic() - started < 60


def test_cancel(launch: Launch) -> None:
    c = launch(plan="0=hang", workers="4")
    c.greet()
    c.send(g.run(n=100_000, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all, until=g.TRACES)
    c.send(g.frame(g.CANCEL, run=1))
    c.follow(reply_all)
    assert c.done[9] == 1
    assert 0 not in c.traces
    assert c.done[0] == len(c.traces) < 100_000
    c.traces.clear()
    c.send(g.frame(g.CANCEL, run=1))  # too late: ignored
    c.send(g.run(2, first=5, n=50, flags=0))
    c.follow(lambda steps: g.replies(*(g.reply(s.ticket, NORMAL_3) for s in steps), run_number=2))
    assert sorted(c.traces) == list(range(5, 55))
    assert c.done[9] == 0


def test_fork_refused_for_a_while(launch: Launch) -> None:
    c = launch(fork_times="3", forks="11")
    c.greet()
    c.send(g.run(n=10, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert not any(t.failure for t in c.traces.values())
    assert len(c.traces) == 10


@pytest.mark.parametrize(("errno", "kind"), [("11", FORK), ("-1", THREADS)])
def test_fork_refused_for_good(launch: Launch, errno: str, kind: int) -> None:
    c = launch(fork_times="1000", forks=errno)
    c.greet()
    c.send(g.run(n=10, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(10))
    assert {t.failure for t in c.traces.values()} == {kind}


def test_zygote_lost(launch: Launch) -> None:
    c = launch(plan="30=killzygote,31=hang")
    c.greet()
    c.send(g.run(n=100, flags=0))
    c.follow(reply_all)
    assert "zygote process was ended by signal 9" in c.error
    assert 29 <= len(c.traces) < 100, "what had finished came before the error"
    assert not any(t.failure for t in c.traces.values())
    assert c.exit_code() == 1


@pytest.mark.parametrize("how", ["killzygote", "stopzygote"])
def test_a_lost_zygotes_word_ends_nobody(launch: Launch, how: str) -> None:
    """The process that a worker was may be somebody else by now. The family goes, found as our own children."""
    with subprocess.Popen(["sleep", "60"]) as innocent:
        try:
            c = launch(plan=f"30={how},31=hang", pid=str(innocent.pid))
            c.greet()
            c.send(g.run(n=100, flags=0, timeout=1))
            c.follow(reply_all)
            assert "zygote process" in c.error
            assert len(c.traces) >= 29
            assert c.exit_code() == 1
            assert innocent.poll() is None
        finally:
            innocent.kill()


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (b"hello", "shorter than a header"),
        (g.frame(g.QUIT, magic=1), "wrong magic"),
        (g.hello(), "not for a host"),
        (g.run(0), "run number 0"),
        (g.run(n=0), "0 traces"),
        (g.frame(g.CANCEL, run=9), "has not begun"),
        (g.replies(g.reply(1, g.dist(99))), "distribution kind 99"),
    ],
)
def test_bad_frames_are_answered_with_an_error(launch: Launch, frame: bytes, expected: str) -> None:
    c = launch()
    c.greet()
    c.send(frame)
    kind, frames = c.receive()
    assert kind == g.ERROR
    assert expected in frames[0][24:].decode()
    assert c.exit_code() == 1


def test_a_proposal_that_is_missing_is_an_error(launch: Launch) -> None:
    c = launch()
    c.greet()
    c.send(g.run(n=5, flags=0))
    c.follow(lambda steps: g.replies(*(g.reply(s.ticket, b"") for s in steps)))
    assert "without a proposal" in c.error
    assert c.exit_code() == 1


def test_a_second_run_before_done_is_an_error(launch: Launch) -> None:
    c = launch(plan="0=hang")
    c.greet()
    c.send(g.run(1, n=5, flags=0))
    c.send(g.run(2, n=5, flags=0))
    c.follow(lambda _: None)
    assert "before run 1 was DONE" in c.error
    assert c.exit_code() == 1


def test_quit_in_the_middle_of_a_run(launch: Launch) -> None:
    c = launch(plan="0=hang,1=hang")
    c.greet()
    c.send(g.run(n=5, flags=0))
    time.sleep(0.3)
    c.send(g.frame(g.QUIT))
    assert c.exit_code() == 0


def test_sigterm_ends_it_and_sigint_does_not(launch: Launch) -> None:
    c = launch()
    c.greet()
    c.process.send_signal(signal.SIGINT)
    c.send(g.run(n=5, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)
    assert len(c.traces) == 5
    c.process.send_signal(signal.SIGTERM)
    assert c.exit_code() == 0


def test_a_controller_that_vanishes(launch: Launch) -> None:
    c = launch(plan="0=hang")
    c.greet()
    c.send(g.run(n=5, flags=0))
    c.receive()  # so the run is under way
    c.socket.close(linger=0)
    assert c.exit_code() == 1
    said = c.stderr.read_text()
    assert re.search(
        r"ars-host: lost_controller: .* in the middle of a run, after \d of 5 traces; the simulator's", said
    )


def test_the_watched_process_ends(launch: Launch) -> None:
    watched = subprocess.Popen(["sleep", "60"])
    c = launch(ARS_CONTROLLER_PID=str(watched.pid))
    c.greet()
    c.send(g.run(n=5, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all)  # so the greeting is over
    watched.kill()
    watched.wait()
    assert c.exit_code() == 1
    assert (
        "ars-host: lost_controller: the controller ended, or the connection to it, between two runs"
        in c.stderr.read_text()
    )


def test_a_controller_that_takes_leave_is_not_lost(launch: Launch) -> None:
    c = launch()
    c.greet()
    c.socket.setsockopt(zmq.LINGER, 1000)
    c.send(g.frame(g.QUIT))
    c.socket.close()
    assert c.exit_code() == 0
    assert c.stderr.read_text() == ""

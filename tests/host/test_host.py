"""ars-host between a fake family and a fake controller: the greeting, runs, and the end."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
import zmq
from fake_controller import FORKED, NORMAL_3, PATIENCE, PROTOCOL, TOKEN, Launch, Step, g, reply_all, reply_by_trace

pytestmark = pytest.mark.compiler

# ---- the greeting ----------------------------------------------------------------------------------------------------


def test_hello_carries_token_and_pids(launch: Launch) -> None:
    c = launch(workers="3")
    hello = c.greet()
    low, high, workers, host, zygote, token = struct.unpack_from("<HHIII32s", hello, 24)
    assert (low, high, workers, token.decode()) == (5, 5, 3, TOKEN)
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
        ({"ARS_ENDPOINT": "tcp://10.0.0.1:5555", "ARS_KEY": "/dev/null"}, "ARS_KEY=/dev/null: this is not a file"),
        ({"unsealed": "1"}, "not sealed against shrinking"),
        ({"ARS_ENDPOINT": "inproc://x"}, "must be ipc://"),
        ({"ARS_TOKEN": "x" * 33}, "more than 32"),
        ({"shm_version": "8"}, "another version"),
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
    assert "protocol 5" in subprocess.run([host, "--version"], capture_output=True, text=True, check=True).stdout
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
        assert c.done.traces == n
        assert not c.steps
        assert c.done.cancelled == 0
        assert c.done.workers_started == (2 if number == 1 else 0)


def test_each_reply_reaches_its_question_and_questions_travel_together(launch: Launch) -> None:
    c = launch(workers="16", steps="5")
    c.greet()
    c.send(g.run(n=200, flags=0))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(200))
    for t in c.traces.values():
        assert t.samples == [1000.0 * t.number + i for i in range(5)]
    assert sum(map(len, c.steps)) == 1000
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
    assert sum(map(len, c.steps)) == 9 * 60
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
        assert list(map(len, c.steps)) == [1]
        c.steps.clear()
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
        assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i, FORKED) for i in range(3)]
    assert c.done.traces == 40
    assert sum(map(len, c.steps)) == 40 * 4


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


def test_cancel(launch: Launch) -> None:
    c = launch(plan="0=hang", workers="4")
    c.greet()
    c.send(g.run(n=100_000, flags=g.PROPOSE_PRIOR))
    c.follow(reply_all, until=g.TRACES)
    c.send(g.frame(g.CANCEL, run=1))
    c.follow(reply_all)
    assert c.done.cancelled == 1
    assert 0 not in c.traces
    assert c.done.traces == len(c.traces) < 100_000
    c.traces.clear()
    c.send(g.frame(g.CANCEL, run=1))  # too late: ignored
    c.send(g.run(2, first=5, n=50, flags=0))
    c.follow(lambda steps: g.replies(*(g.reply(s.ticket, NORMAL_3) for s in steps), run_number=2))
    assert sorted(c.traces) == list(range(5, 55))
    assert c.done.cancelled == 0


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

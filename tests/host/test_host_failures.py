"""ars-host when processes of the family die, hang, are refused or say what is wrong: one trace is lost, and no more."""

from __future__ import annotations

import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from fake_controller import (
    CRASH,
    EXIT,
    FORK,
    FORKED,
    MISUSE,
    NAN,
    PROTOCOL,
    THREADS,
    TIMEOUT,
    TRY_TIMEOUT,
    Launch,
    Step,
    g,
    reply_all,
    reply_by_trace,
)

pytestmark = pytest.mark.compiler


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
    assert c.done.workers_started > 2
    assert c.done.replays == 6, "what died or made no sense was run again once; what reported a failure was not"


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
            assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i, FORKED) for i in range(3)]
            assert t.samples == [1000.0 * t.number]
    assert c.done.replays == 1 + 3 + 3 + 1 + 1 + 3 + 3 + 1 + 1


def test_the_question_of_a_dead_continuation_is_nobodys(launch: Launch) -> None:
    """It is still in the mailbox when its trace is over."""
    c = launch(plan=",".join(f"{i}=snapask2" for i in range(0, 40, 3)))
    c.greet()
    c.send(g.run(n=40, flags=g.ESTIMATE, tries_q=10, runs_p=3))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(40))
    for t in c.traces.values():
        assert t.loops == [(i + 1, 10, i, 3, 6, 3, 1000 * t.number + 1000 + i, FORKED) for i in range(3)], t.text
    assert c.done.replays == 2 * 14


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
    replays, refused, fewest = c.done[3:]
    # Refusals of trace 30 that come while there is more than one worker lower their number, and do not count as tries.
    assert fewest == 1 and refused == replays + 1
    assert 1 + 3 + 3 <= replays <= 1 + 3 + 3 + 3
    assert "going on with 1 worker\n" in c.stderr.read_text()
    c.traces.clear()
    c.send(g.run(2, n=60, flags=g.PROPOSE_PRIOR, first=1000))
    c.follow(reply_all)
    assert c.done.fewest_workers == 8, "a new run begins with all of them"


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


def test_a_bad_question_costs_one_trace(launch: Launch) -> None:
    c = launch(plan="4=badstep")
    c.greet()
    c.send(g.run(n=20, flags=0))
    c.follow(reply_all)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {4: PROTOCOL}
    assert "5000 values told" in c.traces[4].text


def test_nonsense_that_an_earlier_trace_left_costs_no_trace(launch: Launch) -> None:
    """A question and a record that make sense in a new process: whoever wrote over the segment was another trace."""
    c = launch(plan="4=badstep1,9=badsite1")
    c.greet()
    c.send(g.run(n=20, flags=0))
    c.follow(reply_by_trace)
    assert sorted(c.traces) == list(range(20))
    assert not [t for t in c.traces.values() if t.failure]
    assert all(t.samples == [1000.0 * t.number] for t in c.traces.values())
    assert c.done.replays == 2


def test_a_state_that_nobody_gave_costs_one_trace(launch: Launch) -> None:
    """The controller never hears of it: to it, an unknown state is an error of the protocol, which ends the run."""
    c = launch(plan="4=badstate")
    c.greet()
    c.send(g.run(n=20, flags=0))
    c.follow(reply_all)
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {4: PROTOCOL}
    assert "a step request from a state that its trace was not given" in c.traces[4].text


def test_failures_of_snapshots(launch: Launch) -> None:
    c = launch(plan="2=snapfail,5=snapdie")
    zygote = struct.unpack_from("<I", c.greet(), 36)[0]
    c.send(g.run(n=12, flags=g.ESTIMATE))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(12))
    assert {t.number: t.failure for t in c.traces.values() if t.failure} == {2: NAN, 5: CRASH}
    assert c.traces[2].text == "a NaN in a continuation"
    # Both workers may have nothing to do but trace 5, which is for a new process: one of them makes room, not both.
    assert c.done.workers_started <= 3, "the workers lived on, but for one that made room for a new one"
    assert len(Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) == 2
    assert c.done.replays == 1


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

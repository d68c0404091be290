"""Whole runs of the controller against fake_host.py: a real process, a real socket, and a host that errs on demand."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.runtime.conversation import Conversation
from ars.store.identity import proposed_by

FAKE = Path(__file__).with_name("fake_simulator.py")
PROPOSALS = {"x": ars.Normal(5.0, 1.0), "loop/u": lambda t: ars.Uniform(0.1 * t["x"], 1e6)}


@pytest.fixture
def fake(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[..., ars.Simulator]:
    monkeypatch.setenv("ARS_HOST", "/bin/true")

    def make(mode: str = "good", **options: Any) -> ars.Simulator:
        return started(ars.Simulator([sys.executable, str(FAKE), mode], **options))

    return make


def posterior(sim: ars.Simulator, traces: int = 100, **options: object) -> ars.Posterior:
    options.setdefault("budget", ars.Budget())
    sim._estimates_the_prior = True  # all traces are one run, as the fake simulators expect
    with pytest.warns(ars.SupportWarning, match=r"loop/u.*can take"):
        return sim.posterior({"y": 0.5}, traces, proposals=PROPOSALS, seed=1, **options)  # type: ignore[arg-type]


def test_proposals_reach_the_simulator_and_traces_come_back_in_order(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake()
    post = posterior(sim)
    np.testing.assert_array_equal(post.trace_numbers, np.arange(100))
    np.testing.assert_array_equal(post["x"], 5.0 + np.arange(100))
    np.testing.assert_array_equal(post["u"], 0.1 * (5.0 + np.arange(100)))
    assert post.run._replace(proposals="", build="", budget="") == ars.RunInfo(
        1, 1, 10, "proposal", "raise", sim.command, ranges=((0, 100),)
    )
    assert len(post.run.build) == 64  # the digest of its files
    assert json.loads(post.run.proposals) == proposed_by(PROPOSALS, None)
    assert post.stats["requests"] == 200
    assert post.stats["requests_per_message"] > 10


def test_a_family_serves_many_runs(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake()
    assert not sim.running
    first = sim.prior(20, seed=3)
    pid = sim.pid
    assert len(first) == 20
    assert len(posterior(sim, 40)) == 40
    assert sim.pid == pid
    sim.close()
    assert sim.pid is None
    assert len(sim.prior(5)) == 5
    assert sim.pid != pid


def test_a_failed_trace_stops_the_run_and_nothing_finished_is_lost(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("fail")
    with pytest.raises(ars.TraceFailure, match=r"trace 3: crash \(SIGSEGV\): went wrong at x") as caught:
        posterior(sim, 1000)
    assert caught.value.failures[0] == ars.Failure(3, "crash", 11, "went wrong at x", "loop", "x", 1)
    assert "sim.posterior(..., traces=1, first_trace=3, seed=1)" in str(caught.value)  # the proposals are by hand
    partial = caught.value.partial
    assert isinstance(partial, ars.Posterior)
    assert 15 <= len(partial) < 1000
    assert 3 not in partial.trace_numbers
    np.testing.assert_array_equal(partial["x"], 5.0 + partial.trace_numbers)
    pid = sim.pid
    with pytest.raises(ars.TraceFailure):  # the session can be used again
        posterior(sim, 40)
    assert sim.pid == pid


def test_the_other_policies(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("fail")
    post = posterior(sim, 40, on_failure="zero")
    assert len(post) == 40
    assert dict(post.failures) == {"crash": 2}
    assert post.log_weights("biased")[[3, 23]].tolist() == [-np.inf, -np.inf]
    with pytest.warns(ars.BiasWarning, match="2 of 40 traces failed and were dropped"):
        post = posterior(sim, 40, on_failure="skip")
    assert len(post) == 38


@pytest.mark.parametrize("policy", ["raise", "zero", "skip"])
def test_data_that_do_not_fit_raise_under_every_policy(fake: Callable[..., ars.Simulator], policy: str) -> None:
    with pytest.raises(ars.ObservationError, match="do not fit the simulator: went wrong at x") as caught:
        posterior(fake("observation"), 1000, on_failure=policy)
    assert caught.value.partial is not None


def test_a_host_that_dies_is_an_error_with_what_had_finished(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("die", max_restarts=0)
    with pytest.raises(ars.HostLostError, match=r"exited with code 3(.|\n)*boom: the world ended") as caught:
        posterior(sim, 1000)
    assert isinstance(caught.value.partial, ars.Posterior)
    assert len(caught.value.partial) == 32
    stats = caught.value.partial.stats
    assert stats["traces_of_lost_hosts"] == 32
    assert stats["requests"] >= 64
    assert stats["traces_per_second"] == 32 / stats["seconds"]
    assert "workers_started" not in stats  # nobody knows
    assert not sim.running


def test_a_host_that_dies_is_started_again_and_the_run_goes_on(
    fake: Callable[..., ars.Simulator], caplog: pytest.LogCaptureFixture
) -> None:
    """Every host of these does 32 traces of a run and dies. The traces are those of a host that lives."""
    sim = fake("die")
    post = posterior(sim, 100)
    np.testing.assert_array_equal(post.trace_numbers, np.arange(100))
    np.testing.assert_array_equal(post["x"], 5.0 + np.arange(100))
    np.testing.assert_array_equal(post["u"], 0.1 * (5.0 + np.arange(100)))
    assert post.stats["restarts"] == 3
    assert post.stats["traces_of_lost_hosts"] == 96  # the last host's counters are for 4
    whole = posterior(fake(), 100)
    assert post.stats["requests"] >= whole.stats["requests"] == 200  # ours, so known of lost hosts too
    assert post.stats["zmq_messages_received"] >= whole.stats["zmq_messages_received"]
    assert post.stats["workers_started"] == whole.stats["workers_started"]  # of the one host that told
    assert whole.stats["traces_of_lost_hosts"] == 0
    assert not post.failures
    assert [incident.kind for incident in post.failures.incidents] == ["lost_host"] * 3
    assert "boom: the world ended" in post.failures.incidents[0].text
    assert "started again 3 times" in post.summary()
    assert "64 of 100 traces had finished" in caplog.text


def test_restarts_without_a_finished_trace_are_bounded(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("stillborn", max_restarts=2)
    with pytest.raises(ars.HostLostError, match="exited with code 3") as caught:
        sim.prior(100)
    assert caught.value.partial is not None
    assert len(caught.value.partial) == 0
    assert len(caught.value.partial.failures.incidents) == 2


def test_a_host_that_gives_up_says_why(fake: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(ars.HostLostError, match="no more memory in the segment") as caught:
        posterior(fake("error", max_restarts=0), 1000)
    assert caught.value.partial is not None
    assert len(caught.value.partial) == 16


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("garbage", "magic 0x99999999"),
        ("state", "state 9999 is unknown"),
        ("miscount", "DONE: traces 99, but 100 came"),
    ],
)
def test_a_host_that_breaks_the_protocol_is_dropped(fake: Callable[..., ars.Simulator], mode: str, says: str) -> None:
    sim = fake(mode)
    with pytest.raises(ars.ProtocolError, match=says) as caught:
        sim.posterior({"y": 0.5}, 100, proposals={"x": ars.Normal(5.0, 1.0)}, seed=1)
    assert caught.value.partial is not None
    assert not sim.running


def test_a_proposal_that_raises_names_its_site(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake()
    with pytest.raises(ars.ProposalError, match=r"'loop/u' \(proposals\['u'\]\): t\['w'\].*drawn so far: 'x'"):
        sim.posterior({"y": 0.5}, 100, proposals={"u": lambda t: ars.Normal(t["w"], 1.0)})
    assert sim.running
    assert len(sim.prior(10)) == 10


def test_a_name_that_no_trace_draws_is_reported(fake: Callable[..., ars.Simulator]) -> None:
    with pytest.warns(ars.ArsWarning, match=r"proposals\['nu'\].*the latents are: 'u', 'x'"):
        fake().posterior({"y": 0.5}, 10, proposals={"nu": ars.Normal(0.0, 1.0)})


def test_ctrl_c_keeps_what_had_finished_and_the_session(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("hang")
    sim._processes.ready()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        sim.prior(100)
    assert isinstance(caught.value, ars.RunInterrupted)
    assert caught.value.partial is not None
    assert len(caught.value.partial) == 0
    assert sim.running
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_comes_with_the_last_message_is_heeded(
    fake: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may follow: the next step of a posterior, or of the user's loop."""
    check_done = Conversation._check_done

    def interrupted(self: Conversation, done: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        check_done(self, done)

    sim = fake()
    with monkeypatch.context() as patch:
        patch.setattr(Conversation, "_check_done", interrupted)
        with pytest.raises(ars.RunInterrupted) as caught:
            sim.prior(100)
    assert caught.value.partial is not None
    assert len(caught.value.partial) == 100
    assert sim.running
    assert len(sim.prior(5)) == 5


def test_ctrl_c_while_a_run_is_about_to_begin_leaves_the_simulator_free(
    fake: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = fake()
    lock = sim._processes._in_this_process().busy

    class Interrupted:
        def acquire(self, blocking: bool) -> bool:
            taken = lock.acquire(blocking)
            signal.raise_signal(signal.SIGINT)
            return taken

        def release(self) -> None:
            lock.release()

    with monkeypatch.context() as patch:
        patch.setattr(sim._processes.use, "busy", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            sim.prior(5)
    assert not lock.locked()
    assert len(sim.prior(5)) == 5


def test_ctrl_c_ends_a_host_that_does_not_listen(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake("deaf")
    sim._processes.ready()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(ars.RunInterrupted):
        sim.prior(100)
    assert 5.0 < time.monotonic() - started < 40.0  # 5 s for DONE, 3 s for QUIT
    assert not sim.running


def test_one_run_at_a_time(fake: Callable[..., ars.Simulator]) -> None:
    sim = fake()
    with pytest.raises(RuntimeError, match="in the middle of a run"), sim._processes.exclusively():
        sim.prior(1)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"observe": [1.0]}, TypeError, "observe must map names"),
        ({"observe": {"": 1.0}}, TypeError, "observe: names are non-empty"),
        ({"observe": {"y": float("inf")}}, ValueError, r"observe\['y'\].*infinite"),
        ({"observe": {"y": []}}, ValueError, r"observe\['y'\] is empty"),
        ({"observe": {"y": "a"}}, TypeError, r"observe\['y'\] must be a number"),
        ({"traces": 0}, ValueError, "traces must be from 1"),
        ({"traces": 1.5}, TypeError, "traces must be an integer"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"network": object()}, TypeError, "network must be an ars.Network, from Simulator.train"),
        ({"budget": 3}, TypeError, "budget must be .*ars.Budget"),
        ({"in_loops": "net"}, ValueError, "in_loops must be 'proposal' or 'prior', not 'net'"),
        ({"on_failure": "ignore"}, ValueError, "on_failure must be"),
        ({"progress": 3}, TypeError, "progress must be"),
        ({"proposals": {"x": 3}}, TypeError, r"proposals\['x'\] must be a distribution"),
        ({"proposals": [3]}, TypeError, "proposals must map"),
    ],
)
def test_wrong_arguments_are_named_before_anything_starts(
    options: dict[str, object], error: type[Exception], says: str
) -> None:
    sim = ars.Simulator(["/no/such/file"])
    with pytest.raises(error, match=says):
        sim.posterior(**{"observe": {"y": 1.0}, "traces": 1, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"command": []}, ValueError, "command is empty"),
        ({"command": 3}, TypeError, "command must be"),
        ({"command": ["a", 3]}, TypeError, "command must"),
        ({"workers": 0}, ValueError, "workers must be from 1 to 256"),
        ({"trace_timeout": -1}, ValueError, "trace_timeout"),
        ({"max_tries": 0}, ValueError, "max_tries"),
        ({"try_timeout": float("nan")}, ValueError, "try_timeout"),
        ({"max_snapshots": 0}, ValueError, "max_snapshots must be from 1 to 1024"),
        ({"max_processes": 1}, ValueError, "max_processes must be from 3"),
        ({"max_memory": -1}, ValueError, "max_memory"),
        ({"max_memory": "1G"}, TypeError, "max_memory must be an integer"),
        ({"max_restarts": -1}, ValueError, "max_restarts"),
        ({"startup_timeout": 0}, ValueError, "startup_timeout"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ars.Simulator(**{"command": ["x"], **options})  # type: ignore[arg-type]


def test_observed_arrays_keep_their_shape(fake: Callable[..., ars.Simulator]) -> None:
    post = fake().posterior({"y": 0.5, "image": np.ones((2, 3))}, 5, in_loops="prior", seed=2)
    assert post.observed["y"].shape == ()
    assert post.observed["image"].shape == (2, 3)
    assert post.run.runs_p is None


def test_a_host_that_stands_still_is_lost(fake: Callable[..., ars.Simulator], monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives and its socket is open, but its process never runs again."""
    monkeypatch.setattr("ars.runtime.conversation._SILENCE", 0.5)
    sim = fake("deaf", max_restarts=0, trace_timeout=0.01)
    with pytest.raises(ars.HostLostError, match="no message for"):
        sim.prior(100)
